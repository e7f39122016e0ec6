"""What attacks on a table of synthetic rows found out about training rows."""

from dataclasses import dataclass
from html import escape
from typing import Any

from skdpsynth._text import join_words
from skdpsynth.auditing._gaps import Gap

WARNING = "Not private: made from real rows, so keep it as secret as them."
NO_PROOF = (
    "This proves nothing about privacy: other attacks may find more. What protects people from all attacks is epsilon, as a ledger "
    "states it."
)


@dataclass(frozen=True, repr=False)
class PrivacyEvidence:
    """What attacks found out about training rows, beside held-out rows; from `privacy_evidence`, and as secret as the real rows.

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
        The same of each column. Of many columns some differ by chance: judge by `attributes`.
    confidence : float
        Of each interval.
    n_train, n_holdout, n_synthetic : int
        Rows of the tables.
    n_attacking : int
        Synthetic rows that the attacks used, but for exact copies.
    n_copies : int
        Training rows that are among the synthetic ones.
    n_overlapping : int
        Held-out rows that equal a training row.
    is_overlap : bool
        Whether those are more than chance explains: then held-out rows may be those of the fit, and all differences too small.

    See Also
    --------
    privacy_evidence : Makes it, and says what the numbers are.
    Gap : What each of them holds.
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
        """Return all numbers as a list of dicts: the lines of `to_frame`, without pandas.

        Returns
        -------
        records : list of dict
        """
        lines = [(name, None, gap) for name, gap in self.gaps.items()]
        lines += [("attributes", column, gap) for column, gap in self.by_column.items()]
        return [
            {
                "measure": name,
                "column": column,
                "train": gap.train,
                "holdout": gap.holdout,
                "difference": gap.difference,
                "low": gap.low,
                "high": gap.high,
                "n_train": gap.n_train,
                "n_holdout": gap.n_holdout,
                "is_found": gap.is_found,
            }
            for name, column, gap in lines
        ]

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
        """Draw the differences, each with its interval. Needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None: a new figure.

        Returns
        -------
        figure : matplotlib Figure
        """
        from skdpsynth.plotting import EvidenceDisplay

        return EvidenceDisplay.from_evidence(self).plot(ax).figure_


def _describe_difference(gap: Gap) -> str:
    """Say the difference and its interval."""
    if not gap.is_share:
        return f"a difference of {gap.difference:+.2g} ({gap.low:+.2g} to {gap.high:+.2g})"
    return f"a difference of {100 * gap.difference:+.2g} points ({100 * gap.low:+.2g} to {100 * gap.high:+.2g})"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
