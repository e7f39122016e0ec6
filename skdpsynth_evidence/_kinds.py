"""Statistics of evidence in a few lines each, and their sensitivities, without code of the mechanisms.

Each kind of statistic is written down twice: by its counts on tables so small that all neighbors can be tried, and as a formula for any
size. `derive_sensitivity` uses the formula only after brute force has agreed with it, in every norm, under both relations, for units of one
row and of two.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product
from typing import Any

import numpy as np

from skdpsynth_evidence._pairs import interaction_sensitivity

Facts = dict[str, Any]
Norms = dict[str, Any]
REPLACE_ONE = "replace_one"
RELATIONS = (REPLACE_ONE, "add_or_remove_one")
NORMS = ("l1", "l2_squared", "sup", "nuclear")
_FIRST_STEPS = 3  # of a stream without end, which are tried


@dataclass(frozen=True)
class Kind:
    """A kind of statistic."""

    formula: Callable[[Facts, str], Norms]  # (facts, relation) -> the sensitivity to one row, by norm
    small: tuple[Facts, ...]  # facts small enough to try all neighbors
    rows: Callable[[Facts], list]  # facts -> all possible rows
    values: Callable[[Sequence, Facts, str], Iterator[list[int]]]  # (rows, facts, relation) -> the numbers, in each public world
    exact: tuple[str, ...] = ("l1", "l2_squared", "sup")  # norms in which small tables attain the formula; in others it is an upper bound


def derive_sensitivity(statistic: Facts, relation: str, norm: str, n_rows: int) -> Fraction | None:
    """Return how far `n_rows` rows move a statistic in a norm, or None for an unknown kind.

    The rows are replaced, come or go one after the other, so by the triangle inequality norms grow by `n_rows`, and squared norms by its
    square. So they do by the `weight` of a statistic: its rows are weighed, and the whole-number weights of one unit sum to at most that,
    as if it had so many rows, each of which is replaced, comes or goes.
    """
    kind = KINDS.get(statistic["kind"])
    if kind is None:
        return None
    _prove(statistic["kind"])
    relations = RELATIONS if "weight" in statistic and relation == REPLACE_ONE else (relation,)
    moved = max(Fraction(kind.formula(statistic, each)[norm]) for each in relations)
    return moved * (n_rows * statistic.get("weight", 1)) ** (2 if norm == "l2_squared" else 1)


def derive_size(statistic: Facts, relation: str, stated: int | None) -> int | None:
    """Return how many numbers a statistic has, as stated where its facts do not say; but no table has no number."""
    size = SIZES.get(statistic["kind"])
    return 0 if statistic.get("tables") == 0 else stated if size is None else int(size(statistic, relation))


@lru_cache(maxsize=64)
def _prove(name: str) -> None:
    kind = KINDS[name]
    for facts in kind.small:
        for relation in RELATIONS:
            if any(len(found) != derive_size({"kind": name, **facts}, relation, len(found)) for found in kind.values((), facts, relation)):
                raise AssertionError(f"{name} of {facts} under {relation}: the size is wrong")
            formula = kind.formula(facts, relation)
            for n_rows in (1, 2):
                found = brute_force_sensitivity(name, facts, relation, n_rows)
                for norm in formula:
                    most = formula[norm] * n_rows ** (2 if norm == "l2_squared" else 1)
                    exact = n_rows == 1 and norm in kind.exact
                    agree = abs(found[norm] - most) <= 1e-9 * most if exact else found[norm] <= most * (1 + 1e-9)
                    if not agree:
                        message = f"{n_rows} rows move {norm} by {found[norm]}, the formula says {most}"
                        raise AssertionError(f"{name} of {facts} under {relation}: {message}")


def brute_force_sensitivity(name: str, facts: Facts, relation: str, n_rows: int) -> Norms:
    """Return how far `n_rows` rows move a small statistic: try all tables of these rows and one more, with all their neighbors.

    Neighbors share no row, or one, which matters to statistics that are no sums over rows.
    """
    kind = KINDS[name]
    rows = kind.rows(facts)
    most = dict.fromkeys(NORMS, Fraction(0))
    crowd = len(rows) ** (2 * n_rows + 1)
    for shared in [(), *((row,) for row in rows if crowd < 20_000)]:
        tables = [tuple(kind.values((*shared, *own), facts, relation)) for own in product(rows, repeat=n_rows)]
        bare = tuple(kind.values(shared, facts, relation))
        is_replaced = relation == REPLACE_ONE and not name.endswith("_over_time")  # an event of a stream only comes or goes
        pairs = combinations(tables, 2) if is_replaced else ((bare, table) for table in tables)
        for first, second in pairs:
            for a, b in zip(first, second, strict=True):
                n_blocks = facts.get("classes", 1) if "nuclear" in kind.exact else 0
                _update_largest(most, [x - y for x, y in zip(a, b, strict=True)], n_blocks)
    return most


def _update_largest(most: Norms, moved: list[int], n_blocks: int) -> None:
    """Keep the largest norms; so many symmetric matrices lie on one diagonal."""
    sizes = list(map(abs, moved))
    found: Norms = {"l1": sum(sizes), "l2_squared": sum(x * x for x in sizes), "sup": max(sizes, default=0)}
    if n_blocks:
        side = math.isqrt(len(moved) // n_blocks)
        found["nuclear"] = float(np.abs(np.linalg.eigvalsh(np.array(moved, dtype=float).reshape(n_blocks, side, side))).sum())
    for norm, value in found.items():
        most[norm] = max(most[norm], value)


# Kinds: first their values, then their sensitivities.


def _units(n_tables: Any, relation: str) -> Norms:
    moved = n_tables * (2 if relation == REPLACE_ONE else 1)
    return {"l1": moved, "l2_squared": moved, "sup": min(1, moved)}


def _counts(rows: Sequence, place: int, size: int) -> list[int]:
    return [sum(row[place] == code for row in rows) for code in range(size)]


def _codes(*sizes: int) -> list:
    return list(product(*map(range, sizes)))


def _units_of_tables(facts: Facts, relation: str) -> Norms:
    return _units(facts["tables"], relation)


def _rows_of_tables(facts: Facts) -> list:
    return _codes(*[3, 2, 2][-facts["tables"] :])


def _tables(rows: Sequence, facts: Facts, relation: str) -> Iterator[list[int]]:
    yield [count for place in range(facts["tables"]) for count in _counts(rows, place, 2 if facts["tables"] > 1 else 3)]


def _row_count(rows: Sequence, facts: Facts, relation: str) -> Iterator[list[int]]:
    yield [len(rows)]


def _expand(pairs: Sequence) -> list[int]:
    return [number for number, count in pairs for _ in range(count)]


def _thresholds(rows: Sequence, facts: Facts, relation: str) -> Iterator[list[int]]:
    kept = [(place, size) for place, size in enumerate(_expand(facts["sizes"]))]
    yield [n for place, size in kept for n in _counts(rows, place, size)[: 1 if size == 2 and relation == REPLACE_ONE else size]]


def _thresholds_sensitivity(facts: Facts, relation: str) -> Norms:
    moved = sum(count * (min(size, 2) - (size == 2) if relation == REPLACE_ONE else 1) for size, count in facts["sizes"])
    return {"l1": moved, "l2_squared": moved, "sup": min(1, moved)}


def _trees(rows: Sequence, facts: Facts, relation: str) -> Iterator[list[int]]:
    nodes = [(place, depth - level, level) for place, depth in enumerate(_expand(facts["depths"])) for level in _counted_levels(depth)]
    yield [sum(row[i] >> up == node for row in rows) for i, up, level in nodes for node in range(1 << level)]


def _counted_levels(depth: int) -> list[int]:
    """Return the counted levels of a tree: its cells, each third level above them, and each second one of the first six."""
    fine = [level for level in range(7, depth + 1) if (depth - level) % 3 == 0]
    coarse = min(fine, default=depth + 3) - 3
    return [*range(coarse, 0, -2), *fine]


def _distances(rows: Sequence, facts: Facts, relation: str) -> Iterator[list[int]]:
    n_tables, size = facts["tables"], 3 if facts["tables"] == 1 else 2
    for expected in product(range(3), repeat=size):
        yield [sum(abs(n - e) for n, e in zip(_counts(rows, i, size), expected, strict=True)) for i in range(n_tables)]


def _moves_of_all(name: str) -> Callable[[Facts, str], Norms]:
    """Return the formula of as many numbers as a fact says, or of one of a rank: a row moves each by 1, or by 2 if it is replaced."""

    def formula(facts: Facts, relation: str) -> Norms:
        n_values, most = 1 if "rank" in facts else facts[name], 2 if relation == REPLACE_ONE else 1
        return {"l1": most * n_values, "l2_squared": most**2 * n_values, "sup": most if n_values else 0}

    return formula


def _dependences(rows: Sequence, facts: Facts, relation: str) -> Iterator[list[int]]:
    """Yield, for pairs of columns of three codes and two, the distance of the farthest split from the nearest independent table."""
    shares = (Fraction(0), Fraction(1, 3), Fraction(1, 2), Fraction(1))
    for n in (1, 2, 4):
        tables = [[round(n * x * y) for x in (p, 1 - p) for y in (q, 1 - q)] for p, q in product(shares, repeat=2)]
        found = []
        for place in range(facts["pairs"]):
            splits = [[[(row[place] in up) + 2 * row[-1] for row in rows].count(cell) for cell in range(4)] for up in ((0,), (0, 1))]
            found.append(max(min(sum(abs(a - b) for a, b in zip(cells, table, strict=True)) for table in tables) for cells in splits))
        yield [sorted(found)[-facts["rank"]]] if "rank" in facts else found


def _parities(rows: Sequence, facts: Facts, relation: str) -> Iterator[list[int]]:
    """Yield, class by class, the sums of the products of signs of each set; a row has these products, 0 for -1, and ends with its class."""
    yield [sum(2 * row[i] - 1 for row in rows if row[-1] == c) for c in range(facts["classes"]) for i in range(facts["sets"])]


def _parity_gaps(rows: Sequence, facts: Facts, relation: str) -> Iterator[list[int]]:
    """Yield the sums over two classes of the distances of sums from what was expected."""
    n = facts["sets"]
    (sums,) = _parities(rows, {**facts, "classes": 2}, relation)
    for expected in product(range(-1, 2), repeat=2):
        yield [sum(abs(sums[c * n + i] - e) for c, e in enumerate(expected)) for i in range(n)]


def _utilities(rows: Sequence, facts: Facts, relation: str) -> Iterator[list[int]]:
    """Yield the utility of one candidate, for each set of points that it may have drawn."""
    if facts["scoring"] == "captured_variance":
        yield [sum(row[0] for row in rows)]
        return
    lists, m, n = _lists_of(facts), len(rows), facts["points"]
    for drawn in product(range(facts.get("cells", 3)), repeat=n):
        total = 0
        for place in range(lists):
            ours, theirs = (_counts(table, where, facts.get("cells", 3)) for table, where in ((rows, place), ([(d,) for d in drawn], 0)))
            if facts["scoring"] == "sliced_wasserstein":
                ours, theirs = [sum(ours[: i + 1]) for i in range(len(ours))], [sum(theirs[: i + 1]) for i in range(len(theirs))]
            total += sum(abs(n * a - m * b) for a, b in zip(ours, theirs, strict=True))
        yield [-total]


def _lists_of(facts: Facts) -> int:
    return int(facts["directions"] if facts["scoring"] == "sliced_wasserstein" else facts["pairs"])


def _rows_of_utilities(facts: Facts) -> list:
    if facts["scoring"] == "captured_variance":
        return [(share,) for share in range(facts["most"] + 1)]
    return _codes(*[facts.get("cells", 3)] * _lists_of(facts))


def _utilities_sensitivity(facts: Facts, relation: str) -> Norms:
    if facts["scoring"] == "captured_variance":
        one = facts["most"]
    elif facts["scoring"] == "sliced_wasserstein":
        one = facts["directions"] * (facts["cells"] - 1) * facts["points"]
    else:
        one = 2 * facts["points"] * facts["pairs"]
    return {"l1": facts["candidates"] * one, "l2_squared": facts["candidates"] * one**2, "sup": one}


def _sums(rows: Sequence, facts: Facts, relation: str) -> Iterator[list[int]]:
    yield [sum(row[i] for row in rows) for i in range(sum(count for *_, count in facts["ranges"]))]


def _sums_sensitivity(facts: Facts, relation: str) -> Norms:
    sides = [((high - low) if relation == REPLACE_ONE else max(abs(low), abs(high)), count) for low, high, count in facts["ranges"]]
    l1, l2_squared = sum(side * count for side, count in sides), sum(side**2 * count for side, count in sides)
    return {"l1": l1, "l2_squared": l2_squared, "sup": max(side for side, _ in sides)}


def _rows_of_moments(facts: Facts) -> list:
    return list(product(range(-facts["largest"], facts["largest"] + 1), repeat=facts["features"]))


def _packed_moments(rows: Sequence, facts: Facts, relation: str) -> Iterator[list[int]]:
    d, weight = facts["features"], facts["mean_weight"]
    products = [sum(row[i] * row[j] for row in rows) for i in range(d) for j in range(i, d)]
    yield [weight * sum(row[i] for row in rows) for i in range(d)] + products


def _packed_moments_sensitivity(facts: Facts, relation: str) -> Norms:
    """If replaced: with Q = sum of |y - y'| in [0, 2 K d] the sums move by w Q and the products by c (2 K d Q - Q^2), c = (d + 1) / 2d."""
    d, K, w = facts["features"], facts["largest"], facts["mean_weight"]
    n_products = d * (d + 1) // 2
    if relation != REPLACE_ONE:
        return {"l1": d * w * K + n_products * K**2, "l2_squared": d * (w * K) ** 2 + n_products * K**4, "sup": K * max(w, K)}
    c = Fraction(d + 1, 2 * d)
    best = min(Fraction(2 * K * d), (w + 2 * K * d * c) / (2 * c))
    l1 = w * best + c * (2 * K * d * best - best**2)
    return {"l1": l1, "l2_squared": d * (2 * K * w) ** 2 + (K**2 * d) ** 2, "sup": max(2 * K * w, K**2 * (2 if d > 1 else 1))}


def _gram(rows: Sequence, facts: Facts, relation: str) -> Iterator[list[int]]:
    border = [facts["coordinate"]] if facts["coordinate"] else []
    long = [[*row, *border] for row in rows]
    side = range(facts["features"] + len(border))
    yield [sum(row[i] * row[j] for row in long) for i in side for j in side]


def _rows_of_gram(facts: Facts) -> list:
    reach = math.isqrt(facts["squared_radius"])
    every = product(range(-reach, reach + 1), repeat=facts["features"])
    return [row for row in every if sum(x * x for x in row) <= facts["squared_radius"]]


def _gram_sensitivity(facts: Facts, relation: str) -> Norms:
    """Use eigenvalues: z z' has |z|^2, at most T; z z' - y y' has two of different signs, neither beyond T."""
    side, total = facts["features"] + bool(facts["coordinate"]), facts["squared_radius"] + facts["coordinate"] ** 2
    both = 2 if relation == REPLACE_ONE and side > 1 else 1
    l2_squared = both * total**2
    l1 = total if side == 1 else min(side * (math.isqrt(l2_squared) + 1), l2_squared)
    return {"l1": l1, "l2_squared": l2_squared, "sup": total, "nuclear": both * total}


def _codes_of_columns(facts: Facts) -> list[list[list[int]]]:
    """Return, for each column and each of its levels, the code: Helmert's coordinates of a regular simplex, rounded by their squares."""
    found = []
    for size, scale in zip(facts["sizes"], facts["scales"], strict=True):
        codes = [[0] * (size - 1) for _ in range(size)]
        for k, level in product(range(1, size), range(size)):
            if level <= k:
                square = Fraction(scale**2 * size, (size - 1) * k * (k + 1)) * (k**2 if level == k else 1)
                codes[level][k - 1] = (-1 if level == k else 1) * ((math.isqrt(math.floor(4 * square)) + 1) // 2)
        found.append(codes)
    return found


def _coded_gram(rows: Sequence, facts: Facts, relation: str) -> Iterator[list[int]]:
    """Yield the sum of v v' in each class, v = (coordinate, codes of all columns); a row ends with its class."""
    codes, out = _codes_of_columns(facts), []
    for group in range(facts["classes"]):
        ours = [[facts["coordinate"], *(x for j, code in enumerate(codes) for x in code[row[j]])] for row in rows if row[-1] == group]
        side = range(1 + sum(facts["sizes"]) - len(facts["sizes"]))
        out += [sum(v[i] * v[j] for v in ours) for i in side for j in side]
    yield out


def _coded_gram_sensitivity(facts: Facts, relation: str) -> Norms:
    """Use eigenvalues, as for a Gram matrix; rows of two classes move two blocks, each by one eigenvalue of |v|^2."""
    longest = facts["coordinate"] ** 2 + sum(max(sum(x * x for x in code) for code in codes) for codes in _codes_of_columns(facts))
    changes, side = 2 if relation == REPLACE_ONE else 1, 1 + sum(facts["sizes"]) - len(facts["sizes"])
    l2_squared = changes * longest**2
    return {"l1": min(changes * side * longest, l2_squared), "l2_squared": l2_squared, "sup": longest, "nuclear": changes * longest}


def _interactions(rows: Sequence, facts: Facts, relation: str) -> Iterator[list[int]]:
    """Yield k (m I - J) N (n I - J) of each pair of columns, in each class; a row ends with its class."""
    sizes, factor, out = facts["sizes"], dict(map(tuple, facts["multipliers"])), []
    for i, j in facts["pairs"] or combinations(range(len(sizes)), 2):
        for group in range(facts["classes"]):
            ours = [row for row in rows if row[-1] == group]
            for a, b in product(range(sizes[i]), range(sizes[j])):
                cells = (((row[i] == a) * sizes[i] - 1) * ((row[j] == b) * sizes[j] - 1) for row in ours)
                out.append(factor[sizes[i] * sizes[j]] * sum(cells))
    yield out


def _rows_of_pairs(facts: Facts) -> list:
    return _codes(*facts["sizes"], facts["classes"])


def _pair(sizes: tuple[int, ...], classes: int = 1) -> Facts:
    cells = {a * b: 1 + (a * b < 6) for a, b in combinations(sizes, 2)}
    return {"sizes": sizes, "pairs": (), "classes": classes, "multipliers": tuple(cells.items())}


# Streams: an event is at one time and moves the column of that time. Neighbors differ in one event.


def _blocks(rows: Sequence, facts: Facts, relation: str) -> Iterator[list[int]]:
    """Yield the blocks whose signed sums are the counts of all times, by the digits of time; a row is the time of an event."""
    base, low = facts["base"], 0 if facts["base"] == 2 else -(facts["base"] // 2)
    used: set[tuple[int, int]] = set()
    for t in range(1, _last(facts) + 1):
        digits, rest = [], t
        while rest:
            digits.append((rest - low) % base + low)
            rest = (rest - digits[-1]) // base
        start = 0
        for level in reversed(range(len(digits))):
            end = start + digits[level] * base**level
            used |= {(level, first // base**level) for first in range(min(start, end), max(start, end), base**level)}
            start = end
        assert start == t
    yield [facts["sensitivity"] * sum(time // base**level == index for (time,) in rows) for level, index in sorted(used)]


def _last(facts: Facts) -> int:
    return int((facts["base"] ** facts["levels"] - 1) // (1 if facts["base"] == 2 else 2))


def _blocks_sensitivity(facts: Facts, relation: str) -> Norms:
    s, h = facts["sensitivity"], facts["levels"]
    return {"l1": h * s, "l2_squared": h * s * s, "sup": s}


def _root_sensitivity(facts: Facts, relation: str) -> Norms:
    """Use that column j holds the first entries of the first column, times its gain.

    The first column, of the square root of the matrix of prefix sums, has entries C(2k, k) / 4^k, in fixed point. Gains are whole numbers
    that scale columns to the length of the first one or slightly less.
    """
    s, more = facts["sensitivity"], 256  # bits more than are kept are as good as fractions, which would grow
    entry, column = 1 << facts["bits"] + more, []
    for k in range(1, facts["steps"] + 1):
        column.append(round(Fraction(entry, 1 << more)))
        entry = entry * (2 * k - 1) // (2 * k)
    sums, lengths = [sum(column)], [sum(e * e for e in column)]
    for entry in reversed(column[1:]):
        sums.append(sums[-1] - entry)
        lengths.append(lengths[-1] - entry * entry)
    gains = [math.isqrt(facts["gain"] ** 2 * lengths[0] // length) for length in lengths]
    l1 = max(gain * own for gain, own in zip(gains, sums, strict=True))
    l2_squared = max(gain * gain * own for gain, own in zip(gains, lengths, strict=True))
    return {"l1": s * l1, "l2_squared": s * l2_squared, "sup": max(gains) * column[0] * math.isqrt(s)}


def _root(rows: Sequence, facts: Facts, relation: str) -> Iterator[list[int]]:
    """Yield the released sums; rows are (time, step of each of two counters), of squared length within the sensitivity."""
    steps = range(facts["steps"])
    column = [round(Fraction((1 << facts["bits"]) * math.comb(2 * k, k), 4**k)) for k in steps]
    lengths = [sum(column[t - j] ** 2 for t in steps if t >= j) for j in steps]
    gains = [math.isqrt(facts["gain"] ** 2 * lengths[0] // length) for length in lengths]
    yield [sum(gains[time] * column[t - time] * d[i] for time, *d in rows if time <= t) for i in range(2) for t in steps]


def _endless_root_sensitivity(facts: Facts, relation: str) -> Norms:
    """Use that the squares of each column of R sum to 1, however long the stream: whole numbers below 2^bits R have no larger sums."""
    s, unit = facts["sensitivity"], 1 << facts["bits"]
    return {"l1": unit**2 * s, "l2_squared": unit**2 * s, "sup": unit * math.isqrt(s)}


def _endless_root(rows: Sequence, facts: Facts, relation: str) -> Iterator[list[int]]:
    """Yield the first steps: R[t, j]^2 is g(j) / ((t + 2)(1 + 3(t - j))), and psi(j + 2) - psi(1/3) is a harmonic number and constants."""
    constant = math.pi / (2 * math.sqrt(3)) + 1.5 * math.log(3)

    def entry(t: int, j: int) -> int:
        g = (3 * (j + 2) - 1) / (sum(1 / i for i in range(1, j + 2)) + constant)
        return math.floor((1 << facts["bits"]) * math.sqrt(g / ((t + 2) * (1 + 3 * (t - j)))) * (1 - 2.0**-40))

    steps = range(_FIRST_STEPS)
    yield [sum(entry(t + 1, time + 1) * d[i] for time, *d in rows if time <= t) for i in range(2) for t in steps]


def _rows_of_root(facts: Facts) -> list:
    steps = [d for d in product(range(-2, 3), repeat=2) if sum(x * x for x in d) <= facts["sensitivity"]]
    return [(time, *d) for time in range(facts.get("steps", _FIRST_STEPS)) for d in steps]


def _fact_grid(**facts: Any) -> tuple[Facts, ...]:
    return tuple(dict(zip(facts, chosen, strict=True)) for chosen in product(*facts.values()))


_UTILITIES = (
    *_fact_grid(scoring=["sliced_wasserstein"], candidates=[1], directions=[1, 2], cells=[3], points=[2]),
    *_fact_grid(scoring=["marginals"], candidates=[1], pairs=[1, 2], points=[2]),
    *_fact_grid(scoring=["captured_variance"], candidates=[1], most=[3]),
)
_SIZES = ((2, 2), (2, 3), (3, 3), (2, 2, 2))
_PAIRS = (*map(_pair, _SIZES), _pair((2, 2), 2), {"sizes": (2, 2, 2), "pairs": ((0, 1), (1, 2)), "classes": 1, "multipliers": ((4, 3),)})
_BLOCKS = tuple({"base": base, "levels": levels, "sensitivity": s} for base, levels in ((3, 1), (3, 2), (5, 2), (2, 3)) for s in (1, 2))

_PACKED = (*_fact_grid(features=[1], largest=[2], mean_weight=[0, 1, 6]), *_fact_grid(features=[2], largest=[1], mean_weight=[0, 2, 6]))
_THRESHOLDS = _fact_grid(sizes=[((2, 1), (3, 1)), ((2, 2),)])
_DEPENDENCES = ({"pairs": 1}, {"pairs": 2}, {"pairs": 2, "rank": 1}, {"pairs": 2, "rank": 2})
_ROOTS, _ENDLESS = _fact_grid(steps=[1, 3], bits=[8], gain=[64], sensitivity=[1, 2]), _fact_grid(bits=[8, 30], sensitivity=[1, 2])
_CODED = (
    {"sizes": (2, 2, 2), "scales": (3, 3, 3), "coordinate": 3, "classes": 1},
    {"sizes": (3, 2), "scales": (5, 4), "coordinate": 6, "classes": 2},
    {"sizes": (4, 1), "scales": (7, 3), "coordinate": 2, "classes": 2},
)
_GRAMS = (*_fact_grid(features=[2], squared_radius=[4], coordinate=[0, 2]), {"features": 1, "squared_radius": 4, "coordinate": 0})

KINDS: dict[str, Kind] = {
    "tables": Kind(_units_of_tables, _fact_grid(tables=[1, 2]), _rows_of_tables, _tables),
    "row_count": Kind(lambda f, relation: _units(relation != REPLACE_ONE, relation), ({},), lambda f: _codes(2), _row_count),
    "first_cell": Kind(lambda f, _: _units(1, ""), ({},), lambda f: _codes(3), lambda rows, *_: iter([_counts(rows, 0, 1)])),
    "thresholds": Kind(_thresholds_sensitivity, _THRESHOLDS, lambda f: _codes(*_expand(f["sizes"])), _thresholds),
    "trees": Kind(
        lambda f, relation: _units(sum(count * len(_counted_levels(depth)) for depth, count in f["depths"]), relation),
        _fact_grid(depths=[((1, 2),), ((3, 1),), ((1, 1), (2, 1))]),
        lambda f: _codes(*(1 << depth for depth in _expand(f["depths"]))),
        _trees,
    ),
    "levels_shown": Kind(_units_of_tables, _fact_grid(tables=[1]), lambda f: _codes(3), _tables),
    "distances": Kind(_moves_of_all("tables"), _fact_grid(tables=[1, 2]), _rows_of_tables, _distances),
    "dependences": Kind(_moves_of_all("pairs"), _DEPENDENCES, lambda f: _codes(*[3, 2][-f["pairs"] :], 2), _dependences, ("sup",)),
    "parities": Kind(_moves_of_all("sets"), _fact_grid(sets=[1, 2], classes=[2]), lambda f: _codes(*[2] * f["sets"], 2), _parities),
    "parity_gaps": Kind(_moves_of_all("sets"), _fact_grid(sets=[1, 2]), lambda f: _codes(*[2] * f["sets"], 2), _parity_gaps),
    "utilities": Kind(_utilities_sensitivity, _UTILITIES, _rows_of_utilities, _utilities, ()),
    "sum": Kind(
        _sums_sensitivity,
        _fact_grid(ranges=[((-1, 2, 1),), ((-1, 1, 1), (-2, 0, 1))]),
        lambda f: list(product(*(range(low, high + 1) for low, high, count in f["ranges"] for _ in range(count)))),
        _sums,
    ),
    "packed_moments": Kind(_packed_moments_sensitivity, _PACKED, _rows_of_moments, _packed_moments, ("sup",)),
    "gram": Kind(_gram_sensitivity, _GRAMS, _rows_of_gram, _gram, ("nuclear",)),
    "coded_gram": Kind(_coded_gram_sensitivity, _CODED, _rows_of_pairs, _coded_gram, ("l2_squared", "nuclear")),
    "interactions": Kind(interaction_sensitivity, _PAIRS, _rows_of_pairs, _interactions, ("l2_squared", "sup")),
    "tree_over_time": Kind(_blocks_sensitivity, _BLOCKS, lambda f: [(t,) for t in range(_last(f))], _blocks),
    "square_root_over_time": Kind(_root_sensitivity, _ROOTS, _rows_of_root, _root),
    "endless_root_over_time": Kind(_endless_root_sensitivity, _ENDLESS, _rows_of_root, _endless_root, ()),
    "sparse_over_time": Kind(  # of the cells that one comparison sees, `sensitivity` move, each by one
        lambda f, _: {"l1": f["sensitivity"], "l2_squared": f["sensitivity"], "sup": 1},
        _fact_grid(sensitivity=[1, 2]),
        lambda f: [d for d in product((-1, 0, 1), repeat=2) if sum(map(abs, d)) <= f["sensitivity"]],
        lambda rows, *_: iter([[sum(row[i] for row in rows) for i in range(2)]]),
    ),
}

SIZES: dict[str, Callable[[Facts, str], int]] = {
    **dict.fromkeys(("row_count", "first_cell"), lambda f, _: 1),
    "thresholds": lambda f, r: sum(count * (1 if size == 2 and r == REPLACE_ONE else size) for size, count in f["sizes"]),
    "trees": lambda f, _: sum(count << level for depth, count in f["depths"] for level in _counted_levels(depth)),
    "distances": lambda f, _: f["tables"],
    "dependences": lambda f, _: 1 if "rank" in f else f["pairs"],
    "parities": lambda f, _: f["sets"] * f["classes"],
    "parity_gaps": lambda f, _: f["sets"],
    "utilities": lambda f, _: f["candidates"],
    "sum": lambda f, _: sum(count for *_, count in f["ranges"]),
    "packed_moments": lambda f, _: f["features"] * (f["features"] + 3) // 2,
    "gram": lambda f, _: (f["features"] + bool(f["coordinate"])) ** 2,
    "coded_gram": lambda f, _: f["classes"] * (1 + sum(f["sizes"]) - len(f["sizes"])) ** 2,
    "interactions": lambda f, _: (
        f["classes"] * sum(f["sizes"][i] * f["sizes"][j] for i, j in f["pairs"] or combinations(range(len(f["sizes"])), 2))
    ),
}
