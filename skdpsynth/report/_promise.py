"""The promise of an account as data."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from itertools import islice
from typing import Any

from skdpsynth.privacy import LONE_ROW, AttackRisk, LedgerEntry, PrivacyAccountant, PrivacyLoss

_LARGEST = 15.0  # larger epsilons make e^epsilon unimaginable
FALSE_ALARMS = (0.01, 0.05, 0.1)
MOST_LINES = 60  # of a ledger that a page shows: a stream has one for each block
_UP = Context(prec=6, rounding=ROUND_CEILING)


def round_up(amount: Any) -> float:
    """Round a fraction up to six digits: a page must not promise more than was kept."""
    if amount == math.inf:
        return math.inf
    return float(_UP.divide(Decimal(amount.numerator), Decimal(amount.denominator)))


@dataclass(frozen=True)
class LedgerLine:
    """One line of a ledger, as a page shows it."""

    name: str
    depth: int  # 0 for a charge; n for a part at depth n, which adds nothing
    loss: str
    epsilon: float | None  # added to the total; None for a part, as is delta
    delta: float | None
    noise: str | None
    sensitivity: str | None  # of the released values, in their own units
    n_values: int | None
    randomness: str | None
    group: str | None
    unit: str | None
    time: str
    version: str  # of the package that charged it


@dataclass(frozen=True)
class Promise:
    """The promise of an account, by its ledger alone."""

    epsilon: float  # spent, rounded up to six digits, as is delta
    delta: float
    budget_epsilon: float  # the limit of the account
    budget_delta: float
    neighboring: str
    unit: str | None  # whom all lines protect; None: one row
    is_seeded: bool  # whether a seed can reproduce any noise
    remark: str | None
    datasets: tuple[str, ...]  # names that callers gave to the data
    lines: tuple[LedgerLine, ...]  # the first 60
    n_more: int  # lines that are not listed
    kinds: tuple[str, ...]  # of loss: "pure", "gaussian", "zcdp", "approximate"
    has_groups: bool  # whether some charges hold disjoint rows, and cost their largest together
    n_noisy: int
    n_stated: int  # noisy releases with a stated sensitivity, which the accountant checked against the noise
    n_untold: int  # charges that name neither noise nor parts
    risks: tuple[AttackRisk, ...]  # at false alarms of 1, 5 and 10 %

    @property
    def is_infinite(self) -> bool:
        return self.epsilon == math.inf

    @property
    def holds(self) -> bool:
        """Whether there is a promise at all: secure noise and a finite epsilon."""
        return not self.is_seeded and not self.is_infinite

    @classmethod
    def of(cls, accountant: PrivacyAccountant, *, in_full: bool = False) -> "Promise":
        """Read an account; `in_full` promises the whole budget of a stream that continues."""
        record = accountant.record()  # a snapshot, in case of charges meanwhile
        entries = [entry for entry, _ in record.lines()]
        lines = tuple(islice(_lines(record), MOST_LINES))
        noisy = [entry for entry in entries if entry.noise is not None]
        whole = in_full and record.spent < record.epsilon
        risks = tuple((_spend_fully(record) if whole else record).risk(fpr) for fpr in FALSE_ALARMS)
        return cls(
            epsilon=round_up(record.epsilon if whole else record.spent),
            delta=round_up(record.delta if whole else record.spent_delta),
            budget_epsilon=round_up(record.epsilon),
            budget_delta=round_up(record.delta),
            neighboring=record.neighboring,
            unit=record.risk().unit,
            is_seeded=any(entry.randomness == "seeded" for entry in entries),
            remark=record.remark,
            datasets=tuple(dict.fromkeys(entry.dataset for entry in entries if entry.dataset)),
            lines=lines,
            n_more=len(entries) - len(lines),
            kinds=tuple(sorted({_kind_of(entry) for entry in noisy or entries})),
            has_groups=any(entry.group for entry in entries),
            n_noisy=len(noisy),
            n_stated=sum(entry.sensitivity is not None for entry in noisy),
            n_untold=sum(entry.noise is None and not record.parts_of(entry) for entry in entries),
            risks=risks,
        )


def _spend_fully(record: PrivacyAccountant) -> PrivacyAccountant:
    """Return an account with the same budget, fully spent: the worst that may still come."""
    whole = PrivacyAccountant(record.epsilon, record.delta, neighboring=record.neighboring, unit=record.unit)
    whole.spend(PrivacyLoss(epsilon=record.epsilon, delta=record.delta), name="all of it")
    return whole


def _kind_of(entry: LedgerEntry) -> str:
    loss = entry.loss
    if loss.rho is not None:
        return "gaussian" if loss.gaussian else "zcdp"
    return "approximate" if loss.delta else "pure"


def _lines(record: PrivacyAccountant) -> Iterator[LedgerLine]:
    charges = record.charges()
    for entry, part_of in record.lines():
        _, *added = (None, None, None) if part_of is not None else next(charges)
        epsilon, delta = (None if amount is None else round_up(amount) for amount in added)
        yield LedgerLine(
            name=entry.name,
            depth=0 if part_of is None else part_of.count(" / ") + 1,
            loss=str(entry.loss),
            epsilon=epsilon,
            delta=delta,
            noise=entry.describe(),  # noise of parts stands in their own lines
            sensitivity=None if entry.sensitivity is None else _describe_sensitivity(entry),
            n_values=entry.n_values,
            randomness=entry.randomness,
            group=entry.group,
            unit=entry.unit,
            time=entry.time,
            version=entry.version,
        )


def _describe_sensitivity(entry: LedgerEntry) -> str:
    """Format the sensitivity in the norm of the noise."""
    sensitivity: Any = entry.sensitivity
    if entry.noise == "DiscreteGaussian":
        return f"{math.sqrt(sensitivity.l2_squared):.6g} (L2)"
    if entry.noise == "DiscreteMatrixLaplace" and sensitivity.nuclear is not None:
        return f"{float(sensitivity.nuclear):.6g} (nuclear)"
    if entry.noise == "DiscreteLaplace":
        return f"{float(sensitivity.l1):.6g} (L1)"
    return f"{float(sensitivity.sup):.6g} (largest)"


def describe_unit(promise: Promise) -> str:
    if promise.unit is None:
        return "One row of the table. Somebody with several rows is protected as many times less."
    if promise.unit == LONE_ROW:
        return f"One {LONE_ROW}, because not all releases protect the same unit. Somebody with several rows is protected less."
    return f"All rows of one unit together: {promise.unit}. Rows beyond that number were not counted."


def describe_relation(promise: Promise) -> str:
    what = _unit_phrase(promise)
    if promise.neighboring == "replace_one":
        return f"Replace-one: {what} may be replaced by any other. The number of rows is public."
    return f"Add or remove: {what} may be there or not. The number of rows is private too."


def _unit_phrase(promise: Promise) -> str:
    if promise.unit in (None, LONE_ROW):
        return "one row" if promise.unit is None else f"one {LONE_ROW}"
    return f"the rows of one unit ({promise.unit})"


def describe_guarantee(promise: Promise) -> str:
    """Say what epsilon and delta mean."""
    if promise.is_seeded:
        return "Nothing is promised: the noise was seeded, and whoever knows or guesses the seed can subtract it."
    if promise.epsilon == math.inf:
        return "Nothing is promised: no noise was added (epsilon is infinite)."
    what = _unit_phrase(promise)
    change = f"had {what} been any other" if promise.neighboring == "replace_one" else f"had {what} not been there"
    if promise.epsilon > _LARGEST:
        return f"Next to nothing is promised: epsilon {promise.epsilon:g} lets this release be many million times as likely as {change}."
    times = f"{round_up(Fraction(math.ceil(math.exp(promise.epsilon) * 100), 100)):g}"
    words = f"Anything that could come out of this release is at most {times} times as likely as it would be {change}."
    if promise.delta:
        words = f"{words[:-1]}, plus a probability of at most {promise.delta:g} (delta)."
    return words


def describe_composition(promise: Promise) -> str:
    if not promise.lines:
        return "Nothing was charged yet."
    words = ["Sequential: the losses of all releases add up."]
    if {"gaussian", "zcdp"} & set(promise.kinds):
        words.append("Those of Gaussian noise add up in rho, and their sum is converted to epsilon and delta once.")
    if promise.has_groups:
        words.append("Parallel within a group: its members hold disjoint rows, and cost what the largest of them does.")
    return " ".join(words)


def describe_mechanisms(promise: Promise) -> str:
    if promise.n_noisy == 0:
        return "No noise was added by this account." + describe_unknown_charges(promise)
    kinds = sorted({line.noise.split("(")[0] for line in promise.lines if line.noise})
    source = "from a seed, so they are not private" if promise.is_seeded else "from the secure randomness of the operating system"
    return f"{', '.join(kinds)}: exact whole numbers {source}; charged before they were drawn.{describe_unknown_charges(promise)}"


def describe_unknown_charges(promise: Promise) -> str:
    """Mention charges whose releases are unknown, if there are any."""
    if not promise.n_untold:
        return ""
    what = "1 charge names" if promise.n_untold == 1 else f"{promise.n_untold} charges name"
    return f" {what} no noise: how that was made, and whether it fits, is not covered."


def unprotected(promise: Promise, is_stream: bool, is_multiline: bool) -> tuple[str, ...]:
    """List what the promise does not cover, the gravest first."""
    rows = (
        "The number of rows: it is public, and exact."
        if promise.neighboring == "replace_one"
        else "The number of rows is protected, and any size shown here is noisy."
    )
    person = (
        "A person with several rows: the promise is to one row."
        if promise.unit is None
        else "People whom the labels do not tell apart, or who have several labels."
    )
    stream = ("The file of the stream itself, which holds rows and counts that wait: publish samples, not the file.",) * is_stream
    records = (
        "Records of CSV files that leave a quote open: cells were allowed to hold line breaks, so such a record takes others with it, and "
        "the promise assumes that there is none.",
    ) * is_multiline
    return (
        "What the data holder stated as public: names of columns, their kinds, bounds and levels. If they were read off the rows, they "
        "tell of them.",
        "Other releases about the same people. Each adds its own epsilon to this one.",
        person,
        rows,
        *records,
        *stream,
        "What is true of many: that smokers fall ill can be learned from this release, and is meant to be, whoever took part.",
        "Choices made by looking at the rows: columns, filters, settings that were tried and dropped.",
        "Whatever reads the rows again: transform and score of the rows of the fit, evaluations, an internal version of this page.",
        "How long the computation took, and how the rows themselves are kept.",
    )
