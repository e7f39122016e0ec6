"""The base of all synthesizers: sampling, its container, and the score."""

import os
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdpsynth._sklearn import check_seed
from skdpsynth._validation import available_memory, is_integer, short_repr
from skdpsynth.domain import Date, Schema
from skdpsynth.fitting import Facts, PrivateEstimator
from skdpsynth.frames import Rows, Table, check_output_path, n_rows_of, output_suffix, rebatch, write_table
from skdpsynth.measures import Lattice
from skdpsynth.metrics import QualityReport, quality_report, wasserstein_distance
from skdpsynth.persistence import savable
from skdpsynth.privacy import SecureBits, Seed
from skdpsynth.statistics import RowCount, total
from skdpsynth.tables import continue_numbers, schema_of_box

BATCH = 1 << 16  # rows of a batch
_CELLS = 1 << 23  # of rows times columns in a batch of a file, where rows are wide
_LEAST_ROWS = 1 << 10
_MOST_ROWS = 1 << 40  # their places in a sample are still exact floats
_SURE = 10  # times its expected error: a number of rows that is more than noise
_UNSURE_CELLS = 1 << 24  # of a sample whose number of rows may be nothing but noise
_LEAST_SIZE = 100  # rows times epsilon up to which uniform rows of two features or more may do as well
_N_TRIAL_ROWS = 64  # rows of a model from a file
_SCORE_ROWS = 2000
_SCORE_SEED = 20
_MAX_EVALUATED_ROWS = 100_000


@dataclass(frozen=True, eq=False)
class SampleRequest:
    """A sample, before it is drawn."""

    container: Any
    n_features: int
    n_samples: int
    rng: np.random.Generator
    rows: Callable[[int, np.random.Generator], Any]  # ``rows(n_samples, rng)`` gives all rows
    blocks: Callable[[int, np.random.Generator], Iterator[Any]]  # ``blocks(n_samples, rng)`` gives an iterator of parts

    def to(self, out: str | PathLike[str] | None) -> Any:
        if out is None:
            self._check_memory(self.n_samples, f"n_samples={self.n_samples} makes a table", "it by sample_batches, or into a file by out=")
            with np.errstate(all="ignore"):  # underflow is expected, and no error to a caller who asks for errors
                return self.container.fill(self.rows(self.n_samples, self.rng))
        place = check_output_path(out)
        size = max(_LEAST_ROWS, min(BATCH, _CELLS // self.n_features))
        with np.errstate(all="ignore"):
            specimen = self.container.specimen(self.n_features, self.n_samples)
        dates = [
            str(name)
            for name, kind in (self.container.schema or {}).items()
            if isinstance(kind, Date) or getattr(kind, "gives", None) == "date"
        ]
        write_table(place, specimen, self.batches(size), output_suffix(out), dates)
        return out

    def _check_memory(self, n_rows: int, what: str, way_out: str) -> None:
        """Refuse a table that this machine cannot hold, rather than fill it."""
        size = 8 * n_rows * self.n_features
        if size > available_memory():
            raise ValueError(f"{what} of {size / 2**30:.1f} GiB, more than this machine's memory; draw {way_out}.")

    def batches(self, size: int) -> Iterator[Any]:
        if not is_integer(size, 1):
            raise ValueError(f"batch_size must be a positive integer, got {short_repr(size)}; {BATCH} is the default.")
        n_rows = min(int(size), self.n_samples)
        self._check_memory(n_rows, f"batch_size={short_repr(int(size))} makes tables", "fewer at a time")
        with np.errstate(all="ignore"):
            blocks = self.blocks(self.n_samples, self.rng)
        return self._fill_batches(rebatch(blocks, int(size)))

    def _fill_batches(self, parts: Iterator[Table]) -> Iterator[Any]:
        start = 0
        while True:
            with np.errstate(all="ignore"):  # not while the caller has the table
                part = next(parts, None)
                if part is None:
                    return
                table = self.container.fill(part, start, self.n_samples)
            start += n_rows_of(part)
            del part
            yield table


@savable
@dataclass(frozen=True)
class BlockPlan:
    """Public decisions of a stream on the blocks of a synthesizer: their lengths, and whether they are joined."""

    is_joined: bool = False  # whether there is one model of all blocks; else a sample is mixed of theirs
    growth: float = 1.25  # of time over a block, if the caller gives none
    least: int = 0  # rows that a block needs to be more than noise, where their number is public
    is_fast: bool = True  # whether blocks may be joined for each sample: then each counts by just its rows, else in quarters of a block


@dataclass(frozen=True, eq=False)
class StreamBlock:
    """Facts that the synthesizer of a block knows of its stream; everything was released, so using it is post-processing.

    A `reader` of mixed tables has ``_container``, ``schema_``, ``n_features_in_`` and perhaps ``feature_names_in_`` of the first rows. The
    block is then fitted to `Rows` whose chunks are lists of columns, as the schema reads them.
    """

    reader: Any = None
    past: tuple = ()  # fitted synthesizers of earlier blocks
    n_expected: float = 0.0  # rows of this block, about


class PrivateSynthesizer(PrivateEstimator):
    """Base of the synthesizers: think twice before adding anything to it.

    See Also
    --------
    PrivateEstimator : Defines `fit`.
    skdpsynth.testing.check_synthesizer : The laws that hold for it.
    """

    _block: StreamBlock | None = None  # of a block of a stream whose blocks are joined: it may be counted only

    @abstractmethod
    def _sample_rows(self, n_samples: int, rng: np.random.Generator) -> Any:
        """Return an (n_samples, n_features) array of floats in the box."""

    def _for_projected_rows(self, lattice_of: Callable[[int], Lattice], facts: Facts) -> Any:
        """Return this, unfitted, for projected rows; ``lattice_of(n_cells)`` gives cells that cover just their image."""
        return self

    def _plan_blocks(self, facts: Facts) -> BlockPlan:
        """Say how a stream cuts and joins blocks of this synthesizer, by public facts."""
        return BlockPlan()

    def _join_blocks(self, blocks: Sequence[Any], numbers: Sequence[float], reader: BaseEstimator) -> Any:
        """Return a fitted synthesizer of the union of blocks, each with its number of rows; of no block, one of public facts alone.

        It must follow from its arguments alone: a stream makes it when a sample needs it, and again after loading.
        """
        raise NotImplementedError(f"{type(self).__name__} joins no blocks.")

    def _sample_blocks(self, n_samples: int, rng: np.random.Generator) -> Iterator[Any]:
        """Iterate over the rows of a sample in parts, each small enough for memory.

        Each part is a sample by itself; a mechanism that can draws them jointly, so that together they are the rows of `_sample_rows`.
        """
        for start in range(0, n_samples, BATCH):
            yield self._sample_rows(min(BATCH, n_samples - start), rng)

    def sample(self, n_samples: int | None = None, random_state: Seed = None, *, out: str | PathLike[str] | None = None) -> Any:
        """Draw synthetic rows; this is post-processing and costs no privacy.

        Parameters
        ----------
        n_samples : int, default=None
            None: as many as the data had (under "add_or_remove_one": the noisy count. Where epsilon is so small that this may be nothing
            but noise, being less than ten times its expected error, at most 2**24 cells: rows times columns).
        random_state : int, RandomState or None, default=None
            May be seeded freely. None: fresh entropy, never the seed of `fit`.
        out : str or path-like, default=None
            A file that ends in ".parquet", ".csv" or ".tsv", or packed in ".csv.gz" or ".tsv.gz"; pyarrow writes it. The same rows are
            written there, a batch at a time, so memory does not grow with their number. Columns of an array are named x0, x1, ... The file
            is complete or not there: after an error or an interrupt the one that was there before stays.

        Returns
        -------
        X : array or data frame of shape (n_samples, n_features)
            In the kind of table that `fit` got, with its columns and dtypes; or `out`, where it was given.
        """
        check_is_fitted(self)
        return self._drawing(n_samples, random_state).to(out)

    def sample_batches(self, n_samples: int | None = None, batch_size: int = BATCH, random_state: Seed = None) -> Iterator[Any]:
        """Draw synthetic rows in batches, in memory that does not grow with their number; it costs no privacy.

        The batches together are the rows of ``sample(n_samples, random_state)``, in the same order, for any `batch_size`. So they are as
        accurate together as one sample, not as many independent ones. (A synthesizer that defines only `_sample_rows`, or is built on one,
        draws up to 65,536 rows so; beyond, batches are independent of each other.)

        Parameters
        ----------
        n_samples : int, default=None
            Rows of all batches together. None: as in `sample`.
        batch_size : int, default=65536
            Rows of a batch; the last one has the rest.
        random_state : int, RandomState or None, default=None
            May be seeded freely. None: fresh entropy, never the seed of `fit`.

        Returns
        -------
        batches : iterator of arrays or data frames
            In the kind of table that `fit` got, with its columns and dtypes. It is unchanged if the estimator is fitted again.
        """
        check_is_fitted(self)
        return self._drawing(n_samples, random_state).batches(batch_size)

    def _try_loaded(self) -> None:
        if hasattr(self, "accountant_"):
            self.sample(_N_TRIAL_ROWS, random_state=0)

    def _drawing(self, n_samples: int | None, random_state: Seed) -> SampleRequest:
        if n_samples is None:
            n_samples = default_n_samples(self.n_samples_, self._size_error, self.n_features_in_)
        n_samples = check_n_samples(n_samples)
        fitted: Any = object.__new__(type(self))  # a refit in between changes nothing
        vars(fitted).update(vars(self))
        return SampleRequest(
            self._container, self.n_features_in_, n_samples, check_generator(random_state), fitted._sample_rows, fitted._sample_blocks
        )

    def score(self, X: Table, y: object = None) -> float:
        """Return minus the 1-Wasserstein distance (chebyshev, in units of the data) between `X` and a sample of its size.

        Reads `X` unprotected, so the score of the training rows is **not private**. Both are thinned to at most 2000 rows by a
        fixed public seed, so it repeats.

        Parameters
        ----------
        X : array-like, data frame or other table that `fit` takes, of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        score : float
        """
        check_is_fitted(self)
        rows, rng = self._points(X), np.random.default_rng(_SCORE_SEED)
        n_samples = total(rows, RowCount.over()).n_samples
        few = rows.take(rng.choice(n_samples, _SCORE_ROWS, replace=False)) if n_samples > _SCORE_ROWS else rows.collect()
        return -wasserstein_distance(few, self._sample_points(len(few), rng))

    def evaluate(self, X: Table, *, target: Hashable = None, random_state: int | None = 0) -> QualityReport:
        """Compare synthetic rows of this estimator with real ones in one call; the result is **not private**.

        It draws as many synthetic rows as the data had (at most 100,000), free of charge, and gives them to
        `skdpsynth.metrics.quality_report` with the public facts about the columns. That reads `X` unprotected, without noise: show the
        report only to people who may see `X`. If you choose parameters by it, they reveal something of `X` too (`skdpsynth.model_selection`
        chooses privately).

        Parameters
        ----------
        X : array-like, data frame or other table that `fit` takes, of shape (n_samples, n_features)
            Real rows, with the columns of `fit`: best some that `fit` has not seen.
        target : column, default=None
            The column to predict: a random forest is trained on synthetic rows and scored on `X`.
        random_state : int or None, default=0
            Seed of the sample and of the report. None: other rows at each call.

        Returns
        -------
        report : QualityReport
            Printed, a table of distances, each beside that between two halves of `X`.

        See Also
        --------
        skdpsynth.metrics.quality_report : The same for any two tables.
        score : One number, for searches.

        Examples
        --------
        >>> import numpy as np
        >>> from skdpsynth import PrivateMeasureMechanism
        >>> X = np.random.default_rng(0).beta(2, 5, size=(5000, 2))
        >>> report = PrivateMeasureMechanism(epsilon=1.0, bounds=(0, 1)).fit(X).evaluate(X)
        >>> report.broken
        {}
        """
        check_is_fitted(self)
        usual = default_n_samples(self.n_samples_, self._size_error, self.n_features_in_)
        synthetic = self._sample_as_data(min(max(usual, 1), _MAX_EVALUATED_ROWS), random_state)
        return quality_report(X, synthetic, self._public_schema(), target=target, random_state=random_state)

    def _sample_as_data(self, n_samples: int | None, random_state: Seed) -> Any:
        """Return synthetic rows to be compared with rows of the data."""
        return self.sample(n_samples, random_state)

    def _public_schema(self) -> Schema | None:
        """Return the public facts about the columns; None where bounds do not state them."""
        if getattr(self, "partition", None) is not None:  # it has bounds of its own
            return None
        bounds = getattr(self, "bounds_", self.bounds)
        return schema_of_box(self._container.box(bounds), self._container.kind.names)

    def _points(self, X: Table) -> Rows:
        """Return the rows that `score` compares, as points."""
        return continue_numbers(self, X)

    def _sample_points(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        return self._sample_rows(n_samples, rng)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "density_estimator"
        return tags


def warn_if_small(facts: Facts, n_cut: float) -> None:
    """Warn where the synthetic rows may be no closer to the data than uniform ones.

    A cell is halved along one feature after the other, so a plan of `n_cut` halvings tells apart the values of that many features, and all
    others come out uniform, whatever they hold. ``benchmarks/accuracy_measure.py --only columns`` measured W1 to the data over that of
    uniform rows, for four kinds of data each (the least and the largest of them):

    ================  ==========  ==========  ==========  ==========
    features          size 1e3    size 1e4    size 1e5    size 1e6
    ================  ==========  ==========  ==========  ==========
    halvings planned  12          19          26          32
    5                 0.15, 0.53  0.08, 0.23  0.07, 0.14  0.07, 0.10
    10                0.41, 0.85  0.28, 0.81  0.17, 0.47  0.14, 0.36
    15                0.81, 0.90  0.41, 0.80  0.33, 0.74  0.21, 0.66
    20                0.88, 0.99  0.63, 0.89  0.42, 0.78  0.36, 0.73
    30                0.94, 0.98  0.87, 0.94  0.78, 0.93  0.46, 0.92
    60                0.98, 1.00  0.97, 0.99  0.95, 0.99  0.92, 0.99
    ================  ==========  ==========  ==========  ==========
    """
    size, d = facts.size, facts.n_features
    what = "n_samples * epsilon" + (" / max_rows_per_unit" if facts.rows_per_unit > 1 else "")
    if d > 1 and size <= _LEAST_SIZE:
        facts.warn(
            f"{what} is {size:g}, and up to 100 the noise may leave synthetic rows of {d} features no closer "
            "to the data than uniform ones; use more rows, a larger epsilon or fewer features."
        )
    elif n_cut < d:
        facts.warn(
            f"{what} is {size:g}, for which cells are cut along {int(n_cut)} of {d} features: the others will be uniform, "
            "whatever they hold; use more rows or fewer features, LowDimSynthesizer if the rows lie near few directions, or "
            "LatentFactorSynthesizer for a table of columns."
        )


def default_n_samples(n_samples: int, error: float, n_features: int) -> int:
    """Return the default number of rows of a sample: that of the data, public or released with this expected absolute error.

    A private number of rows is known up to its noise. Where epsilon is tiny, noise alone makes millions of no rows: so a number of less
    than ten times its expected error counts only up to a sample of 2**24 cells (128 MiB). Noise alone is beyond that once in 40,000 times:
    its law is exp(-x / error) / 2. All of this is public, or released.
    """
    if n_samples < 1:
        raise ValueError("n_samples must be given where no row has come yet, got None; say how many rows you want.")
    return n_samples if n_samples >= _SURE * error else min(n_samples, max(1, _UNSURE_CELLS // n_features))


def check_n_samples(n_samples: object) -> int:
    if not is_integer(n_samples, 1):
        way_out = f"; for a file give out={short_repr(str(n_samples))}" if isinstance(n_samples, str | os.PathLike) else ""
        raise ValueError(f"n_samples must be a positive integer or None, got {short_repr(n_samples)}{way_out}.")
    if n_samples > _MOST_ROWS:
        raise ValueError(f"n_samples must be at most 2**40, got {short_repr(n_samples)}; draw less at a time.")
    return int(n_samples)


def check_generator(random_state: Seed) -> np.random.Generator:
    """Return a numpy Generator for a seed, or refuse it."""
    if random_state is None:
        return SecureBits().generator()
    return np.random.default_rng(np.frombuffer(check_seed(random_state).bytes(32), dtype=np.uint32))


def iter_batches(model: BaseEstimator, n_samples: int, size: int, seeds: Callable[[], Any]) -> Iterator[np.ndarray]:
    """Iterate over rows of a fitted synthesizer, which may have only `sample`, as arrays of `size` rows; ``seeds()`` is called now."""
    seed = seeds()
    if hasattr(model, "sample_batches"):
        batches = model.sample_batches(n_samples, size, random_state=seed)
    else:
        sizes = (min(size, n_samples - start) for start in range(0, n_samples, size))
        batches = (model.sample(rows, random_state=seed) for rows in sizes)  # a RandomState goes on
    return (np.asarray(batch) for batch in batches)
