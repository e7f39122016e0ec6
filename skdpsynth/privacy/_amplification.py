"""Privacy of a population of which a secret sample was drawn: amplification by sampling."""

from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from typing import Any

from skdpsynth._validation import is_real, short_repr
from skdpsynth.persistence import savable
from skdpsynth.privacy._ledger import Account
from skdpsynth.privacy._ledger_entry import Accountant
from skdpsynth.privacy._losses import Amount, PrivacyLoss

CLONE_REMARK = "the fit of a clone, as in a search or cross-validation: other fits are not in this ledger"
_RELATION_OF = {"poisson": "add_or_remove_one", "simple_random": "replace_one"}
_LEAST_RATE = 1e-15
_DIGITS, _STEP = 60, Decimal(1).scaleb(-15)
_MOST_AMPLIFIED = 10**5  # beyond, decimals overflow, and nothing is protected
_REFUSED = (
    "only where each person is drawn by a public chance that nobody's data changes: strata and clusters that depend on data, or chances by "
    "size, show who is in the sample through the others, and may even lose privacy (arXiv 2007.12674)"
)


@savable
@dataclass(frozen=True)
class SecretSample:
    """A sample of a population that nobody knows the members of, drawn once before anything was released about it.

    The releases promise epsilon to the rows of the sample. To the people of the population, who may not be in it at all, they promise
    more: at the rate q, ``ln(1 + q (exp(epsilon) - 1))``, and q times delta.

    Parameters
    ----------
    design : {"poisson", "simple_random"}
        "poisson": each person was in the sample by a toss of its own; for accounts under "add_or_remove_one". "simple_random": as many as
        the public size of the sample, all sets alike; for "replace_one". There is no figure for other designs.
    rate : number
        The chance of each person to be in the sample, from 1e-15 to 1: a public number, such as ``Fraction(n, N)``.

    See Also
    --------
    PrivacyAccountant : Adds up what was released about the sample.

    Notes
    -----
    *Proof* for any mechanism M of the sample that is (epsilon, delta)-differentially private under the relation of the design: Balle,
    Barthe, Gaboardi (2018), "Privacy Amplification by Subsampling: Tight Analyses via Couplings and Divergences", theorem 8 (Poisson,
    add/remove) and theorem 9 (without replacement, replace-one). The sample was drawn once, so M is all that was ever released about it,
    and epsilon the sum: amplified figures of single releases must never be added up.

    It is lost as soon as somebody knows who was asked. What the ledger states, and limits, stays that of rows.

    References
    ----------
    .. [1] Bun, Drechsler, Gaboardi, McMillan, Sarathy (2020), "Controlling Privacy Loss in Sampling Schemes: An Analysis of Stratified and
       Cluster Sampling", arXiv 2007.12674.

    Examples
    --------
    >>> from skdpsynth import PrivacyAccountant
    >>> from skdpsynth.privacy import SecretSample
    >>> accountant = PrivacyAccountant(1)
    >>> accountant.spend(1, name="a table")
    >>> round(float(SecretSample("simple_random", 0.01).population_loss(accountant).epsilon), 6)
    0.017037
    """

    design: str
    rate: Any

    def __post_init__(self) -> None:
        if not isinstance(self.design, str) or self.design not in _RELATION_OF:
            raise ValueError(f"design must be one of {tuple(_RELATION_OF)}, got {short_repr(self.design)}; there is a figure {_REFUSED}.")
        if not is_real(self.rate) or not _LEAST_RATE <= self.rate <= 1:
            raise ValueError(
                f"rate must be a number from {_LEAST_RATE:g} to 1, got {short_repr(self.rate)}; give that of the sample, as n / N."
            )
        rate = self.rate if isinstance(self.rate, Fraction) else Fraction(str(self.rate))
        object.__setattr__(self, "rate", rate)

    def population_loss(self, accountant: Accountant) -> PrivacyLoss:
        """Return what all that an account was charged costs a person of the population; it is rounded up.

        Parameters
        ----------
        accountant : PrivacyAccountant
            The account of everything that was released about the sample.

        Returns
        -------
        loss : PrivacyLoss

        Raises
        ------
        ValueError
            If the account is of another relation than the design, of units of several rows, of rows with survey weights, or a part of a
            larger one.
        """
        if not isinstance(getattr(accountant, "_account", None), Account):
            raise TypeError(
                f"accountant must be a PrivacyAccountant, got {short_repr(accountant)}; give model.accountant_, or open a file by ledger=."
            )
        return self.amplify(accountant, accountant.spent, accountant.spent_delta)

    def amplify(self, accountant: Accountant, epsilon: Amount, delta: Fraction | float) -> PrivacyLoss:
        """Return the loss of the population where all releases of an account cost the sample so much, or refuse a figure."""
        relation, unit = accountant.neighboring, accountant.risk().unit
        if accountant._account.number is not None or accountant.remark == CLONE_REMARK:
            raise ValueError(
                f"accountant must be that of everything that was released about the sample, got a part of one, {short_repr(accountant)}; "
                "give the shared budget."
            )
        if relation != (needed := _RELATION_OF[self.design]):
            raise ValueError(f"design {self.design!r} needs an account under {needed!r}, got {relation!r}; fit under that.")
        if unit is not None:
            raise ValueError(f"A secret sample must be one of rows, got releases that protect {unit}; draw, and fit, rows.")
        for entry, _ in accountant.lines():
            if entry.sensitivity is not None and "survey" in dict(entry.sensitivity.statistic or ()):
                raise ValueError(
                    f"A secret sample must give all people one chance, got {entry.name!r} with survey weights, a sign that it did not; "
                    "there is no figure then."
                )
        return PrivacyLoss(_amplify(epsilon, self.rate), self.rate * Fraction(delta))


def _amplify(epsilon: Any, rate: Fraction) -> Any:
    """Return ``ln(1 + rate (exp(epsilon) - 1))``, rounded up to 15 decimals; never more than epsilon."""
    if epsilon > _MOST_AMPLIFIED or rate == 1:
        return epsilon
    with localcontext() as context:
        context.prec = _DIGITS
        exact, q = (Decimal(value.numerator) / value.denominator for value in (Fraction(epsilon), rate))
        found = (1 + q * (exact.exp() - 1)).ln()
        return min(Fraction(epsilon), Fraction(found.quantize(_STEP, ROUND_CEILING)))
