"""Release cards and quality reports: what they say, and what must never stand in them."""

import hashlib
import inspect
import json
import math
import os
import re
import stat
import sys
from datetime import time
from functools import partial

import numpy as np
import pytest
from laws import refuses
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError

from skdpsynth import (
    LatentFactorSynthesizer,
    LinkedTablesSynthesizer,
    LowDimSynthesizer,
    OnlineSynthesizer,
    PrivacyAccountant,
    PrivateMeasureMechanism,
    PrivatePCA,
    SignedMeasureMechanism,
    domain,
    load,
)
from skdpsynth.domain import (
    AtMost,
    Boolean,
    Children,
    Constant,
    Continuous,
    Date,
    DateTime,
    Derived,
    Duration,
    Identifier,
    Nominal,
    Ordinal,
    Schema,
    TimeOfDay,
    Total,
    Unique,
)
from skdpsynth.exceptions import InsecureRandomnessWarning
from skdpsynth.metrics import QualityReport, quality_report
from skdpsynth.persistence import from_bytes, to_bytes
from skdpsynth.plotting import SynthesisDisplay
from skdpsynth.privacy import PrivacyLoss
from skdpsynth.report import card, quality_page

jinja2 = pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")
pd = pytest.importorskip("pandas")


CANARY, LEVEL, WORDS = 0.7318294651, "canary-level-4711", "canary words 0815"
HOSTILE = "<script>alert('x')</script>$\\frac{&\"]]>"


def rows(n_columns=2):
    X = np.random.default_rng(3).random((300, n_columns))
    X[::50] = CANARY
    return X


def people(n=300):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"age": rng.integers(18, 90, n), HOSTILE: rng.random(n), "job": rng.choice(["a", "b"], n)})
    frame.loc[::30, HOSTILE], frame.loc[::40, "job"] = CANARY, LEVEL
    frame["id"], frame["remark"] = [f"{LEVEL}-{row}" for row in range(n)], WORDS
    return frame


SCHEMA = {
    "age": (18, 99),
    HOSTILE: (0.0, 1.0),
    "job": Nominal(["a", "b", "<i>c</i>"], nullable=True),
    "id": Identifier(),
    "remark": Identifier(),
}


def homes(n=300):
    """Homes with up to three persons, one of them an owner."""
    rng = np.random.default_rng(6)
    owner = np.repeat(np.arange(n), rng.integers(1, 4, n))
    is_first = np.append(True, owner[1:] != owner[:-1])
    home = pd.DataFrame({"id": [f"{LEVEL}-{i}" for i in range(n)], HOSTILE: rng.random(n), "members": np.bincount(owner)})
    home.loc[::30, HOSTILE] = CANARY
    person = pd.DataFrame(
        {"home": home["id"].to_numpy()[owner], "role": np.where(is_first, "owner", rng.choice(["guest", "child"], len(owner)))}
    )
    visit = pd.DataFrame({"id": rng.choice(home["id"], 2 * n), "day": rng.integers(0, 99, 2 * n), "room": rng.choice(["a", "b"], 2 * n)})
    return {"home": home, "person": person, "visit": visit}


LINKED = {
    "home": {HOSTILE: (0.0, 1.0), "members": (0, 3)},
    "person": {"role": ["owner", "guest", "child"]},
    "visit": {"day": (0, 99), "room": ["a", "b"]},
}
LINKS = [
    Children("person", of="home", key=("home", "id"), most=3, least=1, head={"role": "owner"}),
    Children("visit", of="home", key="id", most=4, order="day"),
]
RULES = [AtMost(1, {"role": "guest"}, table="person"), Total("home.members", "count(person)")]

MODELS = {
    "pca": lambda: PrivatePCA(1).fit(rows()),
    "pmm": lambda: PrivateMeasureMechanism().fit(rows()),
    "psmm": lambda: SignedMeasureMechanism(16).fit(rows()),
    "lowdim": lambda: LowDimSynthesizer(1).fit(rows()),
    "online": lambda: OnlineSynthesizer(epsilon=0.5).partial_fit(rows()),
    "linked": lambda: LinkedTablesSynthesizer(LINKED, links=LINKS, rules=RULES, delta=1e-6).fit(homes()),
    "latent": lambda: LatentFactorSynthesizer(SCHEMA, epsilon=1.0, delta=1e-6).fit(people()),
}


@pytest.fixture(scope="module")
def cards():
    made = {}

    def get(name):
        if name not in made:
            model = MODELS[name]()
            before = to_bytes(model), model.accountant_.ledger
            made[name] = model, card(model, title="A release"), before
        return made[name]

    return get


each = pytest.mark.parametrize("name", MODELS)


@each
def test_no_value_of_the_rows_stands_in_a_public_card(cards, name):
    _, release, _ = cards(name)
    text = release.to_html() + json.dumps(release.to_registry()) + repr(release) + repr(release.facts)
    for secret in (str(CANARY)[:8], LEVEL, WORDS):
        assert secret not in text
    if name in ("latent", "linked"):  # names of columns are escaped, and what would be found is
        text = release.to_html()
        assert "<script" not in text
        assert "<i>c</i>" not in text
        assert "&lt;script&gt;alert" in text
        assert LEVEL in card(cards(name)[0], title=LEVEL).to_html()


@each
def test_a_card_is_one_valid_page_without_scripts_that_loads_nothing(cards, name):
    html5lib = pytest.importorskip("html5lib")
    html = cards(name)[1].to_html()
    tree = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(html)
    tags = [element.tag for element in tree.iter() if isinstance(element.tag, str)]
    assert {"script", "link", "iframe", "object", "embed", "img"} & {tag.rpartition("}")[2] for tag in tags} == set()
    loads = [value for element in tree.iter() for key, value in element.attrib.items() if str(key).endswith(("src", "href}", "href"))]
    assert all(value.startswith(("#", "data:image/png", "https://skdpsynth.readthedocs.io")) for value in loads)
    ids = [element.attrib["id"] for element in tree.iter() if "id" in element.attrib]
    assert len(ids) == len(set(ids))


@each
def test_what_was_spent_and_every_line_of_the_ledger_stand_on_the_card_which_is_small_and_charges_nothing(cards, name):
    model, release, (state, ledger) = cards(name)
    assert (to_bytes(model), model.accountant_.ledger) == (state, ledger)
    assert release.facts.promise.epsilon == float(model.accountant_.spent)
    assert release.facts.promise.risks == tuple(model.accountant_.risk(fpr) for fpr in (0.01, 0.05, 0.1))
    assert f"<dd>{float(model.accountant_.spent):g}</dd>" in release.to_html()
    assert len(release.to_html().encode()) < 500_000
    names = [entry.name for entry, _ in model.accountant_.lines()]
    assert [line.entry.name for line in release.facts.promise.lines] == names
    assert all(name in release.to_html() for name in names)


def test_expected_errors_and_proved_bounds_stand_on_the_card(cards):
    model, release, _ = cards("pmm")
    assert [bound.name for bound in release.facts.bounds] == ["expected_error_", "error_bound_"]
    assert all(f"{value:.4g}" in release.to_html() for value in (model.expected_error_, model.error_bound_))
    assert [bound.name for bound in cards("pca")[1].facts.bounds] == ["noise_edge_"]
    assert [bound.name for bound in cards("psmm")[1].facts.bounds] == ["solution_"]


def test_the_card_of_linked_tables_tells_how_they_hang_together(cards):
    model, release, _ = cards("linked")
    tables = {table.name: table for table in release.facts.tables}
    assert list(tables) == ["home", "person", "visit"]
    person, visit = tables["person"], tables["visit"]
    assert (person.of, person.key, person.rows, person.order, person.head) == ("home", "home, id", "1 to 3", "", "role = owner")
    assert (visit.of, visit.key, visit.rows, visit.order, visit.head) == ("home", "id", "0 to 4", "day", "")
    assert re.fullmatch(r"1 \(\d+\s%\), 2 \(\d+\s%\), 3 \(\d+\s%\)", person.parents)
    assert 1000 == int(tables["home"].n_synthetic.replace(",", "")) < int(person.n_synthetic.replace(",", ""))
    origins = {column.name: column.origin for column in release.facts.columns}
    assert (origins["home.members"], origins["person.role"], origins["visit.day"]) == ("computed", "stated", "stated")
    assert release.facts.n_columns == len(origins) == model.n_features_in_
    assert [bound.name.partition(" of ")[2] for bound in release.facts.bounds] == [
        " with ".join(tables) for tables in model.marginals_errors_
    ]
    html = release.to_html()
    assert all(f"<figcaption><b>Columns.</b> {name}" in html for name in ("role", "day and room"))
    assert "AtMost(n=1" in html
    assert not {"schemas", "links", "rules"} & {name for name, _ in release.facts.parameters}
    assert release.to_registry()["deployment"]["dp_variant"]["data_domain"].startswith("3 linked tables of 8 columns")


@pytest.mark.must
def test_only_the_number_of_roots_is_public_of_linked_tables(cards, tmp_path):
    """Whatever a card is made of: the model, a copy of it, its ledger or that of the budget, in a file or not."""
    PrivacyAccountant(2, 1e-5, ledger=tmp_path / "budget.db")
    model = LinkedTablesSynthesizer(LINKED, links=LINKS, delta=1e-6, accountant=str(tmp_path / "budget.db")).fit(homes())
    held = [cards("linked")[0], from_bytes(to_bytes(model)), model.accountant_, PrivacyAccountant.at(tmp_path / "budget.db")]
    for thing in held:
        release = card(thing)
        html = release.to_html()
        assert "The number of rows of home is public. Those of all other tables are private." in html
        assert "One row of home with all that hang on it (person, visit)." in html
        assert "number of rows is public" not in html
        assert release.to_registry()["deployment"]["dp_variant"]["unprotected_quantities"] == "The number of rows of home."
    relation = {"neighboring": "add_or_remove_one", "accountant": PrivacyAccountant(2, neighboring="add_or_remove_one")}
    added = LinkedTablesSynthesizer(LINKED, links=LINKS, **relation).fit(homes())
    assert "The number of rows of home is private too. Those of all other tables are private." in card(added).to_html()
    PrivateMeasureMechanism(**relation).fit(rows())
    assert ONE_UNIT in card(relation["accountant"]).to_html()


def test_a_private_page_of_linked_tables_compares_them(cards):
    model, real = cards("linked")[0], homes()
    page = quality_page(model.evaluate(real)).to_html()
    assert "person, siblings by root" in page
    assert all(f"{table}, rows" in page for table in real)


def units_and_rows():
    frame = pd.DataFrame(rows(), columns=["a", "b"]).assign(who=np.arange(300) // 3)
    budget = PrivacyAccountant(3.0)
    PrivateMeasureMechanism(max_rows_per_unit=3, accountant=budget).fit(frame, unit="who")
    before = card(budget.record())
    PrivateMeasureMechanism(accountant=budget).fit(frame[["a", "b"]])
    return before, card(budget)


def lossy():
    budget = PrivacyAccountant(3, 1e-5, dataset="visits")
    budget.spend(PrivacyLoss(epsilon=1, delta=1e-6), name="a release")
    return card(budget)


def of_model(X=None, **parameters):
    return card(PrivateMeasureMechanism(**parameters).fit(rows() if X is None else X))


ONE_UNIT = "One row that is the only one of its unit, because not all releases protect the same unit."
SAID = {  # a card, what it says and what it does not
    "seeded": (partial(of_model, random_state=918273), ("NOT PRIVATE. The noise was seeded", "<dd>void</dd>"), ("Made for", "918273")),
    "no noise": (partial(of_model, epsilon=math.inf), ("NOT PRIVATE. epsilon is infinite",), ("Made for the public",)),
    "units": (lambda: units_and_rows()[0], ("who, at most 3 rows",), ()),
    "units and rows": (lambda: units_and_rows()[1], (ONE_UNIT,), ("one unit (row",)),
    "huge epsilon": (partial(of_model, epsilon=500.0), ("Next to nothing is promised",), ()),
    "noisy number": (partial(of_model, neighboring="add_or_remove_one"), ("rows (noisy)", "Add or remove"), ()),
    # It bounds no probability of failing: that the ratio exceeds e^epsilon may be likelier.
    "delta": (lossy, ("plus a probability of at most 1e-06 (delta).", "visits"), ()),
    "many columns": (lambda: of_model(np.random.default_rng(0).random((300, 30))), ("Only the first 20 columns",), ()),
}


@pytest.mark.parametrize("name", SAID)
def test_a_card_shouts_and_says_what_is_odd(name):
    make, said, unsaid = SAID[name]
    release = make()
    html = " ".join(release.to_html().split())
    assert ([words for words in said if words not in html], [words for words in unsaid if words in html]) == ([], [])
    assert len(html) < 500_000
    json.dumps(release.to_registry(), allow_nan=False)
    assert name != "seeded" or "privacy_parameters" not in release.to_registry()["deployment"]["privacy_loss"]
    assert name != "units and rows" or {check.topic: check.status for check in release.checklist}["Unit of privacy"] == "partly"


def test_a_stream_promises_no_less_if_a_budget_is_given():
    """What it spent so far, or what a budget spent that never charged for it, is less than what it may spend from the first row on."""
    stream, other = OnlineSynthesizer(epsilon=0.5).partial_fit(rows()[:2]), PrivacyAccountant(3)
    other.spend(0.1, name="somebody else's survey")
    assert card(stream).facts.promise.risks[0].tpr == PrivateMeasureMechanism(epsilon=0.5).fit(rows()).accountant_.risk().tpr
    for budget in (None, stream.accountant_, other):
        assert card(stream, accountant=budget).facts.promise.epsilon >= 0.5
    shared = PrivacyAccountant(3)
    stream = OnlineSynthesizer(epsilon=0.5, accountant=shared).partial_fit(rows()[:2])
    assert card(stream, accountant=shared).facts.promise.epsilon == 0.5


def test_a_part_of_a_fit_has_no_card_of_its_own():
    """What it shows follows from the steps before it too, which its own share did not pay for."""
    whole = LowDimSynthesizer(1, epsilon=1.0).fit(rows(4))
    for part in (whole.reducer_, whole.synthesizer_):
        for budget in (None, part.accountant_):
            refuses(ValueError, "model must be the whole of a fit, got a Private", card, part, accountant=budget)
        assert card(part, accountant=whole.accountant_).facts.promise.epsilon == 1
    stream = OnlineSynthesizer(epsilon=0.5).partial_fit(rows())
    refuses(ValueError, "model must be the whole of a fit", card, stream.blocks_[0][2])


def test_what_was_charged_for_noise_of_others_is_not_vouched_for():
    budget = PrivacyAccountant(3)
    PrivateMeasureMechanism(accountant=budget).fit(rows())
    topics = ("Mechanisms, and noise that fits them", "Randomness", "Floating-point arithmetic")
    assert {check.status for check in card(budget).checklist if check.topic in topics} == {"covered"}
    budget.spend(1, name="another library")
    checks = [check for check in card(budget).checklist if check.topic in topics]
    assert {check.status for check in checks} == {"partly"}
    assert all("1 charge names no noise" in check.answer for check in checks)
    assert "1 charge names no noise" in json.dumps(card(budget).to_registry())


@pytest.mark.parametrize("epsilon", [0.001, 1, 9.9999, 10.000001, 14.9])
def test_no_factor_is_rounded_down(epsilon):
    budget = PrivacyAccountant(20)
    budget.spend(epsilon, name="a release")
    (factor,) = set(re.findall(r"at most ([\d.e+]+) times as likely", card(budget).to_html()))
    assert float(factor) >= math.exp(epsilon)


@pytest.mark.must
@pytest.mark.skipif(os.name == "nt", reason="modes are those of POSIX")
def test_only_its_owner_may_read_a_page_that_is_not_private(tmp_path, cards):
    model, release, _ = cards("pmm")
    with pytest.warns(InsecureRandomnessWarning):
        seeded = PrivateMeasureMechanism(random_state=0).fit(rows())
    pages = {
        "public": release,
        "seeded": card(seeded),
        "quality": quality_page(quality_report(rows(), model.sample(300))),
    }
    before = os.umask(0o022)
    try:
        for name, page in pages.items():
            page.save(tmp_path / name)
    finally:
        os.umask(before)
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in pages}
    assert modes == {"public": 0o644, "seeded": 0o600, "quality": 0o600}


def test_only_what_belongs_to_the_model_is_shown_of_a_shared_budget():
    budget = PrivacyAccountant(3)
    budget.spend(1, name="somebody else's survey")
    model = PrivateMeasureMechanism(accountant=budget).fit(rows())
    assert "somebody else" not in card(model).to_html()
    whole = card(model, accountant=budget)
    assert "somebody else" in whole.to_html()
    assert whole.facts.promise.epsilon == 2
    assert [line.depth for line in card(budget).facts.promise.lines][:3] == [0, 0, 1]
    other = PrivacyAccountant(3)
    other.import_record(model.accountant_)
    assert card(model, accountant=other).facts.promise.epsilon == 1


NOT_OURS = (3, "model.skdp", rows(), PCA(), PrivateMeasureMechanism())
REFUSED = [
    *(("pmm", {"files": odd}, "files must be the path of a synthetic file, or a list of paths, got") for odd in (3, [3])),
    ("pmm", {"interval": 3}, "interval must be None or an Interval"),
    # Else it would promise less than was spent.
    ("pmm", {"accountant": PrivacyAccountant(1)}, "accountant must be the budget that the model was charged to, .*leave it out"),
    *((thing, {}, r"model must be|private estimator|not fitted") for thing in NOT_OURS),
]


def test_what_has_no_card_is_refused_and_a_package_that_lacks_is_named(cards, monkeypatch):
    for thing, given, words in REFUSED:
        with pytest.raises((TypeError, ValueError, NotFittedError), match=words):
            card(cards(thing)[0] if isinstance(thing, str) and thing in MODELS else thing, **given)
    refuses(FileNotFoundError, "files must exist, but there is no file 'nowhere.csv'", card, cards("pmm")[0], files="nowhere.csv")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    refuses(ImportError, r"pip install 'skdpsynth\[report\]'", card, cards("pmm")[0])


def test_a_loaded_model_has_the_same_card(tmp_path, cards):
    model, release, _ = cards("pmm")
    model.save(tmp_path / "model.skdp")
    assert card(load(tmp_path / "model.skdp"), title="A release").to_html() == release.to_html()


def test_bought_facts_are_told_from_stated_ones():
    model = PrivateMeasureMechanism(bounds="private", epsilon=5.0).fit(rows())
    assert {column.origin for column in card(model).facts.columns} == {"bought"}
    schema = {"a": Continuous(bounds="private"), "b": (0.0, 1.0)}
    latent = LatentFactorSynthesizer(schema, epsilon=5.0, delta=1e-6).fit(pd.DataFrame(rows(), columns=["a", "b"]))
    assert [column.origin for column in card(latent).facts.columns] == ["bought", "stated"]


def test_columns_of_every_kind_are_told_and_judged():
    kinds = {
        "sport": Boolean(words=["no", "yes"]),
        "member": Boolean(),
        "site": Constant("north"),
        "height": (100.0, 220.0),
        "visits": (0, 9),
        "school": Ordinal("1..3"),
        "job": Nominal(["a", "b"], nullable=True),
        "day": Date("2020-01-01", "2020-12-31"),
        "seen": DateTime("2020-01-01T00:00", "2020-12-31T00:00"),
        "clock": TimeOfDay("08:00", "18:00"),
        "stay": Duration(0, 86400),
        "feet": Derived("height / 30.48", (0, 10)),
        "leaves": Derived("seen + stay", gives="datetime"),
        "id": Identifier(labels=True),
        "remark": Identifier(),
    }
    rest = {"Box", "Determines", "Findings", "Impossible", "Inequality", "MissingTogether", "MixedTypeEncoder", "Schema", "Sum", "Unique"}
    rest |= {"AtMost", "Children", "Compared", "LinkedSchema", "Total", "parents_of", "Text"}  # of linked tables, and what none takes
    rest |= {"Hierarchy", "PointGrid"}  # areas
    assert {type(kind).__name__ for kind in Schema(kinds).values()} == set(domain.__all__) - rest
    rng, n = np.random.default_rng(0), 200
    frame = pd.DataFrame({"sport": rng.choice(["no", "yes"], n), "member": rng.random(n) < 0.5, "site": "north"})
    frame["height"], frame["visits"], frame["school"] = rng.uniform(150, 200, n), rng.integers(0, 9, n), rng.integers(1, 4, n)
    frame["job"], frame["day"] = rng.choice(["a", "b"], n), pd.Timestamp("2020-03-01")
    frame["seen"], frame["clock"] = frame["day"], time(9, 30)
    frame["stay"], frame["id"], frame["remark"] = pd.Timedelta(hours=2), [f"{LEVEL}-{row}" for row in range(n)], WORDS
    frame["feet"], frame["leaves"] = 5.5, pd.Timestamp("2020-03-01")
    model = LatentFactorSynthesizer(Schema(kinds, [Unique("id")]), epsilon=5.0, delta=1e-6).fit(frame)
    told = {fact.name: (fact.kind, fact.values, fact.origin) for fact in card(model).facts.columns}
    assert (set(told), told["sport"]) == (set(kinds), ("boolean", "no, yes", "stated"))
    assert (told["member"], told["site"]) == (("boolean", "false, true", "stated"), ("constant", "north", "stated"))
    assert told["clock"] == ("time", "08:00:00 to 18:00:00", "stated")
    assert told["leaves"] == ("derived", "seen + stay", "computed")
    display = SynthesisDisplay.from_samples(model.sample(200), model.schema_, X=frame)
    page = quality_page(model.evaluate(frame), display=display).to_html()
    assert LEVEL not in page
    assert "synthetic rows beside real ones: not private." in page
    assert to_bytes(from_bytes(to_bytes(model))) == to_bytes(model)


def test_paths_and_arrays_are_not_shown_among_the_parameters(tmp_path):
    cells = SignedMeasureMechanism(cells=rows()[:9] * 0.5 + 0.25).fit(rows())
    assert dict(card(cells).facts.parameters)["cells"] == "a ndarray of shape (9, 2)"
    PrivacyAccountant(2, ledger=tmp_path / "budget.db")
    model = PrivateMeasureMechanism(accountant=str(tmp_path / "budget.db")).fit(rows())
    assert str(tmp_path) not in card(model).to_html()


@pytest.mark.must
def test_a_card_takes_no_real_rows():
    """A public page never holds figures that are computed from them: they stand on `quality_page`."""
    assert {*inspect.signature(card).parameters} == {"model", "title", "accountant", "files", "interval", "sample"}


def test_a_card_names_the_synthetic_files_with_their_hashes_and_no_folder(cards, tmp_path):
    model, plain, _ = cards("pmm")
    paths = [tmp_path / "visits of May.csv", tmp_path / "more.csv"]
    for path in paths:
        path.write_text(f"synthetic rows of {path.name}", encoding="utf-8")
    release = card(model, files=paths)
    html, registry = release.to_html(), json.dumps(release.to_registry())
    for path, file in zip(paths, release.facts.files, strict=True):
        assert file == (path.name, hashlib.sha256(path.read_bytes()).hexdigest())
        assert all(text in html and text in registry for text in file)
    assert str(tmp_path) not in html + registry
    assert [file.name for file in card(model, files=str(paths[1])).facts.files] == ["more.csv"]
    assert "SHA-256" not in plain.to_html()


def test_a_card_says_why_attackers_find_less_than_by_epsilon_alone(cards):
    """Gaussian noise of a fit allows 54.8 %, and its epsilon alone 73.2 %; a single pure release allows the same by both."""
    budget = PrivacyAccountant(1)
    budget.spend(1, name="a release")
    promise, pure = cards("latent")[1].facts.promise, card(budget).facts.promise
    assert promise.accuracy_of_epsilon == pytest.approx((1 + promise.delta + (1 - promise.delta) * math.tanh(promise.epsilon / 2)) / 2)
    assert promise.risks[0].accuracy < promise.accuracy_of_epsilon - 0.05
    assert "By epsilon and delta alone it would be at most 73.2 %" in cards("latent")[1].to_html()
    assert pure.why_less_than_epsilon == ""
    assert "alone it would be" not in card(budget).to_html()


def test_noise_of_counts_and_intervals_that_are_given_stand_on_the_card(cards):
    model, release, _ = cards("latent")
    assert [bound.name for bound in release.facts.bounds] == ["marginals_errors_ of columns", "marginals_errors_ of pairs of columns"]
    errors = [error for names, error in model.marginals_errors_.items() if len(names) == 1]
    assert f"{min(errors):.3g}" in release.facts.bounds[0].value
    found = model.interval(lambda table: {"mean of age": table["age"].mean()}, n_refits=8)
    html = card(model, interval=found).to_html()
    for number in (found.estimate[0], found.low[0], found.high[0]):
        assert f">{number:,.4g}</td>" in html
    assert "95 % intervals" in html
    assert ">mean of age</td>" in html


@each
def test_every_section_that_answers_a_question_stands_on_the_card(cards, name):
    html = cards(name)[1].to_html()
    heads = set(re.findall(r"<h2[^>]*>(.*?)</h2>", html))
    rows = re.findall(r'<td data-name="Asked by">(.*?)</td>\s*<td data-name="Answered under">(.*?)</td>', html)
    assert {word for who, _ in rows for word in re.findall(r"WP29|ICO|20889|27559|800-226", who)} == {
        "WP29",
        "ICO",
        "20889",
        "27559",
        "800-226",
    }
    for _, where in rows:
        named = [
            part.rpartition(": ")[2] if part.startswith(("other tables", "truths")) else re.split("[:,]", part)[0]
            for part in where.split("; ")
        ]
        assert all(part in heads or part.startswith(("Not here", "attacks that")) for part in named), where


def test_a_card_in_a_notebook_is_a_frame_in_which_nothing_runs(cards):
    html = cards("latent")[1]._repr_html_()
    assert re.match(r'<iframe title="A release" sandbox srcdoc="', html)
    assert "<script" not in html


def test_a_card_of_a_search_shows_all_that_it_cost():
    from skdpsynth.model_selection import PrivateSearchCV

    search = PrivateSearchCV(PrivatePCA(), {"n_components": [1, 2]}, epsilon=2.0).fit(rows())
    facts = card(search).facts
    assert (facts.promise.epsilon, facts.n_columns, [bound.name for bound in facts.bounds]) == (2, 2, ["noise_edge_"])


pytest.importorskip("jinja2")
pytest.importorskip("pandas")


HOSTILE_NAME = "<script>x</script>"
REPORT = QualityReport(
    n_real=1000,
    n_synthetic=900,
    marginals={"age": 0.01, HOSTILE_NAME: 0.25},
    pairs={("age", HOSTILE_NAME): 0.3},
    associations={("age", HOSTILE_NAME): (0.28, -0.02)},
    correlation_error=0.02,
    wasserstein=0.05,
    auc={"synthetic": 0.81, "real": 0.9},
    broken={"age: out of bounds": 0.125},
    halves={"marginals": 0.005},
    scoring="roc_auc",
)


def test_every_section_says_that_it_is_not_private_and_every_number_stands_on_a_valid_page(tmp_path):
    page = quality_page(REPORT, title=HOSTILE_NAME)
    html = page.to_html()
    assert html.count("Private, do not publish</p>") == html.count("<section>") == 6
    assert "PRIVATE, DO NOT PUBLISH." in html
    assert HOSTILE_NAME not in html
    for number in (*map("{:.4f}".format, (0.01, 0.25, 0.3, 0.28, -0.02, 0.02, 0.05, 0.81, 0.9, 0.125, 0.005)), "1,000", "900"):
        assert number in html
    page.save(tmp_path / "quality.html")
    assert (tmp_path / "quality.html").read_text(encoding="utf-8") == html
    pytest.importorskip("html5lib").HTMLParser(strict=True).parse(html)


def test_a_report_of_one_column_has_no_empty_sections():
    none = {"pairs": {}, "correlation_error": None, "auc": None, "broken": {}}
    alone = QualityReport(n_real=3, n_synthetic=3, marginals={"a": 0.5}, wasserstein=0.1, **none)
    assert quality_page(alone).to_html().count("<section>") == 2
