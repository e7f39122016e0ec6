"""Masks that hide the numbers of one site and cancel in the sum of all sites: secure aggregation."""

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping

import numpy as np

from skdpsynth._validation import check_type, list_or_none, short_repr

_KEY = 32  # bytes
_LABEL = b"skdpsynth mask 1"


class Masks:
    """One-time masks of one site: every number that it sends has 64 random bits added, and the sum over all sites has none.

    Each pair of sites shares a key. For each question both make a pad from it, which the site whose name comes first adds, modulo 2**64,
    and the other one subtracts.

    Parameters
    ----------
    name : str
        Name of this site.
    keys : dict of str to bytes
        For every other site by its name: 32 random bytes that this pair alone knows, such as ``secrets.token_bytes(32)``, exchanged where
        the coordinator cannot listen. All sites take part in every sum.

    Raises
    ------
    ValueError
        If a key is no 32 bytes, or two are equal.

    See Also
    --------
    Site : Sends sums under masks.
    Sites : Adds them up, so that the masks cancel.

    Notes
    -----
    *Secrecy.* Let H be at least two sites that follow the rules and whose keys nobody else knows, and take their pads as random. Their
    messages are then uniform among all messages with the same sum over H: somebody who knows all other keys, and hears every message,
    learns the sum over H and nothing else. Proof: subtract the known pads. The pads within H map linearly onto the lists of masks whose sum
    is 0, because the pads of one site with each of the others alone reach every such list; a linear map onto a finite group takes uniform
    to uniform. For one site: if one of its keys is unknown, its messages have the same distribution for every table.

    *Pads* are SHAKE-256 of the key, the two names and the SHA-256 of the question, hence random unless SHAKE-256 is broken. Each question
    has its own number in its own session, and a `Site` answers none twice. Use new keys when a site starts anew or its table changes: two
    answers to one question under the same keys differ by the change.

    *Limits.* The sum over all sites is exact, and the coordinator learns it: see `Sites`. All other sites together with the coordinator
    learn the sum of the remaining one, as they would from any exact sum. No shares allow the masks of a silent site to be removed: then
    the sum is lost.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth.federated import Masks
    >>> masks = Masks.for_all(["east", "north", "west"])
    >>> sent = [site.hide(np.array([number], dtype=np.uint64), b"question") for number, site in enumerate(masks.values(), start=1)]
    >>> sum(sent)
    array([6], dtype=uint64)
    """

    def __init__(self, name: str, keys: Mapping[str, bytes]) -> None:
        if not isinstance(name, str) or not isinstance(keys, Mapping) or not all(isinstance(other, str) for other in keys) or name in keys:
            raise ValueError(f"keys must be a dict of the names of all sites but {short_repr(name)} to bytes, got {short_repr(keys)}.")
        for other, key in keys.items():
            if not isinstance(key, bytes) or len(key) != _KEY:
                raise ValueError(f"keys[{short_repr(other)}] must be {_KEY} bytes; make it by secrets.token_bytes({_KEY}).")
        if not keys or len(set(keys.values())) < len(keys):
            raise ValueError("keys must hold a key for each other site, and no two alike; make one for each pair of sites.")
        self.name = name
        self._keys = dict(keys)

    def __repr__(self) -> str:
        return f"Masks({self.name!r}, with {len(self._keys)} others)"

    @classmethod
    def for_all(cls, names: Iterable[str]) -> dict[str, "Masks"]:
        """Return masks for all sites, with fresh keys: for a rehearsal, or if somebody whom all trust hands keys out.

        Parameters
        ----------
        names : list of str
            Distinct.

        Returns
        -------
        masks : dict of str to Masks
        """
        listed = list_or_none(names)
        if listed is None or not all(isinstance(name, str) for name in listed):
            raise TypeError(f"names must be a list of strings, names of the sites, got {short_repr(names)}.")
        keys: dict[str, dict[str, bytes]] = {name: {} for name in listed}
        if len(keys) < max(2, len(listed)):
            raise ValueError(f"names must be distinct names of at least two sites, got {short_repr(names)}.")
        for place, first in enumerate(listed):
            for second in listed[place + 1 :]:
                keys[first][second] = keys[second][first] = secrets.token_bytes(_KEY)
        return {name: cls(name, others) for name, others in keys.items()}

    def hide(self, values: np.ndarray, question: bytes) -> np.ndarray:
        """Return numbers with the mask of this site for a question.

        Parameters
        ----------
        values : uint64 ndarray of shape (n_values,)
        question : bytes
            Name of the question: masks of different ones are independent, and those of equal ones are equal.

        Returns
        -------
        hidden : uint64 ndarray of shape (n_values,)
        """
        check_type("values", values, np.ndarray, "an array of whole numbers")
        check_type("question", question, bytes, "bytes, which name the question")
        if values.dtype.kind not in "iu" or values.ndim != 1:
            raise ValueError(f"values must be whole numbers of one axis, got {values.dtype} of shape {values.shape}.")
        hidden = values.astype(np.uint64)
        for other, key in self._keys.items():
            pad = _pad(key, sorted((self.name, other)), question, len(hidden))
            if self.name < other:
                hidden += pad
            else:
                hidden -= pad
        return hidden


def _pad(key: bytes, pair: list[str], question: bytes, size: int) -> np.ndarray:
    """Derive random 64-bit numbers from a key.

    The hashed bytes have a fixed length, so different inputs are different strings. They include the names, so a key that serves two pairs
    against the rules still makes two pads, which do not cancel at one site.
    """
    about = hashlib.sha256(json.dumps(pair).encode()).digest() + hashlib.sha256(question).digest()
    stream = hashlib.shake_256(_LABEL + key + about).digest(8 * size)
    return np.frombuffer(stream, dtype="<u8").astype(np.uint64)
