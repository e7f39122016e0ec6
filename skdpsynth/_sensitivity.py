"""Sensitivity: how far one row, or several of one unit, move exact integers."""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from numbers import Integral, Rational
from typing import Any

import numpy as np

from skdpsynth._validation import check_integer, is_real, short_repr
from skdpsynth.persistence import savable

RELATIONS = ("replace_one", "add_or_remove_one")


@savable
@dataclass(frozen=True)
class Sensitivity:
    """Bounds on how far whole numbers move between neighbors: two tables that differ in one row.

    A statistic makes it, with the proof in its docstring and a brute-force test; noise and loss are made from it, together.

    Attributes
    ----------
    relation : {"replace_one", "add_or_remove_one"}
        Which tables are neighbors.
    l1 : Fraction
        Sum of the absolute changes.
    l2_squared : Fraction
        Sum of the squared changes.
    sup : Fraction
        The largest absolute change of one number.
    nuclear : Fraction or None
        For a symmetric matrix, listed whole: the sum of the absolute eigenvalues of its change.
    statistic : tuple of (str, value) or None
        The kind of statistic and the public numbers that its sensitivity follows from, so that readers of a ledger can derive it again.

    See Also
    --------
    skdpsynth.privacy.mechanism : Noise and cost from a sensitivity.
    """

    relation: str
    l1: Any
    l2_squared: Any
    sup: Any
    nuclear: Any = None
    statistic: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("l1", "l2_squared", "sup", *(["nuclear"] if self.nuclear is not None else [])):
            value, exact = getattr(self, name), None
            if is_real(value):
                with suppress(ValueError, OverflowError, TypeError):  # NaN, infinities, what floats cannot hold
                    exact = Fraction(value if isinstance(value, Rational) else float(value))
            if exact is None:
                raise ValueError(f"{name} must be a finite number, got {short_repr(value)}; derive it from the statistic.")
            object.__setattr__(self, name, exact)
        if not isinstance(self.relation, str) or self.relation not in RELATIONS:
            raise ValueError(f"relation must be one of {RELATIONS}, got {short_repr(self.relation)}; state the change under one of them.")
        # Whole numbers have |x| <= x**2, and what moves moves by 1 at least.
        if not (0 <= self.sup <= self.l1 <= self.l2_squared and self.sup**2 <= self.l2_squared and not 0 < self.sup < 1):
            raise ValueError(
                "A change of whole numbers has sup <= l1 <= l2_squared, sup**2 <= l2_squared, and a sup of 0 or at least 1, "
                f"got {short_repr(self.sup)}, {short_repr(self.l1)}, {short_repr(self.l2_squared)}; derive it again."
            )
        # Eigenvalues: the largest entry is at most the largest of them, and the squares of both add up to the same.
        if self.nuclear is not None and not self.sup <= self.nuclear:
            raise ValueError(f"A nuclear norm is at least the sup, got {short_repr(self.nuclear)} below {short_repr(self.sup)}.")

    def times(self, n_rows: int) -> "Sensitivity":
        """Return the sensitivity to up to `n_rows` rows, at least 1: those of one unit.

        The rows are replaced, or come or go, one after the other. Each step moves the numbers by one change, and all norms here obey the
        triangle inequality: so l1, the root of l2_squared, sup and nuclear grow `n_rows` times at most. It is reached: k equal rows that
        all become one other row move a histogram by k out of one cell and k into another.
        """
        if (n_rows := check_integer("n_rows", n_rows, 1)) == 1:
            return self
        nuclear = None if self.nuclear is None else n_rows * self.nuclear
        moved = {"l1": n_rows * self.l1, "l2_squared": n_rows**2 * self.l2_squared, "sup": n_rows * self.sup, "nuclear": nuclear}
        return replace(self, **moved)


@dataclass(frozen=True, eq=False)
class Query:
    """Exact whole numbers, private until noise covers them, and how far one row moves them.

    Attributes
    ----------
    values : int64 ndarray
    sensitivity : Sensitivity

    See Also
    --------
    Budget : Answers it.
    """

    values: np.ndarray
    sensitivity: Sensitivity

    def __repr__(self) -> str:
        return f"Query({np.size(self.values)} values, {self.sensitivity})"  # never the values


def statistic_facts(kind: str, **facts: Any) -> tuple[tuple[str, Any], ...]:
    """Return the facts that a sensitivity follows from: words, whole numbers, fractions, and tuples of them."""
    return (("kind", kind), *zip(facts, map(_to_builtin, facts.values()), strict=True))


def _to_builtin(fact: object) -> Any:
    """Convert numbers of numpy, which no ledger can hold."""
    return tuple(map(_to_builtin, fact)) if isinstance(fact, tuple) else int(fact) if isinstance(fact, Integral) else fact


def count_sensitivity(relation: str, n_tables: object = 1, statistic: tuple[tuple[str, Any], ...] | None = None) -> Sensitivity:
    """Return the sensitivity of counts of cells, where a row is counted in one cell of each of `n_tables` tables.

    Adding or removing a row changes one count of each table by 1. Replacing it takes 1 from a count of each and gives 1 to another. As
    every change is 1, the sum and the sum of squares are both the number of counts that change.
    """
    n_tables = check_integer("n_tables", n_tables)
    changed = n_tables * (2 if isinstance(relation, str) and relation == "replace_one" else 1)
    facts = statistic_facts("tables", tables=n_tables) if statistic is None else statistic
    return Sensitivity(relation, changed, changed, min(1, changed), statistic=facts)
