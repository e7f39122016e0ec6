"""The budget of one fit."""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from skdpsynth._progress import task
from skdpsynth._sensitivity import Query
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.privacy import Discovery, DiscreteLaplace, Mechanism, PrivacyAccountant, PrivacyLoss, RandomBits, mechanism
from skdpsynth.statistics import RowCount

COUNT_SHARE = Fraction(1, 20)  # of the budget, for the number of rows where it is private


class Budget:
    """The budget of a fit: charges each answer to a query and covers it with noise.

    Parameters
    ----------
    accountant : PrivacyAccountant
        The accountant of this fit.
    rng : RandomBits
        Stream of random bits for the noise.
    told : list of (str, type), default=None
        Warnings for the caller, issued when the fit is done.

    Attributes
    ----------
    relation : str
        Which tables are neighbors.
    is_broken : bool
        Whether a release raised an error after it was charged.

    See Also
    --------
    PrivacyAccountant : Charges the losses.
    Query : Exact values with their sensitivity.
    skdpsynth.privacy.mechanism : Calibrates the noise.
    """

    is_broken = False

    def __init__(self, accountant: PrivacyAccountant, rng: RandomBits, told: list | None = None) -> None:
        self._account: Callable[[], PrivacyAccountant] | PrivacyAccountant = accountant
        self.relation = accountant.neighboring
        self.rng = rng
        self.told: list = [] if told is None else told

    @classmethod
    def opened_late(cls, account: Callable[[], PrivacyAccountant], relation: str, rng: RandomBits, told: list) -> "Budget":
        """Return a budget that opens its account, and charges a shared one, at the first answer: rows that cannot be read cost nothing."""
        budget = object.__new__(cls)
        budget._account, budget.relation, budget.rng, budget.told = account, relation, rng, told
        return budget

    @property
    def rows_per_unit(self) -> int:
        """The most rows of one unit of privacy, which all noise covers."""
        return self.accountant.rows_per_unit

    @property
    def accountant(self) -> PrivacyAccountant:
        """The accountant of this fit."""
        if not isinstance(self._account, PrivacyAccountant):
            self._account = self._account()
        return self._account

    def answer(self, query: Query, chosen: Mechanism, name: str) -> np.ndarray:
        """Charge the loss of a mechanism, and return the values of a query with its noise.

        Parameters
        ----------
        query : Query
        chosen : Mechanism
            Calibrated to the sensitivity of this query.
        name : str
            Name of the release in the ledger.

        Returns
        -------
        noisy_values : int64 ndarray
        """
        if query.sensitivity != chosen.sensitivity:
            raise ValueError(
                f"The noise of {name!r} was made for {chosen.sensitivity}, but the query has {query.sensitivity}; plan it anew."
            )
        with task(name, total=0):
            rng = self.rng.child(name)
            return self.accountant.release(query.values, chosen.noise, rng, name=name, loss=chosen.loss, sensitivity=query.sensitivity)

    def discover(self, tables: Sequence[Mapping[Any, int]], chosen: Discovery, name: str) -> list[list[Any]]:
        """Charge the loss of a partition selection, and return the levels that enough rows have.

        Parameters
        ----------
        tables : sequence of dict of level to int
            Counts of the levels that occur; only the number of tables is public.
        chosen : Discovery
            Calibrated for this number of tables.
        name : str
            Name of the release in the ledger.
        """
        return self.accountant.release_discovered(tables, chosen, self.rng.child(name), name=name)

    def choose(self, utilities: Query, share: PrivacyLoss, name: str) -> int:
        """Charge a share, and return the number of a candidate chosen by its exact utility.

        Parameters
        ----------
        utilities : Query
            One value for each candidate.
        share : PrivacyLoss
        name : str
            Name of the choice in the ledger.
        """
        return self.accountant.release_choice(utilities.values, utilities.sensitivity, self.rng.child(name), name=name, loss=share)

    def part(self, share: PrivacyLoss, name: str, group: str | None = None) -> "Budget":
        """Charge a share in epsilon, and return it as a budget of its own, with its own noise.

        Parameters
        ----------
        share : PrivacyLoss
        name : str
            Purpose of the part or, within a group, whose rows it is for.
        group : str, default=None
            Parts of one group hold disjoint rows: together they cost the largest of them.
        """
        return Budget(self.accountant.child(share.epsilon, share.delta, name=name, group=group), self.rng.child(name), self.told)

    def number_of_rows(self, count: RowCount, share: PrivacyLoss) -> tuple[int, float]:
        """Release the number of rows at a share of the budget; return it (at least 1) and a bound on its expected error."""
        query = count.query(self.relation)
        chosen = mechanism(query.sensitivity, share)
        noisy = self.answer(query, chosen, "number of rows")
        error = chosen.noise.mean_absolute() if isinstance(chosen.noise, DiscreteLaplace) else chosen.deviation
        return max(1, int(noisy[0])), float(error)

    def warn(self, message: str, category: type[Warning] = SmallSampleWarning) -> None:
        """Note a warning that follows from what was released."""
        self.told.append((message, category))

    def generator(self) -> np.random.Generator:
        """Return a numpy generator for choices that are post-processing."""
        return self.rng.child("public").generator()
