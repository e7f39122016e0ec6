"""All sites together as a table for a fit."""

import secrets
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from skdpsynth._validation import short_repr
from skdpsynth.federated._messages import Round, decode_answer
from skdpsynth.federated._remote_rows import RemoteTable
from skdpsynth.statistics import Question

_THREADS = 64


class Sites(RemoteTable):
    """The tables of several sites, for `fit` in place of one table: each answers by sums, and the model is that of all rows together.

    Parameters
    ----------
    sites : dict of str to callable
        For each site by its name, what carries a question to it and brings back its answer: from bytes to bytes. At the site it ends in
        ``site.answer`` of a `Site`. All are called at the same time, in threads. A call that may never return needs a time-out of its
        own.
    head : array or data frame
        Columns and dtypes, which are public and the same at all sites; see `RemoteRows`.
    n_samples : int, default=None
        The number of rows at all sites, if it is known. None, and always under "add_or_remove_one": the first question asks for it.

    See Also
    --------
    Site : One of them.
    Masks : Hide what each site sends.
    RemoteRows : Sums from elsewhere.

    Notes
    -----
    *Who learns what.* The coordinator, which runs the fit, sees the **exact** sum over all sites for each question, and adds noise once.
    The published model is differentially private for every row of every site; only trust protects the sums from the coordinator itself.
    With `Masks` it learns these sums alone, and nothing about single sites, as long as it follows the rules or at least two sites keep
    their keys from it. Noise that the sites draw together, which would protect from the coordinator, too, is not implemented. Listeners
    see questions, which are public facts and released numbers, and masked answers.

    *Failures.* If one site does not answer, the fit fails, because masks cancel only in the sum of all. Before the first noise is drawn,
    this costs no budget; afterwards it costs all of epsilon. A site that sends wrong numbers makes the model wrong, and is not detected
    unless the masks do not cancel.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth import PrivatePCA
    >>> from skdpsynth.federated import Site, Sites
    >>> tables = np.array_split(np.random.default_rng(0).random((9000, 3)), 3)
    >>> sites = Sites({f"site {i}": Site(table).answer for i, table in enumerate(tables)}, head=np.empty((0, 3)))
    >>> PrivatePCA(1, epsilon=1.0, delta=1e-6, bounds=(0, 1)).fit(sites).n_samples_
    9000
    """

    def __init__(self, sites: Mapping[str, Callable[[bytes], bytes]], *, head: Any, n_samples: int | None = None) -> None:
        if not isinstance(sites, Mapping) or not sites or not all(map(callable, sites.values())):
            raise TypeError(
                f"sites must be a dict of names to callables from bytes to bytes, got {short_repr(sites)}; such as site.answer."
            )
        super().__init__(head, n_samples)
        self._sites = dict(sites)
        self._session, self._number, self._lock = secrets.token_hex(16), 0, threading.Lock()

    def __repr__(self) -> str:
        return f"Sites({len(self._sites)} sites, {len(self.columns)} columns)"

    def ask(self, question: Question) -> np.ndarray:
        """Ask all sites, and return the sums over all rows.

        Parameters
        ----------
        question : Question

        Returns
        -------
        values : int64 ndarray

        Raises
        ------
        ConnectionError
            If a site does not answer, or sends something else.
        ValueError
            If the masks do not cancel.
        """
        with self._lock:
            self._number += 1
            asked = Round(self._session, self._number, question)
        message, size = asked.to_bytes(), question.rule.n_values + 1
        sums = np.zeros(size, dtype=np.uint64)
        with ThreadPoolExecutor(min(_THREADS, len(self._sites))) as pool:
            waiting = {name: pool.submit(_answer, site, message, size) for name, site in self._sites.items()}
            for name, answer in waiting.items():
                try:
                    sums += answer.result()
                except Exception as error:
                    raise ConnectionError(
                        f"Site {short_repr(name)} did not answer question {asked.number}, {question.rule} ({type(error).__name__}); no sum "
                        "is complete without it: see to it, and fit again."
                    ) from error
        if int(sums[-1]) != len(self._sites):
            raise ValueError(
                "The masks of the sites do not cancel, so the sum says nothing; give each pair of sites one key, and ask the sites that "
                "have keys, all of them and each once."
            )
        return sums[:-1].view(np.int64)


def _answer(site: Callable[[bytes], bytes], message: bytes, size: int) -> np.ndarray:
    return decode_answer(site(message), message, size)
