"""Confidence intervals of any statistic from one fitted model, by a parametric bootstrap of its mechanism."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit
from sklearn.utils.validation import check_is_fitted

from skdpsynth._progress import track_steps
from skdpsynth._validation import check_memory, is_integer, is_real, short_repr
from skdpsynth.domain import Spans, keys_of
from skdpsynth.models import MarginalModel
from skdpsynth.privacy import SeededBits
from skdpsynth.synthesis._conditional import ConditionalSynthesizer
from skdpsynth.synthesis._parametric_bootstrap import ParametricBootstrap
from skdpsynth.synthesis._sampling import check_generator, check_n_samples, default_n_samples

_ROWS, _TIMES = 50_000, 20  # of a table on which a statistic is computed: so many times the data, and at most so many, or as the data
_CELLS = 1 << 25  # of such a table
_LEAST, _MOST = 8, 10_000  # re-fits
_MOST_SHRUNK = 0.5  # of a distance: more is noise
_POWER, _MARGIN = 3, 1.15  # see `_bias_corrected_interval`


@dataclass(frozen=True, eq=False)
class Interval:
    """An estimate with its confidence interval.

    Attributes
    ----------
    estimate : float or ndarray
        Estimate of the statistic, corrected for the bias of the mechanism.
    low, high : float or ndarray
        The ends: each number is covered with probability `level`, not all of an array at once.
    error : float or ndarray
        The standard error: from sampling, from noise, and from estimating the correction.
    level : float

    See Also
    --------
    skdpsynth.LatentFactorSynthesizer.interval : Makes it.
    """

    estimate: Any
    low: Any
    high: Any
    error: Any
    level: float

    def __str__(self) -> str:
        if np.ndim(self.estimate) == 0:
            estimate, low, high = (f"{float(f'{number:.4g}'):,.9g}" for number in (self.estimate, self.low, self.high))
            return f"{estimate} ({100 * self.level:g} % interval {low} to {high})"
        rows = zip(np.ravel(self.estimate), np.ravel(self.low), np.ravel(self.high), strict=True)
        return "\n".join(str(Interval(*row, None, self.level)) for row in rows)


class IntervalSynthesizer(ConditionalSynthesizer):
    """Base of synthesizers whose mechanism can be run again on rows of their own model."""

    def interval(
        self, statistic: Any, level: Any = 0.95, *, n_refits: Any = 40, n_samples: Any = None, random_state: Any = None
    ) -> Interval:
        """Estimate a statistic of the population, with a confidence interval; it costs no privacy.

        A textbook interval from synthetic rows covers the truth far too seldom: it ignores the noise, and everything that the model leaves
        out. Here the whole mechanism is run again and again on rows drawn from the model, with fresh noise. The distance of the results
        from that model shows the error and the bias. The guide on intervals says when they are valid. Strategy "marginals" only.

        Parameters
        ----------
        statistic : callable
            ``statistic(table)`` gives a number or an array of numbers, of the same shape for every table. It gets tables in the kind that
            `fit` got, as `sample` returns them.
        level : float, default=0.95
            The probability that the interval holds the truth, between 0 and 1.
        n_refits : int, default=40
            Number of re-fits, 8 to 10,000. More make the ends steadier.
        n_samples : int, default=None
            Rows of the tables that `statistic` gets. None: 20 times as many as the data had, at most 50,000, at least as many as the data.
        random_state : int, RandomState or None, default=None
            May be seeded freely. None: fresh entropy.

        Returns
        -------
        interval : Interval
            With `estimate`, `low`, `high`, `error` and `level`: floats, or arrays where the statistic gives an array.

        Raises
        ------
        ValueError
            If a parameter is out of its domain, or `statistic` raises or gives no finite number.

        See Also
        --------
        bootstrap_tables : The tables of the re-fits themselves.

        Notes
        -----
        The estimate is not the statistic of `sample`: the model behind `sample` shrinks dependences, to be closer to the data on the whole.
        For intervals a model that hardly shrinks is fitted to the released tables, and the remaining bias of the re-fits is subtracted. The
        ends are ``estimate ± t * error``, with the quantile t of Student's distribution.

        Examples
        --------
        >>> import numpy as np
        >>> from skdpsynth import LatentFactorSynthesizer
        >>> rng = np.random.default_rng(0)
        >>> ill = rng.random(5000) < 0.3
        >>> X = np.column_stack([rng.integers(18, 90, 5000), ill])
        >>> model = LatentFactorSynthesizer({0: (18, 99), 1: [0, 1]}, epsilon=1.0, delta=1e-6).fit(X)
        >>> share = model.interval(lambda table: table[:, 1].mean(), n_refits=10)
        >>> bool(share.low < share.estimate < share.high)
        True
        """
        level, n_refits = _check_arguments(statistic, level, n_refits)
        world = self._bootstrap_world("interval", n_samples, random_state)
        truth = _evaluate_statistic(statistic, world.population())
        without = _evaluate_or_nan(statistic, world.table(world.replay.model.without_factors()), truth.shape)
        found = np.array([_evaluate_statistic(statistic, table, truth.shape) for table in world.tables(n_refits)])
        return _bias_corrected_interval(truth, found, without, level)

    def bootstrap_tables(self, B: Any, n_samples: Any = None, random_state: Any = None) -> Iterator[Any]:
        """Draw synthetic tables, each from a model of its own, whose differences show the uncertainty of a result; it costs no privacy.

        For each, the mechanism is run again on rows drawn from the model, with fresh noise, as in `interval`. Compute a result on every
        table: its standard deviation over tables is its standard error, if `n_samples` is several times the number of rows of the data;
        else the error of a sample of that size is added. Strategy "marginals" only.

        Parameters
        ----------
        B : int
            Number of tables.
        n_samples : int, default=None
            Rows of each. None: as many as the data had.
        random_state : int, RandomState or None, default=None
            May be seeded freely. None: fresh entropy.

        Returns
        -------
        tables : iterator of arrays or data frames
            In the kind of table that `fit` got, made one after the other. It is unchanged if the estimator is fitted again.

        See Also
        --------
        interval : One statistic, with its bias subtracted.
        """
        if not is_integer(B, 1):
            raise ValueError(f"B must be a positive integer, got {short_repr(B)}; 20 is a usual number.")
        check_is_fitted(self)
        usual = default_n_samples(self.n_samples_, self._size_error, self.n_features_in_)
        return self._bootstrap_world("bootstrap_tables", usual if n_samples is None else n_samples, random_state).tables(int(B))

    def _bootstrap_world(self, what: str, n_samples: Any, random_state: Any) -> "_BootstrapWorld":
        check_is_fitted(self)
        if not hasattr(self._model, "law"):
            raise ValueError(
                f"{what} needs strategy='marginals', whose mechanism can be run again on its model, got strategy={self.strategy!r}; fit "
                "with that."
            )
        if "_counted" in vars(self):
            raise ValueError(f"{what} needs a model that was fitted to one table, got one of a stream; fit a table of these rows.")
        if len(self._model.blocks) > 1:
            raise ValueError(
                f"{what} needs a model of one block, which up to 40 columns have, got {len(self._model.blocks)} blocks; leave columns out."
            )
        n_rows = default_n_samples(self.n_samples_, self._size_error, self.n_features_in_)
        has_keys = bool(keys_of(self._model.schema.rules, self._model.schema.whole))  # of which there may be no more than rows
        size = n_rows if has_keys else max(n_rows, min(_TIMES * n_rows, _ROWS))
        size = max(1, min(size, _CELLS // self.n_features_in_))
        rng, drawn = check_generator(random_state), size if n_samples is None else check_n_samples(n_samples)
        check_memory("n_samples", drawn, 8 * drawn * self.n_features_in_)
        with np.errstate(all="ignore"):
            replay = ParametricBootstrap.of(self, n_rows)
        return _BootstrapWorld(replay, self._container, self._spans, size, drawn, rng)


class _BootstrapWorld:
    """The model in place of the population, with `n_pool` rows, and tables of `n_samples` rows from re-fits to samples of it."""

    def __init__(
        self, replay: ParametricBootstrap, container: Any, spans: Spans, n_pool: int, n_samples: int, rng: np.random.Generator
    ) -> None:
        self.replay, self.container, self.spans, self.n_samples, self.rng = replay, container, spans, n_samples, rng
        with np.errstate(all="ignore"):
            self.rows = replay.model.sample(n_pool, rng)

    def population(self) -> Any:
        """Return the rows that stand for the population, as many as each table has.

        The re-fits use samples of these very rows, so their randomness is in both sides of the bias, and cancels.
        """
        if self.n_samples > len(self.rows[0]):
            return self.table(self.replay.model)
        return self.container.fill(self.spans.decode([column[: self.n_samples] for column in self.rows]))

    def table(self, model: MarginalModel) -> Any:
        with np.errstate(all="ignore"):
            return self.container.fill(self.spans.decode(model.sample(self.n_samples, self.rng)))

    def tables(self, number: int) -> Iterator[Any]:
        # Post-processing (proof: `_parametric_bootstrap`): these bits make noise for synthetic rows, so they need not be secure.
        bits = SeededBits(int.from_bytes(self.rng.bytes(32)))
        with np.errstate(all="ignore"):
            pool = self.replay.pool(self.rows)
        for _ in track_steps("fit again", range(number)):
            with np.errstate(all="ignore"):
                model = self.replay.resample_and_fit(pool, self.rng, bits)
            yield self.table(model)


def _check_arguments(statistic: Any, level: Any, n_refits: Any) -> tuple[float, int]:
    if not callable(statistic):
        raise ValueError(
            f"statistic must be a function of a table, got {short_repr(statistic)}; give one such as lambda table: table.mean()."
        )
    if not (is_real(level) and 0 < level < 1):
        raise ValueError(f"level must be a number between 0 and 1, got {short_repr(level)}; 0.95 is usual.")
    if not is_integer(n_refits, _LEAST, _MOST):
        raise ValueError(f"n_refits must be an integer from {_LEAST} to {_MOST}, got {short_repr(n_refits)}; 40 is usual.")
    return float(level), int(n_refits)


def _evaluate_statistic(statistic: Callable[[Any], Any], table: Any, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Return a statistic of a synthetic table, or refuse it; an error here quotes nothing private."""
    try:
        answer = statistic(table)
        value = np.asarray(answer, dtype=float)
    except Exception as error:
        raise ValueError(
            f"statistic must give a number or an array of numbers of every synthetic table, but it raised {type(error).__name__}: {error}; "
            "try it on a sample, and let it hold where a group has no rows."
        ) from error
    if answer is None:
        raise ValueError("statistic must return a number or an array of numbers, but it returned nothing; end it with return.")
    if not np.isfinite(value).all():
        raise ValueError(
            "statistic must give finite numbers of every synthetic table, but one was not finite; let it hold where a group has no rows, "
            "or ask for something that more rows tell."
        )
    if shape is not None and value.shape != shape:
        raise ValueError(
            f"statistic must give the same shape for every synthetic table, got {value.shape} after {shape}; list all levels, for example."
        )
    return value


def _evaluate_or_nan(statistic: Callable[[Any], Any], table: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return a statistic of a table that no model drew; NaN where it has none."""
    try:
        return _evaluate_statistic(statistic, table, shape)
    except ValueError:
        return np.full(shape, np.nan)


def _bias_corrected_interval(truth: np.ndarray, found: np.ndarray, without: np.ndarray, level: float) -> Interval:
    """Return the interval of a statistic that is `truth` in the model, `without` if columns are independent, and `found` in re-fits.

    The bias of the re-fits is subtracted. It mostly comes from shrunken dependences: they lose a share s of the distance from `without`,
    which grows about as the third power of that distance (on Census rows, by regressing the subtracted bias on the estimate). The data lost
    it at a larger distance than the re-fits, so about 1 + 3 s times their bias, and the derivative of this correction stretches the error
    by as much. Only the part of the bias beyond the error of its mean is evidence for s.

    The model is smoother than the population, so neither is known well: the true bias is taken to be uniform between none and twice this
    one, hence a third of its square; and estimates spread up to 1.2 times as much as re-fits (`benchmarks/intervals.py`).
    """
    n_refits = len(found)
    bias = found.mean(axis=0) - truth
    deviation = found.std(axis=0, ddof=1)
    far = np.fmax(np.abs(truth - without), deviation)
    told = np.maximum(np.abs(bias) - deviation / np.sqrt(n_refits), 0)
    shrunk = np.minimum(np.divide(told, far, out=np.zeros_like(far), where=far > 0), _MOST_SHRUNK)
    stretch = 1 + _POWER * shrunk
    error = _MARGIN * np.sqrt((stretch * deviation) ** 2 * (1 + 1 / n_refits) + bias**2 / 3)
    half = stdtrit(n_refits - 1, (1 + level) / 2) * error
    center = truth - stretch * bias
    estimate, low, high, error = (float(part) if np.ndim(part) == 0 else part for part in (center, center - half, center + half, error))
    return Interval(estimate, low, high, error, level)
