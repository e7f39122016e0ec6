"""Factors of an exchangeable link: derivatives by differences, rows against tables of the model, conditions by enumeration."""

from dataclasses import replace
from itertools import combinations, combinations_with_replacement, permutations, product

import numpy as np
import pytest
from internals import _link_factors as link_factors
from laws import ALARM, CERTAIN, chi_squared

from skdpsynth.models import LinkFactors, LinkTables, fit_link_factors
from skdpsynth.persistence import from_bytes, to_bytes

pytestmark = pytest.mark.all_fits

PARENT, CHILD = (3, 2, 4), (2, 3)  # the last column of the parent is the number of children
COUNT = 2


def a_model(seed=0, n_fits=2, n_nodes=4, n_own=3, spread=1.0):
    rng = np.random.default_rng(seed)
    parent, child = sum(PARENT), sum(CHILD)
    shapes = ((parent, 1), (parent, 2), (child, 1), (child, 2), (child, 2), (1, 1), (1, 2), (child, 1), (child, 2))
    nodes, own = rng.standard_normal((n_fits, n_nodes, 2)), rng.standard_normal((n_fits, n_nodes, 2, n_own, 2))
    factors = tuple(spread * rng.standard_normal((n_fits, *shape)) for shape in shapes)
    return LinkFactors((np.array(PARENT), np.array(CHILD)), nodes, own, factors)


def columns_of(mixture):
    return [mixture.table(column) for column in range(mixture.n_columns)]


def of_children(model):
    """P(code | z, role, u) of each column of a child."""
    return [table.reshape(len(table), model.n_nodes, 2, -1) for table in columns_of(model.child())]


def tables_of(model, masses=None, numbers=None):
    """Return the tables that a model has, node by node, number of children by number, special child or none.

    `numbers` is the law of the number of children given z in tables of children; None: the model's.
    """
    X, Y, share = columns_of(model.parent()), of_children(model), model.special_share()
    numbers, n = X[COUNT] if numbers is None else numbers, model.n_nodes
    c1, c2 = masses or ([0, 1, 1, 1], [0, 0, 1, 1])
    cross = {(i, j): np.zeros((PARENT[i], CHILD[j])) for i, j in product(range(3), range(2))}
    ones, child = [np.zeros(size) for size in CHILD], {(0, 1): np.zeros(CHILD)}
    siblings = {(i, j): np.zeros((CHILD[i], CHILD[j])) for i, j in combinations_with_replacement(range(2), 2)}
    for z, k, special in product(range(n), range(1, PARENT[COUNT]), (0, 1)):
        chance = (share[z] if special else 1 - share[z]) / n
        roles = [0] * special + [1] * (k - special)
        for role in roles:
            mass = chance * c1[k] / k
            for j in range(2):
                law = Y[j][:, z, role].mean(axis=1)
                ones[j] += numbers[k, z] * mass * law
                for i in range(2):
                    cross[i, j] += numbers[k, z] * mass * np.outer(X[i][:, z], law)
                cross[COUNT, j][k] += X[COUNT][k, z] * mass * law
            child[0, 1] += numbers[k, z] * mass * np.einsum("am,bm->ab", Y[0][:, z, role], Y[1][:, z, role]) / Y[0].shape[3]
        for first, second in permutations(roles, 2):
            for i, j in siblings:
                both = np.outer(Y[i][:, z, first].mean(axis=1), Y[j][:, z, second].mean(axis=1))
                siblings[i, j] += numbers[k, z] * chance * c2[k] / (k * (k - 1)) * both
    pairs = {(i, j): X[i] @ X[j].T / n for i, j in combinations(range(3), 2)}
    return ([table.mean(axis=1) for table in X], pairs), cross, (ones, child), siblings


DEVIATIONS = {"columns": 3.0, "parent": 4.0, "cross": 5.0, "child": 2.0, "siblings": 6.0}
PRECISIONS = {("cross", (0, 1)): 3.0, ("siblings", (1, 1)): 0.5, ("parent", (0, 1)): 2.0}
MASSES = np.array([0, 0.5, 1, 1.0]), np.array([0, 0, 0.5, 1.0])


def link_tables(model, deviations=DEVIATIONS, masses=None, precisions=None, n=1000.0):
    return LinkTables(*tables_of(model, masses), COUNT, n, deviations, precisions or {}, masses)


def test_the_more_noise_the_narrower_is_the_prior_of_shared_factors(monkeypatch):
    build, seen = link_factors._Descent, list[float]()

    def spy(*told):
        seen.extend(each for each in told if isinstance(each, float))
        return build(*told)

    monkeypatch.setattr(link_factors, "_Descent", spy)
    monkeypatch.setattr(link_factors, "descend", lambda *_: 0)
    for deviation in (0.0, 5.0, 10.0, 100.0):
        fit_link_factors(link_tables(a_model(), {**DEVIATIONS, "cross": deviation}))
    assert list(dict.fromkeys(seen)) == [2.0, pytest.approx(0.98), 0.3]


@pytest.mark.parametrize(("masses", "precisions"), [(None, None), (MASSES, PRECISIONS)])
def test_derivatives_are_those_of_the_documented_objective(masses, precisions):
    """Of every parameter of a mixture of two fits, by central differences in doubles, at tables of another model."""
    wanted, model = link_tables(a_model(1), masses=masses, precisions=precisions), a_model(2, n_fits=2, n_nodes=2, n_own=2)
    targets = link_factors._Targets.of(replace(wanted, n_ordered=((3, 0, 4), (0, 3))), float)
    own = [[given[fit] for given in model.factors] for fit in range(2)]
    descent = link_factors._Descent(targets, list(zip(model.nodes, model.own_nodes.reshape(2, -1, 2), own, strict=True)), 0.7)
    numbers = columns_of(model.parent())[COUNT]
    relative = {"parent": 1.0, "cross": (4 / 5) ** 2, "child": 4.0, "siblings": (4 / 6) ** 2}

    def objective():
        (columns, *own), of_wanted = tables_of(model, masses, numbers), (wanted.parent, wanted.cross, wanted.child, wanted.siblings)
        total = (4 / 3) ** 2 * sum(((t - w) ** 2).sum() for t, w in zip(columns[0], wanted.parent[0], strict=True)) / 2
        total += (4 / 3) ** 2 * sum(((t - w) ** 2).sum() for t, w in zip(own[1][0], wanted.child[0], strict=True)) / 2
        families = {"parent": (columns[1], wanted.parent[1]), "cross": (own[0], wanted.cross)}
        families |= {"child": (own[1][1], wanted.child[1]), "siblings": (own[2], of_wanted[3])}
        for family, (found, told) in families.items():
            for pair, table in found.items():
                error = table - told[pair]
                total += relative[family] * wanted.precisions.get((family, pair), 1.0) * (error**2).sum() / 2
        B, D, E, f, *more = (np.hstack(model.factors[place]) for place in (1, 3, 4, 6, 7, 8))
        own, smooth = targets.smoothness, (f * f).sum() / 2 + (B * targets.parent.smoothness.times(B)).sum()
        smooth += (D * own.times(D)).sum() + sum((x * own.times(x)).sum() for x in more) / 2
        return total + (4 / 1000) ** 2 * (smooth / 0.7 + (E * own.times(E)).sum() / 2.0) / 2 / 2  # noise narrows shared factors alone

    slopes, value = descent.gradients()
    assert value == pytest.approx(objective(), rel=1e-4)
    for parameter, slope in zip(descent.parameters, slopes, strict=True):
        found = np.empty_like(parameter)
        for place in np.ndindex(parameter.shape):
            before = parameter[place]
            ends = []
            for step in (1e-4, -1e-4):
                parameter[place] = before + step
                ends.append(objective())
            parameter[place] = before
            found[place] = (ends[0] - ends[1]) / 2e-4
        np.testing.assert_allclose(slope, found, rtol=2e-3, atol=2e-6)


def drawn(model, n):
    rng = np.random.default_rng(3)
    codes, nodes = model.draw_parents(n, rng)
    owners, own = np.repeat(np.arange(n), codes[COUNT]), model.draw_child_nodes(nodes, codes[COUNT], rng)
    ranks = np.arange(len(owners)) - np.repeat(np.cumsum(codes[COUNT]) - codes[COUNT], codes[COUNT])
    return codes, own, owners, ranks, model.draw_children(own, rng, ranks=ranks)


def cells(first, second, sizes):
    return np.bincount(first * sizes[1] + second, minlength=sizes[0] * sizes[1])


def test_rows_have_the_tables_of_the_model():
    """Half a million parents, in several blocks; children of other parents' nodes are seen."""
    model = a_model(5)
    parents, own, owners, ranks, children = drawn(model, 500_000)
    (_, pairs), cross, _, siblings = tables_of(model)
    for (i, j), table in pairs.items():
        assert chi_squared(cells(parents[i], parents[j], table.shape), table) > ALARM
    first = ranks == 0  # one child of each parent with children
    for (i, j), table in cross.items():
        assert chi_squared(cells(parents[i][owners[first]], children[j][first], table.shape), table) > ALARM
    second = np.flatnonzero(ranks == 1)
    for (i, j), table in siblings.items():
        assert chi_squared(cells(children[i][second - 1], children[j][second], table.shape), table) > ALARM
    others = model.draw_children(np.roll(own, 100), np.random.default_rng(0), ranks=ranks)
    assert chi_squared(cells(parents[0][owners[first]], others[1][first], (3, 3)), cross[0, 1]) < CERTAIN
    assert chi_squared(cells(others[1][second - 1], children[1][second], (3, 3)), siblings[1, 1]) < CERTAIN


def test_the_node_of_a_parent_has_its_posterior_law():
    """By Bayes' rule over all nodes, for every row; 30,000 draws each."""
    model, rng = a_model(6, spread=0.5), np.random.default_rng(0)
    X = columns_of(model.parent())
    for row in product(*map(range, PARENT)):
        weights = np.prod([table[code] for table, code in zip(X, row, strict=True)], axis=0)
        nodes = model.draw_nodes(np.tile(np.array(row)[:, None], 30_000), rng)
        assert chi_squared(np.bincount(nodes, minlength=len(weights)), weights) > ALARM


def test_children_on_a_condition_have_its_law():
    """P(codes | node, condition) by enumeration; masks of all rows, and of each."""
    model, rng = a_model(7), np.random.default_rng(0)
    Y = [table.reshape(len(table), 2 * model.n_nodes, -1) for table in of_children(model)]
    nodes, ages = np.full(100_000, 3), np.array([True, False, True])
    each = np.where((np.arange(len(nodes)) % 2 == 0)[:, None], [True, False], [True, True])
    codes = model.draw_children(nodes, rng, allowed={1: ages, 0: each})
    joint = np.einsum("am,bm->ab", Y[0][:, 3], Y[1][:, 3]) * ages
    assert chi_squared(cells(codes[0, 1::2], codes[1, 1::2], CHILD), joint) > ALARM
    assert chi_squared(cells(codes[0, ::2], codes[1, ::2], CHILD), joint * [[1], [0]]) > ALARM
    plain = model.draw_children(nodes, rng)
    assert chi_squared(cells(plain[0], plain[1], CHILD), np.einsum("am,bm->ab", Y[0][:, 3], Y[1][:, 3])) > ALARM


@pytest.mark.all_fits
def test_a_fit_has_the_tables_that_it_is_given():
    """Of another model, without noise: a tenth of a percent of all parents in the mean cell; independent columns are ten times as far."""
    wanted = link_tables(a_model(8), dict.fromkeys(DEVIATIONS, 0.0))
    found = tables_of(fit_link_factors(wanted, n_factors=4))

    def error(tables):
        told = [*wanted.parent[1].values(), *wanted.cross.values(), *wanted.child[1].values(), *wanted.siblings.values()]
        made = [*tables[0][1].values(), *tables[1].values(), *tables[2][1].values(), *tables[3].values()]
        return np.mean([np.abs(t - m).mean() for t, m in zip(told, made, strict=True)])

    assert error(found) < 1e-3
    assert error(tables_of(a_model(9, spread=0.0))) > 1e-2


@pytest.mark.all_fits
def test_noise_alone_is_no_dependence():
    """Independent columns with noise of a fiftieth of the parents: the fit is nearer to the truth than the tables."""
    rng, truth = np.random.default_rng(0), link_tables(a_model(4, spread=0.0), dict.fromkeys(DEVIATIONS, 20.0))

    def noisy(tables, unordered=False):
        noise = {pair: rng.normal(0, 0.02, table.shape) for pair, table in tables.items()}
        if unordered:  # both orders of a cell share its noise
            noise |= {(i, j): np.triu(e, 1) / 2 + np.triu(e, 1).T / 2 + np.diag(np.diag(e)) for (i, j), e in noise.items() if i == j}
        return {pair: table + noise[pair] for pair, table in tables.items()}

    (columns, pairs), (ones, child) = truth.parent, truth.child
    own = (columns, noisy(pairs)), noisy(truth.cross), (ones, noisy(child)), noisy(truth.siblings, unordered=True)
    wanted = LinkTables(*own, COUNT, 1000.0, truth.deviations)
    found = tables_of(fit_link_factors(wanted, n_factors=4))
    for family, told, tables in ((truth.cross, wanted.cross, found[1]), (truth.siblings, wanted.siblings, found[3])):
        noise = np.mean([np.abs(told[pair] - table).mean() for pair, table in family.items()])
        assert np.mean([np.abs(tables[pair] - table).mean() for pair, table in family.items()]) < 0.7 * noise


def test_a_saved_model_draws_the_same_rows():
    model = a_model()
    again = from_bytes(to_bytes(model))
    for first, second in zip(drawn(model, 100), drawn(again, 100), strict=True):
        np.testing.assert_array_equal(first, second)
    assert repr(again) == "LinkFactors(3 and 2 columns, 2 fits)"
