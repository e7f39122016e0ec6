"""Few pairs instead of all: when they pay, what is chosen and what it costs."""

from fractions import Fraction

import numpy as np
import pytest
from internals import MarginalsPlan, PairSelection, _latent_factors, _latent_planning, column_splits, difference, full_state

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Continuous, Nominal, Ordinal, Schema
from skdpsynth.privacy import PrivacyAccountant, PrivacyLoss
from skdpsynth_evidence import check_evidence

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of small tables
RELATIONS = ["replace_one", "add_or_remove_one"]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(_latent_factors, "_STEPS", 60)
    monkeypatch.setattr(_latent_factors, "_FITS", 1)


def survey(n_rows, n_columns=24, share=0.0):
    """Three columns follow one score, and a share of all others does so half of the time; the rest is independent."""
    rng = np.random.default_rng(0)
    score, rows = rng.integers(0, 2, n_rows), rng.integers(0, 2, (n_rows, n_columns))
    follows = rng.random(rows.shape) < [0.9] * 3 + [0.5 * (j < share * n_columns) for j in range(3, n_columns)]
    return np.where(follows, score[:, None], rows)


def fitted(n_rows, share=0.0, **parameters):
    rows = survey(n_rows, share=share)
    return LatentFactorSynthesizer({i: [0, 1] for i in range(rows.shape[1])}, **parameters).fit(rows)


def pairs_of(model):
    return {pair for pair in model.marginals_consistent_ if len(pair) == 2}


def named(model, word):
    return [entry.name for entry in model.accountant_.ledger if word in entry.name]


@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("neighboring", RELATIONS)
def test_pairs_that_depend_are_chosen_and_the_ledger_says_so_and_sums_to_the_budget(neighboring, delta, monkeypatch):
    """Distances of 300 and more against scales of a choice of 45 at most: a miss in a thousand fits.

    Without delta this holds of columns of more levels: of few ones, one Gram matrix tells of all pairs.
    """
    monkeypatch.setattr(_latent_planning, "_MOST_GRAM_CODES", 0)
    model = fitted(700, neighboring=neighboring, delta=delta)
    pairs, n_choices = pairs_of(model), len(named(model, "choice of pairs"))
    assert len(pairs & {(0, 1), (0, 2), (1, 2)}) == 2  # the third would close a circle
    assert n_choices == len(pairs) < 24
    spent = model.accountant_.spent
    assert spent == 1 if not delta else 1 - Fraction(1, 10**6) < spent <= 1
    assert check_evidence(model.accountant_.evidence()).is_exact


def test_without_delta_few_pairs_are_chosen_where_a_gram_matrix_would_drown_them():
    """With eight levels, noise alone makes five times the total variation of a pair that there may be; with two, a tenth of it."""
    rows = survey(2000)
    binary, wide = (
        LatentFactorSynthesizer({i: list(range(n_levels)) for i in range(rows.shape[1])}, random_state=0).fit(rows) for n_levels in (2, 8)
    )
    assert not named(binary, "choice")
    assert len(pairs_of(binary)) == 24 * 23 / 2
    assert len(pairs_of(wide) & {(0, 1), (0, 2), (1, 2)}) == 2


def test_evidence_of_a_looser_choice_or_of_one_that_shows_more_than_a_place_is_found():
    evidence = fitted(700, delta=1e-6).accountant_.evidence()
    place = next(i for i, line in enumerate(evidence["releases"]) if line["name"] == "choice of pairs 1")
    scale = Fraction(evidence["releases"][place]["scales"][0])
    for changed, said, words in (
        ({"values": 276}, "wrong", "which shows one place and nothing else"),
        ({"statistic": {"kind": "tables", "tables": 1}}, "wrong", "which shows one place and nothing else"),
        ({"scales": [str(scale * Fraction(99, 100))]}, "wrong", "choice of pairs 1"),
        ({"scales": [str(scale * Fraction(101, 100))]}, "loose", "choice of pairs 1"),
    ):
        crafted = {**evidence, "releases": [*evidence["releases"]]}
        crafted["releases"][place] = {**evidence["releases"][place], **changed}
        assert words in " ".join(getattr(check_evidence(crafted), said))


def test_intervals_count_the_pairs_that_were_chosen():
    """The chosen pairs have correlations of about .8: those of tables that intervals are made of are near."""
    model = fitted(700, delta=1e-6)
    i, j = min(pairs_of(model) & {(0, 1), (0, 2), (1, 2)})
    (table,) = model.bootstrap_tables(1, random_state=0)
    assert np.corrcoef(np.asarray(table, dtype=float).T)[i, j] > 0.4


def test_all_pairs_are_counted_where_dependence_is_wide():
    model = fitted(1200, share=1.0, delta=1e-6)
    assert named(model, "spread of dependence")
    assert not named(model, "choice")
    assert len(pairs_of(model)) == 24 * 23 / 2


def plan(n_columns, share, **more):
    return MarginalsPlan(True, schema=Schema({i: [0, 1] for i in range(n_columns)}), shares={"counts of pairs": share}, **more)


def test_few_pairs_pay_in_small_tables_of_many_columns_alone():
    """The budget of (1, 1e-6), nearly; of a table of few columns, of many rows or of classes all pairs are counted."""
    share = PrivacyLoss(rho=0.019, gaussian=True)
    few = [PairSelection.of(plan(33, share), "replace_one", n_rows) for n_rows in (50, 400, 1500, 20_000)]
    assert [each and each.n_pairs for each in few] == [None, 2, 6, None]
    assert sum((loss.rho for loss in few[1].shares.values()), Fraction(0)) == share.rho
    assert PairSelection.of(plan(12, share), "replace_one", 1500) is None
    assert PairSelection.of(plan(33, share, stratum=0), "replace_one", 400) is None
    assert PairSelection.of(plan(33, PrivacyLoss(float("inf"))), "replace_one", 400) is None


def test_splits_are_edges_between_ordered_codes_and_single_codes_of_others():
    assert column_splits(np.array([5.0, 2, 3]), Ordinal([1, 2, 3])).tolist() == [[True, False, False], [True, True, False]]
    assert column_splits(np.array([5.0, -2]), Nominal(["a", "b"])).shape == (1, 2)
    assert column_splits(np.array([5.0, 2, 3]), Nominal(["a", "b", "c"])).sum(axis=1).tolist() == [1, 1, 1]
    many = column_splits(np.ones(40), Continuous(0, 1))
    assert many.shape == (7, 40)
    assert many.sum(axis=1).tolist() == [5, 10, 15, 20, 25, 30, 35]
    assert column_splits(np.ones(1), Ordinal([1, 2])).shape == (0, 1)
    assert column_splits(np.zeros(40), Ordinal(range(40))).shape[1] == 40


@pytest.mark.parametrize("neighboring", RELATIONS)
def test_nothing_is_kept_beside_the_answers(neighboring, monkeypatch):
    """Answers and choices of one fit are given to a fit of other rows, of which nothing else may be kept."""
    tape, kept = [], []
    other = np.random.default_rng(1).integers(0, 2, (700, 24))
    own = {name: getattr(PrivacyAccountant, name) for name in ("release", "release_choice")}
    for rows in (survey(700), other):
        for name, answer in own.items():

            def told(*given, answer=answer, is_first=not kept, **said):
                found = answer(*given, **said)
                return tape.append(found) or found if is_first else tape.pop(0)

            monkeypatch.setattr(PrivacyAccountant, name, told)
        model = LatentFactorSynthesizer({i: [0, 1] for i in range(24)}, delta=1e-6, neighboring=neighboring).fit(rows)
        kept.append(full_state(model))
    assert not difference(*kept)
