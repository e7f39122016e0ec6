"""What all exact sums have in common: they are whole numbers of 64 bits, in one order."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from skdpsynth._arrays import as_array
from skdpsynth._validation import short_repr


class Statistic:
    """Exact sums over rows, in attributes of a frozen dataclass; all else that it holds is public.

    Laid out as one vector a statistic can be kept, sent, and added to others, also modulo 2**64: of whole numbers whose sum fits into 64
    bits, the sum modulo 2**64 is the sum.
    """

    _summed: ClassVar[tuple[str, ...]] = ("counts",)  # attributes: int64 arrays, ints, or statistics

    @property
    def flat(self) -> np.ndarray:
        """All sums as one int64 vector; the rule that made them reads it back by `Aggregator.from_flat`."""
        parts = [_vector(getattr(self, name)) for name in self._summed]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def filled(self, values: Any) -> Any:
        """Return a statistic with these sums in place of its own.

        Parameters
        ----------
        values : int64 ndarray of shape (n_values,)
            As `flat` gives them.
        """
        sizes = [len(_vector(getattr(self, name))) for name in self._summed]
        vector = as_array(values)
        if vector.shape != (sum(sizes),) or vector.dtype != np.int64:
            raise ValueError(f"values must be a vector of {sum(sizes)} int64 numbers, got {short_repr(values)}; give what flat gave.")
        parts = np.split(vector, np.cumsum(sizes)[:-1])
        changed = {name: _reshape_like(getattr(self, name), part) for name, part in zip(self._summed, parts, strict=True)}
        return replace(self, **changed)  # type: ignore[type-var]

    def __add__(self, other: Any) -> Any:
        return self.filled(self.flat + other.flat)


def _vector(sums: Any) -> np.ndarray:
    return sums.flat if isinstance(sums, Statistic) else np.ravel(np.asarray(sums, dtype=np.int64))


def _reshape_like(sums: Any, values: np.ndarray) -> Any:
    """Return values in the form of these sums."""
    if isinstance(sums, Statistic):
        return sums.filled(values)
    return values.reshape(sums.shape) if isinstance(sums, np.ndarray) else int(values[0])
