"""Sums of the losses of one account."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce

from skdpsynth.privacy._composition import rho_of_pure, total
from skdpsynth.privacy._losses import Amount, PrivacyLoss


@dataclass(frozen=True)
class Sums:
    """Sums of the losses of one account; a group counts as its largest member."""

    epsilon: Amount = Fraction(0)
    rho: Amount = Fraction(0)
    delta: Fraction = Fraction(0)
    gaussian: bool = True  # every loss in rho is
    pure: Amount = Fraction(0)  # the zCDP that the losses in epsilon are, but for their deltas
    pure_gaussian: Amount = Fraction(0)  # ... and the Gaussian loss
    most: Amount = math.inf  # of rho: what was charged for the account, where that was a loss in rho
    only_gaussian: bool = False  # ... and that of Gaussian noise

    @classmethod
    def of(cls, *losses: PrivacyLoss) -> "Sums":
        return reduce(cls.plus, losses, cls())

    @classmethod
    def below(cls, charge: PrivacyLoss) -> "Sums":
        """Return the empty sums of an account that was charged for, such as that of a child."""
        return cls() if charge.rho is None else cls(most=charge.rho, only_gaussian=charge.gaussian)

    def plus(self, loss: PrivacyLoss) -> "Sums":
        if loss.rho is not None:
            return replace(self, rho=self.rho + loss.rho, gaussian=self.gaussian and loss.gaussian)
        pure, as_gaussian = self.pure + rho_of_pure(loss.epsilon), self.pure_gaussian + rho_of_pure(loss.epsilon, gaussian=True)
        more_epsilon, more_delta = self.epsilon + loss.epsilon, self.delta + loss.delta
        return replace(self, epsilon=more_epsilon, delta=more_delta, pure=pure, pure_gaussian=as_gaussian)

    def admits(self, loss: PrivacyLoss) -> bool:
        """Whether a loss may follow, even if it was chosen after seeing earlier outputs.

        Let h be all outputs before the first loss in rho: by basic composition its probability moves by exp(epsilon(h)) at most, but
        for a chance of delta(h). From there on all losses are of one kind, Gaussian or zCDP, whose sum has a limit that h fixes: what rho
        converts to within epsilon - epsilon(h), at delta - delta(h). Given h that is a filter, so P(S | h) is at most
        exp(epsilon - epsilon(h)) Q(S | h) + delta - delta(h), and the two multiply to the promise. If a loss in epsilon could come later,
        its turn could follow from noise that was seen, and every turn would have a delta of its own: for many small Gaussian losses and
        one pure loss at the worst moment the true delta is ten times as large, and more.

        An account that was charged for in rho counts everything in rho: one limit, in any order.
        """
        if self.most != math.inf or not self.rho or loss.is_infinite:
            return True
        return loss.rho is not None and (loss.gaussian or not self.gaussian)

    def total(self, delta: Fraction) -> tuple[Amount, Fraction]:
        if self.most != math.inf and self.epsilon:
            return total(Fraction(0), self._total_rho, self.delta, delta, self.gaussian and self.only_gaussian)
        return total(self.epsilon, self.rho, self.delta, delta, self.gaussian)

    def at(self, delta: Fraction) -> Amount:
        """Return epsilon at any delta; infinite where the losses spend more."""
        return math.inf if self.delta > delta else self.total(delta)[0]

    @property
    def exceeds_charge(self) -> bool:
        """Whether the losses are more, or of another kind, than the rho that the account was charged for in."""
        if self.most == math.inf:
            return False
        return bool(self.delta) or (self.only_gaussian and not self.gaussian) or self._total_rho > self.most

    @property
    def remaining_rho(self) -> Amount:
        return self.most - self._total_rho

    @property
    def _total_rho(self) -> Amount:
        return self.rho + (self.pure_gaussian if self.only_gaussian else self.pure)

    def with_group(self, before: "Sums", after: "Sums") -> "Sums":
        grown = {name: getattr(self, name) + added_amount(getattr(before, name), getattr(after, name)) for name in _SUMMED_FIELDS}
        return replace(self, **grown, gaussian=self.gaussian and after.gaussian)

    def losses(self) -> list[PrivacyLoss]:
        in_epsilon = [PrivacyLoss(self.epsilon, self.delta)] if self.epsilon else []
        return in_epsilon + ([PrivacyLoss(rho=self.rho, gaussian=self.gaussian)] if self.rho else [])


_SUMMED_FIELDS = ("epsilon", "rho", "delta", "pure", "pure_gaussian")


@dataclass
class Group:
    """Children that hold disjoint rows; children of one name hold the same rows, and add.

    A row is in one of them, so the group loses what one of its members does: at most the largest epsilon, delta and rho of any. Where
    some are charged in epsilon and others in rho, the sum of the two is more than the group loses.
    """

    largest: Sums = field(default_factory=Sums)
    members: dict[str, Sums] = field(default_factory=dict)

    def with_member(self, name: str, loss: PrivacyLoss) -> tuple[Sums, Sums]:
        """Return the sums of a member after another charge, and the largest of the group then."""
        mine = self.members.get(name, Sums()).plus(loss)
        return mine, largest([self.largest, mine])


def largest(sums: Iterable[Sums]) -> Sums:
    listed = list(sums)
    return Sums(
        **{name: max(getattr(each, name) for each in listed) for name in _SUMMED_FIELDS}, gaussian=all(each.gaussian for each in listed)
    )


def added_amount(before: Amount, after: Amount) -> Amount:
    """Return the difference; 0 between infinite sums, as inf - inf is no number."""
    return Fraction(0) if before == after else after - before
