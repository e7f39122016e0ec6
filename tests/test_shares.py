"""Every release of a fit costs the share of its budget that is stated for it, to the last digit."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skdpsynth import (
    LatentFactorSynthesizer,
    LinkedTablesSynthesizer,
    LowDimSynthesizer,
    OnlineSynthesizer,
    PrivateMeasureMechanism,
    PrivatePCA,
    SignedMeasureMechanism,
)
from skdpsynth.domain import Children, Nominal, Ordinal
from skdpsynth.model_selection import PrivateSearchCV
from skdpsynth.privacy import PrivacyAccountant, PrivacyLoss, rho_of_epsilon

pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning"), pytest.mark.usefixtures("hasty")]  # of small tables

RNG = np.random.default_rng(0)
X = RNG.beta(2, 4, (60, 3))
CODES = np.column_stack([RNG.integers(0, 3, (200, 4)), RNG.random(200)])
NEAR = np.column_stack([pulse := RNG.random(4000), np.clip(pulse + RNG.normal(0, 0.01, 4000), 0, 1)])
SCHEMA = {**{i: list(range(3)) for i in range(4)}, 4: (0.0, 1.0)}
ADD = {"neighboring": "add_or_remove_one"}


def shares_of(model):
    """Name of each release -> its share of the account that it is charged to; of zCDP, of all that this account buys."""
    document = model.accountant_.evidence()
    lines = {line["number"]: line for line in document["releases"]}
    shares = {}
    for line in lines.values():
        loss, account = line["loss"], line["part_of"]
        if "rho" in loss:
            beside = [Fraction(other["loss"].get("rho", 0)) for other in lines.values() if other["part_of"] == account]
            share = Fraction(loss["rho"]) / sum(beside)
        else:
            whole = document["promise"] if account is None else lines[account]["loss"]
            share = Fraction(loss["epsilon"]) / Fraction(whole["epsilon"])
        name = line["name"].rstrip("0123456789 ")
        shares[f"{lines[account]['name']}: {name}" if account is not None else name] = share
    return shares


def parts(text, whole=100):
    """Read ``name part; name part`` as shares in hundredths of a whole."""
    return {name: Fraction(part) * 100 / whole for name, _, part in (each.strip().rpartition(" ") for each in text.split(";"))}


def by_cube_roots(text, whole, of):
    """Read ``name number; name number`` as shares of a part of a whole, each in proportion to the cube root of its number."""
    roots = {name: Fraction(float(number) ** (1 / 3)) for name, number in parts(text).items()}
    return {name: Fraction(whole) * 100 / of * root / sum(roots.values()) for name, root in roots.items()}


BITS = {i: [0, 1] for i in range(42)}
MANY, NUMBERS = {**SCHEMA, 0: Nominal(range(70))}, np.repeat(X, 20, axis=0)
OTHER = np.random.default_rng(1)
OWNER = np.repeat(np.arange(60), OTHER.integers(1, 4, 60))
HOME = pd.DataFrame({"key": range(60), "region": OTHER.integers(0, 3, 60), "rent": OTHER.random(60)})
GUEST = pd.DataFrame({"key": OWNER, "job": OTHER.integers(0, 70, len(OWNER))} | {i: OTHER.random(len(OWNER)) for i in ("age", "wage")})
MEMBER = pd.DataFrame({"key": OWNER} | {f"b{i}": OTHER.integers(0, 2, len(OWNER)) for i in range(12)})
HOMES = {"home": {"region": list(range(3)), "rent": (0.0, 1.0)}}
GUESTS = HOMES | {"guest": {"job": Nominal(range(70)), "age": (0.0, 1.0), "wage": (0.0, 1.0)}}
MEMBERS = HOMES | {"member": {f"b{i}": [0, 1] for i in range(12)}}
GRID = {"strategy": ["optimal", "paper"]}
# Whose account comes first, then the release; shares in hundredths, as people say them.
FITS = {
    "number of rows and bounds": (
        PrivateMeasureMechanism("optimal", bounds="private", **ADD),
        X,
        parts("number of rows 5; bounds: magnitudes 9.5; counts of level 85.5"),
    ),
    "bounds of many rows": (
        SignedMeasureMechanism(2, epsilon=10, bounds="private"),
        np.repeat(X, 50, axis=0),
        parts("bounds: magnitudes 5; bounds: even cells 5; count of the first of two cells 90"),
    ),
    "bounds in rho": (PrivatePCA(bounds="private", noise="gaussian", delta=1e-6), X, parts("bounds: magnitudes 10; moments 90")),
    "scout of a line": (PrivateMeasureMechanism(), X[:, :1], parts("counts of level 10; counts of the refined cells 90")),
    "scout of a plane": (PrivateMeasureMechanism(), X[:, :2], parts("counts of level 20; counts of the refined cells 80")),
    "two cells": (SignedMeasureMechanism(2, **ADD), X, parts("number of rows 5; counts of the cells 95")),
    "projection": (
        LowDimSynthesizer(1, epsilon=500, synthesizer=PrivateMeasureMechanism("adaptive"), **ADD),
        X,
        parts("number of rows 5; PrivatePCA 47.5; ranges 4.75; PrivateMeasureMechanism 42.75; PrivatePCA: radius 2; PrivatePCA: moments 98")
        | parts("PrivateMeasureMechanism: counts of level 25; PrivateMeasureMechanism: counts of the refined cells 75"),
    ),
    # The radius has a tenth of the budget at 1000 for rows times epsilon, as many rows to the power -0.6, and 2 to 20 hundredths.
    "center": (PrivatePCA(2, center="private"), np.repeat(X, 50, axis=0), parts("center 10; radius 5.2; moments 84.8")),
    "few rows": (PrivatePCA(1), np.repeat(X, 5, axis=0), parts("center 10; radius 20; moments 70")),
    "many rows": (PrivatePCA(1, epsilon=10_000), X, parts("center 10; radius 2; moments 88")),
    # Numbers alone: cells get a fifth of the budget more, which pairs give.
    "numbers": (LatentFactorSynthesizer(), X, parts("counts of cells 30; counts of columns 20; counts of pairs 50")),
    "table": (LatentFactorSynthesizer(SCHEMA), CODES, parts("counts of cells 10; counts of columns 20; counts of pairs 70")),
    "classes": (LatentFactorSynthesizer(SCHEMA, stratify=0), CODES, parts("counts of cells 3; counts of columns 42; counts of pairs 55")),
    "classes in rho": (
        LatentFactorSynthesizer(SCHEMA, stratify=0, delta=1e-6),
        CODES,
        parts("counts of cells 3; counts of columns 42; interactions of pairs 55"),
    ),
    # What pairs have pays for differences of columns near each other: a hundredth, then a twentieth of what is left.
    "near columns": (
        LatentFactorSynthesizer(epsilon=50),
        NEAR,
        parts("counts of cells 30; counts of columns 20; counts of pairs 47.025")
        | parts("counts of differences, coarse 0.5; counts of differences 2.475"),
    ),
    "triples": (
        LatentFactorSynthesizer({i: [0, 1] for i in range(7)}, epsilon=10, delta=1e-6),
        RNG.integers(0, 2, (40_000, 7)),
        parts("counts of columns 50; interactions of pairs 37.275; choice of a parity 0.05; parity 0.025")
        | parts("distances of triples 1; counts of triples 11.5"),
    ),
    # What pairs have pays for the choices of sets of columns and their parities: 4 and 2 to 14 and 7 thousandths.
    "parities": (
        LatentFactorSynthesizer({i: [0, 1] for i in range(5)}),
        RNG.integers(0, 2, (9000, 5)),
        parts("Gram matrix of columns and pairs 97.9; choice of a parity 1.4; parity 0.7"),
    ),
    "parities of classes in rho": (
        LatentFactorSynthesizer({i: [0, 1] for i in range(16)}, stratify=0, delta=1e-6),
        RNG.integers(0, 2, (9000, 16)),
        parts("counts of columns 50; interactions of pairs 48.95; choice of a parity 7/30; parity 7/60"),
    ),
    "levels": (
        LatentFactorSynthesizer(MANY),
        CODES,
        parts("counts of cells 10; counts of columns 20; counts of levels 10; counts of pairs 70", 110),
    ),
    "private levels": (
        LatentFactorSynthesizer({**SCHEMA, 0: Nominal("private")}, delta=1e-6),
        CODES,
        parts("levels 10; counts of cells 10; counts of columns 36; interactions of pairs 54"),
    ),
    # Of few levels, all columns and pairs are in one matrix, which has what all of them would have.
    "one matrix": (LatentFactorSynthesizer(BITS), RNG.integers(0, 2, (300, 42)), parts("Gram matrix of columns and pairs 100")),
    "one matrix of numbers and of many levels": (
        LatentFactorSynthesizer({**BITS, 42: (0.0, 1.0), 43: Nominal(range(70))}),
        np.column_stack([RNG.integers(0, 2, (300, 42)), RNG.random(300), RNG.integers(0, 70, 300)]),
        parts("counts of cells 20; counts of levels 20; Gram matrix of columns and pairs 80", 120),
    ),
    "blocks": (
        LatentFactorSynthesizer(BITS, delta=1e-6),
        RNG.integers(0, 2, (300, 42)),
        parts("counts of columns 37.5; interactions of pairs, merged 25; counts of pairs 37.5"),
    ),
    "blocks of numbers and of many levels": (
        LatentFactorSynthesizer({**BITS, 42: (0.0, 1.0), 43: Nominal(range(70))}, delta=1e-6),
        np.column_stack([RNG.integers(0, 2, (300, 42)), RNG.random(300), RNG.integers(0, 70, 300)]),
        parts("counts of cells 20; counts of levels 20; counts of columns 30", 120)
        | parts("interactions of pairs, merged 20; counts of pairs 30", 120),
    ),
    # The cube root of the number of tables, and three times that for pairs of the root's own columns, as if of 27 times as many.
    "linked tables": (
        LinkedTablesSynthesizer(GUESTS, links=[Children("guest", of="home", key="key", most=3, least=1)]),
        {"home": HOME, "guest": GUEST},
        by_cube_roots("counts of cells of home 1; counts of cells of guest 2", 10, 110)
        | parts("counts of levels of guest 10; counts of columns of home 6; counts of columns of guest 6", 110)
        | by_cube_roots("pairs of home 81; pairs of guest 3; home with guest 9; siblings of guest 6", 78, 110),
    ),
    "linked histories": (  # whose own pairs have no more than others
        LinkedTablesSynthesizer(GUESTS, links=[Children("guest", of="home", key="key", most=3, order="age")]),
        {"home": HOME, "guest": GUEST},
        by_cube_roots("counts of cells of home 1; counts of cells of guest 2", 10, 110)
        | by_cube_roots("counts of columns of home 3; counts of columns of guest 8", 12, 110)
        | by_cube_roots("pairs of home 3; home with guest 24; pairs of guest 12; consecutive rows of guest 16", 78, 110)
        | parts("counts of levels of guest 10", 110),
    ),
    "linked tables in Gram matrices": (
        LinkedTablesSynthesizer(MEMBERS, links=[Children("member", of="home", key="key", most=3, least=1)]),
        {"home": HOME, "member": MEMBER},
        parts("Gram matrix of home with member 300; pairs of home 120; siblings of member 100; counts of cells of home 52", 572),
    ),
    "scores": (
        LatentFactorSynthesizer({**SCHEMA, 0: Ordinal(range(3)), 1: Ordinal(range(3))}, strategy="scores"),
        CODES,
        parts("counts of ordinal levels 20; PrivatePCA 80; PrivatePCA: radius 20; PrivatePCA: moments 80"),
    ),
    # A stream chooses codes in its first blocks, with twice the share, for later rows are counted in them too.
    "stream": (
        OnlineSynthesizer(synthesizer=LatentFactorSynthesizer(SCHEMA)),
        np.repeat(CODES, 5, axis=0),
        parts("rows 0 to 100; rows 297 to 100")
        | parts("rows 0 to 296: counts of cells 2; rows 0 to 296: counts of columns 2; rows 0 to 296: counts of pairs 7", 11)
        | parts("rows 297 to 667: counts of columns 2; rows 297 to 667: counts of pairs 7", 9),
    ),
    "search": (
        PrivateSearchCV(PrivateMeasureMechanism(), GRID),
        NUMBERS,
        parts("training rows 20; held-out rows 20; refit 80; held-out rows: choice of a candidate 50; held-out rows: scores 50")
        | parts("training rows: candidate 0: strategy='optimal' 50; training rows: candidate 1: strategy='paper' 50"),
    ),
    "search among private numbers of rows": (
        PrivateSearchCV(PrivateMeasureMechanism(**ADD), GRID),
        NUMBERS,
        parts("held-out rows: number of held-out rows 5; refit: number of rows 5; held-out rows: choice of a candidate 47.5")
        | parts("held-out rows: scores 47.5"),
    ),
}


@pytest.mark.must
@pytest.mark.parametrize("name", FITS)
def test_every_release_costs_the_share_that_is_stated_for_it(name):
    estimator, rows, stated = FITS[name]
    shares = shares_of(estimator.fit(rows))
    if name.startswith("search"):  # of its parts, what the search itself gives
        shares = {each: share for each, share in shares.items() if each in stated}
    assert shares.keys() == stated.keys()
    # What bounds leave of a rho is converted to an epsilon and back, and both are rounded towards more loss. Cube roots are floats.
    rounded = Fraction(1, 10**12) if name == "bounds in rho" or name.startswith("linked") else 0
    assert [each for each, share in stated.items() if abs(shares[each] - share / 100) > rounded] == []


def losses_of(accountant):
    return {line["name"]: line["loss"] for line in accountant.evidence()["releases"]}


@pytest.mark.must
def test_an_account_of_a_fit_and_a_shared_one_are_of_the_epsilon_and_the_delta_of_its_parameters():
    model, shared, estimator = PrivatePCA(epsilon=0.5, delta=1e-6, noise="gaussian"), PrivacyAccountant(2, 1e-5), FITS["private levels"][0]
    own = clone(model).fit(X).accountant_
    assert (own.epsilon, own.delta) == (Fraction(1, 2), Fraction(1, 10**6))
    clone(estimator).set_params(epsilon=0.5, accountant=shared).fit(CODES)
    model.set_params(accountant=shared).fit(X)
    losses, pure = losses_of(shared), {"epsilon": "1/2", "delta": "1/1000000"}
    assert losses["LatentFactorSynthesizer"] == pure
    assert losses["PrivatePCA"] in ({"rho": str(rho_of_epsilon(0.5, 1e-6, gaussian=True)), "gaussian": True}, pure)


@pytest.mark.must
def test_parts_of_a_search_share_its_delta_as_they_share_its_epsilon():
    """Where not all candidates have Gaussian noise alone."""
    search = PrivateSearchCV(PrivatePCA(1), {"noise": ["gaussian", "laplace"]}, delta=1e-6)
    losses = losses_of(search.fit(np.repeat(X, 20, axis=0)).accountant_)
    parts = {name: (Fraction(loss["epsilon"]), Fraction(loss["delta"]) * 10**6) for name, loss in losses.items() if "epsilon" in loss}
    tenth = Fraction(1, 10)
    each = {"candidate 0: noise='gaussian'": (tenth, tenth), "candidate 1: noise='laplace'": (tenth, 0)}
    stated = {"training rows": (Fraction(1, 5), tenth), "held-out rows": (Fraction(1, 5), 0), **each}
    assert {name: parts[name] for name in stated} == stated
    refit = {"rho": str(rho_of_epsilon(0.8, 8e-7, gaussian=True)), "gaussian": True}
    assert losses["refit"] == (refit if search.best_index_ == 0 else {"epsilon": "4/5", "delta": "0"})


@pytest.mark.must
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_a_search_among_fits_of_gaussian_noise_shares_rho(relation):
    """Which each of its parts has more of than in shares of epsilon and delta; a hundred millionth is kept back for rounding."""
    pca = PrivatePCA(1, noise="gaussian", neighboring=relation)
    search = PrivateSearchCV(pca, {"center": ["public", "private"]}, delta=1e-6, search_share=0.3)
    losses, whole = losses_of(search.fit(np.repeat(X, 20, axis=0)).accountant_), rho_of_epsilon(1, 1e-6, gaussian=True)
    assert {loss["gaussian"] for loss in losses.values()} == {True}
    shares = {name.partition(":")[0]: float(Fraction(loss["rho"]) / whole) for name, loss in losses.items()}
    of_search, counted = ["choice of a candidate", "scores"], 0.05 if relation == "add_or_remove_one" else 0
    stated = {"training rows": 0.3, "held-out rows": 0.3, "refit": 0.7, "candidate 0": 0.15, "candidate 1": 0.15}
    stated |= dict.fromkeys(of_search, 0.15 * (1 - counted))
    assert {name: shares[name] for name in stated} == pytest.approx(stated, rel=1e-7)
    assert 1 - 1e-6 < search.accountant_.spent <= 1
    assert shares["refit"] > 1.1 * float(rho_of_epsilon(0.7, 7e-7, gaussian=True) / whole)


def test_parts_of_a_loss_share_epsilon_or_rho_exactly_and_each_may_spend_delta():
    epsilon, delta, rho = Fraction(2), Fraction(1, 10**6), Fraction(1, 3)
    parts = PrivacyLoss(epsilon, delta, rows=2).split([1, 3])
    assert [(part.epsilon, part.delta, part.rows) for part in parts] == [(epsilon / 4, delta, 2), (epsilon * 3 / 4, delta, 2)]
    parts = PrivacyLoss(rho=rho, gaussian=True, rows=2).split([Fraction(1, 10), Fraction(9, 10)])
    assert [(part.rho, part.gaussian, part.rows) for part in parts] == [(rho / 10, True, 2), (rho * 9 / 10, True, 2)]
