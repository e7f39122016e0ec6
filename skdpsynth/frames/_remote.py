"""Tables that lie elsewhere: their rows cannot be had, but sums of them can be asked for."""

from abc import ABC, abstractmethod
from typing import Any, NoReturn

from skdpsynth._validation import is_integer, short_repr
from skdpsynth.frames._form import Form, is_chunk, without_rows
from skdpsynth.frames._tables import to_native


class RemoteTable(ABC):
    """A table that a fit takes without reading a row of it.

    A fit asks for sums a few times. What it asks, a question, is made of public facts and of what was released before: it can be pickled
    and saved, and says all that whoever holds rows needs to know.

    Parameters
    ----------
    head : array or data frame
        Columns and dtypes, which are public; its rows, if it has any, are dropped unread. Samples come back in its kind of table.
    n_samples : int, default=None
        The number of rows, where it is public. None: it is asked for.
    """

    is_text = False

    def __init__(self, head: Any, n_samples: int | None = None) -> None:
        if not is_chunk(head):
            raise TypeError(
                f"head must be an array or a data frame that shows columns and dtypes, got {short_repr(head)}; give frame[:0], or "
                "np.empty((0, n_features))."
            )
        if n_samples is not None and not is_integer(n_samples, 0, 2**62):
            raise ValueError(f"n_samples must be None or a number of rows, got {short_repr(n_samples)}; None asks for it.")
        self.head = without_rows(to_native(head))
        self.n_samples = None if n_samples is None else int(n_samples)
        self._form = Form.of(self.head)
        self.backend = self._form.backend

    @property
    def columns(self) -> tuple:
        """Names of the columns; numbers in an array."""
        return self._form.columns

    @abstractmethod
    def ask(self, question: Any) -> Any:
        """Return the statistic of all rows that answers a question, or the vector of its numbers."""

    def chunks(self) -> NoReturn:
        """Refuse to read rows."""
        raise TypeError("X lies elsewhere, so its rows can be summed but not read, which this needs; give a table that can be read.")
