"""Sensitivity of the interactions ``k (m I - J) N (n I - J)`` of pairs of columns with tables N, derived anew."""

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from math import comb, prod
from typing import Any

_TRIED = 1 << 13  # sets of columns in which two rows differ

Table = tuple[int, int, int]  # k, m, n


def interaction_sensitivity(facts: dict[str, Any], relation: str) -> dict[str, Any]:
    """Return how far one row moves all tables, by norm.

    Let v(x) be column x of m I - J: its squared length is m^2 - m, and its product with another column is -m. A row adds k v(x) v(y)' to
    the table of its class. So if a row comes, a table moves by the product of two squares; if it is replaced within its class, by twice
    that less the product of the two inner products, those of different columns where the rows differ.
    """
    sizes, factor = facts["sizes"], dict(map(tuple, facts["multipliers"]))
    pairs = [tuple(pair) for pair in facts["pairs"]] or list(combinations(range(len(sizes)), 2))
    tables = {(i, j): (factor[sizes[i] * sizes[j]], sizes[i], sizes[j]) for i, j in pairs}
    kinds = Counter(tables.values())
    coming = sum(count * _squared(table, False, False) // 2 for table, count in kinds.items())
    if relation == "add_or_remove_one":
        l1 = sum(count * 4 * k * (m - 1) * (n - 1) for (k, m, n), count in kinds.items())
        return {"l1": min(l1, coming), "l2_squared": coming, "sup": max(k * (m - 1) * (n - 1) for k, m, n in kinds)}
    l2_squared = sum(_largest_part_sensitivity(sizes, tables, part) for part in _parts(tables))
    several = facts["classes"] > 1
    l1 = sum(count * max(_l1(table), 8 * table[0] * (table[1] - 1) * (table[2] - 1) * several) for table, count in kinds.items())
    l2_squared = max(l2_squared, 2 * coming * several)
    sup = max(k * max(m * (n - 1), n * (m - 1)) for k, m, n in kinds)
    return {"l1": min(l1, l2_squared), "l2_squared": l2_squared, "sup": sup}


def _squared(table: Table, first: Any, second: Any) -> int:
    """Return twice the squares, less twice the inner products of rows that differ in the first column, the second, both or none.

    "None" stands for rows of different classes, whose inner products are 0.
    """
    k, m, n = table
    own = (m * m - m) * (n * n - n)
    if not (first or second):
        return 2 * k * k * own
    return 2 * k * k * (own - (-m if first else m * m - m) * (-n if second else n * n - n))


def _l1(table: Table) -> int:
    """Return the largest sum of absolute entries over the three ways to differ, counted entry by entry."""
    k, m, n = table
    found = []
    for first, second in ((1, 0), (0, 1), (1, 1)):
        total = 0
        for (a, many), (b, often) in product(_places(m, first), _places(n, second)):
            here = (m * (a == 0) - 1) * (n * (b == 0) - 1)
            there = (m * (a == first) - 1) * (n * (b == second) - 1)
            total += many * often * abs(here - there)
        found.append(total)
    return k * max(found)


def _places(size: int, differs: int) -> list[tuple[int, int]]:
    """Return codes with their multiplicity: that of the one row, that of the other, and one for all others."""
    places = [(code, 1) for code in range(1 + differs)]
    return places + [(2, size - len(places))] * (size > len(places))


def _parts(pairs: Iterable[tuple[int, int]]) -> list[set[int]]:
    """Group columns that share tables, also through others: each group moves by itself."""
    parts: list[set[int]] = []
    for pair in pairs:
        meeting = [part for part in parts if part & set(pair)]
        parts = [part for part in parts if not part & set(pair)] + [set(pair).union(*meeting)]
    return parts


def _largest_part_sensitivity(sizes: Sequence[int], tables: dict[tuple[int, int], Table], part: set[int]) -> Any:
    """Return the most that two rows of a class move the tables of a part, over all sets of columns in which they differ.

    If all columns meet, columns of one size are alike, and only how many of them differ counts. If there are too many sets to try: each
    table at its worst, or all pairs at the largest factor, whichever is less.
    """
    own = {pair: table for pair, table in tables.items() if pair[0] in part}
    alike: dict[Any, list[int]] = {}
    for column in sorted(part):
        alike.setdefault(sizes[column] if len(own) == comb(len(part), 2) else (column,), []).append(column)
    groups = list(alike.values())
    if prod(len(group) + 1 for group in groups) > _TRIED:
        alone = sum(max(_squared(table, *how) for how in ((1, 0), (0, 1), (1, 1))) for table in own.values())
        largest = max(k * m * n for k, m, n in own.values())
        return min(alone, largest**2 * _largest_pair_sum([1 - Fraction(1, sizes[column]) for column in part]))
    between = _group_functions(own, groups)
    return max(sum(between[key](numbers) for key in between) for numbers in product(*(range(len(group) + 1) for group in groups)))


def _group_functions(own: dict[tuple[int, int], Table], groups: list[list[int]]) -> dict[tuple[int, int], Any]:
    """Return, for each two groups (or one with itself), how far their tables move as a function of how many columns of each differ."""
    out: dict[tuple[int, int], Any] = {}
    for d, e in combinations_with_replacement(range(len(groups)), 2):
        first, second = groups[d][0], groups[e][-1]
        table = own.get((min(first, second), max(first, second)))
        if table is None or first == second:
            continue
        if first > second:
            table = table[0], table[2], table[1]
        one, other, both = (_squared(table, *how) for how in ((1, 0), (0, 1), (1, 1)))
        sizes = len(groups[d]), len(groups[e])
        if d == e:
            out[d, e] = lambda x, d=d, s=sizes, one=one, both=both: x[d] * (s[0] - x[d]) * one + x[d] * (x[d] - 1) // 2 * both
        else:
            out[d, e] = lambda x, d=d, e=e, s=sizes, one=one, other=other, both=both: (
                x[d] * (s[1] - x[e]) * one + (s[0] - x[d]) * x[e] * other + x[d] * x[e] * both
            )
    return out


def _largest_pair_sum(a: list[Fraction]) -> Fraction:
    """Return the largest sum over pairs of 2 (a a' - b b') at equal factors; b = a - 1 in the columns that differ, those of least a."""
    a, best = sorted(a), Fraction(0)
    pairs: Any = sum(a) ** 2 - sum(x * x for x in a)
    for n_differing in range(len(a) + 1):
        b: Any = [x - (place < n_differing) for place, x in enumerate(a)]
        best = max(best, pairs - sum(b) ** 2 + sum(x * x for x in b))
    return best
