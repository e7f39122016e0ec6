"""What the losses of one account add up to."""

from dataclasses import dataclass, field, replace
from fractions import Fraction

from skdpsynth.privacy._composition import total
from skdpsynth.privacy._losses import Amount, PrivacyLoss


@dataclass(frozen=True)
class Sums:
    """What the entries of one account add up to. Groups count at their largest member."""

    epsilon: Amount = Fraction(0)
    rho: Amount = Fraction(0)
    delta: Fraction = Fraction(0)
    gaussian: bool = True  # every loss in rho is

    def plus(self, loss: PrivacyLoss) -> "Sums":
        if loss.rho is not None:
            return replace(self, rho=self.rho + loss.rho, gaussian=self.gaussian and loss.gaussian)
        return replace(self, epsilon=self.epsilon + loss.epsilon, delta=self.delta + loss.delta)

    def total(self, delta: Fraction) -> tuple[Amount, Fraction]:
        """Return (epsilon, delta) of the sums, at the delta of a budget."""
        return total(self.epsilon, self.rho, self.delta, delta, self.gaussian)

    def with_group(self, before: PrivacyLoss | None, after: PrivacyLoss) -> "Sums":
        if before is None:
            return self.plus(after)
        added = more(before.epsilon, after.epsilon)
        return replace(self, epsilon=self.epsilon + added, delta=self.delta + after.delta - before.delta)


@dataclass
class Group:
    """Children that hold disjoint rows. Those of one name hold the same rows, and add."""

    largest: PrivacyLoss | None = None
    members: dict[str, PrivacyLoss] = field(default_factory=dict)

    def with_member(self, name: str, loss: PrivacyLoss) -> tuple[PrivacyLoss, PrivacyLoss]:
        """Return the loss of a member that is charged (once more), and the largest then."""
        was, most = self.members.get(name), self.largest
        mine = loss if was is None else PrivacyLoss(was.epsilon + loss.epsilon, was.delta + loss.delta)
        if most is not None:
            return mine, PrivacyLoss(max(most.epsilon, mine.epsilon), max(most.delta, mine.delta))
        return mine, mine


def more(before: Amount, after: Amount) -> Amount:
    """What was added; nothing to an infinite sum, as inf - inf is no number."""
    return Fraction(0) if before == after else after - before
