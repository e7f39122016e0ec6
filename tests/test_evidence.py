"""The evidence of ledgers is found to be right, and every fault in it is found and named."""

import ast
import copy
import json
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from estimators import linked_variants, variants
from internals import CodedGram, Trees, Weights, _latent_factors, levels_of
from laws import refuses

import skdpsynth_evidence
from skdpsynth import (
    AreaSynthesizer,
    LatentFactorSynthesizer,
    LinkedTablesSynthesizer,
    LowDimSynthesizer,
    OnlineSynthesizer,
    PrivacyAccountant,
    PrivateMeasureMechanism,
    PrivatePCA,
)
from skdpsynth.continual import BinaryCounter, KaryCounter, SparseCounter, SquareRootCounter, UnboundedCounter
from skdpsynth.domain import Children, Hierarchy, Ordinal
from skdpsynth.model_selection import PrivateSearchCV
from skdpsynth.privacy import DiscreteGaussian, DiscreteLaplace, PrivacyLoss, SecureBits, discovery, epsilon_of_rho, mechanism
from skdpsynth.statistics import Histogram, Interactions, Marginals
from skdpsynth_evidence import _kinds as kinds
from skdpsynth_evidence import _losses as losses
from skdpsynth_evidence import check_evidence

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of small tables

RNG = np.random.default_rng(0)
X = RNG.beta(2, 4, (60, 3))
RELATIONS = ["replace_one", "add_or_remove_one"]


def evidence_of(estimator, rows=X, **more):
    return estimator.fit(rows, **more).accountant_.evidence()


def others():
    """Fits and counters beyond those of test_common: every kind of statistic, of noise and of loss is in some of them."""
    schema = {**{i: list(range(3)) for i in range(4)}, 4: (0.0, 1.0)}
    table = np.column_stack([RNG.integers(0, 3, (200, 4)), RNG.random(200)])
    ordered = np.column_stack([table, RNG.integers(0, 2, 200), RNG.integers(0, 4, 200)])
    weighed, many = {**schema, 4: (1, 50)}, {**{i: [0, 1] for i in range(24)}, 24: (0.5, 2.5)}
    labels, few = np.repeat(np.arange(30), 2), RNG.integers(0, 2, (1500, 24))
    search = PrivateSearchCV(PrivateMeasureMechanism(), {"strategy": ["adaptive", "optimal"]})
    return {
        **{f"table-{r}-{d}": (LatentFactorSynthesizer(schema, neighboring=r, delta=d), table) for r in RELATIONS for d in (0, 1e-6)},
        **{f"weights-{r}": (LatentFactorSynthesizer(weighed, weights=4, neighboring=r, delta=1e-6), table) for r in RELATIONS},
        "weights-units": (LatentFactorSynthesizer(weighed, weights=4, max_rows_per_unit=2), table, np.repeat(np.arange(100), 2)),
        "weights-few": (LatentFactorSynthesizer(many, weights=24), np.insert(few, 24, 1, axis=1)),
        "table-strata": (LatentFactorSynthesizer(schema, stratify=0, delta=1e-6), table),
        "table-rich": (LatentFactorSynthesizer(schema, epsilon=50), np.repeat(table, 20, axis=0)),
        "table-scores": (LatentFactorSynthesizer({**schema, 5: Ordinal(range(2)), 6: Ordinal(range(4))}, strategy="scores"), ordered),
        "table-triples": (LatentFactorSynthesizer({i: [0, 1] for i in range(7)}, epsilon=10, delta=1e-6), RNG.integers(0, 2, (40_000, 7))),
        **{f"table-few-{d}": (LatentFactorSynthesizer({i: [0, 1] for i in range(24)}, delta=d), few) for d in (0, 1e-6)},
        "center": (PrivatePCA(2, center="private"), np.repeat(X, 50, axis=0)),
        "gaussian": (PrivatePCA(2, noise="gaussian", delta=1e-6, epsilon=0.3), X),
        "wide": (PrivatePCA(2, noise="laplace", center="private"), np.tile(X, 4)),
        "units": (PrivateMeasureMechanism(max_rows_per_unit=2), X, labels),
        "units-gone": (PrivateMeasureMechanism(max_rows_per_unit=3, neighboring="add_or_remove_one"), X, labels),
        "units-pca": (PrivatePCA(2, max_rows_per_unit=2, delta=1e-6), X, labels),
        "search": (search, np.repeat(X, 20, axis=0)),
        "search-gaussian": (PrivateSearchCV(PrivatePCA(noise="gaussian"), {"n_components": [1, 2]}, delta=1e-6), np.tile(X, (20, 1))),
        "search-pca": (PrivateSearchCV(PrivatePCA(1), {"center": ["public", "private"]}), np.repeat(X, 20, axis=0)),
        **{f"low-dim-{r}": (LowDimSynthesizer(2, delta=1e-6, neighboring=r), np.tile(X, 4)) for r in RELATIONS},
        "low-dim-bounds": (LowDimSynthesizer(2, delta=1e-6, bounds="private"), np.tile(X, 4)),
        "stream": (OnlineSynthesizer(growth="auto"), np.repeat(X, 20, axis=0)),
        "linked-wide": linked_wide(),
        **{f"areas-{r}-{d}": (areas(neighboring=r, delta=d), table) for r in RELATIONS for d in (0, 1e-6)},
        **{f"areas-tables-{d}": (areas(groups="part", epsilon=200, delta=d), table) for d in (0, 1e-6)},
        "areas-units": (areas(max_rows_per_unit=2, delta=1e-6), table, np.repeat(np.arange(100), 2)),
    }


def areas(**parameters):
    """Column 0 says in which area a row is, and 1 is counted in each."""
    schema = {**{i: list(range(3)) for i in (1, 2, 3)}, 4: (0.0, 1.0)}
    return AreaSynthesizer(schema, Hierarchy(["part", 0], {7: [0, 1], 8: [2]}), by=[1], **parameters)


def linked_wide():
    """A pure fit of so many columns that a Gram matrix of weighted rows has less noise than tables."""
    schemas = {"home": {f"x{i}": [0, 1] for i in range(12)}, "person": {f"y{i}": [0, 1] for i in range(8)}}
    tables = {name: pd.DataFrame(RNG.integers(0, 2, (150, len(own))), columns=list(own)) for name, own in schemas.items()}
    tables = {"home": tables["home"].assign(id=range(150)), "person": tables["person"].assign(id=RNG.integers(0, 150, 150))}
    return LinkedTablesSynthesizer(schemas, links=[Children("person", of="home", key="id", most=8)]), tables


FITS = {name: (estimator, X) for name, estimator in variants().items()} | linked_variants() | others()
COUNTERS = {
    "kary": lambda accountant: KaryCounter(1000, epsilon=1, accountant=accountant),
    "binary": lambda accountant: BinaryCounter(1000, epsilon=1, sensitivity=2, accountant=accountant),
    "sparse": lambda accountant: SparseCounter(1000, epsilon=1, sensitivity=2, every=3, accountant=accountant),
    "square-root": lambda accountant: SquareRootCounter(500, rho=0.01, sensitivity=2, accountant=accountant),
    "square-root-short": lambda accountant: SquareRootCounter(5, rho=0.01, accountant=accountant),
    "square-root-long": lambda accountant: SquareRootCounter(3000, rho=0.01, accountant=accountant),
    "unbounded": lambda accountant: UnboundedCounter(rho=0.01, sensitivity=2, accountant=accountant),
}


@pytest.fixture(scope="module")
def evidence():
    """All that is checked here, made once, and passed through JSON as a file would be."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_latent_factors, "_STEPS", 20)
        made = {name: evidence_of(one, rows, **({"unit": unit[0]} if unit else {})) for name, (one, rows, *unit) in FITS.items()}
    for name, counter in COUNTERS.items():
        accountant = PrivacyAccountant(5, 1e-6)
        counter(accountant)
        made[name] = accountant.evidence()
    return json.loads(json.dumps(made))


def test_levels_of_deep_trees_are_those_that_are_counted():
    assert all(sorted(kinds._counted_levels(depth)) == levels_of(depth) for depth in range(1, 63))


@pytest.mark.parametrize("name", [*FITS, *COUNTERS])
def test_every_estimator_and_counter_passes_to_the_last_digit(evidence, name):
    assert check_evidence(evidence[name]).is_exact


def test_every_kind_of_statistic_and_noise_is_in_some_of_them(evidence):
    lines = [line for one in evidence.values() for line in one["releases"] if "noise" in line]
    assert {line["statistic"]["kind"] for line in lines} >= set(kinds.KINDS) - {"levels_shown"}  # which is tested apart
    assert {line["noise"] for line in lines} == set(losses.NORM_OF)
    weighted = {line["statistic"]["kind"] for line in lines if line["statistic"].get("weight", 1) > 1}
    assert weighted == {"tables", "trees", "interactions", "coded_gram"}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("sizes", [[3, 5, 4], [2] * 9 + [6] * 4, list(range(2, 32))])
@pytest.mark.parametrize("classes", [1, 2])
def test_interactions_of_all_sizes_are_derived(relation, sizes, classes):
    for pairs in ([(i, j) for i in range(len(sizes)) for j in range(i)], [(i, i + 1) for i in range(len(sizes) - 1)]):
        sensitivity = Interactions.over(sizes, pairs, classes, 1000).sensitivity(relation)
        said = json.loads(json.dumps(dict(sensitivity.statistic)))
        for norm in ("l1", "l2_squared", "sup"):
            assert kinds.derive_sensitivity(said, relation, norm, 1) == getattr(sensitivity, norm)


@pytest.mark.parametrize("relation", RELATIONS)
def test_weighted_rows_are_derived(relation):
    over, gram = Interactions.over([2, 3, 5], [(0, 1), (0, 2)], 2, 1000), CodedGram.over([3, 2], [1.0, 1.0], 1.0)
    for of_row in (lambda r: Marginals.sensitivity(r, 3), lambda r: Trees.sensitivity(r, [3, 5]), over.sensitivity, gram.sensitivity):
        for total in (1, 6):
            told = Weights(2, total).sensitivity(of_row, relation)
            said = json.loads(json.dumps(dict(told.statistic)))
            assert said["weight"] == total
            for norm in ("l1", "l2_squared", "sup", *(["nuclear"] if told.nuclear else [])):
                assert kinds.derive_sensitivity(said, relation, norm, 1) == getattr(told, norm)
                assert kinds.derive_sensitivity({**said, "weight": total + 1}, relation, norm, 1) > getattr(told, norm)
    steps = {"kind": "sum", "ranges": ((5, 7, 1),)}  # a kind whose rows move less where they are replaced
    assert kinds.derive_sensitivity(steps, "replace_one", "l1", 1) == 2
    assert kinds.derive_sensitivity({**steps, "weight": 3}, "replace_one", "l1", 1) == 21


def test_evidence_of_weighted_rows_passes_and_a_smaller_weight_is_found():
    accountant, weights = PrivacyAccountant(5, 1e-5), Weights(2, 6)
    told = weights.sensitivity(lambda relation: Marginals.sensitivity(relation, 3), "replace_one")
    chosen = mechanism(told, PrivacyLoss(epsilon=1))
    accountant.release(np.zeros(9, dtype=np.int64), chosen.noise, SecureBits(), name="tables", loss=chosen.loss, sensitivity=told)
    document = accountant.evidence()
    assert check_evidence(document).is_exact
    for weight, words in ((5, "moves by 30 (l1), less than the 36"), (7, "moves by 42 (l1) under 'replace_one', but states 36")):
        document["releases"][0]["statistic"]["weight"] = weight
        assert words in str(check_evidence(document))
    document["releases"][0]["statistic"]["weight"] = 0
    assert "whose weight is '0'" in str(check_evidence(document))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("epsilon", [0.1, 3])
def test_shown_levels_are_checked_with_their_threshold(relation, epsilon):
    accountant = PrivacyAccountant(5, 1e-5, neighboring=relation)
    chosen = discovery(relation, 2, PrivacyLoss(epsilon=epsilon, delta=1e-6))
    accountant.release_discovered([{"a": 3}, {}], chosen, SecureBits(), name="levels")
    told = accountant.evidence()
    assert check_evidence(told).is_exact
    told["releases"][0]["statistic"]["threshold"] -= 1
    assert "release 1 ('levels') loses" in str(check_evidence(told))


def lines_with_noise(document):
    return [i for i, line in enumerate(document["releases"]) if "noise" in line and line["loss"].get("epsilon") != "inf"]


def faults(document, seen):
    """Yield (what, the place of the line, the document with this fault), of every line that can have it and is unlike those seen."""
    for place in lines_with_noise(document):
        line = document["releases"][place]
        like = line["statistic"]["kind"], line["noise"], line["relation"], line["rows_per_unit"], line["loss"].get("gaussian")
        if like in seen:
            continue
        seen.add(like)
        for what, sensitivity in {
            "change halved": lambda line: line.update(sensitivity=str(Fraction(line["sensitivity"]) / 2)),
            "scale less": lambda line: line.update(scales=[str(Fraction(scale) * Fraction(99, 100)) for scale in line["scales"]]),
            "scale more": lambda line: line.update(scales=[str(Fraction(scale) * Fraction(101, 100)) for scale in line["scales"]]),
            "relation": lambda line: line.update(relation=next(r for r in RELATIONS if r != line["relation"])),
            "loss less": lambda line: line["loss"].update(
                {name: str(Fraction(line["loss"][name]) * Fraction(99, 100)) for name in ("epsilon", "rho") if name in line["loss"]}
            ),
        }.items():
            if line["sensitivity"] == "0" or (("less" in what or "more" in what) and Fraction(line["scales"][0]) in (Fraction(1, 100), 3)):
                continue
            if what == "scale more" and "threshold" in line["statistic"]:
                continue  # at this threshold more noise shows more
            faulty = copy.deepcopy(document)
            sensitivity(faulty["releases"][place])
            yield what, place, faulty
    for place in range(len(document["releases"])):
        faulty = copy.deepcopy(document)
        del faulty["releases"][place]
        yield "left out", place, faulty


def test_every_fault_in_every_line_is_found_and_named(evidence):
    found, seen = 0, set()
    for name, document in evidence.items():
        for what, place, faulty in faults(document, seen):
            line, check = document["releases"][place], check_evidence(faulty)
            told = check.loose if what == "scale more" else check.wrong
            assert any(each.startswith(f"release {line['number']} ") for each in told), (name, what, line, str(check))
            assert check.ok == (what == "scale more")
            found += 1
    assert found > 300


def test_a_release_that_is_left_out_and_covered_up_leaves_a_sum_that_is_too_small(evidence):
    document = evidence["PrivateMeasureMechanism"]
    top = [place for place, line in enumerate(document["releases"]) if line["part_of"] is None]
    for place in top:
        faulty = copy.deepcopy(document)
        gone = faulty["releases"].pop(place)["number"]
        faulty["releases"] = [line for line in faulty["releases"] if line["part_of"] != gone]
        faulty["numbers"] = [[line["number"]] * 2 for line in faulty["releases"]]
        assert any(line.startswith("all releases that are here lose less") for line in check_evidence(faulty).wrong)


def with_noise(document):
    return next(line for line in document["releases"] if "noise" in line)


def says(**said):
    return lambda document: with_noise(document).update(said)


def moves(**facts):
    return lambda document: with_noise(document)["statistic"].update(facts)


def in_a_circle(document):
    """Each line pays for the next: no charge is left that adds up."""
    lines = document["releases"]
    for line, above in zip(lines, [*lines[1:], lines[0]], strict=True):
        line["part_of"] = above["number"]
    document["spent"] = {"epsilon": "0", "delta": "0"}


def given_back(document):
    bare = {name: with_noise(document)[name] for name in ("relation", "unit", "rows_per_unit", "group", "part_of")}
    document["releases"].append(bare | {"number": 99, "name": "back", "loss": {"epsilon": "-1/2", "delta": "0"}})
    document["numbers"].append([99, 99])
    document["spent"]["epsilon"] = "1/2"


def under_the_other_relation(document):
    """Also where its change under that relation would be smaller: the number of rows was used as public, or not."""
    other = next(r for r in RELATIONS if r != document["promise"]["relation"])
    for each in (document["promise"], *document["releases"]):
        each["relation"] = other


def of_half_a_charge(document):
    next(line for line in document["releases"] if line["part_of"] is None)["loss"]["epsilon"] = "1/2"


def of_one_row(document):
    for each in (document["promise"], *document["releases"]):
        each["rows_per_unit"] = 1


def as_nothing(kind, **facts):
    """The most numbers are said to be of a kind that no row moves, with hardly any noise and no loss."""

    def craft(document):
        line = max((line for line in document["releases"] if "noise" in line), key=lambda line: line["values"])
        line.update(statistic={"kind": kind, **facts}, sensitivity="0", loss={"epsilon": "0", "delta": "0"}, scales=["1/100"])
        spent = sum(Fraction(line["loss"]["epsilon"]) for line in document["releases"])
        document["spent"]["epsilon"] = document["promise"]["epsilon"] = str(spent)

    return craft


def in_a_group(document):
    for line in document["releases"]:
        line["group"] = "g"
    document["spent"]["epsilon"] = str(max(Fraction(line["loss"]["epsilon"]) for line in document["releases"]))


def paid_by(place):
    def craft(document):
        payer, part = (document["releases"][i] for i in (place, 1 - place))
        part["part_of"] = payer["number"]
        document["spent"]["epsilon"] = payer["loss"]["epsilon"]

    return craft


CRAFTED = {
    "values of no table": ("PrivateMeasureMechanism", as_nothing("tables", tables=0), "'tables', which has 0 values here, but states"),
    "values of one number": ("PrivateMeasureMechanism", as_nothing("row_count"), "'row_count', which has 1 values here, but states"),
    "values of no tree": ("PrivateMeasureMechanism", as_nothing("trees", depths=[]), "'trees', which has 0 values here, but states"),
    "a value less": ("PrivatePCA", says(values=15), "'gram', which has 16 values here, but states 15"),
    "no values": ("PrivatePCA", says(values=None), "'gram', which has 16 values here, but states None"),
    "noise in a group": ("PrivateMeasureMechanism", in_a_group, "has noise and is of a group"),
    **{f"paid by noise {i}": ("PrivateMeasureMechanism", paid_by(i), "part of a line with noise of its own") for i in (0, 1)},
    "pays for itself": ("PMM-optimal", in_a_circle, "is part of itself"),
    "pays for another": ("Online-paper", in_a_circle, "is part of itself"),
    "no scale": ("PMM-optimal", says(scales=[]), "does not say the scale"),
    "a scale that nothing has": ("PMM-optimal", says(scales=["inf"]), "does not say the scale"),
    "some noise": ("PMM-optimal", says(randomness="some"), "does not say where its noise comes from"),
    "less than no table": ("PMM-optimal", moves(tables=-1), "whose tables is '-1'"),
    "a part of a table": ("PMM-optimal", moves(tables=0.25), "whose tables is '0.25'"),
    "steps without end": ("square-root", moves(steps=10**12), "whose steps is"),
    "no gain": ("square-root", moves(gain=0), "whose gain is '0'"),
    "no sensitivity": ("unbounded", moves(sensitivity=0), "whose sensitivity is '0'"),
    "fewer segments than none": ("sparse", moves(segment_levels=-1), "whose segment_levels is '-1'"),
    "a total that pays": ("sparse", moves(total_scale="-1"), "whose total_scale is '-1'"),
    "a charge that is given back": ("PMM-optimal", given_back, "release 99 ('back') charges what is no loss"),
    "two losses": ("gaussian", lambda document: with_noise(document)["loss"].update(epsilon="0", delta="0"), "charges what is no loss"),
    "one row of several": ("units", of_one_row, "at most 2 rows, which are not 1 rows"),
    "no row": ("PMM-optimal", says(rows_per_unit=0), "a row, which are not 0 rows"),
    "a promise to more": ("PMM-optimal", lambda told: told["promise"].update(rows_per_unit=9), "the promise is for a row, which are"),
    **{
        f"another relation, {name}": (name, under_the_other_relation, "")
        for name in ("PMM-optimal", "PMM-add_or_remove_one", "PrivatePCA", "LatentFactor-add_or_remove_one")
    },
    "half a charge": ("Online-paper", of_half_a_charge, "its parts need more"),
    "half a promise": ("PrivatePCA", lambda document: document["promise"].update(epsilon="1/2"), "more than was promised"),
    **{f"a law {name}": ("PrivatePCA", says(noise=name), "law that is not known") for name in ("none", "Uniform", None)},
    "less was paid": ("PMM-optimal", lambda document: document.update(charged={"epsilon": "1/9", "delta": "0"}), "epsilon 1/9 was charged"),
}


@pytest.mark.parametrize(("name", "craft", "words"), CRAFTED.values(), ids=CRAFTED)
def test_evidence_that_is_crafted_to_say_less_is_found(evidence, name, craft, words):
    crafted = copy.deepcopy(evidence[name])
    craft(crafted)
    assert any(words in line for line in check_evidence(crafted).wrong)


def test_numbers_that_are_said_to_be_constant_are_not_exact(evidence):
    crafted = copy.deepcopy(evidence["PrivateMeasureMechanism"])
    most = max(line["values"] for line in crafted["releases"])
    as_nothing("sum", ranges=[[0, 0, most]])(crafted)
    check = check_evidence(crafted)
    assert (check.wrong, len(check.loose)) == ([], 1)
    assert f"{most} values that no row moves" in check.loose[0]


def test_laplace_noise_is_no_gaussian_loss():
    """Its rho is that of zCDP; as one of Gaussian noise it would convert to less than half of the epsilon that it has here."""
    accountant = PrivacyAccountant(5, 0.23, neighboring="add_or_remove_one")
    accountant.spend(PrivacyLoss(rho=Fraction(47, 100), gaussian=True), name="counts")
    crafted = accountant.evidence()
    assert check_evidence(crafted).ok
    noise = {"noise": "DiscreteLaplace", "scales": ["1"], "norm": "l1", "sensitivity": "1", "values": 1, "randomness": "secure"}
    crafted["releases"][0] |= noise | {"statistic": {"kind": "tables", "tables": 1}}
    assert any(line.startswith("release 1 ('counts') loses epsilon 1") for line in check_evidence(crafted).wrong)
    crafted["releases"][0]["loss"]["gaussian"] = False
    assert not any(line.startswith("release 1") for line in check_evidence(crafted).wrong)


@pytest.mark.parametrize("rho", [Fraction(1, 1000), Fraction(1, 50), Fraction(3)])
@pytest.mark.parametrize("gaussian", [True, False])
def test_conversions_of_rho_agree_with_the_accountant_from_above_and_below(rho, gaussian):
    delta = Fraction(1, 10**6)
    epsilon = epsilon_of_rho(rho, delta, gaussian=gaussian)
    sums = losses.Sums(rho=rho, gaussian=gaussian)
    assert losses.is_budget_kept(epsilon, delta, sums)
    assert not losses.is_budget_kept(epsilon - Fraction(1, 10**11), delta, sums)


def test_optimal_composition_is_checked_by_every_sum_of_losses():
    accountant = PrivacyAccountant(3, 1e-6)
    for child in accountant.children([0.1] * 20, 1e-6, name="questions"):
        child.spend(0.1, name="one of them")
    told = accountant.evidence()
    assert check_evidence(told).wrong == []
    told["releases"][0]["loss"]["epsilon"] = "1.7"
    assert any(line.startswith("release 1 ('questions')") and "its parts need more" in line for line in check_evidence(told).wrong)


def test_charges_that_say_nothing_are_listed_as_not_checked_and_noise_of_a_seed_is_wrong():
    accountant = PrivacyAccountant(1)
    accountant.spend(0.25, name="a plain charge")
    accountant.release(np.array([3]), DiscreteLaplace(4), SecureBits(), name="no change", loss=0.25)
    check = check_evidence(accountant.evidence())
    assert check.ok
    assert [line.split(" (")[0] for line in check.unchecked] == ["release 2", "release 1"]
    assert not check.is_exact
    seeded = check_evidence(evidence_of(PrivatePCA(random_state=0)))
    assert not seeded.ok
    assert all("noise of a seed" in line for line in seeded.wrong)
    assert str(check).startswith("ok: 2 releases, epsilon 0.5 in all, under 'replace_one', for a row, but 2 of them cannot be checked\n")


@pytest.mark.must
@pytest.mark.parametrize("name", list(kinds.KINDS))
def test_brute_force_agrees_with_the_formula_of_every_kind_and_refutes_one_that_is_too_small(name, monkeypatch):
    right = kinds.KINDS[name]
    kinds._prove.__wrapped__(name)

    def halved(facts, relation):
        return {norm: Fraction(most) / 2 for norm, most in right.formula(facts, relation).items()}

    monkeypatch.setitem(kinds.KINDS, name, kinds.Kind(halved, right.small, right.rows, right.values, right.exact))
    refuses(AssertionError, "the formula says", kinds._prove.__wrapped__, name)


def test_a_damaged_document_or_file_is_refused_or_found_wrong(evidence, tmp_path):
    for junk in (None, 3, *({"format": "skdpsynth evidence", "version": version} for version in (1, 2)), {}):
        refuses(ValueError, "evidence must be", check_evidence, junk)
    path, right = tmp_path / "evidence.json", evidence["PrivatePCA"]
    path.write_text(json.dumps(right), encoding="utf-8")
    assert check_evidence(path).ok
    path.write_text("[" * 10**5, encoding="utf-8")
    refuses(ValueError, "JSON", check_evidence, path)
    for key in ("releases", "promise", "spent", "numbers", "charged"):
        for value in (None, [None], {"a": 1}, "text", 7):
            if key == "charged" and value in (None, {"a": 1}):  # the former is right, the latter says nothing
                continue
            try:
                found = str(check_evidence(copy.deepcopy(right) | {key: value}))
            except ValueError as error:
                found = str(error)
            assert found.startswith(("evidence must be", "NOT OK")), (key, value)


def test_checker_shares_no_code_with_the_mechanisms():
    folder, allowed = Path(skdpsynth_evidence.__file__).parent, set(sys.stdlib_module_names) | {"numpy"}
    files = sorted(folder.glob("*.py"))
    for path in files:
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        names = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
        names |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        assert {name for name in names if name.split(".")[0] not in allowed} <= {f"skdpsynth_evidence.{each.stem}" for each in files}


@pytest.mark.parametrize("shift", [1, 2, 5])
def test_laplace_and_sup_norm_noise_lose_their_norm_of_the_change_over_the_scale(shift):
    line = range(-9, 10)
    assert max(abs(abs(z) - abs(z - shift)) for z in line) == shift
    most = max(abs(max(abs(y), abs(z)) - max(abs(y - a), abs(z - b))) for y in line for z in line for a in (0, shift) for b in (0, shift))
    assert most == shift
    release = {"noise": "DiscreteLaplace", "statistic": None, "loss": {}}
    assert losses.cost(release, Fraction(shift), Fraction(7)) == (Fraction(shift, 7), 0)


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(7, 2)])
@pytest.mark.parametrize("shift", [1, 2, 3])
def test_gaussian_noise_has_the_renyi_divergences_of_its_rho(scale, shift):
    rho = losses.cost({"noise": "DiscreteGaussian", "statistic": None, "loss": {}}, Fraction(shift**2), scale)
    z = np.arange(-400, 401)
    for alpha in (1.1, 2, 5, 20):
        log_weights = -(z**2) / (2 * float(scale) ** 2)
        terms = alpha * log_weights + (1 - alpha) * (-((z - shift) ** 2) / (2 * float(scale) ** 2))
        divergence = (np.logaddexp.reduce(terms) - np.logaddexp.reduce(log_weights)) / (alpha - 1)
        assert divergence <= alpha * float(rho) * (1 + 1e-9) + 1e-9
        assert alpha * float(rho) * 0.6 <= divergence + 1e-9 or scale < 1


def test_permute_and_flip_loses_twice_the_change_over_the_scale():
    """That its law does is enumerated beside the mechanism."""
    said = losses.cost({"noise": "PermuteAndFlip", "statistic": None, "loss": {}}, Fraction(3), Fraction(5, 2))
    assert said == (Fraction(12, 5), 0)


def test_gaussian_losses_are_refused_below_the_scale_for_which_they_are_proved():
    accountant, sensitivity = PrivacyAccountant(50, 1e-6), Histogram.sensitivity("replace_one")
    values, loss = np.zeros(2, dtype=np.int64), PrivacyLoss(rho=0.25)
    accountant.release(values, DiscreteGaussian(2), SecureBits(), name="g", loss=loss, sensitivity=sensitivity)
    told = accountant.evidence()
    assert check_evidence(told).ok
    told["releases"][0]["loss"]["gaussian"] = True
    assert not check_evidence(told).ok
