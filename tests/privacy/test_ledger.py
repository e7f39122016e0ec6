"""The ledger: data about charges, what they add up to, and that no thread, fork or interrupt makes one go missing."""

import dataclasses
import pickle
import threading
import time
from fractions import Fraction
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import __version__, _parallel, lock_of
from laws import calls_of, in_child, in_threads, interrupted, refuses

from skdpsynth import privacy
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.privacy import (
    DiscreteGaussian,
    DiscreteLaplace,
    LedgerEntry,
    PrivacyAccountant,
    PrivacyLoss,
    SecureBits,
    SeededBits,
    epsilon_of_rho,
)
from skdpsynth.statistics import Sensitivity

VALUES = np.array([10, 20, 30])
CHANGE = Sensitivity("replace_one", 2, 2, 1)


class CountedNoise(DiscreteLaplace):
    """Notes every draw."""

    drawn = 0

    def sample(self, size, rng):
        CountedNoise.drawn += 1
        return super().sample(size, rng)


def release(accountant, loss=Fraction(1, 4), name="counts", noise=None, rng=None):
    """Release with the noise that the loss pays for, or another."""
    noise = noise or DiscreteLaplace(2 / Fraction(str(loss)))
    return accountant.release(VALUES, noise, rng or SecureBits(), name=name, loss=loss, sensitivity=CHANGE)


def test_an_entry_holds_what_was_charged_as_data():
    before = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time()))
    accountant = PrivacyAccountant(2, 1e-6)
    release(accountant, noise=DiscreteLaplace([16, 8, 16]))
    accountant.release(VALUES, DiscreteGaussian(40), SeededBits(0), name="moments", loss=PrivacyLoss(rho=0.001))
    first, second = accountant.ledger
    facts = dataclasses.asdict(first)
    assert facts.pop("loss") == {"epsilon": Fraction(1, 4), "delta": 0, "rho": None, "gaussian": False, "rows": 1}
    assert facts.pop("sensitivity") == {"relation": "replace_one", "l1": 2, "l2_squared": 2, "sup": 1, "nuclear": None, "statistic": None}
    assert before <= facts.pop("time") <= time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time()))
    said = {"name": "counts", "neighboring": "replace_one", "noise": "DiscreteLaplace", "scale": (8, 16), "n_values": 3}
    said |= {"randomness": "secure", "id": first.id, "version": __version__}
    assert facts == said | dict.fromkeys(("group", "part_of", "unit", "dataset", "process", "note", "source"))
    assert (second.noise, second.scale, second.sensitivity, second.randomness) == ("DiscreteGaussian", (40,), None, "seeded")
    assert second.loss == PrivacyLoss(rho=0.001)
    assert (first.describe(), accountant.noise_of(first)) == ("DiscreteLaplace(scale=8, 16)",) * 2
    assert LedgerEntry("links", PrivacyLoss(1)).describe() is None
    with pytest.raises(AttributeError):
        accountant.ledger[0].loss = PrivacyLoss(0.1)


def family():
    """An accountant whose entries have parts, and parts of parts."""
    accountant = PrivacyAccountant(10)
    accountant.spend(1, name="first")
    child = accountant.child(2, name="model", group="blocks")
    release(child, name="counts")
    release(child.child(1, name="inner"), name="deep", rng=SeededBits(0))
    release(accountant, name="last")
    return accountant


@pytest.mark.parametrize("made", [family, lambda: family().record(), lambda: pickle.loads(pickle.dumps(family().record()))])
def test_parts_name_the_entry_that_paid_for_them(made):
    accountant = made()
    first, model, last = accountant.ledger
    assert [entry.name for entry in accountant.ledger] == ["first", "model", "last"]
    assert [entry.part_of for entry in accountant.ledger] == [None] * 3
    counts, inner = accountant.parts_of(model)
    (deep,) = accountant.parts_of(inner)
    assert (counts.name, inner.name, deep.name) == ("counts", "inner", "deep")
    assert (counts.part_of, inner.part_of, deep.part_of) == (model.id, model.id, inner.id)
    assert accountant.parts_of(first) == accountant.parts_of(deep) == ()
    numbers = [entry.id for entry in (first, model, counts, inner, deep, last)]
    assert len(set(numbers)) == 6
    assert (model.randomness, inner.randomness, last.randomness, first.randomness) == ("seeded", "seeded", "secure", None)
    assert accountant.noise_of(model) == accountant.noise_of(inner) == "DiscreteLaplace(scale=8)"
    frame = accountant.to_frame("polars", parts=True)
    assert frame["part_of"].to_list() == [None, None, "model", "model", "model / inner", None]
    assert [above for _, above in accountant.lines()] == [None, None, "model", "model", "model / inner", None]


losses = st.one_of(
    st.floats(0.01, 2).map(PrivacyLoss),
    st.builds(PrivacyLoss, st.floats(0.01, 2), st.floats(1e-9, 1e-7)),
    st.floats(1e-5, 0.1).map(lambda rho: PrivacyLoss(rho=rho)),
)
children = st.tuples(st.floats(0.01, 2), st.sampled_from([0, 1e-8]), st.sampled_from([None, "a", "b"]), st.sampled_from("xy"))


@given(charges=st.lists(st.one_of(losses, children), max_size=12))
@settings(max_examples=25, deadline=None)
def test_the_columns_of_the_frame_sum_to_what_was_spent(charges):
    accountant = PrivacyAccountant(1000, 1e-5)
    accountant._planned = True  # what losses add up to, in whatever order a plan has them
    for charge in charges:
        if isinstance(charge, PrivacyLoss):
            accountant.spend(charge, name="step")
        else:
            epsilon, delta, group, name = charge
            release(accountant.child(epsilon, delta, name=name, group=group), loss=epsilon, noise=DiscreteLaplace(10**4))
    for mine in (accountant, accountant.record()):
        frame, parts = mine.to_frame(), mine.to_frame(parts=True)
        assert frame["epsilon"].sum() == pytest.approx(float(mine.spent), rel=1e-9)
        assert frame["delta"].sum() == pytest.approx(float(mine.spent_delta), rel=1e-9)
        assert len(frame) == len(mine.ledger) == len(charges)
        assert len(parts) == len(charges) + sum(not isinstance(charge, PrivacyLoss) for charge in charges)
        assert parts["epsilon"].sum() == pytest.approx(float(mine.spent), rel=1e-9)  # parts add nothing
        assert parts["part_of"].notna().equals(parts["epsilon"].isna())


def spends(accountant, n):
    for _ in range(n):
        accountant.spend(0.1, name="step")


def releases(accountant, n):
    for i in range(n // 8):
        release(accountant.child(1, name=f"block {i}", group="blocks"))
    accountant.to_frame(parts=True)


@pytest.mark.parametrize("work", [spends, releases])
def test_work_is_linear_in_the_charges(work):
    """Twice the charges call twice as many functions, not four times."""
    half, whole = (calls_of(partial(work, PrivacyAccountant(10**6), n)) for n in (200, 400))
    assert whole < 2.5 * half


@given(members=st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=10))
@settings(max_examples=40, deadline=None)
def test_members_of_one_name_add_and_of_different_names_the_largest_counts(members):
    parent = PrivacyAccountant(1000, 0.001)  # so small that the conversion of many pure losses to rho gains nothing
    for name, tenths, delta in members:
        parent.child(Fraction(tenths, 10), Fraction(delta, 10**6), name=name, group="strata")
    epsilons = {name: Fraction(sum(t for n, t, _ in members if n == name), 10) for name, _, _ in members}
    deltas = {name: Fraction(sum(d for n, _, d in members if n == name), 10**6) for name, _, _ in members}
    for accountant in (parent, parent.record(), parent.record().reopen()):
        assert (accountant.spent, accountant.spent_delta) == (max(epsilons.values()), max(deltas.values()))
    assert parent.was_charged(members[0][0], "strata")
    assert not parent.was_charged("d", "strata")
    assert not parent.was_charged("a", "others")


def stream(n, keep, window=4):
    """A ledger of n blocks of which the last few are kept apart."""
    accountant = PrivacyAccountant(1)
    for i in range(n):
        child = accountant.child(Fraction(1 + i % 3, 3), name=f"block {i}", group="blocks")
        release(child, loss=Fraction(1, 3))
        child.close()
        if keep and i >= window:
            accountant.fold("blocks", [f"block {i - window}"], into="earlier blocks")
    return accountant


def test_folding_keeps_the_total_and_bounds_the_entries():
    for n in (1, 5, 6, 50):
        whole, folded = stream(n, keep=False), stream(n, keep=True)
        for accountant in (folded, folded.record(), pickle.loads(pickle.dumps(folded.record())), folded.record().reopen()):
            assert (accountant.spent, accountant.spent_delta) == (whole.spent, whole.spent_delta)
            assert len(accountant.ledger) <= 5
            assert sum(1 for _ in accountant.lines()) <= 9
            assert accountant.to_frame()["epsilon"].sum() == pytest.approx(float(whole.spent))
    assert [entry.name for entry in folded.ledger] == ["earlier blocks", *(f"block {i}" for i in range(46, 50))]
    assert (folded.ledger[0].loss, folded.ledger[0].randomness) == (PrivacyLoss(1), "secure")
    before = folded.ledger
    folded.fold("blocks", ["block 77"], into="sum")
    folded.fold("strata", ["block 49"], into="sum")
    assert folded.ledger == before
    assert folded.was_charged("earlier blocks", "blocks")
    with pytest.raises(BudgetExceededError):
        folded.child(Fraction(1, 100), name="earlier blocks", group="blocks")  # a folded name still adds


def test_a_child_that_was_folded_away_has_nothing_left_to_spend():
    accountant = PrivacyAccountant(1)
    first, second = (accountant.child(1, name=name, group="g") for name in "ab")
    release(first, loss=1, rng=SeededBits(0))
    accountant.fold("g", ["a", "b"], into="sum")
    for child in (first, second):
        refuses(BudgetExceededError, "'counts' cannot be charged to what was folded into a sum", release, child, loss=1)
    assert (accountant.spent, accountant.ledger[0].randomness) == (1, "seeded")


def test_only_a_record_can_be_reopened():
    accountant = PrivacyAccountant(1)
    release(accountant)
    refuses(ValueError, "Only a closed record can be reopened, and this accountant is open; go on with it", accountant.reopen)
    again = accountant.record().reopen()
    assert (again.closed, again.spent, again.ledger) == (False, Fraction(1, 4), accountant.ledger)
    refuses(BudgetExceededError, "charge", again.spend, 0.8, name="more")
    again.spend(0.75, name="rest")
    assert accountant.spent == Fraction(1, 4)


@pytest.mark.parametrize("n_before", [0, 1, 3])
def test_a_reopened_child_numbers_its_entries_apart_from_its_own_charge(n_before):
    """A number that is that of its account would make an entry a part of itself."""
    accountant = PrivacyAccountant(10)
    for _ in range(n_before):
        accountant.spend(1, name="before")
    child = accountant.child(5, name="model")
    again = pickle.loads(pickle.dumps(child.record())).reopen()
    for i in range(4):
        again.child(1, name=f"part {i}").spend(1, name="inner")
    assert [entry.name for entry, _ in again.lines()] == [name for i in range(4) for name in (f"part {i}", "inner")]
    assert (again.spent, again.record().ledger) == (4, again.ledger)


def test_a_closed_child_is_pickled_with_its_own_entries_only():
    accountant = PrivacyAccountant(100)
    accountant.spend(1, name="a secret project")
    first, second = (accountant.child(2, name=name) for name in ("first", "second"))
    release(first, name="of the first")
    release(second.child(1, name="inner"), name="of the second")
    second.close()
    text = pickle.dumps(second)
    assert b"a secret project" not in text
    assert b"of the first" not in text
    copy = pickle.loads(text)
    assert [(entry.name, above) for entry, above in copy.lines()] == [("inner", None), ("of the second", "inner")]
    assert (copy.spent, copy.epsilon, copy.ledger) == (1, 2, second.ledger)


@pytest.mark.parametrize("part_of", [7, 8])
def test_a_ledger_whose_entries_are_parts_of_themselves_is_refused(part_of):
    """It would be read for ever; only a file that was changed by hand holds one."""
    accountant = PrivacyAccountant(1)
    accountant.close()
    state = accountant.__getstate__() | {"_entries": [LedgerEntry("a", PrivacyLoss(1), id=7, part_of=part_of)]}
    with pytest.raises(ValueError, match="entries must be numbered after what they are part of, got 7; the ledger is damaged"):
        PrivacyAccountant(1).__setstate__(state)


def test_sixteen_threads_take_exactly_what_there_is(restless):
    """Spends, releases, children, and children of children of one budget: 100 hundredths, no more and no less, and each in the ledger."""
    accountant = PrivacyAccountant(1)
    shared = accountant.child(Fraction(1, 2), name="shared")
    granted = []

    def take(i):
        mine = (accountant, shared)[i % 2]
        for j in range(20):
            name = f"{i}-{j}"
            try:
                if j % 3 == 0:
                    mine.spend(0.01, name=name)
                elif j % 3 == 1:
                    release(mine, loss=0.01, name=name)
                else:
                    release(mine.child(0.01, name=name), loss=0.01, name="all")
            except BudgetExceededError:
                continue
            granted.append((i % 2, name))

    in_threads(*(partial(take, i) for i in range(16)))
    assert len(granted) == 100
    assert accountant.spent == accountant.epsilon == 1
    assert shared.spent == Fraction(1, 2)
    for which, mine in enumerate((accountant, shared)):
        names = sorted(name for w, name in granted if w == which)
        assert sorted(entry.name for entry in mine.ledger if entry.name != "shared") == names
    assert len({entry.id for entry, _ in accountant.lines()}) == sum(1 for _ in accountant.lines())


def test_what_is_closed_while_others_spend_takes_nothing_more(restless):
    """A record made after `close` has returned misses no charge."""
    for _ in range(30):
        accountant = PrivacyAccountant(10**6)
        records = []

        def work(i, accountant=accountant, records=records):
            if i == 0:
                accountant.close()
                records.append(accountant.reopen())
                return
            for _ in range(20):
                try:
                    accountant.spend(1, name="a")
                except BudgetExceededError:
                    return

        in_threads(*(partial(work, i) for i in range(4)))
        assert records[0].spent == accountant.spent


def test_a_process_forked_while_a_thread_makes_a_lock_can_make_locks():
    def make():
        accountant = PrivacyAccountant(1)
        accountant.spend(0.5, name="a")
        return accountant.spent

    with _parallel._creation_lock:
        assert in_child(make, 5) == Fraction(1, 2)


@pytest.mark.parametrize("whose", [lambda accountant: accountant, lambda accountant: accountant._account.ledger.store])
def test_a_process_forked_while_another_thread_holds_a_lock_can_read(whose):
    accountant = PrivacyAccountant(1)
    release(accountant)
    held, done = threading.Event(), threading.Event()

    def hold():
        with lock_of(whose(accountant)):
            held.set()
            done.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)

    def read():
        with pytest.raises(RuntimeError):
            accountant.spend(0.1, name="a")
        own = PrivacyAccountant(1)
        own.spend(0.5, name="own")
        return accountant.spent, len(accountant.ledger), len(accountant.record().to_frame()), own.spent

    try:
        assert in_child(read, 5) == (Fraction(1, 4), 1, 1, Fraction(1, 2))
    finally:
        done.set()
        thread.join()


DOOR = ("_accountant", "_composition", "_ledger", "_ledger_entry", "_ledger_file", "_ledger_views")
DOOR = tuple(str(Path(privacy.__file__).parent / f"{name}.py") for name in DOOR)


def direct(accountant):
    release(accountant, Fraction(1, 5), "a", CountedNoise(10))


def in_a_group(accountant):
    direct(accountant.child(Fraction(1, 5), name="rows", group="blocks"))


def in_a_new_group(accountant):
    direct(accountant.child(Fraction(1, 5), name="rows", group=f"group {len(accountant.ledger)}"))


def in_rho(accountant):
    release(accountant, PrivacyLoss(rho=Fraction(1, 50)), "a", CountedNoise(10))


@pytest.fixture
def account(request, tmp_path, unflushed):
    """Make an accountant with a ledger in memory, or in a file: a new one each time."""
    numbers = count()
    return lambda *budget: PrivacyAccountant(*budget, ledger=tmp_path / f"{next(numbers)}.db" if request.param == "file" else None)


def places():
    """In memory at each line. In a file, which has many more, by day where lines of all kinds run, and not each of them."""
    for draw in (direct, in_a_group, in_a_new_group, in_rho):
        yield pytest.param(draw, "memory", 1, id=f"memory-{draw.__name__}", marks=pytest.mark.must)
        lane = () if draw in (in_a_new_group, in_rho) else pytest.mark.nightly
        yield pytest.param(draw, "file", 9 if draw is in_a_new_group else 3, id=f"file-{draw.__name__}", marks=lane)


@pytest.mark.parametrize(("draw", "account", "step"), list(places()), indirect=["account"])
def test_an_interrupt_at_any_line_never_leaves_a_draw_uncharged(draw, account, step):
    """And what is charged without a draw is at most the one that was interrupted; the accountant goes on."""
    line, came_so_far = 1, True
    while came_so_far:
        accountant = account(100, 1e-6)
        CountedNoise.drawn = 0
        draw(accountant)
        came_so_far = interrupted(partial(draw, accountant), line, DOOR)
        worker = threading.Thread(target=draw, args=(accountant,), daemon=True)
        worker.start()
        worker.join(20)
        assert not worker.is_alive()  # no lock is held
        times = CountedNoise.drawn
        cost = [charged(n, draw) for n in (times, times + 1)]
        assert cost[0] <= accountant.spent <= cost[1]
        assert times == 2 + (not came_so_far)
        assert accountant.record().spent <= accountant.spent
        assert len({entry.id for entry, _ in accountant.lines()}) == sum(1 for _ in accountant.lines())
        line += step
    assert line > 15


@pytest.mark.parametrize("account", [pytest.param("memory", marks=pytest.mark.must), "file"], indirect=True)
def test_an_interrupt_at_any_line_of_an_import_leaves_all_or_nothing(account):
    other = PrivacyAccountant(5)
    for name in ("rows 0 to 9", "rows 10 to 19"):
        release(other.child(1, name=name, group="blocks"), name="inner")
    record, line, came_so_far, seen = other.record(), 1, True, set()
    while came_so_far:
        accountant = account(2)
        came_so_far = interrupted(partial(accountant.import_record, record), line, DOOR)
        lines = [entry.name for entry, _ in accountant.lines()]
        seen.add((accountant.spent, len(lines)))
        assert (accountant.import_record(record), accountant.spent) == (4 - len(lines), 1)
        line += 17 if accountant._account.ledger.store.is_file else 1  # a file has many more lines
    assert seen == {(0, 0), (1, 4)}


def charged(n, draw):
    return epsilon_of_rho(Fraction(n, 50), 1e-6) if draw is in_rho else Fraction(n, 5)
