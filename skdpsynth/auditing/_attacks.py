"""Attacks that score training and held-out rows by the synthetic rows, and confidence intervals for the gap between them."""

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, stdtrit
from scipy.stats import binomtest

from skdpsynth._text import Result, join_words, percent_at_most
from skdpsynth._validation import check_integer, check_type, is_integer, short_repr
from skdpsynth.auditing._audit import check_confidence
from skdpsynth.auditing._result import lower_epsilon_of_one_run, lower_share
from skdpsynth.domain import Continuous, Nominal, Schema, as_nullable, is_name
from skdpsynth.frames import open_source, take_rows
from skdpsynth.metrics import SchemaLike, Table, columns_in, schema_of_ranges, with_facts_of_rows
from skdpsynth.privacy import LONE_ROW, PrivacyAccountant
from skdpsynth.tables import encode
from skdpsynth.testing import Estimator

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRAIN, HOLDOUT, SYNTHETIC = 0, 1, 2
_NAMES = ("train", "holdout", "model")
_MOST_DRAWN = 100_000  # synthetic rows of a model
LEAST = 20  # rows of each table
_MIDDLE = (0.05, 0.5, 0.95)
_FALSE_ALARM_RATE = 0.1  # of the membership attack
_NEAR = 0.05  # largest error of a right guess of a number, or of a near copy, in units of `Space`
_TINY = 1e-9  # so that, among rows with a copy, those far from all others score highest
_NUMBERS = ("train", "holdout", "difference", "low", "high", "n_train", "n_holdout", "is_found")
_OF_GUESSES = ("n_pairs", "n_guesses", "n_right", "advantage", "advantage_low", "advantage_high", "allowed", "is_refuted")
_WARNING = "Not private: made from real rows, so keep it as secret as them."
_NO_PROOF = "This proves nothing about privacy: other attacks may find more. Only epsilon, as a ledger states it, protects from all."


@dataclass(frozen=True)
class Guesses:
    """Guesses which of two rows, one of the fit and one set aside and paired at random, was in the fit.

    The attack names the row with the larger score, and passes where both have the same.

    Attributes
    ----------
    n_pairs, n_guesses, n_right : int
        Pairs, those at which the attack did not pass, and those of them at which it was right.
    advantage_low, advantage_high : float
        Exact (Clopper-Pearson) interval of `advantage`, two-sided.
    allowed : float or None
        The most that the advantage may be, on average, by the epsilon and delta of a ledger; None: there is none that protects single rows.
    is_refuted : bool
        Whether so many right guesses refute that ledger, at half of the error probability of the interval.

    See Also
    --------
    privacy_evidence : Makes it, and proves the limit.
    """

    n_pairs: int
    n_guesses: int
    n_right: int
    advantage_low: float
    advantage_high: float
    allowed: float | None = None
    is_refuted: bool = False

    @property
    def advantage(self) -> float:
        """Share of right guesses minus share of wrong ones: 0 by chance, 1 if all are right."""
        return 2 * self.n_right / self.n_guesses - 1 if self.n_guesses else 0.0


@dataclass(frozen=True)
class Gap:
    """A number of training rows beside the same number of held-out rows.

    Attributes
    ----------
    what : str
        The number, in words.
    train, holdout : float
        Means over the rows of each kind.
    low, high : float
        Confidence interval of `difference`, two-sided.
    n_train, n_holdout : int
        Rows that were looked at.
    is_share : bool
        Whether the number is a share of rows, or of guesses; else a distance.
    guesses : Guesses
        What an attacker gains who guesses by this number which rows were in the fit.

    See Also
    --------
    privacy_evidence : Makes it.
    """

    what: str
    train: float
    holdout: float
    low: float
    high: float
    n_train: int
    n_holdout: int
    is_share: bool
    guesses: Guesses

    @property
    def difference(self) -> float:
        """Value of the training rows minus value of the held-out rows."""
        return self.train - self.holdout

    @property
    def is_found(self) -> bool:
        """Whether the whole interval lies on the side to which copies of training rows would move it."""
        return self.low > 0 if self.is_share else self.high < 0


@dataclass(frozen=True, repr=False)
class PrivacyEvidence(Result):
    """Results of attacks on training rows beside held-out rows, from `privacy_evidence`; as secret as the real rows.

    Attributes
    ----------
    exact_copies : Gap
        Share of rows that are among the synthetic ones.
    near_copies : Gap
        Share of rows that the closest synthetic row nearly equals, in all cells: what a model has learned by heart.
    closest_record : Gap
        Mean distance to the closest synthetic row.
    membership : Gap
        Share of rows that the membership attack calls members.
    attributes : Gap or None
        Share of cells that are guessed right from cells that are known. None: there is only one column.
    by_column : dict of column to Gap
        The same for each column. Some of many columns differ by chance, so judge by `attributes`.
    confidence : float
        Confidence level of each interval.
    n_train, n_holdout, n_synthetic : int
        Rows of the tables.
    n_attacking : int
        Synthetic rows that the attacks used, but for exact copies.
    n_copies : int
        Training rows that are among the synthetic ones.
    n_overlapping : int
        Held-out rows that equal a training row.
    is_overlap : bool
        Whether they are more than chance explains: then held-out rows may be rows of the fit, and all differences are too small.

    See Also
    --------
    privacy_evidence : Makes it, and says what the numbers are.
    Gap : One of these numbers with its interval.
    """

    exact_copies: Gap
    near_copies: Gap
    closest_record: Gap
    membership: Gap
    attributes: Gap | None
    by_column: dict[Any, Gap]
    confidence: float
    n_train: int
    n_holdout: int
    n_synthetic: int
    n_attacking: int
    n_copies: int
    n_overlapping: int
    is_overlap: bool

    @property
    def gaps(self) -> dict[str, Gap]:
        """The measures that there are, by name."""
        names = ("exact_copies", "near_copies", "closest_record", "membership", "attributes")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    @property
    def findings(self) -> tuple[str, ...]:
        """Names of the measures that tell training rows from held-out ones."""
        return tuple(name for name, gap in self.gaps.items() if gap.is_found)

    @property
    def is_found(self) -> bool:
        """Whether any of the measures tells training rows from held-out ones."""
        return bool(self.findings)

    @property
    def refuting(self) -> tuple[str, ...]:
        """Names of the measures by which more is guessed right than the ledger allows."""
        return tuple(name for name, gap in self.gaps.items() if gap.guesses.is_refuted)

    @property
    def copies_expected(self) -> float:
        """Training rows that would be among the synthetic ones by chance: as large a share as of held-out rows."""
        return self.exact_copies.holdout * self.n_train

    @property
    def verdict(self) -> str:
        """Say whether training rows stand out."""
        if self.refuting:
            names = join_words([name.replace("_", " ") for name in self.refuting], "and")
            return f"THE PROMISE IS BROKEN, by {names}: rows of the fit are guessed more often than the epsilon of the ledger allows."
        if not self.is_found:
            return "Nothing tells training rows from held-out ones here."
        found = join_words([name.replace("_", " ") for name in self.findings], "and")
        return f"Training rows stand out, by {found}: the synthetic rows give them away."

    def sentences(self) -> list[str]:
        """Say what was found, and last what it does not prove."""
        near, closest, members = self.near_copies, self.closest_record, self.membership
        words = [
            f"{self.n_synthetic:,} synthetic rows beside {self.n_train:,} training and {self.n_holdout:,} held-out ones; intervals hold "
            f"with {100 * self.confidence:g} % confidence.",
            f"{self.n_copies:,} training rows are among the synthetic ones; chance alone would give about {self.copies_expected:,.4g}.",
            f"Near copies there are of {100 * near.train:.3g} % of training rows and {100 * near.holdout:.3g} % of held-out ones, "
            f"{_describe_difference(near)}.",
            f"The closest synthetic row is {closest.train:.4g} away from a training row and {closest.holdout:.4g} from a held-out row, "
            f"{_describe_difference(closest)}.",
            f"A membership attack calls {100 * members.train:.1f} % of training rows members, and {100 * members.holdout:.1f} % of "
            f"held-out ones, {_describe_difference(members)}.",
        ]
        if self.attributes is not None:
            words.append(
                f"From what is known of its row {100 * self.attributes.train:.1f} % of the cells of training rows are guessed right, and "
                f"{100 * self.attributes.holdout:.1f} % of those of held-out rows, {_describe_difference(self.attributes)}."
            )
        return [*words, self._best_guesses(), *self._conclusions()]

    def _best_guesses(self) -> str:
        name, best = max(((name, gap.guesses) for name, gap in self.gaps.items()), key=lambda each: each[1].advantage_low)
        right, low, high = (50 * (1 + advantage) for advantage in (best.advantage, best.advantage_low, best.advantage_high))
        limit = "" if best.allowed is None else f"; the ledger allows {percent_at_most((1 + best.allowed) / 2)}, and a coin has 50 %"
        return (
            f"Which of two rows was in the fit is guessed best by {name.replace('_', ' ')}: right {best.n_right:,} of "
            f"{best.n_guesses:,} times, {right:.1f} % ({low:.1f} to {high:.1f}){limit}."
        )

    def _conclusions(self) -> list[str]:
        overlap = (
            f"But {self.n_overlapping:,} held-out rows equal a training row, more than chance explains: if they are the same people, all "
            "differences come out too small."
        )
        return [*[overlap] * self.is_overlap, self.verdict, _NO_PROOF]

    def __str__(self) -> str:
        return " ".join([_WARNING, *self.sentences()])

    def __repr__(self) -> str:
        return f"<PrivacyEvidence, not private: {', '.join(self.findings) or 'nothing'} found; proves nothing about privacy>"

    def _parts(self) -> Iterator[str | list[tuple[str, ...]]]:
        yield _WARNING
        rows = [
            (gap.what, f"{gap.train:.4f}", f"{gap.holdout:.4f}", f"{gap.difference:+.4f}", f"{gap.low:+.4f} to {gap.high:+.4f}")
            for gap in self.gaps.values()
        ]
        yield [("", "training rows", "held-out rows", "difference", f"{100 * self.confidence:g} % interval"), *rows]
        yield [("Which of two rows was in the fit?", *self.heads_of_guesses), *self.lines_of_guesses()]
        yield "\n".join(self._conclusions())

    @property
    def heads_of_guesses(self) -> tuple[str, ...]:
        """Heads of the columns of `lines_of_guesses`, but for the first, the measure."""
        return ("guesses", "right", "advantage", f"{100 * self.confidence:g} % interval, exact", "allowed")

    def lines_of_guesses(self) -> Iterator[tuple[str, ...]]:
        """Yield the guesses by each measure as words."""
        for name, gap in self.gaps.items():
            made = gap.guesses
            limit = "" if made.allowed is None else f"{made.allowed:.4f}{', BROKEN' * made.is_refuted}"
            gain = f"{made.advantage:+.4f}", f"{made.advantage_low:+.4f} to {made.advantage_high:+.4f}"
            yield name.replace("_", " "), f"{made.n_guesses:,}", f"{made.n_right:,}", *(gain if made.n_guesses else ("", "")), limit

    def to_records(self) -> list[dict[str, Any]]:
        """Return a dict for each measure, and for each column that was guessed ("column"; None: all), with the numbers of its gap."""
        lines = [(name, None, gap) for name, gap in self.gaps.items()]
        lines += [("attributes", column, gap) for column, gap in self.by_column.items()]
        return [
            {"measure": name, "column": column}
            | {key: getattr(gap, key) for key in _NUMBERS}
            | {key: getattr(gap.guesses, key) for key in _OF_GUESSES}
            for name, column, gap in lines
        ]

    def plot(self, ax: "Axes | None" = None) -> Any:
        """Draw the differences with their intervals, on `ax` or in a new figure, and return the figure. Needs matplotlib."""
        from skdpsynth.plotting import EvidenceDisplay

        return EvidenceDisplay.from_evidence(self).plot(ax).figure_


def _describe_difference(gap: Gap) -> str:
    if not gap.is_share:
        return f"a difference of {gap.difference:+.2g} ({gap.low:+.2g} to {gap.high:+.2g})"
    return f"a difference of {100 * gap.difference:+.2g} points ({100 * gap.low:+.2g} to {100 * gap.high:+.2g})"


def privacy_evidence(
    model: Estimator,
    train: Table,
    holdout: Table,
    schema: SchemaLike | None = None,
    *,
    secret: Hashable = None,
    known: Hashable = None,
    accountant: PrivacyAccountant | None = None,
    confidence: float = 0.99,
    max_samples: int = 5000,
    random_state: int | None = 0,
) -> PrivacyEvidence:
    """Attack a model's synthetic rows, and compare how the attacks do on training rows and on held-out rows; **not private**.

    Exact and near copies, the closest record, a membership attack and an attribute attack, as a red team plays them: findings about rows
    that the model never saw are no leak, so each number stands beside that of held-out rows. Attacks that find nothing prove nothing,
    because others might. Epsilon protects people from every attack; this report shows gross mistakes, to readers who prefer a number to a
    proof, and how far attacks stay below what epsilon allows.

    Parameters
    ----------
    model : fitted synthesizer, or table of synthetic rows
        Anything with ``sample(n_samples, random_state=...)``, of this package or of another: as many rows are drawn as `train` has, 100,000
        at most. Better give the very table that you will publish: an array, a frame, or whatever else `fit` takes.
    train : array-like, data frame or other table that `fit` takes, of shape (n_samples, n_features)
        The rows that the model was fitted to, or a random part of them: 20 at least, as of each table. Read unprotected.
    holdout : array-like, data frame or other table that `fit` takes, of shape (m_samples, n_features)
        Rows of other people, set aside at random before the fit. Read unprotected. If somebody has several rows, all of them belong on one
        side.
    schema : dict, Schema or path of a file, default=None
        ``{column: (low, high), [levels] or a kind}``, see `skdpsynth.domain.Schema`. None: the model's own ``schema_``; without one, all
        columns are numbers.
    secret : column or list of columns, default=None
        Columns that the attribute attack guesses. None: each column in turn, or each that is not `known`.
    known : column or list of columns, default=None
        Quasi-identifiers: columns that the attacker knows of each target, such as age and town. None: all but the one that is guessed.
    accountant : PrivacyAccountant, default=None
        The account that the synthetic rows were charged to, whose promise the guesses are compared with. None: that of `model`, if it is
        a fitted model that has one.
    confidence : float, default=0.99
        Confidence level of each interval. If nothing leaks, each measure still raises an alarm with probability (1 - confidence) / 2: about
        20 of 1000 honest models are suspected by one of the five.
    max_samples : int, default=5000
        At most so many rows of each table are attacked, drawn at random; exact copies are looked for among all. More show smaller leaks:
        the time grows with the square.
    random_state : int or None, default=0
        Seed of the synthetic rows, of the rows that are drawn and of the halves. None: other ones at each call.

    Returns
    -------
    evidence : PrivacyEvidence
        ``print(evidence)`` is a paragraph; it has `to_frame` and `plot`.

    See Also
    --------
    linked_evidence : The same for each of several linked tables.
    audit_epsilon : A lower bound on epsilon, from made-up rows.
    skdpsynth.report.quality_page : Shows it, on a page that is private.
    skdpsynth.PrivacyAccountant.risk : The gain of the best possible attack.

    Notes
    -----
    *Why held-out rows.* The synthetic table is fixed. Every real row gets a score that depends on it and on the synthetic table alone; the
    membership attack also uses a half of the held-out rows, which it then leaves out. If training rows and held-out rows come from one
    law, and the synthetic rows were made without either, the scores of both have one law too. So the interval of the difference holds 0
    with probability `confidence`, up to the normal approximation of means: Newcombe's interval for shares, t intervals for means.

    *Closest record.* Mean Euclidean distance of real rows to the closest synthetic one, over the root of the number of columns. Two rows
    are apart by 1 in a column of levels that differ, and by 1 in one of numbers that are as far from each other as the ends of the middle
    nine tenths of its synthetic values; a missing number is 1 apart from any other.

    *Copies.* Exact: all cells are equal. In small domains many rows are found by chance: as large a share as of held-out rows. Near: in
    the closest synthetic row each cell is one that would be a right guess of the attribute attack.

    *Membership.* As DOMIAS [1]_: rows where synthetic rows are denser than the population are called members. Both densities are those of
    the nearest neighbor, that of the population in one half of the held-out rows. A tenth of that half sets the threshold, so about a
    tenth of the rows of strangers raise a false alarm.

    *Attributes.* The attacker takes the cell of the synthetic row that is closest in what is known [2]_. A guess of a number is
    right within a twentieth of the range of the middle nine tenths of the synthetic values, one of levels if it is equal.

    *Which of two rows.* Pairs of a row of the fit and a held-out row are drawn at random, and the attack names the one with the higher
    score (the smaller distance), or passes. Rows were set aside at random, so a fair coin has decided which of a pair is in the fit, and to
    turn it over replaces one row. So, as `audit_one_run` proves, each guess is right with probability at most e^epsilon /
    (1 + e^epsilon), whatever the others were, and the Clopper-Pearson limits hold for any number of passes. The advantage, right minus
    wrong, is at most (e^epsilon - 1) / (e^epsilon + 1) on average; with delta, at most (e^epsilon - 1 + 2 delta n / r) /
    (e^epsilon + 1) for r guesses at n pairs. Under "add_or_remove_one" to replace a row is to remove one and to add one, which costs twice
    epsilon and (1 + e^epsilon) delta: these stand in place of both. A ledger that protects units of several rows has no such limit, since
    rows of one unit share a coin; nor has one whose rows were not set aside at random.

    Rows are sorted first, so the order in which they come changes nothing (in tables of at most 2^25 cells; of larger ones rows are drawn
    by their place).

    References
    ----------
    .. [1] van Breugel, Sun, Qian, van der Schaar (2023), "Membership Inference Attacks against Synthetic Data through Overfitting
       Detection".
    .. [2] Giomi, Boenisch, Wehmeyer, Tasnádi (2023), "A Unified Framework for Quantifying Privacy Risk in Synthetic Data".

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth import PrivateMeasureMechanism
    >>> from skdpsynth.auditing import privacy_evidence
    >>> train, holdout = np.random.default_rng(0).beta(2, 5, size=(2, 500, 2))
    >>> evidence = privacy_evidence(PrivateMeasureMechanism(epsilon=1.0, bounds=(0, 1)).fit(train), train, holdout)
    >>> evidence.exact_copies.train
    0.0
    >>> privacy_evidence(train, train, holdout).exact_copies.is_found  # of rows that are no synthetic ones at all
    True
    """
    max_samples = check_settings(confidence, max_samples, random_state)
    if accountant is not None:
        check_type("accountant", accountant, PrivacyAccountant, "None or a PrivacyAccountant, such as accountant_ of the fit")
    every, rng = Tables.of(model, train, holdout, schema, random_state), np.random.default_rng(random_state)
    referee = Referee.of(getattr(model, "accountant_", None) if accountant is None else accountant, confidence, rng)
    return attack(every, *_attribute_places(list(every.schema), secret, known), max_samples, referee)


def check_settings(confidence: float, max_samples: int, random_state: int | None) -> int:
    check_confidence(confidence)
    if random_state is not None and not is_integer(random_state, 0):
        raise ValueError(f"random_state must be a non-negative integer or None, got {short_repr(random_state)}.")
    return check_integer("max_samples", max_samples, 20, more="5000 is the default")


def attack(every: "Tables", secrets: list[int], known: list[int] | None, max_samples: int, referee: "Referee") -> PrivacyEvidence:
    """Return what all attacks find: exact copies among all rows, the rest among some, drawn at random."""
    sizes = every.sizes()
    drawn = [np.sort(referee.rng.choice(n, max_samples, replace=False)) if n > max_samples else np.arange(n) for n in sizes]
    few = Tables(every.schema, tuple(take_rows(columns, some) for columns, some in zip(every.columns, drawn, strict=True)))
    space = Space.of(few)
    members = membership(space, referee)
    together, alone = attributes(few, space, secrets, known, referee)
    n_train, n_holdout, n_synthetic = sizes
    return PrivacyEvidence(
        **find_copies(every, referee),
        **closest_record(few, space, referee),
        membership=members,
        attributes=together,
        by_column=alone,
        confidence=float(referee.confidence),
        n_train=n_train,
        n_holdout=n_holdout,
        n_synthetic=n_synthetic,
        n_attacking=few.sizes()[SYNTHETIC],
    )


def _attribute_places(names: list[Hashable], secret: Hashable, known: Hashable) -> tuple[list[int], list[int] | None]:
    """Return the places of the columns that are guessed, and of those that are known of each row; None: all others."""
    asked = {"secret": secret, "known": known}
    listed = {what: given if isinstance(given, list) else [] if given is None else [given] for what, given in asked.items()}
    for what, given in listed.items():
        for name in given:
            if not is_name(name) or name not in names:
                raise ValueError(f"{what} must be columns of schema that are synthesized, got {short_repr(name)}; leave it out for all.")
    wanted, given = listed["secret"], listed["known"]
    if both := [name for name in wanted if name in given]:
        raise ValueError(f"known must hold none of the columns that are guessed, got {short_repr(both[0])}; take it out of one of both.")
    if len(names) < 2:
        return [], None
    secrets = wanted if secret is not None else [name for name in names if name not in given]
    if not secrets:
        raise ValueError("known must leave a column to be guessed, got all of them; name those that an attacker knows.")
    return [names.index(name) for name in secrets], [names.index(name) for name in given] or None


@dataclass(frozen=True, eq=False)
class Referee:
    """Intervals, and the game of pairs with its limit: `epsilon` and `delta` are those of an exchange of two rows."""

    confidence: float
    rng: np.random.Generator
    epsilon: float | None = None  # None: no promise to compare with
    delta: float = 0.0

    @classmethod
    def of(cls, accountant: object, confidence: float, rng: np.random.Generator, *, takes_units: bool = False) -> "Referee":
        if not isinstance(accountant, PrivacyAccountant) or not (takes_units or accountant.risk().unit in (None, LONE_ROW)):
            return cls(confidence, rng)
        epsilon, delta = float(accountant.spent), float(accountant.spent_delta)
        if accountant.neighboring == "add_or_remove_one" and epsilon < math.inf:  # one row goes and another comes
            epsilon, delta = 2 * epsilon, min(1.0, delta / expit(-epsilon) if delta else 0.0)
        return cls(confidence, rng, epsilon, delta)

    def guess(self, train: np.ndarray, holdout: np.ndarray) -> Guesses:
        """Play the game with scores: the larger, the likelier is a row one of the fit."""
        n_pairs, alpha = min(len(train), len(holdout)), 1 - self.confidence
        ahead = np.subtract(*(self.rng.permutation(scores)[:n_pairs].astype(float) for scores in (train, holdout)))
        n_right, n_wrong = int((ahead > 0).sum()), int((ahead < 0).sum())
        n_guesses = n_right + n_wrong
        ends = 2 * float(lower_share(n_right, n_guesses, alpha / 2)) - 1, 1 - 2 * float(lower_share(n_wrong, n_guesses, alpha / 2))
        if self.epsilon is None:
            return Guesses(n_pairs, n_guesses, n_right, *ends)
        leaked = 2 * self.delta * n_pairs / (n_guesses or n_pairs) * float(expit(-self.epsilon))
        shown = lower_epsilon_of_one_run(n_right, n_guesses, n_pairs, self.delta, alpha / 2)
        return Guesses(n_pairs, n_guesses, n_right, *ends, min(1.0, math.tanh(self.epsilon / 2) + leaked), shown > self.epsilon)

    def gap_of_shares(self, what: str, train: np.ndarray, holdout: np.ndarray) -> Gap:
        """Compare two samples of booleans by Newcombe's interval [1]_ from Wilson's, which holds for few rows and for shares of 0.

        References
        ----------
        .. [1] Newcombe (1998), "Interval estimation for the difference between independent proportions", method 10.
        """
        p, q = float(np.mean(train)), float(np.mean(holdout))
        of_shares = [binomtest(int(np.sum(hits)), len(hits)) for hits in (train, holdout)]
        (below_p, above_p), (below_q, above_q) = (found.proportion_ci(self.confidence, "wilson") for found in of_shares)
        low, high = p - q - math.hypot(p - below_p, above_q - q), p - q + math.hypot(above_p - p, q - below_q)
        return Gap(what, p, q, low, high, len(train), len(holdout), True, self.guess(train, holdout))

    def gap_of_means(self, what: str, train: np.ndarray, holdout: np.ndarray, *, is_share: bool) -> Gap:
        n, m = len(train), len(holdout)
        x, y = float(train.mean()), float(holdout.mean())
        apart = math.sqrt(train.var(ddof=1) / n + holdout.var(ddof=1) / m)
        # Scores of few rows may all be equal by luck, which would make an interval of no width. If both kinds are alike, the variance of
        # all rows together is that of each.
        together = math.sqrt(np.concatenate([train, holdout]).var(ddof=1) * (1 / n + 1 / m))
        reach = float(stdtrit(min(n, m) - 1, 0.5 + self.confidence / 2)) * max(apart, together)
        guesses = self.guess(train, holdout) if is_share else self.guess(-train, -holdout)
        return Gap(what, x, y, x - y - reach, x - y + reach, n, m, is_share, guesses)


@dataclass(frozen=True, eq=False)
class Tables:
    """Training, held-out and synthetic rows, sorted, so that the order in which they were given has no influence."""

    schema: Schema  # nullable throughout, so that a missing cell is neither a midpoint nor a first level
    columns: tuple[list[np.ndarray], ...]  # one list of columns for each of the three tables

    @classmethod
    def of(cls, model: Estimator, train: Table, holdout: Table, schema: SchemaLike | None, seed: int | None) -> "Tables":
        """Read the three tables, drawing the synthetic one if a model was given."""
        if train is holdout:
            raise ValueError("holdout must be rows that the model was not fitted to, got the very table of train; set some rows aside.")
        schema = getattr(model, "schema_", None) if schema is None else schema
        stated = None if schema is None else Schema.of(schema)
        is_held = isinstance(model, list) or any(hasattr(model, name) for name in ("shape", "columns", "__array__"))
        if is_held or not open_source(model).in_memory:  # data frames have a method `sample`, too
            synthetic = model
        elif isinstance(model, type) or not callable(getattr(model, "sample", None)):
            raise TypeError(
                f"model must be a fitted synthesizer, which has sample, or a table of synthetic rows, got {short_repr(model)}; give what "
                "fit returned, or the rows."
            )
        else:
            own = {"train": train}
            read = schema_of_ranges(own) if stated is None else with_facts_of_rows(stated, own)
            n_train = columns_in(train, read, "train").n_samples or 0
            synthetic = model.sample(min(n_train, _MOST_DRAWN), random_state=seed)
        given = dict(zip(_NAMES, (train, holdout, synthetic), strict=True))
        stated = schema_of_ranges(given) if stated is None else with_facts_of_rows(stated, given)
        coded = schema_of_attacks(stated)
        tables = [columns_in(table, coded, name) for name, table in given.items()]
        for name, rows in zip(_NAMES, tables, strict=True):
            if (rows.n_samples or 0) < LEAST:
                raise ValueError(f"{name} must have at least {LEAST} rows, got {rows.n_samples}; so few say nothing.")
        columns = [rows.collect() for rows in tables]
        return cls(coded.coded, tuple(take_rows(each, np.lexsort(each[::-1])) for each in columns))

    def sizes(self) -> tuple[int, ...]:
        return tuple(len(columns[0]) for columns in self.columns)


def schema_of_attacks(stated: Schema) -> Schema:
    """Return a schema under which cells may be missing, and numbers are not rounded, which would turn different rows into copies."""
    kinds = {name: as_nullable(kind) for name, kind in stated.items()}
    kinds = {name: replace(kind, integer=False) if getattr(kind, "integer", False) else kind for name, kind in kinds.items()}
    return Schema(kinds, read=stated.read)


@dataclass(frozen=True, eq=False)
class Space:
    """Rows of mixed tables as points, with the Euclidean distance of `privacy_evidence`.

    The scale follows from synthetic rows alone, so bounds that are far too wide hide no column from the attack.
    """

    blocks: tuple[list[np.ndarray], ...]  # for each table, an array of shape (n_rows, n_coordinates) for each column

    @classmethod
    def of(cls, tables: Tables) -> "Space":
        blocks: tuple[list[np.ndarray], ...] = ([], [], [])
        for (name, kind), parts in zip(tables.schema.items(), zip(*tables.columns, strict=True), strict=True):
            encoded = [encode([part], Schema({name: kind})) for part in parts]
            if isinstance(kind, Nominal):  # one-hot codes, so that different levels are at distance 1
                scaled = [block * np.sqrt(0.5) if block.shape[1] > 1 else block for block in encoded]
            else:  # centered and scaled by synthetic quantiles; a missing number lies at the center
                unit, missing = encoded[SYNTHETIC].T
                low, middle, high = np.quantile(unit[missing == 0], _MIDDLE) if (missing == 0).any() else (0.0, 0.5, 1.0)
                width = high - low if high > low else 1.0
                scaled = [np.column_stack([np.where(x[:, 1] > 0, 0.0, (x[:, 0] - middle) / width), x[:, 1]]) for x in encoded]
            for place, block in enumerate(scaled):
                blocks[place].append(block)
        return cls(blocks)

    def points(self, table: int, columns: list[int] | None = None) -> np.ndarray:
        """Return the points of a table, shape (n_rows, n_coordinates), in these columns or all."""
        return np.hstack(self.blocks[table] if columns is None else [self.blocks[table][place] for place in columns])


def find_copies(tables: Tables, referee: Referee) -> dict[str, Any]:
    """Look up every real row among the synthetic ones, and held-out rows among training rows; return fields of `PrivacyEvidence`.

    Copies of held-out rows show how many copies to expect by chance, and duplicates of training rows how many overlaps.
    """
    numbers = np.zeros(sum(tables.sizes()), dtype=np.int64)  # of rows, the same where all cells are equal
    for parts in zip(*tables.columns, strict=True):
        _, codes = np.unique(np.concatenate(parts), return_inverse=True)
        _, numbers = np.unique(numbers * (int(codes.max()) + 1) + codes, return_inverse=True)
    train, holdout, synthetic = np.split(numbers, np.cumsum(tables.sizes())[:-1])
    found, by_chance = np.isin(train, synthetic), np.isin(holdout, synthetic)
    gap = referee.gap_of_shares("exact copies: rows that are among the synthetic ones", found, by_chance)
    _, places, counts = np.unique(train, return_inverse=True, return_counts=True)
    overlapping = np.isin(holdout, train)
    beyond_chance = referee.gap_of_shares("", overlapping, counts[places] > 1)
    sizes = {"n_copies": int(found.sum()), "n_overlapping": int(overlapping.sum())}
    return {"exact_copies": gap, **sizes, "is_overlap": beyond_chance.is_found}


def closest_record(tables: Tables, space: Space, referee: Referee) -> dict[str, Any]:
    """Look up the synthetic row that is closest to each real row: how far it is, and whether it is a near copy.

    The direction from real to synthetic rows gives every real row a distance of its own, whatever the numbers of rows.
    """
    synthetic, columns = space.points(SYNTHETIC), range(len(space.blocks[SYNTHETIC]))
    near, far = list[np.ndarray](), list[np.ndarray]()
    for table in (TRAIN, HOLDOUT):
        closest, distances = _nearest(synthetic, space.points(table))
        near.append(np.all([_is_right(tables, space, table, column, closest) for column in columns], axis=0))
        far.append(distances / np.sqrt(len(columns)))
    return {
        "near_copies": referee.gap_of_shares("near copies: rows that the closest synthetic row nearly equals", *near),
        "closest_record": referee.gap_of_means("closest record: mean distance to the closest synthetic row", *far, is_share=False),
    }


def membership(space: Space, referee: Referee) -> Gap:
    """Call rows members where synthetic rows are much denser than the population, as `privacy_evidence` says.

    The score is the distance to the closest row of one half of the held-out rows, each looked up among the others, over the distance to
    the closest synthetic row.
    """
    holdout, synthetic = space.points(HOLDOUT), space.points(SYNTHETIC)
    known, others = (holdout[half] for half in np.array_split(referee.rng.permutation(len(holdout)), 2))

    def ratios(rows: np.ndarray, among: int = 1) -> np.ndarray:
        return (_nearest(known, rows, among)[1] + _TINY) / (_nearest(synthetic, rows)[1] + _TINY)

    threshold = np.quantile(ratios(known, among=2), 1 - _FALSE_ALARM_RATE)
    train, unseen = ratios(space.points(TRAIN)) > threshold, ratios(others) > threshold
    return referee.gap_of_shares("membership: rows that the attack calls members", train, unseen)


def attributes(
    tables: Tables, space: Space, secrets: list[int], known: list[int] | None, referee: Referee
) -> tuple[Gap | None, dict[Any, Gap]]:
    """Guess each secret cell from the synthetic row that is closest in what is known; return the gap over all columns and that of each."""
    if not secrets:
        return None, {}

    def hits(table: int, secret: int) -> np.ndarray:
        columns = [place for place in range(len(tables.schema)) if place != secret] if known is None else known
        closest, _ = _nearest(space.points(SYNTHETIC, columns), space.points(table, columns))
        return _is_right(tables, space, table, secret, closest)

    found = {list(tables.schema)[place]: (hits(TRAIN, place), hits(HOLDOUT, place)) for place in secrets}
    what = "attributes: cells that are guessed right from what is known of their row"
    train, holdout = (np.mean(both, axis=0) for both in zip(*found.values(), strict=True))
    alone = {name: referee.gap_of_shares(f"attributes: {name}, guessed right", *both) for name, both in found.items()}
    return referee.gap_of_means(what, train, holdout, is_share=True), alone


def _is_right(tables: Tables, space: Space, table: int, column: int, guesses: np.ndarray) -> np.ndarray:
    """Whether cells of a column are, or nearly are, those of the synthetic rows in these places."""
    if not isinstance(list(tables.schema.values())[column], Continuous):
        return tables.columns[table][column] == tables.columns[SYNTHETIC][column][guesses]
    apart = np.abs(space.blocks[table][column] - space.blocks[SYNTHETIC][column][guesses])
    return (apart[:, 0] <= _NEAR) & (apart[:, 1] == 0)


def _nearest(table: np.ndarray, rows: np.ndarray, among: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return the place and the distance of the `among`-th closest row of a table for each of `rows`."""
    from sklearn.neighbors import NearestNeighbors

    places = NearestNeighbors(n_neighbors=among).fit(table).kneighbors(rows, return_distance=False)[:, among - 1]
    # Measured again: the search finds squares by sums that cancel, so copies would be a little apart.
    return places, np.linalg.norm(rows - table[places], axis=1)
