"""One sample: as a table, in batches, or in a file."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth._sklearn import check_seed
from skdpsynth._validation import available_memory, is_integer, short_repr
from skdpsynth.frames import check_output_path, n_rows_of, output_suffix, rebatch, write_table
from skdpsynth.privacy import SecureBits

BATCH = 1 << 16  # rows of a batch
_CELLS = 1 << 23  # of rows times columns in a batch of a file, where rows are wide
_LEAST_ROWS = 1 << 10
_MOST_ROWS = 1 << 40  # their places in a sample are still exact floats
_SURE = 10  # times its expected error: a number of rows that is more than noise
_UNSURE_CELLS = 1 << 24  # of a sample whose number of rows may be nothing but noise


@dataclass(frozen=True, eq=False)
class SampleRequest:
    """A sample, before it is drawn."""

    container: Any
    n_features: int
    n_samples: int
    rng: np.random.Generator
    rows: Callable[[int, np.random.Generator], Any]  # ``rows(n_samples, rng)`` gives all rows
    blocks: Callable[[int, np.random.Generator], Iterator[Any]]  # ``blocks(n_samples, rng)`` gives an iterator of parts

    def to(self, out: Any) -> Any:
        """Return a table, or write it to a file and return its path."""
        if out is None:
            self._check_memory(self.n_samples, f"n_samples={self.n_samples} makes a table", "it by sample_batches, or into a file by out=")
            with np.errstate(all="ignore"):  # underflow is expected, and no error to a caller who asks for errors
                return self.container.fill(self.rows(self.n_samples, self.rng))
        place = check_output_path(out)
        size = max(_LEAST_ROWS, min(BATCH, _CELLS // self.n_features))
        with np.errstate(all="ignore"):
            specimen = self.container.specimen(self.n_features, self.n_samples)
        write_table(place, specimen, self.batches(size), output_suffix(out))
        return out

    def _check_memory(self, n_rows: int, what: str, way_out: str) -> None:
        """Refuse a table that this machine cannot hold, rather than fill it."""
        size = 8 * n_rows * self.n_features
        if size > available_memory():
            raise ValueError(f"{what} of {size / 2**30:.1f} GiB, more than this machine's memory; draw {way_out}.")

    def batches(self, size: Any) -> Iterator[Any]:
        if not is_integer(size, 1):
            raise ValueError(f"batch_size must be a positive integer, got {short_repr(size)}; {BATCH} is the default.")
        n_rows = min(int(size), self.n_samples)
        self._check_memory(n_rows, f"batch_size={short_repr(int(size))} makes tables", "fewer at a time")
        with np.errstate(all="ignore"):
            blocks = self.blocks(self.n_samples, self.rng)
        return self._filled(rebatch(blocks, int(size)))

    def _filled(self, parts: Iterator[Any]) -> Iterator[Any]:
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


def default_n_samples(n_samples: int, error: float, n_features: int) -> int:
    """Return the default number of rows of a sample: that of the data, public or released with this expected absolute error.

    A private number of rows is known up to its noise. Where epsilon is tiny, noise alone makes millions of no rows: so a number of less
    than ten times its expected error counts only up to a sample of 2**24 cells (128 MiB). Noise alone is beyond that once in 40,000 times:
    its law is exp(-x / error) / 2. All of this is public, or released.
    """
    if n_samples < 1:
        raise ValueError("n_samples must be given where no row has come yet, got None; say how many rows you want.")
    return n_samples if n_samples >= _SURE * error else min(n_samples, max(1, _UNSURE_CELLS // n_features))


def check_n_samples(n_samples: Any) -> int:
    if not is_integer(n_samples, 1):
        way_out = f"; for a file give out={short_repr(str(n_samples))}" if isinstance(n_samples, str | os.PathLike) else ""
        raise ValueError(f"n_samples must be a positive integer or None, got {short_repr(n_samples)}{way_out}.")
    if n_samples > _MOST_ROWS:
        raise ValueError(f"n_samples must be at most 2**40, got {short_repr(n_samples)}; draw less at a time.")
    return int(n_samples)


def check_generator(random_state: Any) -> np.random.Generator:
    """Return a numpy Generator for a seed, or refuse it."""
    if random_state is None:
        return SecureBits().generator()
    return np.random.default_rng(np.frombuffer(check_seed(random_state).bytes(32), dtype=np.uint32))


def iter_batches(model: Any, n_samples: int, size: int, seeds: Callable[[], Any]) -> Iterator[np.ndarray]:
    """Iterate over rows of a fitted synthesizer, which may have only `sample`, as arrays of `size` rows; ``seeds()`` is called now."""
    seed = seeds()
    if hasattr(model, "sample_batches"):
        batches = model.sample_batches(n_samples, size, random_state=seed)
    else:
        sizes = (min(size, n_samples - start) for start in range(0, n_samples, size))
        batches = (model.sample(rows, random_state=seed) for rows in sizes)  # a RandomState goes on
    return (np.asarray(batch) for batch in batches)
