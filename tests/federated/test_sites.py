"""Sites that each hold a part of the rows: the same model as of all rows, what each refuses, and masks, which cancel in the sum."""

import pickle
from collections import Counter
from dataclasses import replace
from functools import reduce
from itertools import combinations, product
from operator import add
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from estimators import Recorder
from internals import Round, _serialization, _sites
from laws import ALARM, chi_squared
from parties import FITS, SCHEMA, TABLES, learned, numbers, patients, sites_of
from sklearn.base import clone

from skdpsynth import LatentFactorSynthesizer, LowDimSynthesizer, OnlineSynthesizer, PrivacyAccountant, PrivateMeasureMechanism
from skdpsynth.domain import Schema
from skdpsynth.federated import Masks, RemoteRows, Site, Sites
from skdpsynth.persistence import from_bytes, savable, to_bytes
from skdpsynth.statistics import Aggregator, CountRows, EvenCells, Histogram, Magnitudes, Question, Trees

pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning"), pytest.mark.usefixtures("hasty")]
each = pytest.mark.parametrize("name", FITS)
PMM = PrivateMeasureMechanism("optimal", depth=5)


def made(name, neighboring="replace_one"):
    model, kind = FITS[name]
    return clone(model).set_params(random_state=7, neighboring=neighboring), TABLES[kind]()


def messages_of(model, X):
    """The messages by which a fit to a table asks for sums."""
    site, messages = Site(X, max_questions=100), []

    def carry(message):
        messages.append(message)
        return site.answer(message)

    clone(model).fit(Sites({"only": carry}, head=X[:0]))
    return messages


def message_of(question, number=1, session="0" * 32):
    return to_bytes(Round(session, number, question))


COUNT = messages_of(PMM, numbers())[0]
# The model


@pytest.mark.parametrize(
    ("name", "neighboring"),
    [*((name, "replace_one") for name in FITS), *((name, "add_or_remove_one") for name in ("pca", "pmm-optimal", "psmm", "latent-table"))],
)
def test_twenty_sites_give_the_model_of_all_rows_in_one_table(name, neighboring):
    model, X = made(name, neighboring)
    whole = learned(model.fit(X))
    agreed = {"schema": SCHEMA} if name == "latent-table" else {"bounds": (0, 1)}
    sites, together = sites_of(X, 20, **agreed)
    pd.testing.assert_frame_equal(learned(clone(model).fit(together)), whole, check_exact=True)
    assert all(site.log == sites["site 0"].log for site in sites.values())


@pytest.mark.parametrize("name", ["pca", "pmm-adaptive", "psmm-cells", "low-dim"])
def test_whoever_sums_what_is_asked_gives_the_model_of_all_rows(name):
    model, X = made(name)
    parts = [X[:1], X[1:300], X[300:]]

    def statistics(question):
        return reduce(add, map(pickle.loads(pickle.dumps(question)).of, parts))

    def vectors(question):
        again = from_bytes(to_bytes(question))
        return np.sum([again.of(part).flat for part in parts], axis=0)

    whole = learned(clone(model).fit(X))
    for ask in (statistics, vectors):
        pd.testing.assert_frame_equal(learned(clone(model).fit(RemoteRows(ask, head=X[:0]))), whole, check_exact=True)


def test_a_number_of_rows_that_is_known_is_not_asked_for():
    sites, together = sites_of(numbers(), 3, n_samples=800)
    assert PMM.fit(together).n_samples_ == 800
    assert ["rows" in line for line in sites["site 0"].log] == [False]


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_samples_come_back_in_the_kind_of_table_of_the_head(backend):
    frame = pd.DataFrame(numbers(), columns=list("abcd"))
    library = pytest.importorskip(backend)
    head = {"pandas": lambda: frame, "polars": lambda: library.from_pandas(frame), "pyarrow": lambda: library.Table.from_pandas(frame)}
    sample = PMM.fit(sites_of(frame, 3, head=head[backend]()[:0] if backend != "pyarrow" else head[backend]())[1]).sample(5)
    assert type(sample).__module__.split(".")[0] == backend


def test_sites_may_hold_their_rows_in_whatever_kind_of_table(tmp_path):
    pytest.importorskip("pyarrow")
    X = pd.DataFrame(numbers(), columns=list("abcd"))
    X[700:].to_csv(tmp_path / "rows.csv", index=False)
    tables = {"frame": X[:300], "chunks": [X[300:500], X[500:700]], "file": tmp_path / "rows.csv"}
    masks = Masks.for_all(tables)
    model, _ = made("pmm-adaptive")
    with pytest.raises(ValueError, match=r"^bounds must be given for a CSV file without a schema, [^\n]*; give bounds, or schema\.$"):
        Site(tables["file"])
    sites = {name: Site(table, bounds=(0, 1) if name == "file" else None, masks=masks[name]) for name, table in tables.items()}
    together = Sites({name: site.answer for name, site in sites.items()}, head=X[:0])
    pd.testing.assert_frame_equal(learned(clone(model).fit(together)), learned(model.fit(X)), check_exact=True)


@each
def test_no_message_grows_with_the_rows(name):
    model, X = made(name)
    few, many = Site(X[:1]), Site(X)
    for message in messages_of(model, X):
        assert len(few.answer(message)) == len(many.answer(message)) == 32 + 8 * (Round.from_bytes(message).question.rule.n_values + 1)


@each
def test_questions_hold_no_row(name):
    """Of two tables with all rows but one alike, the questions before the first noise are equal but for the session."""
    model, X = made(name)
    twice = np.r_[1, 1 : len(X)]
    other = X[twice] if isinstance(X, np.ndarray) else X.iloc[twice]
    before = [[to_bytes(Round.from_bytes(message).question) for message in messages_of(model, table)[:2]] for table in (X, other)]
    assert before[0] == before[1]


def test_what_is_asked_can_be_looked_at_before_it_is_answered():
    site = Site(numbers())
    told = [repr(site.read(message)).partition(": ")[2] for message in messages_of(made("pca")[0], numbers())]
    assert told[0] == "the number of rows, of a table of 4 columns)"
    assert told[-1] == "what rows beyond a radius change in sums and products of 4 columns, of a table of 4 columns)"
    assert site.log == []
    site.answer(COUNT)
    assert site.log[0].endswith("question 1: the number of rows, of 4 columns")


def test_a_question_is_answered_once():
    site = Site(numbers(), masks=Masks.for_all(["a", "b"])["a"])
    first, second = messages_of(PMM, numbers())
    site.answer(second)
    for message in (first, second):
        with pytest.raises(ValueError, match="was asked before, and a mask serves once"):
            site.answer(message)
    assert len(site.log) == 1
    site.answer(message_of(Round.from_bytes(first).question))  # of another session


@pytest.mark.parametrize("name", [name for name in FITS if name != "latent-table"])
def test_other_bounds_than_were_agreed_on_are_refused(name):
    model, X = made(name)
    agreed, other = Site(X, bounds=(0, 1)), Site(X, bounds=([0, 0, 0, 0], [1, 1, 2, 1]))
    for message in messages_of(model, X):
        agreed.answer(message)
        if "number of rows" in repr(agreed.read(message)) and name != "latent":
            other.answer(message)
        else:
            with pytest.raises(ValueError, match="takes other bounds than this site agreed to"):
                other.answer(message)


FRAME = pd.DataFrame(numbers(), columns=list("abcd"))
QUESTION = Round.from_bytes(COUNT).question
NO_QUESTION = r"^question [^\n]*$|^depths must [^\n]*$"


def asked(model=PMM, table=None, place=0):
    return messages_of(model, numbers() if table is None else table)[place]


def of_rule(rule, maps=QUESTION.maps):
    return message_of(Question((0, 1, 2, 3), maps, rule))


def test_what_does_not_fit_a_site_is_refused_in_one_sentence():
    of_latent, same = asked(made("latent-table")[0], patients()), "X must have the 4 columns that are asked for"
    one_cell = replace(Round.from_bytes(asked(place=1)).question.rule, n_cells=1)
    strange = patients().assign(age=pd.Timestamp("2020-01-01"))
    unanswered = [  # (site, message, words)
        *((Site(X), asked(table=FRAME), same) for X in (FRAME[list("bacd")], FRAME[list("abc")], numbers())),
        (Site(numbers()[:, :3]), COUNT, same),
        (Site(patients(), schema=Schema({**SCHEMA, "age": (0, 120)})), of_latent, "takes other bounds|takes another schema"),
        (Site(patients(), bounds=(0, 1)), of_latent, "takes other bounds|takes another schema"),
        (Site(numbers(), schema=dict.fromkeys(range(4), (0.0, 1.0))), asked(place=1), "takes another schema"),
        (Site(strange), of_latent, "column 'age' has dtype datetime64.*, but is continuous in schema"),
        (Site(numbers(), max_values=31), asked(place=1), "at most max_values=31 numbers, got 32"),
        (Site(numbers()), of_rule(one_cell), r"does not fit the table of this site, or is damaged \(\w+\)"),
        *((Site(numbers()), message, NO_QUESTION) for message in (b"", b"no zip at all", to_bytes(PMM), to_bytes(QUESTION), COUNT[:-30])),
        (Site(numbers()), message_of(QUESTION, number=0), NO_QUESTION),
        *((Site(numbers()), of_rule(CountRows(), maps), NO_QUESTION) for maps in ((), (PMM,))),
        *((Site(numbers()), of_rule(rule), NO_QUESTION) for rule in (PMM, Trees.over([10**12]))),
    ]
    for site, message, words in unanswered:
        with pytest.raises((TypeError, ValueError), match=words) as caught:
            site.answer(message)
        assert "\n" not in str(caught.value)


def test_what_a_library_says_of_a_cell_does_not_leave_its_site(monkeypatch):
    quoting = UnicodeDecodeError("utf-8", b"SECRET", 0, 1, "SECRET")  # a ValueError, as those of Arrow are
    monkeypatch.setattr(CountRows, "add", Mock(side_effect=quoting))
    with pytest.raises(ValueError, match="UnicodeDecodeError") as caught:
        Site(numbers()).answer(of_rule(CountRows()))
    assert "SECRET" not in str(caught.value)
    assert caught.value.__context__ is None


def test_questions_are_limited_and_one_that_failed_is_not_answered_after_all():
    X = numbers()
    X[5, 0] = np.nan
    site = Site(X, max_questions=2)
    with pytest.raises(ValueError, match="NaN"):
        site.answer(COUNT)
    X[5, 0] = 0
    with pytest.raises(ValueError, match="was asked before"):
        site.answer(COUNT)
    site.answer(message_of(QUESTION, 2))
    with pytest.raises(ValueError, match="has answered max_questions=2 questions"):
        site.answer(message_of(QUESTION, 3))


@pytest.mark.parametrize(
    "rule",
    [EvenCells.over([0], [0.0], [1.0], 2**40), Magnitudes.over(range(2**17)), Histogram.over_cells(2**62), Trees.over([62] * 4)],
    ids=lambda rule: type(rule).__name__,
)
def test_a_question_for_more_numbers_than_memory_holds_is_refused_before_they_are_made(rule, monkeypatch):
    message = message_of(Question((0, 1, 2, 3), Round.from_bytes(COUNT).question.maps, rule))
    monkeypatch.setattr(type(rule), "zero", lambda self: pytest.fail("made"))
    with pytest.raises(ValueError, match=r"^question must ask for at most max_values=1000 numbers, got \d+|^depths must"):
        Site(numbers(), max_values=1000).answer(message)


def test_every_rule_that_a_message_can_hold_says_how_many_numbers_it_asks_for():
    rules = [cls for cls in _serialization._CLASSES.values() if issubclass(cls, Aggregator)]
    assert len(rules) >= 9
    assert [cls.__name__ for cls in rules if cls.n_values is Aggregator.n_values] == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Site(None), "X must be a table"),
        (lambda: Site([[1.0, 2.0]]), "X must be a table"),
        (lambda: Site(numbers(), bounds=(0, 1), schema=SCHEMA), "bounds must be None where schema is given"),
        (lambda: Site(numbers(), masks={}), "masks must be None or Masks"),
        (lambda: Site(numbers(), max_questions=0), "max_questions and max_values must be positive"),
        (lambda: Site(patients(), schema={"age": (0, 9)}), "schema must name the columns of X"),
        (lambda: Sites({}, head=numbers()), "sites must be a dict"),
        (lambda: Sites({"a": 3}, head=numbers()), "sites must be a dict"),
        (lambda: Sites({"a": len}, head=[1, 2]), "head must be an array or a data frame"),
        (lambda: Sites({"a": len}, head=numbers(), n_samples=1.5), "n_samples must be None or a number of rows"),
        (lambda: RemoteRows(3, head=numbers()), "ask must be callable"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_made(wrong, message):
    with pytest.raises((TypeError, ValueError), match=message):
        wrong()


@pytest.mark.parametrize("carried", [b"", b"x" * 64, None, "text"])
def test_a_site_that_does_not_answer_makes_the_fit_fail_and_costs_nothing_at_first(carried):
    accountant = PrivacyAccountant(1.0)
    sites, _ = sites_of(numbers(), 3)
    carriers = {name: site.answer for name, site in sites.items()}
    carriers["site 1"] = lambda message: carried
    with pytest.raises(ConnectionError, match=r"^Site 'site 1' did not answer question 1, the number of rows \(\w+\); no sum"):
        clone(PMM).set_params(accountant=accountant).fit(Sites(carriers, head=numbers()))
    assert accountant.spent == 0
    site = Site(numbers(), max_questions=2)
    with pytest.raises(ConnectionError, match="did not answer question 3, counts of"):  # after the first noise
        made("pmm-adaptive")[0].set_params(accountant=accountant).fit(Sites({"only": site.answer}, head=numbers()))
    assert accountant.spent == 1


def test_masks_that_do_not_cancel_are_found_out():
    sites, _ = sites_of(numbers(), 4)
    carriers = {name: site.answer for name, site in sites.items()}
    left_out = {name: carry for name, carry in carriers.items() if name != "site 2"}
    strange = carriers | {"site 2": Site(numbers(), masks=Masks.for_all(["site 1", "site 2"])["site 2"]).answer}
    for wrong in (left_out, strange):
        with pytest.raises(ValueError, match="The masks of the sites do not cancel"):
            clone(PMM).fit(Sites(wrong, head=numbers()))


def test_what_needs_rows_says_that_there_are_none_before_anything_is_spent():
    shared, together = PrivacyAccountant(1.0), sites_of(numbers(), 3)[1]
    for work in (
        PMM.fit(numbers()).score,
        OnlineSynthesizer().partial_fit,
        LatentFactorSynthesizer(strategy="scores", accountant=shared).fit,
        LowDimSynthesizer(2, synthesizer=Recorder(), accountant=shared).fit,
    ):
        with pytest.raises(TypeError, match="X lies elsewhere, so its rows can be summed but not read"):
            work(together)
    assert shared.spent == 0


@savable
class _Halves:
    """A partition of the caller's own."""

    depth = 1

    def locate(self, X):
        return (X[:, 0] > 0.5).astype(int)

    def diameters(self, level):
        return 1.0 / (1 + level)

    def sample(self, cells, level, rng):
        return np.full((len(cells), 4), 0.25) + 0.5 * cells[:, None]


def test_a_partition_of_ones_own_is_sent_if_it_can_be_saved_and_else_refused_before_anything_is_spent():
    model = PrivateMeasureMechanism("optimal", partition=_Halves(), random_state=0)
    whole = learned(clone(model).fit(numbers()))
    pd.testing.assert_frame_equal(learned(model.fit(sites_of(numbers(), 3)[1])), whole, check_exact=True)
    accountant = PrivacyAccountant(1.0)
    plain = type("Plain", (_Halves,), {})()
    with pytest.raises(TypeError, match="cannot be saved"):
        PrivateMeasureMechanism("optimal", partition=plain, accountant=accountant).fit(sites_of(numbers(), 3)[1])
    assert accountant.spent == 0


def test_nothing_shows_rows_or_keys():
    masks = Masks.for_all(["a", "b"])
    site = Site(np.full((7, 2), 0.123), masks=masks["a"])
    assert repr(masks["a"]) == "Masks('a', with 1 others)"
    assert repr(site) == "Site(2 columns, 0 questions answered)"
    assert repr(Sites({"a": site.answer}, head=np.empty((0, 2)))) == "Sites(1 sites, 2 columns)"


NAMES = ["east", "north", "south", "west"]
HALF = np.full(1000, 2**63, dtype=np.uint64)


@pytest.mark.parametrize("n_sites", [2, 3, 20])
def test_masks_cancel_in_the_sum_of_all_sites(n_sites):
    masks = Masks.for_all([f"site {i}" for i in range(n_sites)])
    values = np.random.default_rng(0).integers(-(2**40), 2**40, (n_sites, 500))
    hidden = [site.hide(row.view(np.uint64), b"q") for site, row in zip(masks.values(), values, strict=True)]
    assert np.array_equal(np.sum(hidden, axis=0, dtype=np.uint64).view(np.int64), values.sum(axis=0))
    assert not np.array_equal(np.sum(hidden[1:], axis=0, dtype=np.uint64).view(np.int64), values[1:].sum(axis=0))


def test_what_sites_send_is_uniform_among_all_with_their_sum(monkeypatch):
    """Exactly, of numbers modulo 4 and three sites: every list of masks of sum 0 comes from equally many pads."""
    pads: dict = {}
    monkeypatch.setattr(_sites, "_pad", lambda key, pair, question, size: np.array([pads[tuple(pair)]], dtype=np.uint64))
    masks = Masks.for_all(list("abc"))
    zero, seen = np.zeros(1, dtype=np.uint64), Counter()
    for drawn in product(range(4), repeat=3):
        pads.update(zip([("a", "b"), ("a", "c"), ("b", "c")], drawn, strict=True))
        seen[tuple(int(site.hide(zero, b"q")[0]) % 4 for site in masks.values())] += 1
    assert set(seen) == {sent for sent in product(range(4), repeat=3) if sum(sent) % 4 == 0}
    assert set(seen.values()) == {4}


def test_a_mask_is_added_to_whatever_the_site_counts():
    """So that for any two tables each answer to the one is the answer to the other under another pad."""
    site = Masks.for_all(NAMES)["north"]
    values = np.random.default_rng(0).integers(0, 2**63, 1000, dtype=np.uint64)
    assert np.array_equal(site.hide(values, b"q") - values, site.hide(values + HALF, b"q") - values - HALF)


@pytest.mark.parametrize("table", ["no rows but one", "all in one cell", "everywhere"])
def test_what_one_site_sends_is_uniform_noise(table):
    """Each byte of 4097 numbers, by keys of their own."""
    rng = np.random.default_rng(0)
    X = {"no rows but one": rng.random((1, 2)), "all in one cell": np.full((50_000, 2), 0.1), "everywhere": rng.random((50_000, 2))}[table]
    masks, sent = Masks.for_all(["a", "b"]), []

    def carry(message):
        sent.append(Site(X, masks=masks["a"]).answer(message))
        return sent[-1]

    other = Site(rng.random((100, 2)), masks=masks["b"])
    PrivateMeasureMechanism("optimal", depth=12).fit(Sites({"a": carry, "b": other.answer}, head=X[:0]))
    payload = np.frombuffer(sent[-1], dtype=np.uint8, offset=32).reshape(-1, 8)
    assert len(payload) == 4097
    for place in payload.T:
        assert chi_squared(np.bincount(place, minlength=256), np.ones(256), least=10) > ALARM


def test_each_pair_has_one_key_and_no_two_pairs_or_questions_the_same_pad():
    """Even a key that serves two pairs, against the rules: else b would add to a number what it subtracts."""
    masks, zero = Masks.for_all(NAMES), np.zeros(1000, dtype=np.uint64)
    assert all(masks[a]._keys[b] == masks[b]._keys[a] for a in NAMES for b in NAMES if a != b)
    assert len({key for site in masks.values() for key in site._keys.values()}) == 6
    pads = [_sites._pad(b"k" * 32, pair, b"q", 1000) for pair in (["a", "b"], ["b", "c"], ["a", "c"])]
    pads += [masks["north"].hide(zero, question) for question in (b"1", b"2")]
    assert not any((first == second).any() for first, second in combinations(pads, 2))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Masks("a", {"b": "k" * 32}), r"keys\['b'\] must be 32 bytes"),
        (lambda: Masks("a", {"b": b"k" * 31}), r"keys\['b'\] must be 32 bytes"),
        (lambda: Masks("a", {"a": b"k" * 32}), "names of all sites but 'a'"),
        (lambda: Masks("a", [b"k" * 32]), "names of all sites but 'a'"),
        (lambda: Masks(1, {"a": b"k" * 32}), "names of all sites but 1"),
        (lambda: Masks("a", {}), "a key for each other site"),
        (lambda: Masks("a", {"b": b"k" * 32, "c": b"k" * 32}), "no two alike"),
        (lambda: Masks.for_all(["a"]), "at least two sites"),
        (lambda: Masks.for_all(["a", "a"]), "distinct names"),
    ],
)
def test_wrong_keys_are_refused_and_not_shown(wrong, message):
    with pytest.raises(ValueError, match=message) as caught:
        wrong()
    assert "kkk" not in str(caught.value)
