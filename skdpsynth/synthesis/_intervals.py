"""Confidence intervals of any statistic from one fitted model, by a parametric bootstrap of its mechanism."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from skdpsynth._progress import track_steps
from skdpsynth._validation import is_integer, is_real, short_repr
from skdpsynth.domain import Spans
from skdpsynth.models import MarginalModel
from skdpsynth.privacy import SeededBits
from skdpsynth.synthesis._parametric_bootstrap import ParametricBootstrap

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


def population_size(n_rows: int, n_features: int, has_keys: bool) -> int:
    """Return the number of rows that stand for the population of a table of `n_rows`."""
    size = n_rows if has_keys else max(n_rows, min(_TIMES * n_rows, _ROWS))
    return max(1, min(size, _CELLS // n_features))


class BootstrapWorld:
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


def check_interval_arguments(statistic: Any, level: Any, n_refits: Any) -> tuple[float, int]:
    if not callable(statistic):
        raise ValueError(
            f"statistic must be a function of a table, got {short_repr(statistic)}; give one such as lambda table: table.mean()."
        )
    if not (is_real(level) and 0 < level < 1):
        raise ValueError(f"level must be a number between 0 and 1, got {short_repr(level)}; 0.95 is usual.")
    if not is_integer(n_refits, _LEAST, _MOST):
        raise ValueError(f"n_refits must be an integer from {_LEAST} to {_MOST}, got {short_repr(n_refits)}; 40 is usual.")
    return float(level), int(n_refits)


def estimate_interval(world: BootstrapWorld, statistic: Callable[[Any], Any], level: float, n_refits: int) -> Interval:
    """Return the interval of a statistic from re-fits to samples of a model."""
    truth = _evaluate_statistic(statistic, world.population())
    try:
        without = _evaluate_statistic(statistic, world.table(world.replay.model.without_factors()), truth.shape)
    except ValueError:  # no model drew that table, so it may have no such statistic
        without = np.full(truth.shape, np.nan)
    found = np.array([_evaluate_statistic(statistic, table, truth.shape) for table in world.tables(n_refits)])
    return _bias_corrected_interval(truth, found, without, level)


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
