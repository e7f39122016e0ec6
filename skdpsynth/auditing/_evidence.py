"""Attacks on synthetic rows, compared between training and held-out rows."""

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from skdpsynth._text import join_words
from skdpsynth._validation import is_integer, short_repr
from skdpsynth.auditing._attacks import SYNTHETIC, Gap, Space, Tables, attributes, closest_record, find_copies, membership, secret_places
from skdpsynth.auditing._audit import check_confidence

_NUMBERS = ("train", "holdout", "difference", "low", "high", "n_train", "n_holdout", "is_found")
WARNING = "Not private: made from real rows, so keep it as secret as them."
NO_PROOF = (
    "This proves nothing about privacy: other attacks may find more. What protects people from all attacks is epsilon, as a ledger "
    "states it."
)


@dataclass(frozen=True, repr=False)
class PrivacyEvidence:
    """Results of attacks on training rows beside held-out rows, from `privacy_evidence`; as secret as the real rows.

    Attributes
    ----------
    exact_copies : Gap
        Share of rows that are among the synthetic ones.
    closest_record : Gap
        Mean distance to the closest synthetic row.
    membership : Gap
        Share of rows that the membership attack calls members.
    attributes : Gap or None
        Share of cells that are guessed right from the others of their row. None: there is only one column.
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
        names = ("exact_copies", "closest_record", "membership", "attributes")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    @property
    def found(self) -> tuple[str, ...]:
        """Names of the measures that tell training rows from held-out ones."""
        return tuple(name for name, gap in self.gaps.items() if gap.is_found)

    @property
    def is_found(self) -> bool:
        """Whether any of the four measures tells training rows from held-out ones."""
        return bool(self.found)

    @property
    def copies_expected(self) -> float:
        """Training rows that would be among the synthetic ones by chance: as large a share as of held-out rows."""
        return self.exact_copies.holdout * self.n_train

    def sentences(self) -> list[str]:
        """Say what was found, and last what it does not prove."""
        words = [
            f"{self.n_synthetic:,} synthetic rows beside {self.n_train:,} training and {self.n_holdout:,} held-out ones; intervals hold "
            f"with {100 * self.confidence:g} % confidence.",
            f"{self.n_copies:,} training rows are among the synthetic ones; chance alone would give about {self.copies_expected:,.4g}.",
            f"The closest synthetic row is {self.closest_record.train:.4g} away from a training row and "
            f"{self.closest_record.holdout:.4g} from a held-out row, {_describe_difference(self.closest_record)}.",
            f"A membership attack calls {_percent(self.membership.train)} of training rows members, and "
            f"{_percent(self.membership.holdout)} of held-out ones, {_describe_difference(self.membership)}.",
        ]
        if self.attributes is not None:
            words.append(
                f"Of the cells of a training row {_percent(self.attributes.train)} are guessed right from its other cells, and "
                f"{_percent(self.attributes.holdout)} of a held-out row, {_describe_difference(self.attributes)}."
            )
        return [*words, *self._overlap_warning(), self.verdict, NO_PROOF]

    @property
    def verdict(self) -> str:
        """Say whether training rows stand out."""
        if not self.is_found:
            return "Nothing tells training rows from held-out ones here."
        found = join_words([name.replace("_", " ") for name in self.found], "and")
        return f"Training rows stand out, by {found}: the synthetic rows give them away."

    def _overlap_warning(self) -> list[str]:
        if not self.is_overlap:
            return []
        return [
            f"But {self.n_overlapping:,} held-out rows equal a training row, more than chance explains: if they are the same people, all "
            "differences come out too small."
        ]

    def __str__(self) -> str:
        return " ".join([WARNING, *self.sentences()])

    def __repr__(self) -> str:
        return f"<PrivacyEvidence, not private: {', '.join(self.found) or 'nothing'} found; proves nothing about privacy>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td style='text-align:left'>{escape(gap.what)}</td><td>{gap.train:.4f}</td><td>{gap.holdout:.4f}</td>"
            f"<td>{gap.difference:+.4f}</td><td>{gap.low:+.4f} to {gap.high:+.4f}</td></tr>"
            for gap in self.gaps.values()
        )
        heads = ("", "training rows", "held-out rows", "difference", f"{100 * self.confidence:g} % interval")
        words = "".join(f"<p>{escape(sentence)}</p>" for sentence in (*self._overlap_warning(), self.verdict, NO_PROOF))
        return (
            f"<div class='skdpsynth-evidence'><p><strong>{escape(WARNING)}</strong></p><table><thead><tr>"
            f"{''.join(f'<th>{head}</th>' for head in heads)}</tr></thead><tbody>{rows}</tbody></table>{words}</div>"
        )

    def to_records(self) -> list[dict[str, Any]]:
        """Return all numbers as a list of dicts: the rows of `to_frame`, without pandas."""
        lines = [(name, None, gap) for name, gap in self.gaps.items()]
        lines += [("attributes", column, gap) for column, gap in self.by_column.items()]
        return [{"measure": name, "column": column, **{key: getattr(gap, key) for key in _NUMBERS}} for name, column, gap in lines]

    def to_frame(self) -> Any:
        """Return all numbers as a data frame of pandas.

        Returns
        -------
        frame : DataFrame
            A row for each measure, and for each column that was guessed. Columns: measure, column (None: all), train, holdout, difference,
            low, high, n_train, n_holdout, is_found.
        """
        import pandas as pd

        records = self.to_records()
        frame = pd.DataFrame(records)
        frame["column"] = pd.Series([record["column"] for record in records], dtype=object)  # names stay what they are
        return frame

    def plot(self, ax: Any = None) -> Any:
        """Draw the differences with their intervals, on `ax` or in a new figure, and return the figure. Needs matplotlib."""
        from skdpsynth.plotting import EvidenceDisplay

        return EvidenceDisplay.from_evidence(self).plot(ax).figure_


def _describe_difference(gap: Gap) -> str:
    if not gap.is_share:
        return f"a difference of {gap.difference:+.2g} ({gap.low:+.2g} to {gap.high:+.2g})"
    return f"a difference of {100 * gap.difference:+.2g} points ({100 * gap.low:+.2g} to {100 * gap.high:+.2g})"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def privacy_evidence(
    model: Any,
    train: Any,
    holdout: Any,
    schema: Any = None,
    *,
    secret: Any = None,
    confidence: float = 0.99,
    max_samples: int = 5000,
    random_state: int | None = 0,
) -> PrivacyEvidence:
    """Attack a model's synthetic rows, and compare how the attacks do on training rows and on held-out rows; **not private**.

    Exact copies, the closest record, a membership attack and an attribute attack: findings about rows that the model never saw are no
    leak, so each number stands beside that of held-out rows. Attacks that find nothing prove nothing, because others might. Epsilon
    protects people from every attack; this report shows gross mistakes, to readers who prefer a number to a proof.

    Parameters
    ----------
    model : fitted synthesizer, or table of synthetic rows
        Anything with ``sample(n_samples, random_state=...)``, of this package or of another: as many rows are drawn as `train` has, 100,000
        at most. Better give the very table that you will publish: an array, a frame, or whatever else `fit` takes.
    train : array-like, data frame or other table that `fit` takes, of shape (n_samples, n_features)
        The rows that the model was fitted to, or a random part of them. Read unprotected.
    holdout : array-like, data frame or other table that `fit` takes, of shape (m_samples, n_features)
        Rows of other people, set aside at random before the fit. Read unprotected. If somebody has several rows, all of them belong on one
        side.
    schema : dict, Schema or path of a file, default=None
        ``{column: (low, high), [levels] or a kind}``, see `skdpsynth.domain.Schema`. None: the model's own ``schema_``; without one, all
        columns are numbers.
    secret : column or list of columns, default=None
        Columns that the attribute attack guesses. None: each column in turn.
    confidence : float, default=0.99
        Confidence level of each interval. If nothing leaks, each measure still raises an alarm with probability (1 - confidence) / 2: about
        20 of 1000 honest models are suspected by one of the four.
    max_samples : int, default=5000
        At most so many rows of each table are attacked, drawn at random; exact copies are looked for among all. More show smaller leaks:
        the time grows with the square.
    random_state : int or None, default=0
        Seed of the synthetic rows, of the rows that are drawn and of the halves. None: other ones at each call.

    Returns
    -------
    evidence : PrivacyEvidence
        ``print(evidence)`` is a paragraph; it has `to_frame` and `plot`.

    Raises
    ------
    TypeError
        If `model` has no `sample` and is no table, or without a schema a column has no numbers.
    ValueError
        If a table has fewer than 20 rows, `holdout` is `train`, the columns are not those of the schema, or a parameter is out of its
        domain.

    See Also
    --------
    audit_epsilon : A lower bound on epsilon, from made-up rows.
    skdpsynth.report.card : Shows it on the internal card, with ``holdout=``.
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

    *Exact copies.* All cells are equal. In small domains many rows are found by chance: as large a share as of held-out rows.

    *Membership.* As DOMIAS [1]_: rows where synthetic rows are denser than the population are called members. Both densities are those of
    the nearest neighbor, that of the population in one half of the held-out rows. A tenth of that half sets the threshold, so about a
    tenth of the rows of strangers raise a false alarm.

    *Attributes.* The attacker knows all cells of a row but one, and takes that of the closest synthetic row [2]_. A guess of a number is
    right within a twentieth of the range of the middle nine tenths of the synthetic values, one of levels if it is equal.

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
    check_confidence(confidence)
    if not is_integer(max_samples, 20):
        raise ValueError(f"max_samples must be an integer of at least 20, got {short_repr(max_samples)}; 5000 is the default.")
    if random_state is not None and not is_integer(random_state, 0):
        raise ValueError(f"random_state must be a non-negative integer or None, got {short_repr(random_state)}.")
    every = Tables.read(model, train, holdout, schema, random_state)
    places, rng = secret_places(secret, every.schema), np.random.default_rng(random_state)
    copies = find_copies(every, confidence)
    few = every.subsample_rows(int(max_samples), rng)
    space = Space.of(few)
    together, alone = attributes(few, space, places, confidence)
    n_train, n_holdout, n_synthetic = every.sizes()
    return PrivacyEvidence(
        **copies,
        closest_record=closest_record(space, confidence),
        membership=membership(space, confidence, rng),
        attributes=together,
        by_column=alone,
        confidence=float(confidence),
        n_train=n_train,
        n_holdout=n_holdout,
        n_synthetic=n_synthetic,
        n_attacking=few.sizes()[SYNTHETIC],
    )
