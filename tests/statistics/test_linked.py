"""Weighted rows of linked tables: each root with all that hangs on it is one row, and moves sums by no more."""

from fractions import Fraction
from itertools import combinations, combinations_with_replacement, pairwise, permutations, product

import numpy as np
import pytest
from internals import (
    ChildRows,
    Forest,
    HistoryRows,
    SiblingRows,
    TableRows,
    Trees,
    Weights,
    _linked,
    fold_symmetric,
    symmetric_precision,
    total_weights,
    unfold_symmetric,
)
from laws import refuses

from skdpsynth.domain import Children
from skdpsynth.persistence import from_bytes, to_bytes
from skdpsynth.statistics import CodedGram, Interactions, Marginals, Sensitivity

RELATIONS = ["replace_one", "add_or_remove_one"]
ABSENT = (2, 2)  # codes of a row that is not there
each_relation = pytest.mark.parametrize("relation", RELATIONS)


def link(table, of, most, least=0, head=None):
    return Children(table, of=of, key="id", most=most, least=least, head=head)


def tables_of(roots, links):
    """Linked tables of rows that are written as (codes, {table: [rows]}); the number of children is a code as well."""
    rows, owners = {links[0].of: list(roots)}, {}
    for each in links:
        rows[each.table], owners[each.table] = [], []
        for place, (_, below) in enumerate(rows[each.of]):
            rows[each.table] += below[each.table]
            owners[each.table] += [place] * len(below[each.table])
    columns = {}
    for name, own in rows.items():
        counts = [[len(below[each.table]) for _, below in own] for each in links if each.of == name]
        width = {links[0].of: 1}.get(name, 2)
        columns[name] = [np.array([codes[i] for codes, _ in own], dtype=np.int64) for i in range(width)]
        columns[name] += [np.array(count, dtype=np.int64) for count in counts]
    owners = {name: np.array(owner, dtype=np.int64) for name, owner in owners.items()}
    return Forest(links[0].of, columns, owners, {each.table: each.of for each in links})


def codes_of(row, links, name):
    return (*row[0], *(len(row[1][each.table]) for each in links if each.of == name))


def masses(root, links, table):
    """The rows of a table that hang on a root, each behind its parent's codes, as (mass of the parent, parent, its children)."""
    above = [(Fraction(1), root)]
    for each in path_to(links, table):
        found = [(mass, parent, parent[1][each.table]) for mass, parent in above]
        above = [(mass / len(children), child) for mass, _, children in found for child in children]
    return found


def path_to(links, table):
    of = {each.table: each for each in links}
    path = [of[table]]
    while path[0].of in of:
        path.insert(0, of[path[0].of])
    return path


def defined(root, links, table, family):
    """The measure on virtual rows that a root stands for, by its definition."""
    measure = {}
    parent_table = path_to(links, table)[-1].of
    for mass, parent, children in masses(root, links, table):
        k, above, own = len(children), codes_of(parent, links, parent_table), [codes_of(child, links, table) for child in children]
        rows = {
            "children": [above + each for each in own],
            "few": [above + each for each in own],
            "siblings": [a + b for a, b in permutations(own, 2)],
            "history": [above + a + b for a, b in pairwise([*own, *([ABSENT] * (2 - k))])],
        }[family]
        assert family in ("children", "few") or len(rows) == (k * (k - 1) if family == "siblings" else max(k - 1, 1))
        for row in rows:
            measure[row] = measure.get(row, 0) + mass / (max(k, links[-1].most) if family == "few" else len(rows))
    return measure


def found_measure(columns, total):
    measure = {}
    for *row, weight in zip(*(column.tolist() for column in columns), strict=True):
        measure[tuple(row)] = measure.get(tuple(row), 0) + Fraction(weight, total)
    return measure


def map_of(family, table, links):
    totals = total_weights(links)
    return {
        "rows": lambda: TableRows(table, totals),
        "children": lambda: ChildRows(table, totals),
        "few": lambda: ChildRows(table, totals, None, links[-1].most),
        "siblings": lambda: SiblingRows(table, totals),
        "history": lambda: HistoryRows(table, totals, (2, 2)),
    }[family]()


ONE = [link("b", "a", 3)]
HEAD = [link("b", "a", 3, least=1, head={"role": "first"})]
SURE = [link("b", "a", 3, least=2)]
TWO = [link("b", "a", 2), link("c", "a", 1)]
DEEP = [link("b", "a", 2), link("c", "b", 2)]
FAMILIES = [
    *(("one", ONE, "b", family) for family in ("children", "few", "siblings", "history")),
    *(("head", HEAD, "b", family) for family in ("children", "siblings")),
    *(("sure", SURE, "b", family) for family in ("children", "few", "siblings", "history")),
    *(("two", TWO, table, family) for table in "bc" for family in ("children", "siblings")),
    *(("deep", DEEP, "c", family) for family in ("children", "few", "siblings", "history")),
]
each_family = pytest.mark.parametrize(
    ("links", "table", "family"), [f[1:] for f in FAMILIES], ids=[f"{f[0]}-{f[2]}-{f[3]}" for f in FAMILIES]
)


def rows_of(links, name, is_ordered=False):
    """All rows that there are of a table: codes of two levels, one column at the root and two below it."""
    below = [each for each in links if each.of == name]
    n_columns = 1 if name == links[0].of else 2 if len(links) == 1 else 1
    lists = []
    for each in below:
        heads, own = each.head is not None, list(rows_of(links, each.table, is_ordered))
        numbers = range(max(each.least - heads, 0), each.most - heads + 1)
        choose = (lambda own, k: product(own, repeat=k)) if is_ordered else combinations_with_replacement
        lists.append([list(children) for k in numbers for children in choose(own, k)])
    for codes in product(range(2), repeat=n_columns):
        for children in product(*lists):
            yield codes + (0,) * (2 - n_columns if name != links[0].of else 0), dict(zip((e.table for e in below), children, strict=True))


@each_family
def test_weights_are_the_masses_of_the_definition(links, table, family):
    roots, change = list(rows_of(links, "a", family == "history")), map_of(family, table, links)
    total = total_weights(links)[table]
    for root in roots[:: max(1, len(roots) // 300)]:
        columns = change(tables_of([root], links))
        assert columns[-1].dtype == np.int64
        assert found_measure(columns, total) == defined(root, links, table, family)
    together, one_by_one = {}, {}
    for root in roots:
        for row, mass in defined(root, links, table, family).items():
            one_by_one[row] = one_by_one.get(row, 0) + mass
    together = found_measure(change(tables_of(roots, links)), total)
    assert together == one_by_one


@pytest.mark.parametrize(("links", "table"), [(ONE, "a"), (ONE, "b"), (DEEP, "b"), (DEEP, "c")])
def test_rows_of_a_table_weigh_as_they_do_behind_their_parents(links, table):
    linked = tables_of(list(rows_of(links, "a"))[::7], links)
    own = map_of("rows", table, links)(linked)
    assert own[0] is linked.tables[table][0]
    if table == "a":
        assert (own[-1] == 1).all()
    else:
        behind = map_of("children", table, links)(linked)
        assert all(np.array_equal(a, b) for a, b in zip(own, behind[-len(own) :], strict=True))
        few, total = TableRows(table, total_weights(links), links[-1].most), map_of("few", table, links)(linked)[-1]
        assert np.array_equal(few(linked)[-1], total)
        assert (total < behind[-1]).any()


@pytest.mark.parametrize("most", [1, 2, 5, 16, 17, 40, 4096])
@pytest.mark.parametrize("is_history", [False, True])
def test_no_number_of_children_weighs_more_than_the_total_and_up_to_16_none_weighs_less(most, is_history):
    links = [link("b", "a", most, least=1)]
    total = total_weights(links)["b"]
    for k in {k for k in (1, 2, 3, most // 2, most - 1, most) if 1 <= k <= most}:
        linked = Forest("a", {"a": [np.zeros(1, int)], "b": [np.arange(k)]}, {"b": np.zeros(k, dtype=np.int64)}, {"b": "a"})
        children = map_of("children", "b", links)(linked)[-1]
        pairs = (HistoryRows("b", total_weights(links), (most,)) if is_history else map_of("siblings", "b", links))(linked)[-3:]
        for weights in (children, *([pairs[-1]] if k > 1 or is_history else [])):
            assert total * (1 if most <= 16 else 0.94) <= weights.sum() <= total
            assert len(set(weights.tolist())) == 1
        assert all((pairs[0] != pairs[1]).tolist())
        assert len(pairs[0]) == (max(k - 1, 1) if is_history else k * min(k - 1, 15))


def test_distances_of_many_siblings_are_spread_evenly_over_all():
    """Whatever their order: sorted siblings are as far from those they are paired with as all are from each other."""
    for k in (17, 18, 40, 301):
        first, second, _ = _linked._siblings(np.zeros(k, dtype=np.int64), np.array([k]))
        apart, all_apart = np.abs(first - second).mean(), np.mean([abs(a - b) for a, b in permutations(range(k), 2)])
        assert abs(apart / all_apart - 1) < 0.03
        assert (np.bincount(first) == 15).all()
        assert (np.bincount(second) == 15).all()


def test_totals_are_least_common_multiples_and_bounded():
    assert [total_weights([link("b", "a", most)])["b"] for most in (1, 2, 3, 10, 16, 17, 60)] == [1, 2, 6, 2520, 720720, 1 << 20, 1 << 20]
    assert total_weights([]) == {}
    assert total_weights(HEAD) == {"a": 1, "b": 2}
    deep = total_weights([link("b", "a", 16), link("c", "b", 16), link("d", "c", 16), link("e", "a", 3)])
    assert deep["c"] <= deep["d"] < 1 << 38
    assert deep["e"] == 6
    assert total_weights(DEEP) == {"a": 1, "b": 2, "c": 4}


# How far a root moves sums.


def norms(moved, n_rows=0):
    sizes = np.abs(moved)
    found = {"l1": sizes.sum(axis=-1), "l2_squared": (sizes**2).sum(axis=-1), "sup": sizes.max(axis=-1)}
    if n_rows:
        found["nuclear"] = np.abs(np.linalg.eigvalsh(moved.reshape(*moved.shape[:-1], n_rows, n_rows).astype(float))).sum(axis=-1)
    return {norm: values.max() for norm, values in found.items()}


def largest_moves(values, relation, n_rows=0):
    """The largest norms of differences of the values of two units, or of those of one: shape (n_units, n_values)."""
    if relation == "add_or_remove_one":
        return norms(values, n_rows)
    values = np.unique(values, axis=0)
    found = [norms(values[place:] - one, n_rows) for place, one in enumerate(values)]
    return {norm: max(each[norm] for each in found) for norm in found[0]}


def virtual_rows(links, table, family):
    """All rows of which roots are means, and, where mass may be lost, None for no row."""
    rows = {row for root in rows_of(links, "a", family == "history") for row in defined(root, links, table, family)}
    return sorted(rows)


def moved_by_roots(links, table, family, relation, values_of, n_rows=0):
    """How far roots move what `values_of` makes of columns and the place of weights, beside how far plain rows would."""
    roots, change = list(rows_of(links, "a", family == "history")), map_of(family, table, links)
    of_roots = np.array([values_of(change(tables_of([root], links))) for root in roots])
    plain = np.array(
        [values_of([*(np.array([code]) for code in row), np.ones(1, dtype=np.int64)]) for row in virtual_rows(links, table, family)]
    )
    if any(sum(defined(root, links, table, family).values()) < 1 for root in roots):  # some have no such row, or fewer
        plain = np.vstack([plain, np.zeros_like(plain[:1])])
    return largest_moves(of_roots, relation, n_rows), largest_moves(plain, relation, n_rows)


def weights_of(links, table, n_columns):
    return Weights(n_columns, total_weights(links)[table])


def sizes_of(links, table, family):
    return [max(4, code + 1) if code > 1 else 2 for code in np.max(virtual_rows(links, table, family), axis=0)]


def test_an_empty_family_moves_nothing():
    assert virtual_rows([link("b", "a", 1)], "b", "siblings") == []


NOT_EMPTY = [f for f in FAMILIES if not (f[0] == "two" and f[2] == "c" and f[3] == "siblings")]
each_moving = pytest.mark.parametrize(
    ("links", "table", "family"), [f[1:] for f in NOT_EMPTY], ids=[f"{f[0]}-{f[2]}-{f[3]}" for f in NOT_EMPTY]
)


@each_relation
@each_moving
def test_a_root_moves_tables_as_far_as_a_row_does_times_the_total_and_reaches_it(links, table, family, relation):
    """Columns alone, and all pairs, by the rule that weighs rows."""
    sizes = sizes_of(links, table, family)
    n = len(sizes)
    for attributes in ([(i,) for i in range(n)], list(combinations(range(n), 2))):
        rule = Marginals.over(sizes, attributes, weight=n)
        found, plain = moved_by_roots(links, table, family, relation, lambda columns, rule=rule: rule.of(columns).counts)
        weights = weights_of(links, table, n)
        told = weights.sensitivity(lambda r, a=attributes: Marginals.sensitivity(r, len(a)), relation)
        for norm, power in (("l1", 1), ("l2_squared", 2), ("sup", 1)):
            assert found[norm] <= weights.total**power * plain[norm] <= getattr(told, norm)
            if family != "few":  # of which only roots with all children have the whole mass
                assert found[norm] == weights.total**power * plain[norm]


def statistics_of(sizes):
    """Statistics of rows of some columns and last a weight: their values, how far a row moves them, and the side of a matrix."""
    n, pairs = len(sizes), list(combinations(range(len(sizes)), 2))
    over, gram = Interactions.over(sizes, pairs, 1, 1000, bits=2), CodedGram(tuple(sizes), (3,) * n, 3)
    trees, tables = Trees.over([size // 2 for size in sizes], weight=n), Marginals.over(sizes, pairs, weight=n)

    def one_class(columns):
        exact = tables.of(columns)
        return Marginals(tuple((1, *shape) for shape in exact.shapes), exact.counts)

    return {
        "interactions": (lambda columns: over.query(one_class(columns), "replace_one").values, over.sensitivity, 0),
        "trees": (lambda columns: trees.of(columns).counts, lambda r: Trees.sensitivity(r, trees.depths), 0),
        "gram": (lambda columns: gram.query(one_class(columns), "replace_one").values.ravel(), gram.sensitivity, gram.n_rows),
    }


@each_relation
@each_moving
@pytest.mark.parametrize("name", ["interactions", "trees", "gram"])
def test_a_root_moves_other_statistics_no_farther_than_a_row_does_times_the_total(links, table, family, relation, name):
    """Where all children may be alike it reaches that; pairs of unlike siblings come in both orders, so interactions of them do not."""
    sizes = sizes_of(links, table, family)
    values_of, of_row, side = statistics_of(sizes)[name]
    weights = weights_of(links, table, len(sizes))
    found, plain = moved_by_roots(links, table, family, relation, values_of, side)
    told = weights.sensitivity(of_row, relation)
    for norm in found:
        power = weights.total ** (2 if norm == "l2_squared" else 1)
        assert found[norm] <= power * plain[norm] * (1 + 1e-9)
        assert plain[norm] <= getattr(of_row(relation), norm) * (1 + 1e-9)
        assert getattr(told, norm) == power * getattr(of_row(relation), norm)  # so a row that comes moves none of these farther
        if family != "few" and (family != "siblings" or name == "trees"):
            assert found[norm] == pytest.approx(power * plain[norm])
        assert found[norm] > 0.3 * getattr(told, norm) or (name == "gram" and norm in ("l1", "sup"))  # which no noise of it covers


def test_a_root_whose_children_each_weigh_the_total_moves_more_than_is_told():
    """So the brute force above would find weights that are not shared."""
    change, total = map_of("children", "b", ONE), total_weights(ONE)["b"]
    found = change(tables_of([((0,), {"b": [((0, 1), {})] * 2})], ONE))
    unshared = [*found[:-1], np.full(2, total)]
    rule = Marginals.over([2, 4, 2, 2], [(0, 2)], weight=4)
    told = weights_of(ONE, "b", 4).sensitivity(lambda relation: Marginals.sensitivity(relation, 1), "add_or_remove_one")
    assert rule.of(found).counts.max() == told.sup < rule.of(unshared).counts.max()


# Rules that weigh rows.

RNG = np.random.default_rng(0)
CODES = [RNG.integers(0, 3, 70_000).astype(dtype) for dtype in (np.int64, np.int32, np.uint8)]


@pytest.mark.parametrize("weights", [RNG.integers(0, 9, 70_000), np.full(70_000, 2**38 - 1), (1 << RNG.integers(0, 38, 70_000))])
def test_a_weight_counts_its_row_so_often_exactly(weights):
    tables = [(0,), (2, 0, 1), (1, 2)]
    rule = Marginals.over([3, 3, 3], tables, weight=3)
    found = rule.of([*CODES, weights]).tables()
    for table, places in zip(found, tables, strict=True):
        expected = np.zeros(table.shape, dtype=np.int64)
        np.add.at(expected, tuple(CODES[i] for i in places), weights)
        assert table.dtype == np.int64
        assert np.array_equal(table, expected)
    cells = np.where(RNG.random(70_000) < 0.1, -1, RNG.integers(0, 32, 70_000))
    (levels,) = Trees.over([5], [1], weight=0).of([weights, cells]).levels()
    expected = np.zeros(32, dtype=np.int64)
    np.add.at(expected, cells[cells >= 0], weights[cells >= 0])
    assert all(np.array_equal(counts, expected.reshape(1 << level, -1).sum(axis=1)) for level, counts in levels.items())


def test_weighted_rules_are_saved_and_counted_nowhere_else():
    for rule in (Marginals.over([3, 3], [(0, 1)], weight=2), Trees.over([3], [0], weight=1)):
        assert from_bytes(to_bytes(rule)) == rule
        assert rule.count_in(None, None) is None
    for one in (map_of(family, "b", ONE) for family in ("rows", "children", "siblings", "history")):
        other = tables_of(list(rows_of(ONE, "a"))[::9], ONE)
        assert all(np.array_equal(a, b) for a, b in zip(from_bytes(to_bytes(one))(other), one(other), strict=True))
    refuses(ValueError, "weight must be an integer of at least 0", Marginals.over, [2], [(0,)], -1)


# Unordered cells.


@pytest.mark.parametrize("size", [1, 2, 5])
def test_unordered_cells_hold_both_orders_and_halve_the_noise_beside_the_diagonal(size):
    table = RNG.integers(0, 100, (3, size, size))
    folded = fold_symmetric(table)
    assert folded.shape == (3, size * (size + 1) // 2)
    assert folded.sum() == table.sum()
    assert np.array_equal(unfold_symmetric(folded, size), (table + table.swapaxes(1, 2)) / 2)
    variances = (unfold_symmetric(np.eye(folded.shape[1]), size) ** 2).sum(axis=0)
    assert np.array_equal(variances, np.where(np.eye(size), 1, 0.25))
    counted = np.where(np.eye(size), 1, 2.0)  # inverse variance in a sum of squares over all cells, where numbers stand twice
    assert symmetric_precision(size) == pytest.approx(counted.mean())


@each_relation
def test_a_root_moves_unordered_cells_of_siblings_as_far_as_a_table(relation):
    def values_of(columns):
        return np.concatenate([fold_symmetric(table) for table in Marginals.over([2] * 4, [(0, 2), (1, 3)], weight=4).of(columns).tables()])

    found, plain = moved_by_roots(ONE, "b", "siblings", relation, values_of)
    told = weights_of(ONE, "b", 4).sensitivity(lambda r: Marginals.sensitivity(r, 2), relation)
    assert found == {norm: getattr(told, norm) for norm in found}
    assert plain == {"l1": found["l1"] / 6, "l2_squared": found["l2_squared"] / 36, "sup": 1}


def test_rows_of_a_unit_may_be_missing_under_either_relation():
    """So where a row that comes moves a statistic farther than one that is replaced, as a sum of numbers from 5 to 7 does, that counts."""
    moved = {"replace_one": (2, 4, 2, 2), "add_or_remove_one": (7, 49, 7, 7)}
    for relation in RELATIONS:
        found = Weights(1, 3).sensitivity(lambda each: Sensitivity(each, *moved[each]), relation)
        assert found == Sensitivity(relation, 21, 441, 21, 21)
        assert Weights().sensitivity(lambda each: Sensitivity(each, *moved[each]), relation) == Sensitivity(relation, *moved[relation])
    assert (Weights().n_rows(None), Weights(1, 6).n_rows(None), Weights(1, 6).n_rows(10)) == (None, 6 << 31, 60)
