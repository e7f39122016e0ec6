"""How many bins continuous columns get: as many as the noise of pairs allows, in tables of numbers."""

import math
import warnings

import numpy as np
import pytest

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Inequality, Schema
from skdpsynth.exceptions import BudgetWarning, SmallSampleWarning

NUMBERS = dict.fromkeys(range(6), (0.0, 1.0))
MIXED = {**NUMBERS, 3: [0, 1], 4: [0, 1], 5: [0, 1]}


def fitted(n, epsilon, schema=NUMBERS, relation="add_or_remove_one", rows=None, **parameters):
    """A model of uniform rows, which have no atoms."""
    X = np.random.default_rng(0).random((n, 6)) if rows is None else rows
    parameters = {"schema": schema, "n_factors": 1, "delta": 1e-6, "random_state": 0, **parameters}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        warnings.simplefilter("ignore", BudgetWarning)
        return LatentFactorSynthesizer(epsilon=epsilon, neighboring=relation, **parameters).fit(X)


def n_bins(model):
    return max(len(bins) - 1 for bins in model.bins_.values())


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_noise_leaves_few_bins(relation):
    """A bin more, or two, may come of cells that the noise makes heavy."""
    few, some, many = (n_bins(fitted(*cell, relation=relation)) for cell in ((300, 0.5), (3000, 2.0), (30_000, 5.0)))
    assert few <= 6
    assert few < some < many


def test_without_noise_there_are_as_many_as_ever():
    assert n_bins(fitted(500, math.inf, delta=0.0)) >= 16


def test_where_half_of_the_columns_have_levels_there_are_as_many_as_ever():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random((300, 3)), rng.integers(0, 2, (300, 3))])
    assert n_bins(fitted(300, 0.5, MIXED, rows=X)) >= 14
    assert n_bins(fitted(300, 0.5, {**NUMBERS, 5: [0, 1]}, rows=X)) < 14


def test_cells_get_more_of_the_budget_in_a_table_of_numbers():
    """Three times as much where all columns are numbers; what pairs lack then."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random((300, 3)), rng.integers(0, 2, (300, 3))])
    mixed = fitted(300, 1.0, MIXED, rows=X)
    of_cells = [
        {entry.name: float(entry.loss.rho) for entry in model.accountant_.ledger}["counts of cells"] for model in (mixed, fitted(300, 1.0))
    ]
    assert of_cells[1] == pytest.approx(3 * of_cells[0], rel=0.02)


def test_columns_that_rules_tie_keep_their_bins_and_the_rule():
    schema = Schema(dict(NUMBERS), rules=[Inequality(0, 1)])
    model = fitted(300, 1.0, schema)
    assert set(model._model._finer()) == {2, 3, 4, 5}
    rows = model.sample(2000, random_state=0)
    assert (rows[:, 0] <= rows[:, 1]).all()
