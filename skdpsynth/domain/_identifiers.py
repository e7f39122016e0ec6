"""Kinds of columns that no mechanism sees: identifiers, and text."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth._arrays import as_numeric_array
from skdpsynth._validation import short_repr
from skdpsynth.domain._kinds import Kind
from skdpsynth.persistence import savable


@savable
@dataclass(frozen=True)
class Identifier(Kind):
    """A column that says who a row is about: a number of a patient, a name, an address. It is never read.

    Samples are without it, or have labels that are made anew. Metrics leave it out, and a table may lack it. Rows of one person are not
    told apart by it: the promise is for a row.

    Parameters
    ----------
    labels : bool or str, default=False
        False: samples have no such column. True: they have 1, 2, 3 and so on in it, one for each row. A word goes before the number:
        "patient-" gives "patient-1"; that needs a column of text or objects. Labels are unique within one sample, also one in batches.

    Raises
    ------
    ValueError
        If `labels` is neither True, False nor a word.

    See Also
    --------
    Text : A column that is left out.
    Schema : All columns of a table.

    Examples
    --------
    >>> from skdpsynth.domain import Identifier, Schema
    >>> schema = Schema({"patient": Identifier(labels="P"), "age": (0, 99)})
    >>> list(schema.coded)
    ['age']
    """

    labels: Any = False

    def __post_init__(self) -> None:
        if not isinstance(self.labels, bool | str) or self.labels == "":
            raise ValueError(f"labels must be True, False or a word to go before the number, got {short_repr(self.labels)}.")

    @property
    def coded(self) -> None:
        """Nothing: mechanisms do not see it."""
        return None

    @property
    def comes_back(self) -> bool:
        """Whether samples have the column."""
        return self.labels is not False

    def made(self, numbers: np.ndarray) -> np.ndarray:
        """Return labels for the rows of a sample, by their numbers."""
        numbers = as_numeric_array(numbers, "numbers", whole=True)
        if self.labels is True:
            return numbers
        cells = np.empty(len(numbers), dtype=object)
        cells[:] = [f"{self.labels}{number}" for number in numbers.tolist()]
        return cells

    def to_keys(self) -> dict[str, Any]:
        """Return what a file holds of it, beside its name."""
        return {"kind": "identifier", "labels": self.labels}


@savable
@dataclass(frozen=True)
class Text(Kind):
    """A column of free text, or of something else that is not synthesized: a note that it is there.

    Every fit refuses it, because text about people cannot be learned from counts: drop the column, or say `Identifier` to leave it out
    of samples. Metrics leave it out.

    See Also
    --------
    Identifier : A column that says who a row is about.
    Nominal : A column of categories.
    Schema : All columns of a table.

    Examples
    --------
    >>> from skdpsynth.domain import Text
    >>> Text()
    Text()
    """

    @property
    def coded(self) -> None:
        """Nothing: mechanisms do not see it."""
        return None

    def to_keys(self) -> dict[str, Any]:
        """Return what a file holds of it, beside its name."""
        return {"kind": "text"}
