"""Confidence intervals of any statistic from one fitted model, by a parametric bootstrap of its mechanism."""

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdpsynth._progress import track_steps
from skdpsynth._validation import is_integer, is_real, short_repr
from skdpsynth.domain import Spans, edges_of_spans, grids_of
from skdpsynth.fitting import PrivateEstimator
from skdpsynth.frames import Table
from skdpsynth.models import (
    Estimates,
    LevelGroups,
    Link,
    NoisyGram,
    NoisyInteractions,
    NoisyTables,
    Released,
    TableModel,
    joint_columns,
    threshold_bins,
)
from skdpsynth.privacy import (
    DiscreteGaussian,
    DiscreteLaplace,
    DiscreteMatrixLaplace,
    LedgerEntry,
    PrivacyAccountant,
    RandomBits,
    Seed,
    SeededBits,
)
from skdpsynth.statistics import CellsOf, CodedGram, Coding, Interactions, Marginals, Trees
from skdpsynth.synthesis._base import default_n_samples
from skdpsynth.synthesis._latent_planning import GRAM
from skdpsynth.synthesis._survey import Design

_NOISES: dict[str, Any] = {each.__name__: each for each in (DiscreteGaussian, DiscreteLaplace, DiscreteMatrixLaplace)}
_WEAK = 5.0  # variance of the prior: so weak that dependences keep their size, which intervals need more than little noise
STEPS_OF_REFIT = 400  # of each fit: a re-fit that stops earlier varies less than what it stands for (slopes by 4 to 7 % after 150)
REFITS = 2  # that are mixed: what more would average out is little against the noise of the tables

_Links = Mapping[Hashable, Link | LevelGroups]
_ROWS, _TIMES = 50_000, 20  # of a table on which a statistic is computed: so many times the data, and at most so many, or as the data
_CELLS = 1 << 25  # of such a table
_LEAST, _MOST = 8, 10_000  # re-fits
_MOST_SHRUNK = 0.5  # of a distance: more is noise
_POWER, _MARGIN = 3, 1.15  # see `_bias_corrected_interval`


def _releases_of(account: PrivacyAccountant) -> tuple[LedgerEntry, ...]:
    """Return the lines of the last fit of a model: all, or those deep in the one line of a search, where earlier rounds stand before."""
    entries = account.ledger
    while entries and not any(entry.noise for entry in entries):
        entries = next((parts for entry in reversed(entries) if (parts := account.parts_of(entry))), ())
    return entries


@dataclass(frozen=True, eq=False)
class ParametricBootstrap:
    """The releases of a fit, and how to repeat them on rows of a model.

    Nothing here reads private rows, and nothing is charged. The proof is post-processing: everything used was released before (noisy
    tables, the codes of columns, the number of rows) or is public (the kinds and scales of noise in the ledger, the schema); and all
    draws, rows and noise alike, are independent of the data given that. A function of released values, and of coins of its own, has their
    guarantee.
    """

    model: TableModel  # fitted to the releases under a weak prior
    noises: Mapping[str, Any]  # of each step, by the name of its release
    interactions: Interactions | CodedGram | None  # of released pairs; None: tables
    pairs: tuple[tuple[int, int], ...]  # whose tables are estimated
    n_samples: int
    is_public: bool  # whether `n_samples` is the sum of all counts
    design: Design  # by which rows were drawn

    @classmethod
    def of(cls, synthesizer: BaseEstimator, n_samples: int) -> "ParametricBootstrap":
        """Read the releases of a fitted synthesizer with this number of rows, and fit a model to them under a weak prior."""
        model = synthesizer._model_of_counts
        entries = [entry for entry in _releases_of(synthesizer.accountant_) if entry.noise in _NOISES]
        noises = {entry.name: _NOISES[entry.noise](entry.scale[0] if entry.scale else 0) for entry in entries}  # type: ignore[index]
        sizes, names = model.factors[0].sizes.tolist(), [name for name in model.schema if name != model.stratum]
        lead = 0 if model.stratum is None else 1

        def by_place(values: Mapping[tuple, Any], n_columns: int) -> dict[tuple[int, ...], Any]:
            found = {tuple(names.index(name) for name in columns[lead:]): value for columns, value in values.items()}
            return {place: value for place, value in found.items() if len(place) == n_columns}

        def tables(values: Mapping[tuple, np.ndarray], n_columns: int) -> dict[tuple[int, ...], np.ndarray]:
            return {place: table if lead else table[None] for place, table in by_place(values, n_columns).items()}

        over: Interactions | CodedGram | None = None
        scales = by_place(synthesizer.interaction_scales_, 2)
        if GRAM in noises:
            told = dict(next(entry.sensitivity.statistic for entry in entries if entry.name == GRAM))  # type: ignore[union-attr]
            over = CodedGram(told["sizes"], told["scales"], told["coordinate"], told["classes"])
        elif scales:
            multipliers = tuple(c // (sizes[i] * sizes[j]) for (i, j), c in scales.items())
            over = Interactions(tuple(sizes), tuple(scales), len(model.weights), multipliers)  # type: ignore[arg-type]
        weak = replace(model, factors=tuple(replace(factors, variance=_WEAK) for factors in model.factors))
        pairs, is_public = tuple(by_place(synthesizer.marginals_consistent_, 2)), synthesizer.neighboring == "replace_one"
        design = synthesizer._design
        replay = cls(weak, noises, over, pairs, n_samples, is_public and design.has_public_sum, design)  # type: ignore[arg-type]
        if isinstance(over, CodedGram):
            released: list[Released] = [replay._noisy_gram(synthesizer.gram_ if lead else synthesizer.gram_[None])]
        else:
            released = [replay._noisy_tables(tables(synthesizer.marginals_, 1), "counts of columns")]
            if over is None:
                released.append(replay._noisy_tables(tables(synthesizer.marginals_, 2), "counts of pairs"))
            else:
                released.append(replay._noisy_interactions(tables(synthesizer.interactions_, 2)))
        return replace(replay, model=replay._fit(model.links, released)[0])

    def _noisy_tables(self, tables: Mapping[tuple[int, ...], np.ndarray], name: str) -> NoisyTables:
        return NoisyTables(tables, float(self.noises[name].variance(1)) if tables else 0.0)

    def _noisy_gram(self, matrices: np.ndarray) -> NoisyGram:
        assert isinstance(self.interactions, CodedGram)
        variance = float(self.noises[GRAM].variance(self.interactions.n_rows**2))
        return NoisyGram(matrices, self.interactions.codes, self.interactions.coordinate, variance)

    def _noisy_interactions(self, tables: Mapping[tuple[int, ...], np.ndarray]) -> NoisyInteractions:
        assert isinstance(self.interactions, Interactions)
        scales: Any = dict(zip(self.interactions.pairs, self.interactions.scales, strict=True))
        return NoisyInteractions(tables, scales, float(self.noises["interactions of pairs"].variance(1)))

    def _fit(self, links: _Links, released: Sequence[Released]) -> tuple[TableModel, float]:
        """Return the model of tables, and the number of rows that they tell."""
        n_samples = self.n_samples if self.is_public else None
        model, estimates = self.model, Estimates.of(released, self.pairs, n_samples)
        names, rows = [name for name in model.schema if name != model.stratum], estimates.rows(n_samples)
        together = joint_columns(model.tied, model.near)
        links, one_way, two_way = threshold_bins(
            names, links, estimates.one_way, estimates.two_way, rows, together, edges_of_spans(model.schema)
        )
        return model.refit(links, one_way, two_way, rows, REFITS, STEPS_OF_REFIT), float(rows.sum())

    def encode(self, values: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return rows that the model drew as cells, and as codes: last that of the stratum, and behind it the weight of a survey."""
        model, places = self.model, {name: place for place, name in enumerate(self.model.schema)}
        cells = CellsOf({places[name]: grid for name, grid in grids_of(model.schema).items()})(values)
        bins = {places[name]: np.append(link.codes, link.n_bins).astype(np.int32) for name, link in model.links.items()}
        stratum = None if model.stratum is None else places[model.stratum]
        codes = Coding((*(places[name] for name in model.schema if name != model.stratum), stratum), bins)(cells)
        return cells, [*codes, *self.design.weights_of(values)]

    def resample_and_fit(
        self, cells: Sequence[np.ndarray], codes: Sequence[np.ndarray], rng: np.random.Generator, bits: RandomBits
    ) -> tuple[TableModel, float]:
        """Draw rows of the model, given as cells and codes, repeat the releases of the fit on them, and fit the model again.

        Rows are drawn with replacement, independent of each other, so the fitted model has the error of a sample beside that of noise.
        Those of a survey are drawn by their weights, and counted by them. Return the number of rows that the tables tell, too.
        """
        rows = self.design.draw(codes, self.n_samples, rng)
        drawn = [column[rows] for column in codes]
        links, sizes = dict(self.model.links), [*self.model.factors[0].sizes.tolist(), len(self.model.weights)]

        def release(exact: np.ndarray, name: str) -> np.ndarray:
            return exact + self.noises[name].sample(exact.shape, bits)

        for name, link in links.items():
            own = [cells[list(self.model.schema).index(name)][rows], *drawn[len(sizes) :]]
            if isinstance(link, Link):
                depth = grids_of(self.model.schema)[name].depth
                exact = self.design.sum(Trees.over([depth]), own)
                levels = exact.levels(release(exact.counts, "counts of cells"))[0]
                variance = float(self.noises["counts of cells"].variance(1))
                links[name] = link.reweigh([levels.get(j) for j in range(1, depth + 1)], variance)
            else:
                counts = self.design.sum(Marginals.over([len(link.order) + 1], [(0,)]), own).counts[: len(link.order)]
                deviation = float(self.noises["counts of levels"].variance(1)) ** 0.5
                links[name] = link.reweigh(release(counts, "counts of levels"), deviation)
        return self._fit(links, self._release_again(drawn, sizes, release))

    def _release_again(
        self, codes: Sequence[np.ndarray], sizes: Sequence[int], release: Callable[[np.ndarray, str], np.ndarray]
    ) -> list[Released]:
        n_columns = len(sizes) - 1

        def count(places: Sequence[tuple[int, ...]]) -> Marginals:
            return self.design.sum(Marginals.over(sizes, [(n_columns, *place) for place in places]), codes)

        if isinstance(self.interactions, CodedGram):
            return [self._noisy_gram(release(self.interactions.query(count(self.pairs), "replace_one").values, GRAM))]
        steps: dict[str, Sequence[tuple[int, ...]]] = {"counts of columns": [(i,) for i in range(n_columns)]}
        if self.interactions is None:
            steps["counts of pairs"] = self.pairs
        released: list[Released] = []
        for name, places in steps.items():
            exact = count(places)
            tables = exact.tables(release(exact.counts, name)) if places else []
            released.append(self._noisy_tables(dict(zip(places, tables, strict=True)), name))
        if self.interactions is not None:
            noisy = release(self.interactions.query(count(self.interactions.pairs), "replace_one").values, "interactions of pairs")
            released.append(self._noisy_interactions(self.interactions.tables(noisy)))
        return released


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
    names : tuple or None
        Of the numbers, where the statistic gives a Series of pandas (its index) or a dict.

    See Also
    --------
    skdpsynth.LatentFactorSynthesizer.interval : Makes it.
    """

    estimate: Any
    low: Any
    high: Any
    error: Any
    level: float
    names: tuple | None = None

    def __str__(self) -> str:
        if np.ndim(self.estimate) == 0:
            estimate, low, high = (f"{float(f'{number:.4g}'):,.9g}" for number in (self.estimate, self.low, self.high))
            return f"{estimate} ({100 * self.level:g} % interval {low} to {high})"
        rows = zip(np.ravel(self.estimate), np.ravel(self.low), np.ravel(self.high), strict=True)
        lines = [str(Interval(*row, None, self.level)) for row in rows]
        return "\n".join(lines if self.names is None else [f"{name}: {line}" for name, line in zip(self.names, lines, strict=True)])


class BootstrapWorld(Protocol):
    """A model in place of the population, and tables from re-fits to samples of it."""

    def population(self) -> Any: ...

    def independent(self) -> Any:
        """Return a table whose columns are as in the population, each by itself."""

    def tables(self, number: int) -> Iterator[Any]: ...


class BootstrapSynthesizer(PrivateEstimator):
    """Base of synthesizers whose mechanism can be run again on rows of the model."""

    @abstractmethod
    def _bootstrap_world(self, what: str, n_samples: int | None, random_state: Seed) -> BootstrapWorld: ...

    def interval(
        self,
        statistic: Callable[[Table], ArrayLike],
        level: float = 0.95,
        *,
        n_refits: int = 40,
        n_samples: int | None = None,
        random_state: Seed = None,
    ) -> Interval:
        """Estimate a statistic of the population, with a confidence interval; it costs no privacy.

        A textbook interval from synthetic rows covers the truth far too seldom: it ignores the noise, and everything that the model leaves
        out. Here the whole mechanism is run again and again on rows drawn from the model, with fresh noise. The distance of the results
        from that model shows the error and the bias. The guide on intervals says when they are valid. A strategy other than "marginals" has
        none.

        Parameters
        ----------
        statistic : callable
            ``statistic(table)`` gives a number or an array of numbers, of the same shape for every table; or numbers with names, in a
            dict or a Series of pandas, such as ``table.groupby("sex")["age"].mean()``. It gets tables in the kind that `fit` got, as
            `sample` returns them: of linked tables dicts of them.
        level : float, default=0.95
            The probability that the interval holds the truth, between 0 and 1.
        n_refits : int, default=40
            Number of re-fits, 8 to 10,000. More make the ends steadier.
        n_samples : int, default=None
            Rows, or roots, of the tables that `statistic` gets. None: 20 times as many as the data had, at most 50,000, at least as many as
            the data.
        random_state : int, RandomState or None, default=None
            May be seeded freely. None: fresh entropy.

        Returns
        -------
        interval : Interval
            With `estimate`, `low`, `high`, `error` and `level`: floats, or arrays where the statistic gives several numbers; and `names`.

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
        For intervals a model that hardly shrinks is fitted to the released tables (that of linked tables hardly does), and the remaining
        bias of the re-fits is subtracted. The ends are ``estimate ± t * error``, with the quantile t of Student's distribution.

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
        check_is_fitted(self)
        level, n_refits = check_interval_arguments(statistic, level, n_refits)
        return estimate_interval(self._bootstrap_world("interval", n_samples, random_state), statistic, level, n_refits)

    def bootstrap_tables(self, B: int, n_samples: int | None = None, random_state: Seed = None) -> Iterator[Any]:
        """Draw synthetic tables, each from a model of its own, whose differences show the uncertainty of a result; it costs no privacy.

        For each, the mechanism is run again on rows drawn from the model, with fresh noise, as in `interval`. Compute a result on every
        table: its standard deviation over tables is its standard error, if `n_samples` is several times the number of rows of the data;
        else the error of a sample of that size is added. A strategy other than "marginals" has none.

        Parameters
        ----------
        B : int
            Number of tables.
        n_samples : int, default=None
            Rows, or roots, of each. None: as many as the data had.
        random_state : int, RandomState or None, default=None
            May be seeded freely. None: fresh entropy.

        Returns
        -------
        tables : iterator of arrays or data frames, or of dicts of them
            In the kind of table that `fit` got, made one after the other. It is unchanged if the estimator is fitted again.

        See Also
        --------
        interval : One statistic, with its bias subtracted.
        """
        if not is_integer(B, 1, 1 << 62):
            raise ValueError(f"B must be a positive integer, got {short_repr(B)}; 20 is a usual number.")
        check_is_fitted(self)
        usual = default_n_samples(self.n_samples_, self._size_error, self.n_features_in_)
        return self._bootstrap_world("bootstrap_tables", usual if n_samples is None else n_samples, random_state).tables(int(B))


def population_size(n_rows: int, n_features: int, has_keys: bool) -> int:
    """Return the number of rows that stand for the population of a table of `n_rows`."""
    size = n_rows if has_keys else max(n_rows, min(_TIMES * n_rows, _ROWS))
    return max(1, min(size, _CELLS // n_features))


class TableWorld:
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
        return self.fill([column[: self.n_samples] for column in self.rows])

    def independent(self) -> Any:
        return self.table(self.replay.model.without_factors())

    def table(self, model: TableModel, population: float | None = None) -> Any:
        with np.errstate(all="ignore"):
            return self.fill(model.sample(self.n_samples, self.rng), population)

    def fill(self, values: Sequence[np.ndarray], population: float | None = None) -> Any:
        """Return a table of rows, with equal weights that tell a population: None, that of the fit."""
        return self.container.fill(self.replay.design.fill(self.spans.decode(values), population))

    def tables(self, number: int) -> Iterator[Any]:
        # Post-processing (proof: `ParametricBootstrap`): these bits make noise for synthetic rows, so they need not be secure.
        bits = SeededBits(int.from_bytes(self.rng.bytes(32)))
        with np.errstate(all="ignore"):
            cells, codes = self.replay.encode(self.rows)
        for _ in track_steps("fit again", range(number)):
            with np.errstate(all="ignore"):
                model, n_rows = self.replay.resample_and_fit(cells, codes, self.rng, bits)
            yield self.table(model, self.replay.design.estimate_population(n_rows, codes))


def check_interval_arguments(statistic: object, level: object, n_refits: object) -> tuple[float, int]:
    if not callable(statistic):
        raise ValueError(
            f"statistic must be a function of a table, got {short_repr(statistic)}; give one such as lambda table: table.mean()."
        )
    if not (is_real(level) and 0 < level < 1):
        raise ValueError(f"level must be a number between 0 and 1, got {short_repr(level)}; 0.95 is usual.")
    if not is_integer(n_refits, _LEAST, _MOST):
        raise ValueError(f"n_refits must be an integer from {_LEAST} to {_MOST}, got {short_repr(n_refits)}; 40 is usual.")
    return float(level), int(n_refits)


def estimate_interval(world: BootstrapWorld, statistic: Callable[[Table], ArrayLike], level: float, n_refits: int) -> Interval:
    """Return the interval of a statistic from re-fits to samples of a model."""
    truth, names = _evaluate_statistic(statistic, world.population())
    like = truth.shape, names
    try:
        without, _ = _evaluate_statistic(statistic, world.independent(), *like)
    except ValueError:  # no model drew that table, so it may have no such statistic
        without = np.full(truth.shape, np.nan)
    found = np.array([_evaluate_statistic(statistic, table, *like)[0] for table in world.tables(n_refits)])
    return replace(_bias_corrected_interval(truth, found, without, level), names=names)


def _evaluate_statistic(
    statistic: Callable[[Table], Any], table: Table, shape: tuple[int, ...] | None = None, names: tuple | None = None
) -> tuple[np.ndarray, tuple | None]:
    """Return a statistic of a synthetic table, in the order of `names`, with its names; or refuse it: an error quotes nothing private."""
    try:
        answer = statistic(table)
        found = dict(answer) if isinstance(answer, Mapping) or getattr(getattr(answer, "index", None), "is_unique", False) else None
        names = tuple(found) if found is not None and names is None else names
        value = np.asarray(answer if found is None or names is None else [found.get(name, np.nan) for name in names], dtype=float)
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
    return value, names


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
