"""Attacks on training rows beside held-out rows: copies are found out, honest models are not."""

import re

import numpy as np
import pytest
from estimators import HOUSEHOLDS, PERSONS, TRIPS, households
from internals import (
    HOLDOUT,
    SYNTHETIC,
    TRAIN,
    Referee,
    Space,
    Tables,
    attributes,
    closest_record,
    find_copies,
    membership,
)
from laws import ALARM

from skdpsynth import LinkedTablesSynthesizer, PrivacyAccountant, PrivateMeasureMechanism, PrivatePCA
from skdpsynth.auditing import linked_evidence, privacy_evidence
from skdpsynth.domain import Continuous, Ordinal
from skdpsynth.privacy import PrivacyLoss, Unit

SURE = 1 - ALARM
MEASURES = ("exact_copies", "near_copies", "closest_record", "membership", "attributes")
SCHEMA = {0: Continuous(0.0, 100.0, nullable=True), 1: list("abc"), 2: Ordinal(["low", "middle", "high"]), 3: (0.0, 1.0)}


def mixed(n_rows, seed):
    rng = np.random.default_rng(seed)
    table = np.empty((n_rows, 4), dtype=object)
    table[:, 0] = np.where(rng.random(n_rows) < 0.1, np.nan, rng.normal(50, 10, n_rows))
    table[:, 1], table[:, 2] = rng.choice(list("abc"), n_rows), rng.choice(["low", "middle", "high"], n_rows)
    table[:, 3] = rng.beta(2, 5, n_rows)
    return table


def referee(confidence=0.99, seed=0, **promise):
    return Referee(confidence, np.random.default_rng(seed), **promise)


def spent(epsilon, delta=0.0, neighboring="replace_one"):
    accountant = PrivacyAccountant(epsilon, delta, neighboring=neighboring)
    accountant.spend(PrivacyLoss(epsilon=epsilon, delta=delta), name="all of it")
    return accountant


def numbers(n_rows, seed):
    return np.random.default_rng(seed).normal(0.5, 0.1, (n_rows, 3))


class Bootstrap:
    """No synthesizer at all: it draws the rows that it was given."""

    def __init__(self, X):
        self.X = X

    def sample(self, n_samples, random_state=None):
        return self.X[np.random.default_rng(random_state).integers(0, len(self.X), n_samples)]


@pytest.mark.parametrize(("rows", "schema"), [(mixed, SCHEMA), (numbers, None)])
def test_rows_drawn_from_the_training_rows_are_found_out_by_every_measure(rows, schema):
    train, holdout = rows(600, 0), rows(600, 1)
    evidence = privacy_evidence(Bootstrap(train), train, holdout, schema, accountant=spent(1.0))
    assert evidence.findings == evidence.refuting == MEASURES
    assert "THE PROMISE IS BROKEN" in str(evidence)
    assert all(gap.is_found for gap in evidence.by_column.values())
    assert evidence.closest_record.train < evidence.closest_record.holdout
    assert 0.6 < evidence.exact_copies.train < 0.66  # 1 - 1/e = 0.632
    assert "give them away" in str(privacy_evidence(Bootstrap(train), train, holdout, schema))
    few = privacy_evidence(Bootstrap(train), train, holdout[:100], schema).membership
    assert few.is_found
    assert few.holdout < 0.25
    assert not evidence.is_overlap
    overlapping = privacy_evidence(Bootstrap(train), train, Bootstrap(train).sample(150, 1), schema)
    assert overlapping.is_overlap
    assert "150 held-out rows equal a training row" in str(overlapping)


@pytest.mark.parametrize("bounds", [None, {0: (-1e9, 1e9), 1: (0.0, 1.0), 2: (-1e4, 1e5)}])
def test_copies_with_a_little_noise_are_found_out_by_all_but_exact_copies_however_wide_bounds_are(bounds):
    train, holdout = numbers(600, 0), numbers(600, 1)
    near = Bootstrap(train).sample(600, 2) + np.random.default_rng(2).normal(0, 1e-4, (600, 3))
    assert privacy_evidence(near, train, holdout, bounds).findings == MEASURES[1:]


@pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.InsecureRandomnessWarning")
def test_a_private_model_and_one_of_independent_columns_are_not_suspected():
    train, holdout = numbers(600, 11)[:, :2], numbers(600, 21)[:, :2]
    model = PrivateMeasureMechanism(epsilon=1.0).fit(train)
    evidence = privacy_evidence(model, train, holdout, confidence=SURE)
    assert not evidence.is_found
    assert not evidence.refuting
    assert {gap.guesses.allowed for gap in evidence.gaps.values()} == {np.tanh(0.5)}
    assert all(gap.guesses.advantage_low < gap.guesses.allowed for gap in evidence.gaps.values())
    leaking = privacy_evidence(train, numbers(600, 31)[:, :2], holdout, confidence=SURE, accountant=spent(1.0))
    assert (leaking.is_found, leaking.refuting) == (False, ())  # it leaks others than those who are attacked
    assert privacy_evidence(train, train, holdout, confidence=SURE).is_found
    train, holdout, rng = mixed(600, 10), mixed(600, 20), np.random.default_rng(0)
    independent = np.array([rng.permutation(column) for column in train.T], dtype=object).T
    independent[:, 3] = rng.beta(2, 5, 600)
    independent[:, 0] = independent[:, 0].astype(float) + rng.normal(0, 5, 600)
    assert not privacy_evidence(independent, train, holdout, SCHEMA, confidence=SURE).is_found


def test_copies_in_a_small_domain_are_as_many_as_chance_gives():
    rng = np.random.default_rng(0)
    train, holdout, synthetic = (np.where(rng.random((400, 2)) < 0.03, 2, rng.integers(0, 2, (400, 2))) for _ in range(3))
    evidence = privacy_evidence(synthetic, train, holdout, {0: [0, 1, 2], 1: [0, 1, 2]})
    assert evidence.exact_copies.train > 0.9
    assert evidence.copies_expected == pytest.approx(evidence.n_copies, abs=10)
    assert not evidence.is_found
    train, holdout = rng.random((2, 300, 3))  # which a schema of whole numbers does not hide
    evidence = privacy_evidence(train, train, holdout, dict.fromkeys(range(3), (0, 1)))
    assert (evidence.exact_copies.train, evidence.exact_copies.holdout, evidence.exact_copies.is_found) == (1.0, 0.0, True)


@pytest.mark.parametrize("confidence", [0.9, 0.99])
@pytest.mark.parametrize(("n", "m", "share"), [(100, 100, 0.3), (1000, 60, 0.02), (60, 1000, 0.02)])
def test_intervals_hold_their_difference_at_the_stated_rate(confidence, n, m, share):
    """Of 4000 pairs of samples; misses above 1 - confidence by 6 standard errors and half of it, which normal approximations may take."""

    class Silent(Referee):
        def guess(self, *_):
            """Leave out what takes most of the time."""

    rng, runs, judge = np.random.default_rng(5), 4000, Silent(confidence, None)
    misses = {"shares": 0, "means": 0}
    for _ in range(runs):
        hits = rng.random(n) < share, rng.random(m) < share
        distances = [rng.exponential(size=size) * rng.random(size) for size in (n, m)]
        shares, means = judge.gap_of_shares("", *hits), judge.gap_of_means("", *distances, is_share=False)
        misses["shares"] += not shares.low <= 0 <= shares.high
        misses["means"] += not means.low <= 0 <= means.high
    most = 1.5 * (1 - confidence) + 6 * np.sqrt((1 - confidence) / runs)
    assert all(count / runs <= most for count in misses.values())
    assert misses["means"] > 0


def test_equal_scores_of_few_rows_are_no_finding():
    """All of 60 training rows have a copy by luck, of 1000 held-out rows 1 % have none."""
    gap = referee().gap_of_means("", np.zeros(60), (np.arange(1000) < 10).astype(float), is_share=False)
    assert not gap.is_found
    assert gap.low < gap.difference < gap.high


@pytest.mark.parametrize(("epsilon", "asked"), [(0.5, 1.0), (1.0, 1.0), (2.0, 0.2)])
def test_guesses_reach_the_limit_of_a_ledger_and_refute_it_no_more_often_than_stated(epsilon, asked):
    """Each pair says by a coin of odds e^epsilon which of it was in the fit, and says so to a share `asked` alone; 2000 runs.

    At 90 % a sound ledger may be refuted in 5 %, and the interval may miss in 10 %, beside 6 standard errors of 2000 runs; one of 70 % of
    epsilon is refuted.
    """
    rng, n, runs = np.random.default_rng(8), 1000, 2000
    judge, strict = referee(0.9, epsilon=epsilon), referee(0.9, epsilon=0.7 * epsilon)
    missed = refuted = found = 0
    for _ in range(runs):
        told = np.where(rng.random(n) < asked, np.where(rng.random(n) < 1 / (1 + np.exp(-epsilon)), 1, -1), 0)
        made = judge.guess(told, np.zeros(n))
        missed += not made.advantage_low <= made.allowed <= made.advantage_high
        refuted += made.is_refuted
        found += strict.guess(told, np.zeros(n)).is_refuted
    assert made.allowed == pytest.approx((np.exp(epsilon) - 1) / (np.exp(epsilon) + 1))
    assert 0.01 < refuted / runs <= 0.05 + 6 * np.sqrt(0.05 / runs)
    assert missed / runs <= 0.1 + 6 * np.sqrt(0.1 / runs)
    assert found / runs > 0.5


def test_the_limit_is_that_of_an_exchange_of_two_rows_by_the_ledger():
    hits, misses = np.ones(100), np.zeros(100)
    for neighboring, epsilon, delta in (("replace_one", 1.0, 0.01), ("add_or_remove_one", 2.0, 0.01 * (1 + np.e))):
        made = Referee.of(spent(1.0, 0.01, neighboring), 0.99, np.random.default_rng(0)).guess(hits, misses)
        assert made.allowed == pytest.approx((np.exp(epsilon) - 1 + 2 * delta) / (np.exp(epsilon) + 1))
        assert (made.n_pairs, made.n_guesses, made.n_right, made.advantage) == (100, 100, 100, 1)
    made = referee(epsilon=1.0).guess(misses, misses)
    assert (made.n_guesses, made.advantage, made.advantage_low, made.advantage_high, made.is_refuted) == (0, 0, -1, 1, False)
    units = PrivacyAccountant(1.0, unit=Unit("who", 3))
    units.spend(1.0, name="all of it")
    for account in (units, None):
        assert Referee.of(account, 0.99, np.random.default_rng(0)).guess(hits, misses).allowed is None
    endless = Referee.of(spent(np.inf), 0.99, np.random.default_rng(0)).guess(hits, misses)
    assert (endless.allowed, endless.is_refuted) == (1, False)


def brute(columns, train, holdout, synthetic):
    """Distances to the closest synthetic row, right guesses and near copies, cell by cell."""
    usual = {}
    for place in (0, 3):
        known = synthetic[:, place].astype(float)
        low, high = np.quantile(known[~np.isnan(known)], [0.05, 0.95])
        usual[place] = high - low

    def squared(a, b, place):
        if place == 1:
            return float(a != b)
        if place == 2:
            levels = ["low", "middle", "high"]
            return ((levels.index(a) - levels.index(b)) / width) ** 2
        if np.isnan(a) or np.isnan(b):
            middle = np.nanmedian(synthetic[:, place].astype(float))
            gone = float(np.isnan(a) != np.isnan(b))
            a, b = (middle if np.isnan(cell) else cell for cell in (a, b))
            return gone + ((a - b) / usual[place]) ** 2
        return ((a - b) / usual[place]) ** 2

    places = np.array([["low", "middle", "high"].index(level) for level in synthetic[:, 2]])
    low, high = np.quantile(places, [0.05, 0.95])
    width = high - low
    far, right, near = [], [], []
    for rows in (train, holdout):
        table = np.array([[[squared(a[k], b[k], k) for k in range(4)] for b in synthetic] for a in rows])
        far.append(np.sqrt(table.sum(axis=2).min(axis=1) / 4))
        same = table[np.arange(len(rows)), table.sum(axis=2).argmin(axis=1)]
        near.append((np.sqrt(same) <= np.array([0.05, 0, 0, 0.05])).all(axis=1))
        guesses = []
        for k in range(4):
            others = np.delete(table, k, axis=2) if columns is None else table[:, :, columns]
            closest = others.sum(axis=2).argmin(axis=1)
            guesses.append(np.sqrt(table[np.arange(len(rows)), closest, k]) <= (0 if k in (1, 2) else 0.05))
        right.append(np.array(guesses))
    return far, right, near


@pytest.mark.parametrize(("known", "secrets"), [(None, [0, 1, 2, 3]), ([0, 3], [1, 2])])
def test_distances_copies_and_guesses_are_those_of_a_search_cell_by_cell(known, secrets):
    train, holdout, synthetic = mixed(40, 0), mixed(30, 1), mixed(50, 2)
    synthetic[:20] = train[:20]
    tables = Tables.of(synthetic, train, holdout, SCHEMA, 0)
    space = Space.of(tables)
    far, right, near = brute(known, train, holdout, synthetic)
    gaps = closest_record(tables, space, referee())
    for name, expected in (("closest_record", far), ("near_copies", near)):
        assert gaps[name].train == pytest.approx(expected[0].mean(), rel=1e-9)
        assert gaps[name].holdout == pytest.approx(expected[1].mean(), rel=1e-9)
    assert gaps["near_copies"].train >= 0.5
    together, alone = attributes(tables, space, secrets, known, referee())
    for place, one in alone.items():
        assert one.train == pytest.approx(right[0][place].mean())
        assert one.holdout == pytest.approx(right[1][place].mean())
    assert together.train == pytest.approx(right[0][secrets].mean())


def test_members_are_those_whose_ratio_of_distances_exceeds_that_of_a_tenth():
    train, holdout, synthetic = numbers(50, 0), numbers(60, 1), numbers(70, 2)
    space = Space.of(Tables.of(synthetic, train, holdout, dict.fromkeys(range(3), (0.0, 1.0)), 0))
    points, half = [space.points(table) for table in (TRAIN, HOLDOUT, SYNTHETIC)], np.random.default_rng(7).permutation(60)
    known, others = points[HOLDOUT][half[:30]], points[HOLDOUT][half[30:]]

    def far(a, table):
        return np.sqrt(((table - a) ** 2).sum(axis=1).min())

    alone = [far(a, np.delete(known, place, axis=0)) / far(a, points[SYNTHETIC]) for place, a in enumerate(known)]
    threshold = np.quantile(alone, 0.9)
    gap = membership(space, referee(seed=7))
    assert gap.train == np.mean([far(a, known) / far(a, points[SYNTHETIC]) > threshold for a in points[TRAIN]])
    assert gap.holdout == np.mean([far(a, known) / far(a, points[SYNTHETIC]) > threshold for a in others])


def test_copies_are_those_of_a_set_of_rows():
    rng = np.random.default_rng(3)
    tables = [rng.integers(0, 4, (60, 3)).astype(float) for _ in range(3)]
    for table in tables:
        table[rng.random(60) < 0.3, 1] = np.nan
    read = Tables.of(tables[SYNTHETIC], tables[TRAIN], tables[HOLDOUT], {0: (0, 9), 1: Continuous(0, 9, nullable=True), 2: (0, 9)}, 0)
    as_words = [[str(row.tolist()) for row in table] for table in tables]
    copies = find_copies(read, referee())
    assert copies["n_copies"] == sum(row in as_words[SYNTHETIC] for row in as_words[TRAIN])
    assert copies["exact_copies"].holdout == np.mean([row in as_words[SYNTHETIC] for row in as_words[HOLDOUT]])
    assert copies["n_overlapping"] == sum(row in as_words[TRAIN] for row in as_words[HOLDOUT])
    assert not copies["is_overlap"]


@pytest.mark.parametrize("max_samples", [5000, 60])
def test_the_order_of_rows_changes_nothing(max_samples):
    tables = [mixed(100, seed) for seed in range(3)]
    rng = np.random.default_rng(0)
    again = [rng.permutation(table) for table in tables]
    first, second = (
        privacy_evidence(*order, SCHEMA, max_samples=max_samples) for order in ((tables[2], *tables[:2]), (again[2], *again[:2]))
    )
    assert first == second


def test_every_text_says_that_it_is_not_private_and_proves_nothing_and_every_number_stands_in_the_frame():
    evidence = privacy_evidence(*(mixed(60, seed) for seed in range(3)), SCHEMA)
    for text in (str(evidence), evidence._repr_html_()):
        assert text.count("Not private: made from real rows") == 1
        assert "proves nothing about privacy" in text
    assert "\n" not in str(evidence)
    assert "not private" in repr(evidence)
    frame = evidence.to_frame()
    assert list(frame["measure"]) == [*MEASURES, *["attributes"] * 4]
    assert list(frame["column"]) == [None] * 5 + [0, 1, 2, 3]
    np.testing.assert_allclose(frame["difference"], frame["train"] - frame["holdout"])
    assert (frame["low"] <= frame["difference"]).all()
    np.testing.assert_allclose(frame["advantage"], (2 * frame["n_right"] - frame["n_guesses"]) / frame["n_guesses"].clip(1))
    assert ((frame["advantage_low"] <= frame["advantage"]) & (frame["advantage"] <= frame["advantage_high"])).all()


def test_only_the_secrets_are_guessed_of_a_schema_that_a_model_may_say_itself_and_nothing_of_one_column():
    class WithSchema(Bootstrap):
        schema_ = SCHEMA

    train, holdout, synthetic = (mixed(60, seed) for seed in range(3))
    for columns in ([3, 1], [1]):
        assert list(privacy_evidence(synthetic, train, holdout, SCHEMA, secret=columns).by_column) == columns
    assert list(privacy_evidence(WithSchema(train), train, holdout).by_column) == [0, 1, 2, 3]
    assert list(privacy_evidence(synthetic, train, holdout, SCHEMA, known=[3, 1]).by_column) == [0, 2]
    alone = privacy_evidence(*(numbers(60, seed)[:, :1] for seed in range(3)))
    assert (alone.attributes, list(alone.gaps)) == (None, list(MEASURES[:4]))
    assert "known of its row" not in str(alone)


TRAINED = numbers(60, 0)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"holdout": TRAINED}, ValueError, "holdout must be rows that the model was not fitted to"),
        ({"holdout": numbers(19, 1)}, ValueError, "holdout must have at least 20 rows, got 19"),
        ({"holdout": numbers(60, 1)[:, :2]}, ValueError, "must have the same columns, got 3, 2 and 3"),
        *(({"model": odd}, TypeError, "model must be a fitted synth") for odd in (PrivatePCA(), PrivateMeasureMechanism, object(), 5)),
        *(({"secret": odd}, ValueError, "secret must be columns of schema") for odd in ("age", [[0]])),
        ({"known": "age"}, ValueError, "known must be columns of schema"),
        ({"known": [0, 1, 2]}, ValueError, "known must leave a column to be guessed"),
        ({"known": 0, "secret": 0}, ValueError, "known must hold none of the columns that are guessed, got 0"),
        ({"accountant": 1.0}, TypeError, "accountant must be None or a PrivacyAccountant"),
        *(({"confidence": odd}, ValueError, "confidence must be a number in") for odd in (1.0, "high")),
        ({"max_samples": 5}, ValueError, "max_samples must be an integer of at least 20"),
        ({"random_state": -1}, ValueError, "random_state must be a non-negative integer"),
    ],
)
def test_what_cannot_be_attacked_is_refused_in_one_sentence(given, error, words):
    arguments = {"model": numbers(60, 2), "train": TRAINED, "holdout": numbers(60, 1)} | given
    with pytest.raises(error, match=re.escape(words)) as caught:
        privacy_evidence(**arguments)
    assert "\n" not in str(caught.value)


def test_a_private_page_shows_the_evidence_and_what_the_ledger_allows():
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    from skdpsynth.metrics import quality_report
    from skdpsynth.report import quality_page

    train, holdout = numbers(200, 0)[:, :2], numbers(200, 1)[:, :2]
    evidence = privacy_evidence(train, train, holdout, accountant=spent(1.0))
    html = quality_page(quality_report(train, holdout), evidence=evidence).to_html()
    assert f"{evidence.membership.train:.4f}" in html
    assert "Are people of the fit given away?" in html
    assert "This proves nothing about privacy" in html
    assert html.count("0.4621, BROKEN") == len(evidence.refuting) >= 3
    assert "THE PROMISE IS BROKEN" in html


@pytest.fixture(scope="module")
def linked():
    """A fit of households with persons and trips, with its tables, and others that were set aside."""
    tables = households(600)
    sides = [{name: table[(table["household_id"] % 2 == side)] for name, table in tables.items()} for side in (0, 1)]
    children_first = dict(reversed(HOUSEHOLDS.items()))
    return LinkedTablesSynthesizer(children_first, links=[TRIPS, PERSONS]).fit(sides[0]), *sides


def test_linked_tables_that_are_copies_are_found_and_refute_the_ledger_and_those_of_a_model_do_neither(linked):
    model, train, holdout = linked
    for evidence in linked_evidence(model, train, holdout, confidence=SURE).values():
        assert (evidence.findings, evidence.refuting) == ((), ())
        assert evidence.gaps["closest_record"].guesses.allowed == pytest.approx(np.tanh(0.5))  # of a root, as the ledger protects it
    copied = linked_evidence(model, train, holdout, train, confidence=SURE)
    assert all("exact_copies" in evidence.refuting for evidence in copied.values())
    assert all(evidence.exact_copies.train == 1 for evidence in copied.values())


def test_one_row_of_each_root_is_attacked_beside_the_columns_of_its_parents(linked):
    model, train, holdout = linked
    evidence = linked_evidence(model, train, holdout, max_samples=100)
    assert list(evidence) == ["household", "person", "trip"]
    assert evidence["household"].n_train == 300
    assert evidence["person"].n_train == train["person"]["household_id"].nunique()
    assert evidence["person"].n_synthetic > evidence["person"].n_train
    assert {"age", "household.region", "household.person.number"} <= set(evidence["person"].by_column)
    assert {"mode", "person.age", "person.household.income"} <= set(evidence["trip"].by_column)


def test_a_table_of_which_few_roots_have_rows_is_left_out(linked):
    model, train, holdout = linked
    assert set(linked_evidence(model, train, {**holdout, "trip": holdout["trip"][:10]})) == {"household", "person"}


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda model, train, holdout: (TRAINED, train, holdout), TypeError, "model must be a LinkedTablesSynthesizer"),
        (lambda model, train, holdout: (model, train, train), ValueError, "holdout must be tables that the model was not fitted to"),
        (lambda model, train, holdout: (model, train, holdout["person"]), ValueError, "must be a dict of the tables"),
        (lambda model, train, holdout: (model, {n: t[:10] for n, t in train.items()}, holdout), ValueError, "a minimum of 20"),
    ],
)
def test_linked_tables_that_cannot_be_attacked_are_refused(linked, change, error, words):
    with pytest.raises(error, match=re.escape(words)):
        linked_evidence(*change(*linked))
