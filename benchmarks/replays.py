"""How much of a fit's charge one row, or one unit, can move: exact losses between neighbors that get the same answers.

    python benchmarks/replays.py [--only units ...] [--jobs 2]

Each case fits a table and keeps every release: its name, exact values, noise, charge and answer. Then it fits neighbors, chosen to be far
apart (from corner to corner of the box, all columns changed, half of them, cells out of the domain, one row or unit more at the end and in
the middle, and of linked tables roots with none, one, as many as count or more below them), and gives them the same answers. Losses are
exact fractions: the sum of |change| / scale (Laplace noise), the largest of them (sup-norm noise), the nuclear norm over scale (matrix
Laplace noise), and the sum of squares over 2 (scale^2 - 5/3), the charge of rounded Gaussian noise (discrete Gaussian noise). A choice
loses its charge where utilities move apart by twice their sensitivity. Discovered levels lose |change| / scale where both tables have them,
and else the chance that they are shown, which delta pays for. Sums of a counter share the noise of its nodes: they lose the least that
explains all sums.

A line is one case under one relation, with the worst of its neighbors:

- *charged*: the sum of the charges of all releases, in epsilon or rho (or both, side by side). A group costs its costliest member.
- *lost*: the loss of all releases over their charge. Above 1 the promise is broken. Well below 1 noise is wasted, or the pair is not the
  worst: interactions of pairs move most where half of the columns change, all other tables where all do.
- *worst*: the release that lost most of its own charge. Counters have one charge for all their sums, so there is none.
- *state*: "same" if names, shapes, noises and charges of the releases agree, and warnings, fitted attributes, samples and pickle too. Else
  the first difference.

It fails if a number is above 1 or a state differs. Fits are seeded, because both must split and hash rows alike, and models are fitted in
few steps, which changes nothing that is released. Strategy "scores" draws a number for each row, which the seed ties to its position, so
one row more comes at the end only. Sparse counters are left out: their comparisons lose less than the sum of their releases.
"""

import argparse
import itertools
import math
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from multiprocessing import get_context
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from scipy.optimize import linprog
from sklearn.base import BaseEstimator, clone

from skdpsynth import (
    AreaSynthesizer,
    LatentFactorSynthesizer,
    LinkedTablesSynthesizer,
    LowDimSynthesizer,
    OnlineSynthesizer,
    PrivacyAccountant,
    PrivateMeasureMechanism,
    PrivatePCA,
    SignedMeasureMechanism,
)
from skdpsynth.domain import Children, Continuous, Date, Hierarchy, Inequality, Nominal, Schema
from skdpsynth.model_selection import PrivateSearchCV, fit_to_error
from skdpsynth.models import _latent_factors, _link_factors, _training, _wide_factors
from skdpsynth.privacy import PrivacyLoss
from skdpsynth.privacy._gaussian import gaussian_of_pure, pure_of_gaussian
from skdpsynth.testing import Draw, kind_of, watch_releases
from skdpsynth.testing._budget_laws import NoiseLoss, is_covered, loss_of_ratios, pair_loss
from skdpsynth.testing._harness import difference, fitted_attributes, full_state, leaves, record_warnings, released_state, serialized_bytes

ROUNDING = 1 + 1e-9  # of floats: norms of matrices, and sums of nodes
RELATIONS = ("replace_one", "add_or_remove_one")
QUICK = {
    (_latent_factors, "_FITS"): 2,
    (_latent_factors, "_STEPS"): 20,
    (_link_factors, "_FITS"): 1,
    (_link_factors, "_STEPS"): 20,
    (_training, "_SPLITS"): 0,
    (_wide_factors, "_STEPS"): 20,
    (_wide_factors, "_PILOT_STEPS"): 10,
}


# Choices and discoveries, which are no draws


@dataclass(frozen=True)
class Chosen:
    """A choice or a discovery: its exact utilities or tables, what was charged, and what came out."""

    name: str
    exact: Any
    how: Any  # how far a utility may move, or the Discovery
    charged: PrivacyLoss
    answer: Any


@dataclass
class Tape:
    """Choices and discoveries of one fit; with `answers`, these come out again."""

    chosen: list[Chosen] = field(default_factory=list)
    answers: list[Chosen] | None = None

    def note(self, name: str, exact: Any, how: Any, charged: PrivacyLoss, answer: Any) -> Any:
        """Note what was chosen and return what comes out."""
        if self.answers is not None:
            before = self.answers[len(self.chosen)]
            if before.name != name or len(before.exact) != len(exact):
                raise AssertionError(f"{name!r} is chosen, where on the neighbor it was {before.name!r}")
            answer = before.answer
        self.chosen.append(Chosen(name, exact, how, charged, answer))
        return answer


@contextmanager
def taped() -> Iterator[Tape]:
    """Note the choices and discoveries of all accountants."""
    tape, choose, discover = Tape(), PrivacyAccountant.release_choice, PrivacyAccountant.release_discovered

    def release_choice(self, utilities, sensitivity, rng, *, name, loss=None):
        answer = choose(self, utilities, sensitivity, rng, name=name, loss=loss)
        return tape.note(name, np.array(utilities), sensitivity.times(self.rows_per_unit).sup, loss, answer)

    def release_discovered(self, tables, chosen, rng, *, name):
        answer = discover(self, tables, chosen, rng, name=name)
        return tape.note(name, [dict(table) for table in tables], chosen, chosen.loss, answer)

    with patch.multiple(PrivacyAccountant, release_choice=release_choice, release_discovered=release_discovered):
        yield tape


def loss_of_choice(first: Chosen, other: Chosen) -> tuple[NoiseLoss, float]:
    """Return what a choice or a discovery lost, and the share of its delta."""
    if isinstance(first.exact, np.ndarray):
        moved = first.exact - other.exact
        # Candidate c wins where u_c and its noise are above the largest of the others: both move by the changes of utilities.
        spread = Fraction(int(moved.max() - moved.min()))
        share = spread / (2 * first.how) if spread else Fraction(0)
        if first.charged.rho is not None:  # by the exponential mechanism
            return NoiseLoss(gaussian=gaussian_of_pure(share * pure_of_gaussian(first.charged.rho)) if share else Fraction(0)), 0.0
        return NoiseLoss(share * first.charged.epsilon), 0.0
    scale, threshold, epsilon, delta = first.how.noise.scale, int(first.how.threshold), Fraction(0), 0.0
    for counts, others in zip(first.exact, other.exact, strict=True):
        counts, others = ({level: count for level, count in table.items() if count} for table in (counts, others))
        epsilon += sum((Fraction(abs(counts[level] - others[level])) / scale for level in counts.keys() & others.keys()), Fraction(0))
        alone = [[mine[level] for level in mine.keys() - theirs.keys()] for mine, theirs in ((counts, others), (others, counts))]
        delta += max(sum(shown(count, float(scale), threshold) for count in each) for each in alone)
    return NoiseLoss(epsilon), delta / float(first.charged.delta)


def shown(count: int, scale: float, threshold: int) -> float:
    """Return the probability that a level of so many rows is shown."""
    return math.exp(-(threshold - count + 1) / scale) / (1 + math.exp(-1 / scale))


# Losses and charges


@dataclass
class Sum:
    """Losses in epsilon and in rho, side by side."""

    epsilon: Any = Fraction(0)
    rho: Any = Fraction(0)

    def __add__(self, other: "Sum") -> "Sum":
        return Sum(self.epsilon + other.epsilon, self.rho + other.rho)

    def over(self, charged: "Sum") -> float:
        """Return the larger of the two shares of what is charged."""
        pairs = ((self.epsilon, charged.epsilon), (self.rho, charged.rho))
        return max(float(lost / whole) if whole else math.inf * bool(lost) if lost else 0.0 for lost, whole in pairs)

    def __str__(self) -> str:
        parts = [f"{name} {float(value):.6g}" for name, value in vars(self).items() if value]
        return " + ".join(parts) or "nothing"


def charge(loss: PrivacyLoss) -> Sum:
    """Return a charge as it is."""
    return Sum(loss.epsilon) if loss.rho is None else Sum(rho=loss.rho)


def lost_of(lost: NoiseLoss, charged: PrivacyLoss | None) -> Sum:
    """Return what was lost in the unit of what was charged for it; of a standing release in its own."""
    if charged is None or charged.rho is None:
        return Sum(lost.epsilon, lost.gaussian)
    return Sum(rho=(lost.gaussian if charged.gaussian else lost.rho) + lost.epsilon**2 / 2)


def charged_for(accountant: PrivacyAccountant, entries: Any) -> Sum:
    """Return the sum of the charges of what was released, that is of the innermost entries; a group costs its costliest member."""
    whole, groups = Sum(), defaultdict(lambda: defaultdict(Sum))
    for entry in entries:
        parts = accountant.parts_of(entry)
        loss = charged_for(accountant, parts) if parts else charge(entry.loss)
        if entry.group is None:
            whole += loss
        else:
            groups[entry.group][entry.name] += loss
    for members in groups.values():
        whole += Sum(*(max(getattr(member, kind) for member in members.values()) for kind in ("epsilon", "rho")))
    return whole


def loss_of_nodes(pairs: list[tuple[Draw, Draw]]) -> NoiseLoss:
    """Return the least that changes of nodes lose which explain the changes of all sums of one noise."""
    moved = np.array([(first.values - other.values).ravel() for first, other in pairs])
    if not moved.any():
        return NoiseLoss()
    places = {name: place for place, name in enumerate(dict.fromkeys(name for first, _ in pairs for name, _ in first.nodes))}
    sums = np.zeros((len(pairs), len(places)))
    for row, (first, _) in enumerate(pairs):
        for name, sign in first.nodes:
            sums[row, places[name]] += sign
    least = sum(
        linprog(np.ones(2 * len(places)), A_eq=np.hstack([sums, -sums]), b_eq=cell, method="highs").fun for cell in moved.T if cell.any()
    )
    noise = pairs[0][0].noise
    return loss_of_ratios(kind_of(noise), [Fraction(round(least * 1000), 1000) / noise.scale])


# Replays


@dataclass(frozen=True)
class Case:
    """An unfitted estimator, a table (of a stream: a list of tables) and neighbors of it."""

    estimator: Any
    table: Any
    neighbors: list[Any]
    unit: str | None = None


@dataclass
class Run:
    """What passed the door in one fit, and what is left of it."""

    draws: list[Draw]
    chosen: list[Chosen]
    accountant: PrivacyAccountant
    left: dict[str, Any]


def fit(case: Case, table: Any, door: Any, tape: Tape) -> Run:
    """Fit anew."""
    model, left = clone(case.estimator), {}
    with record_warnings() as caught:
        if isinstance(table, list):
            for place, rows in enumerate(table):
                model.partial_fit(rows, unit=case.unit)
                left |= {f"after tick {place}, {name}": value for name, value in seen(model).items()}
            if model.strategy == "blocks" and case.unit is None:  # a tree holds exact counts, and units are remembered
                left |= full_state(model)
        else:
            model.fit(table, unit=case.unit)
            left |= full_state(model) | serialized_bytes(model)
    left |= {"the warnings": [str(warning.message) for warning in caught]} | released_state(model)
    draws, chosen = door.take(), tape.chosen
    tape.chosen = []
    return Run(draws, chosen, model.accountant_, left)


def seen(stream: OnlineSynthesizer) -> dict[str, Any]:
    """Return what a stream shows between two ticks: its attributes, and of counters, which draw where they are asked, a sample."""
    if stream.strategy == "paper":
        return released_state(stream)
    return {path: leaf for name, value in fitted_attributes(stream).items() for path, leaf in leaves(value, name)}


def replay(case: Case) -> tuple[int, Sum, float, tuple[float, str], str]:
    """Return the number of releases, what was charged, the largest share lost, the worst release, and what differs."""
    whole, worst, state = 0.0, (0.0, "none"), "same"
    with watch_releases() as door, taped() as tape:
        first = fit(case, case.table, door, tape)
        charged = charged_for(first.accountant, first.accountant.ledger)
        for neighbor in case.neighbors:
            door.replay(first.draws)
            tape.answers = first.chosen
            try:
                other = fit(case, neighbor, door, tape)
            except AssertionError as error:
                return len(first.draws), charged, whole, worst, str(error)
            state = unlike(first, other) or state
            lost, releases = losses(first, other)
            whole = max(whole, lost.over(charged))
            worst = max(worst, *releases)
            if case.estimator.delta and not is_covered(as_lost(lost), PrivacyLoss(case.estimator.epsilon, case.estimator.delta)):
                state = "the promise does not cover it"
    return len(first.draws) + len(first.chosen), charged, whole, worst, state


def as_lost(lost: Sum) -> NoiseLoss:
    """Return losses in epsilon and those of Gaussian noise."""
    return NoiseLoss(lost.epsilon, lost.rho, lost.rho)


def losses(first: Run, other: Run) -> tuple[Sum, list[tuple[float, str]]]:
    """Return what all releases lost, and of each the share of its charge, with its name."""
    whole, releases, nodes = Sum(), [(0.0, "none")], defaultdict(list)
    for pair in zip(first.draws, other.draws, strict=False):
        draw = pair[0]
        if draw.shared:
            nodes[id(draw.noise)].append(pair)
            continue
        lost = lost_of(pair_loss(*pair), draw.loss)
        whole += lost
        if draw.loss is not None:
            releases.append((lost.over(charge(draw.loss)), str(draw.name)))
    whole = sum((lost_of(loss_of_nodes(pairs), None) for pairs in nodes.values()), whole)
    for one, two in zip(first.chosen, other.chosen, strict=False):
        lost, delta = loss_of_choice(one, two)
        own = lost_of(lost, one.charged)
        whole += own
        releases.append((max(own.over(charge(one.charged)), delta), one.name))
    return whole, releases


def unlike(first: Run, other: Run) -> str | None:
    """Return what differs between two runs beside the exact values, or None."""
    if len(first.draws) != len(other.draws) or len(first.chosen) != len(other.chosen):
        return "a neighbor has fewer releases"
    for draw, again in zip(first.draws, other.draws, strict=True):
        for what in ("name", "noise", "loss", "sensitivity", "nodes"):
            if getattr(draw, what) != getattr(again, what):
                return f"{what} of {draw.name!r} differs"
    return difference(first.left, other.left)


# Tables and their neighbors


def spliced(X: Any, start: int, stop: int, rows: Any) -> Any:
    """Return a table with other rows from start to stop."""
    if isinstance(X, pd.DataFrame):
        return pd.concat([X[:start], rows, X[stop:]], ignore_index=True)
    return np.vstack([X[:start], rows, X[stop:]])


def neighbors(X: Any, relation: str, rivals: list[Any], in_middle: bool = True) -> list[Any]:
    """Return neighbors of a table whose first rows are one unit: rivals of as many rows take their place, or come as well."""
    if relation == "replace_one":
        return [spliced(X, 0, len(rows), rows) for rows in rivals]
    return [spliced(X, place, place, rows) for rows in rivals for place in [len(X), *[len(X) // 2] * in_middle]]


def cube(n: int, d: int, corners: list[Any], seed: int = 0) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return rows about a line through the unit cube, the first of them in the first corner, and other corners as tables of one row."""
    rng = np.random.default_rng(seed)
    X = np.clip(0.5 + 0.15 * rng.normal(size=(n, 1)) + 0.03 * rng.normal(size=(n, d)), 0, 1)
    rows = [np.resize(corner, (1, d)).astype(float) for corner in corners]
    return spliced(X, 0, 1, rows[0]), rows[1:]


CORNERS = [[1.0], [0.0], [1.0, 0.0], [0.7, 0.3], [0.75, 0.25, 0.25]]


def points(estimator: Any, relation: str, n: int = 3000, d: int = 3, corners: Any = CORNERS, **parameters: Any) -> Case:
    """Rows in a cube, one of them in a corner."""
    X, rivals = cube(n, d, corners)
    estimator = estimator.set_params(neighboring=relation, random_state=0, **parameters)
    return Case(estimator, X, neighbors(X, relation, rivals))


def units_of(X: pd.DataFrame, relation: str, first: pd.DataFrame, rivals: list[pd.DataFrame], k: int) -> tuple[pd.DataFrame, list[Any]]:
    """Return a table of units and neighbors of it; the unit that changes has more than k equal rows, so that any k of them are alike."""
    rng = np.random.default_rng(7)
    who = np.sort(rng.integers(1, len(X) // 3, len(X)))[rng.permutation(len(X))]
    many = [rows.loc[[0] * (k + 2)].assign(who=0) for rows in (first, *rivals)]
    X = pd.concat([many[0], X.assign(who=who)], ignore_index=True)
    more = -1 if relation == "add_or_remove_one" else 0  # under add/remove another unit comes
    return X, neighbors(X, relation, [rows.assign(who=more) for rows in many[1:]])


def point_units(estimator: Any, relation: str, n: int = 3000, d: int = 3, k: int = 3, **parameters: Any) -> Case:
    """Units of several rows in a cube."""
    X, rivals = cube(n, d, CORNERS)
    X, first, *rivals = (pd.DataFrame(rows, columns=list("abcdef")[:d]) for rows in (X, X[:1], *rivals))
    table, others = units_of(X, relation, first, rivals, k)
    estimator = estimator.set_params(neighboring=relation, random_state=0, max_rows_per_unit=k, **parameters)
    return Case(estimator, table, others, unit="who")


MIXED = {
    "age": Continuous(18, 99),
    "again": Continuous(18, 99),
    "income": Continuous(0, 1_000_000, nullable=True),
    "begin": Date("2022-01-01", "2023-12-31", nullable=True),
    "end": Date("2022-01-01", "2023-12-31", nullable=True),
    "job": list("abcdefgh"),
    "grade": [1, 2, 3, 4],
    "sick": [False, True],
}
LOW = {"age": 18, "again": 99, "income": 0.0, "begin": "2022-01-01", "end": "2023-12-31", "job": "a", "grade": 1, "sick": False}
HIGH = {"age": 99, "again": 18, "income": np.nan, "begin": "2023-12-31", "end": "2022-01-01", "job": "h", "grade": 4, "sick": True}
HALF = LOW | {name: HIGH[name] for name in ("age", "income", "end", "grade")}
ODD = {"age": 1e300, "again": np.nan, "income": -1e300, "begin": pd.NaT, "end": pd.NaT, "job": "never seen", "grade": 99, "sick": True}


def people(n: int, seed: int = 0) -> pd.DataFrame:
    """Rows that depend on each other: ages told twice, stays of a few days, levels."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(55, 15, n), 18, 99)
    begin = np.datetime64("2022-01-01") + rng.integers(0, 690, n).astype("timedelta64[D]")
    table = {
        "age": age,
        "again": np.clip(age + rng.normal(0, 0.5, n), 18, 99),
        "income": np.where(rng.random(n) < 0.1, np.nan, np.clip(5000 * age + rng.normal(0, 1e5, n), 0, 1e6)),
        "begin": begin,
        "end": begin + rng.poisson(3, n).astype("timedelta64[D]"),
        "job": np.array(list("abcdefgh"))[np.clip((age / 12 + rng.normal(0, 1, n)).astype(int), 0, 7)],
        "grade": rng.integers(1, 5, n),
        "sick": rng.random(n) < age / 150,
    }
    return pd.DataFrame(table).astype({"begin": "datetime64[s]", "end": "datetime64[s]", "job": object})


def person(cells: dict[str, Any], like: pd.DataFrame) -> pd.DataFrame:
    """Return one row with the dtypes of a table."""
    return pd.DataFrame([cells])[list(like)].astype(like.dtypes)


def mixed(
    relation: str, *, n: int = 10_000, schema: Any = None, columns: Any = tuple(MIXED), in_middle: bool = True, **parameters: Any
) -> Case:
    """A table of people."""
    X = people(n)[list(columns)]
    first, *rivals = (person(cells, X) for cells in (LOW, HIGH, HALF, ODD))
    X = spliced(X, 0, 1, first)
    schema = {name: MIXED[name] for name in columns} if schema is None else schema
    return Case(latent(schema, relation, **parameters), X, neighbors(X, relation, rivals, in_middle))


def mixed_units(relation: str, *, n: int = 10_000, schema: Any = MIXED, k: int = 3, **parameters: Any) -> Case:
    """Units of several rows of people."""
    X = people(n)
    first, *rivals = (person(cells, X) for cells in (LOW, HIGH, HALF, ODD))
    table, others = units_of(X, relation, first, rivals, k)
    return Case(latent(schema, relation, max_rows_per_unit=k, **parameters), table, others, unit="who")


def weighed(relation: str, *, k: int = 1, n: int = 10_000, **parameters: Any) -> Case:
    """People with survey weights, or units of several of them; rivals have the cap, as the first row, the least weight, and odd ones."""
    X = people(n).assign(weight=np.random.default_rng(6).integers(1, 41, n).astype(float))
    pairs = (LOW, 40.0), (HIGH, 40.0), (HALF, 40.0), (HIGH, 1.0), (ODD, 1e300), (ODD, np.nan)
    first, *rivals = (person({**cells, "weight": weight}, X) for cells, weight in pairs)
    model = latent({**MIXED, "weight": Continuous(1, 40)}, relation, weights="weight", max_rows_per_unit=k, **parameters)
    if k == 1:
        X = spliced(X, 0, 1, first)
        return Case(model, X, neighbors(X, relation, rivals))
    return Case(model, *units_of(X, relation, first, rivals, k), unit="who")


def latent(schema: Any, relation: str, *, epsilon: float = 8.0, **parameters: Any) -> LatentFactorSynthesizer:
    """Return a synthesizer of mixed tables with few factors."""
    return LatentFactorSynthesizer(schema, n_factors=2, epsilon=epsilon, neighboring=relation, random_state=0, **parameters)


PRIVATE = {
    "age": Continuous(bounds="private"),
    "again": Continuous(18, 99),
    "income": Continuous(bounds="private", nullable=True),
    "begin": MIXED["begin"],
    "end": MIXED["end"],
    "job": Nominal("private"),
    "grade": Nominal("private"),
    "sick": [False, True],
}
LEVELS = {**MIXED, "job": Nominal("private"), "grade": Nominal("private")}
ORDERED = Schema(MIXED, rules=[Inequality("begin", "end")])


PLACES = Hierarchy(["part", "job"], {"left": list("abcd"), "right": list("efgh")})
BELOW = {name: kind for name, kind in MIXED.items() if name != "job"}


def areas(relation: str, *, n: int = 10_000, k: int = 1, epsilon: float = 8.0, **parameters: Any) -> Case:
    """People, or units of several rows, whose jobs stand for areas; of many rows for the noise, areas are classes of the model."""
    case = mixed(relation, n=n) if k == 1 else mixed_units(relation, n=n, k=k)
    made = AreaSynthesizer(BELOW, PLACES, by=["sick"], synthesizer=LatentFactorSynthesizer(n_factors=2), max_rows_per_unit=k)
    return replace(case, estimator=made.set_params(epsilon=epsilon, neighboring=relation, random_state=0, **parameters))


def coded(relation: str, n_columns: int, n_levels: int, n: int, **parameters: Any) -> Case:
    """Levels of many columns, which one hidden level moves together."""
    rng = np.random.default_rng(1)
    hidden = rng.integers(0, n_levels, (n, 1))
    levels = np.where(rng.random((n, n_columns)) < 0.5, hidden, rng.integers(0, n_levels, (n, n_columns)))
    X = pd.DataFrame(levels, columns=[f"c{place}" for place in range(n_columns)])
    low, high = np.zeros(n_columns, dtype=int), np.full(n_columns, n_levels - 1)
    half = np.where(np.arange(n_columns) < n_columns // 2, low, high)
    first, *rivals = (pd.DataFrame([row], columns=X.columns) for row in (low, high, half))
    X = spliced(X, 0, 1, first)
    return Case(latent({name: list(range(n_levels)) for name in X}, relation, **parameters), X, neighbors(X, relation, rivals))


def parities(relation: str, n_columns: int = 8, **parameters: Any) -> Case:
    """Bits of some columns, the last of which is the exclusive or of three others; rivals differ in the last column, or in all."""
    levels = np.random.default_rng(1).integers(0, 2, (12_000, n_columns))
    levels[:, -1] = levels[:, :3].sum(axis=1) % 2
    X = pd.DataFrame(levels, columns=[f"c{place}" for place in range(n_columns)])
    rows = ([0] * n_columns, [0] * (n_columns - 1) + [1], [1] * n_columns)
    first, *rivals = (pd.DataFrame([row], columns=X.columns) for row in rows)
    X = spliced(X, 0, 1, first)
    return Case(latent({name: [0, 1] for name in X}, relation, **parameters), X, neighbors(X, relation, rivals))


def search(estimator: Any, grid: dict[str, Any], relation: str, **parameters: Any) -> Case:
    """A private search on rows in a cube."""
    X, rivals = cube(3000, 2, CORNERS)
    estimator = estimator.set_params(neighboring=relation, bounds=(0, 1))
    return Case(PrivateSearchCV(estimator, grid, epsilon=2.0, random_state=0, **parameters), X, neighbors(X, relation, rivals))


class FitToError(BaseEstimator):
    """A search for the least epsilon as an estimator; what it keeps is the model, the rounds and the cost."""

    delta = property(lambda self: self.estimator.delta)

    def __init__(self, estimator: Any, error: Any, target: float, epsilon: float = 8.0):
        self.estimator, self.error, self.target, self.epsilon = estimator, error, target, epsilon

    def fit(self, X: Any, unit: str | None = None) -> "FitToError":
        """Search, with the epsilon as the cap."""
        found = fit_to_error(self.estimator, X, target=self.target, max_epsilon=self.epsilon, error=self.error, unit=unit)
        self.model_, self.accountant_ = found.model, found.model.accountant_
        self.words_, self.costs_, self.state_ = str(found), found.to_records(), full_state(found.model)
        return self


def searched(case: Case, error: Any, target: float) -> Case:
    """The case of a search with the estimator of another one."""
    return replace(case, estimator=FitToError(case.estimator, error, target))


def share_over_epsilon(model: Any) -> float:
    """An error that follows from the rows of a model. Without simulated fits, which are refused, rounds follow a power law, faster."""
    if model.accountant is None:
        raise ValueError("only rounds are looked at")
    return (1 + float(np.mean(model.sample(50, random_state=0)["sick"].astype(float)))) / float(model.epsilon)


def stream(estimator: Any, relation: str, ticks: list[Any], rivals: list[Any], where: int = 2) -> Case:
    """A stream in one of whose ticks, which is of a closed block, a row changes or comes."""
    others = neighbors(ticks[where], relation, rivals)
    estimator = estimator.set_params(neighboring=relation, random_state=0)
    return Case(estimator, ticks, [[*ticks[:where], other, *ticks[where + 1 :]] for other in others])


def point_stream(estimator: Any, relation: str, n: int = 2000, n_ticks: int = 20, d: int = 2) -> Case:
    """Rows in a cube, tick by tick."""
    X, rivals = cube(n, d, CORNERS)
    ticks = np.split(X, n_ticks)
    ticks[0][0], ticks[2][0] = X[1], X[0]
    return stream(estimator, relation, ticks, rivals)


def mixed_stream(estimator: Any, relation: str, n: int = 4000, n_ticks: int = 8) -> Case:
    """People, tick by tick."""
    X = people(n)
    first, *rivals = (person(cells, X) for cells in (LOW, HIGH, HALF, ODD))
    ticks = [X[start : start + n // n_ticks].reset_index(drop=True) for start in range(0, n, n // n_ticks)]
    ticks[1] = spliced(ticks[1], 0, 1, first)
    return stream(estimator, relation, ticks, rivals, where=1)


def stream_of_units(estimator: Any, relation: str, n: int = 2000, n_ticks: int = 10, k: int = 3) -> Case:
    """One unit has a row in each of k ticks of different blocks, from corner to corner on neighbors, or is not there."""
    X, _ = cube(n, 2, CORNERS)
    who = np.random.default_rng(5).integers(1, n // 2, n)
    parts = zip(np.split(X, n_ticks), np.split(who, n_ticks), strict=True)
    ticks = [pd.DataFrame(rows, columns=["a", "b"]).assign(who=labels) for rows, labels in parts]
    here, there = (pd.DataFrame([[at, at]], columns=["a", "b"]).assign(who=0) for at in (1.0, 0.0))
    there = there if relation == "replace_one" else there[:0]
    others = [spliced(rows, 0, 1, there) for rows in ticks[:k]]
    ticks[:k] = [spliced(rows, 0, 1, here) for rows in ticks[:k]]
    estimator = estimator.set_params(neighboring=relation, random_state=0, max_rows_per_unit=k)
    return Case(estimator, ticks, [[*others, *ticks[k:]]], unit="who")


HOMES = {
    "home": {"region": list("abc"), "rent": (0.0, 3000.0)},
    "person": {"age": (0, 99), "works": [False, True], "role": ["head", "child", "other"]},
    "trip": {"depart": Continuous(0.0, 24.0, nullable=True), "mode": ["bus", "car", "foot"]},
    "car": {"power": (20, 200), "electric": [False, True]},
}
HEAD = {"role": "head"}
NO_LEVELS: dict[str, Any] = {name: Nominal("private") for name in ("region", "role", "mode")}
NO_BOUNDS: dict[str, Any] = {name: Continuous(bounds="private") for name in ("rent", "age", "depart")}
MANY = {"role": ["head", "child", "other", *(f"role {number}" for number in range(117))]}
ENDS = {  # cells of a root and of all that hangs on it
    "low": {"region": "a", "rent": 0.0, "age": 0, "works": False, "role": "head"}
    | {"depart": 0.0, "mode": "bus", "power": 20, "electric": False},
    "high": {"region": "c", "rent": 3000.0, "age": 99, "works": True, "role": "other"}
    | {"depart": 24.0, "mode": "foot", "power": 200, "electric": True},
    "odd": {"region": "never seen", "rent": 1e300, "age": -(10**9), "works": False, "role": "never seen"}
    | {"depart": np.nan, "mode": "never seen", "power": 10**9, "electric": True},
}


def homes(n: int, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Homes with persons, whose numbers are those of persons of other homes too, with trips and with cars."""
    rng = np.random.default_rng(seed)
    rich, of = rng.random(n), np.repeat(np.arange(1, n + 1), rng.integers(0, 6, n))
    age = np.clip(rng.normal(20 + 40 * rich[of - 1], 15), 0, 99).astype(int)
    home = {"home_id": np.arange(1, n + 1), "region": np.array(list("abc"))[(3 * rich).astype(int)], "rent": 3000 * rich}
    person = {"home_id": of, "number": np.arange(len(of)) - np.searchsorted(of, of), "age": age, "works": rng.random(len(of)) < age / 99}
    role = np.where(person["number"] == 0, "head", np.where(age < 20, "child", "other"))
    who = np.repeat(np.arange(len(of)), rng.integers(0, 4, len(of)))
    mode = np.where(person["works"][who], rng.choice(["car", "foot"], len(who)), "bus")
    trip = {"home_id": of[who], "number": person["number"][who], "depart": 24 * rng.random(len(who)), "mode": mode}
    owned = np.repeat(np.arange(1, n + 1), rng.integers(0, 3, n))
    car = {"home_id": owned, "power": rng.integers(20, 200, len(owned)), "electric": rng.random(len(owned)) < 0.2}
    made = {"home": home, "person": person | {"role": role}, "trip": trip, "car": car}
    return {name: pd.DataFrame(columns) for name, columns in made.items()}


def a_home(key: int, n_rows: int, ends: list[str], like: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return a home with so many persons, trips of each, and cars, whose cells are at these ends by turns."""
    numbers = {"home": [(0, 0)], "person": [(i, 0) for i in range(n_rows)], "car": [(i, 0) for i in range(n_rows)]}
    numbers["trip"] = list(itertools.product(range(n_rows), repeat=2))
    cells = {name: [{"home_id": key, "number": i, **ENDS[ends[(i + j) % len(ends)]]} for i, j in of] for name, of in numbers.items()}
    return {name: pd.DataFrame(rows, columns=list(like[name])).astype(like[name].dtypes) for name, rows in cells.items()}


def linked(
    relation: str, links: list[Children], *, n: int = 2000, epsilon: float = 8.0, drops: Any = (), facts: Any = None, **parameters: Any
) -> Case:
    """Homes, the first of which is replaced or beside which another one comes, with none, one, all that count or more below it."""
    names = {link.table for link in links} | {link.of for link in links}
    facts = facts or {}
    schemas = {table: {name: facts.get(name, kind) for name, kind in HOMES[table].items() if name not in drops} for table in HOMES}
    schemas = {table: kinds for table, kinds in schemas.items() if table in names}
    whole, most = homes(n), max(link.most for link in links)
    kinds = [(0, ["high"]), (1, ["high"]), (most, ["high"]), (most + 3, ["high"]), (most, ["low", "high"]), (most + 1, ["odd", "low"])]
    key = 0 if relation == "replace_one" else -1
    first, *rivals = (a_home(at, *kind, whole) for at, kind in [(0, (most + 2, ["low"])), *((key, kind) for kind in kinds)])
    numbered = {name for link in links if isinstance(link.key, tuple) for name in (link.table, link.of)}

    def tables(*parts: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        joined = {name: pd.concat([part[name] for part in parts], ignore_index=True) for name in schemas}
        return {
            name: rows.drop(columns=[*drops, *(["number"] if name not in numbered else [])], errors="ignore")
            for name, rows in joined.items()
        }

    before = [] if relation == "replace_one" else [first]
    others = [tables(*before, rival, whole) for rival in rivals]
    model = LinkedTablesSynthesizer(schemas, links=links, epsilon=epsilon, neighboring=relation, random_state=0, **parameters)
    return Case(model, tables(first, whole), others)


def persons(**more: Any) -> Children:
    return Children("person", of="home", key="home_id", **{"most": 4, **more})


TRIPS = {"of": "person", "key": ("home_id", "number"), "most": 2}
CARS = Children("car", of="home", key="home_id", most=1)
DELTA = {"delta": 1e-6}
BOX = {"bounds": (0.0, 1.0)}
WIDE = {"bounds": "private"}
PMM, PSMM, PCA, LOW_DIM, ONLINE = PrivateMeasureMechanism, SignedMeasureMechanism, PrivatePCA, LowDimSynthesizer, OnlineSynthesizer
BLOCK = {"epsilon": 8.0, **DELTA}


def block() -> LatentFactorSynthesizer:
    """Return what runs on a block of a mixed stream."""
    return LatentFactorSynthesizer(MIXED, n_factors=2)


CASES: dict[str, Callable[[str], Case]] = {
    "latent, pure": lambda relation: mixed(relation),
    "latent, delta": lambda relation: mixed(relation, **DELTA),
    "latent, stratify, pure": lambda relation: mixed(relation, stratify="sick"),
    "latent, stratify, delta": lambda relation: mixed(relation, stratify="sick", **DELTA),
    "latent, levels alone, delta": lambda relation: mixed(relation, columns=("job", "grade", "sick"), **DELTA),
    "latent, numbers alone": lambda relation: points(latent(None, relation), relation, bounds=(0, 1)),
    "latent, ordered dates, pure": lambda relation: mixed(relation, schema=ORDERED),
    "latent, ordered dates, delta": lambda relation: mixed(relation, schema=ORDERED, **DELTA),
    "latent, private levels": lambda relation: mixed(relation, schema=LEVELS, epsilon=2.0, **DELTA),
    "latent, private levels and bounds": lambda relation: mixed(relation, schema=PRIVATE, **DELTA),
    "latent, 44 columns, delta": lambda relation: coded(relation, 44, 3, 10_000, **DELTA),
    "latent, 44 columns, pure": lambda relation: coded(relation, 44, 3, 10_000),
    "latent, 120 levels, pure": lambda relation: coded(relation, 3, 120, 20_000),
    "latent, 120 levels, delta": lambda relation: coded(relation, 3, 120, 20_000, **DELTA),
    "latent, 12 columns of two levels": lambda relation: coded(relation, 12, 2, 10_000),
    "latent, classes of two levels": lambda relation: coded(relation, 12, 2, 10_000, stratify="c11"),
    "latent, two levels, delta": lambda relation: coded(relation, 12, 2, 10_000, epsilon=1.0, delta=1e-9),
    "latent, triples": lambda relation: coded(relation, 8, 2, 30_000, epsilon=16.0, **DELTA),
    "latent, triples, few columns": lambda relation: coded(relation, 5, 3, 30_000, epsilon=16.0, **DELTA),
    "latent, parities, pure": lambda relation: parities(relation),
    "latent, parities, delta": lambda relation: parities(relation, 24, epsilon=1.0, **DELTA),
    "latent, parities, stratify, delta": lambda relation: parities(relation, 24, epsilon=1.0, stratify="c7", **DELTA),
    "latent, units, pure": lambda relation: mixed_units(relation),
    "latent, units, delta": lambda relation: mixed_units(relation, **DELTA),
    "latent, units, stratify, delta": lambda relation: mixed_units(relation, stratify="sick", **DELTA),
    "latent, units, private facts": lambda relation: mixed_units(relation, schema=PRIVATE, **DELTA),
    "latent, weights, pure": lambda relation: weighed(relation),
    "latent, weights, delta": lambda relation: weighed(relation, **DELTA),
    "latent, weights, stratify, delta": lambda relation: weighed(relation, stratify="sick", **DELTA),
    "latent, weights, units, delta": lambda relation: weighed(relation, k=3, **DELTA),
    "latent, scores": lambda relation: mixed(relation, in_middle=False, strategy="scores"),
    "latent, scores, delta": lambda relation: mixed(relation, in_middle=False, strategy="scores", synthesizer="pmm", **DELTA),
    "linked, pure": lambda relation: linked(relation, [persons()]),
    "linked, delta": lambda relation: linked(relation, [persons()], **DELTA),
    "linked, levels alone, pure": lambda relation: linked(relation, [persons()], drops=("rent", "age")),
    "linked, levels alone, delta": lambda relation: linked(relation, [persons()], drops=("rent", "age"), **DELTA),
    "linked, head, pure": lambda relation: linked(relation, [persons(head=HEAD, least=1)]),
    "linked, head, delta": lambda relation: linked(relation, [persons(head=HEAD)], **DELTA),
    "linked, histories, pure": lambda relation: linked(relation, [persons(order="age")]),
    "linked, histories, delta": lambda relation: linked(relation, [persons(order="age")], **DELTA),
    "linked, many children": lambda relation: linked(relation, [persons(most=20)], **DELTA),
    "linked, three levels, pure": lambda relation: linked(relation, [persons(), Children("trip", **TRIPS)]),
    "linked, three levels, histories": lambda relation: linked(relation, [persons(), Children("trip", **TRIPS, order="depart")], **DELTA),
    "linked, private levels": lambda relation: linked(relation, [persons()], facts=NO_LEVELS, epsilon=2.0, **DELTA),
    "linked, private bounds, pure": lambda relation: linked(relation, [persons()], facts=NO_BOUNDS),
    "linked, head, private facts": lambda relation: linked(relation, [persons(head={"works": True})], facts=NO_LEVELS | NO_BOUNDS, **DELTA),
    "linked, histories, private facts": lambda relation: linked(
        relation, [persons(), Children("trip", **TRIPS, order="depart")], facts=NO_LEVELS | NO_BOUNDS, **DELTA
    ),
    "linked, 120 levels, pure": lambda relation: linked(relation, [persons()], facts=MANY),
    "linked, 120 levels, head, delta": lambda relation: linked(relation, [persons(head={"works": True})], facts=MANY, **DELTA),
    "linked, two child tables, pure": lambda relation: linked(relation, [persons(), CARS]),
    "linked, two child tables, delta": lambda relation: linked(relation, [persons(), CARS], **DELTA),
    "areas, pure": lambda relation: areas(relation, n=2000, epsilon=1.0),
    "areas, delta": lambda relation: areas(relation, n=2000, epsilon=1.0, **DELTA),
    "areas, classes of the model, pure": lambda relation: areas(relation, epsilon=64.0),
    "areas, classes of the model, delta": lambda relation: areas(relation, **DELTA),
    "areas, units, delta": lambda relation: areas(relation, k=3, **DELTA),
    "areas, tables of columns, pure": lambda relation: areas(relation, epsilon=64.0, groups="part"),
    "areas, tables of columns, delta": lambda relation: areas(relation, groups="part", **DELTA),
    "areas, tables of columns, units, delta": lambda relation: areas(relation, k=3, epsilon=16.0, groups="part", **DELTA),
    "pca, private center, pure": lambda relation: points(PCA(), relation, **BOX),
    "pca, private center, gaussian": lambda relation: points(PCA(noise="gaussian"), relation, **BOX, **DELTA),
    "pca, public center, pure": lambda relation: points(PCA(center="public"), relation, **BOX),
    "pca, public center, gaussian": lambda relation: points(PCA(center="public", noise="gaussian"), relation, **BOX, **DELTA),
    "pca, laplace": lambda relation: points(PCA(center="public", noise="laplace"), relation, **BOX),
    "pca, public radius": lambda relation: points(PCA(center="public", max_norm=0.5), relation, **BOX),
    "pca, private bounds": lambda relation: points(PCA(), relation, **WIDE),
    "pca, private bounds, gaussian": lambda relation: points(PCA(noise="gaussian"), relation, **WIDE, **DELTA),
    "pca, units, pure": lambda relation: point_units(PCA(), relation, **BOX),
    "pca, units, gaussian": lambda relation: point_units(PCA(noise="gaussian"), relation, **BOX, **DELTA),
    "low dim": lambda relation: points(LOW_DIM(2), relation, d=5, **BOX),
    "low dim, auto": lambda relation: points(LOW_DIM(), relation, d=5, epsilon=8.0, **BOX),
    "low dim, private center, psmm": lambda relation: points(LOW_DIM(2, synthesizer="psmm", center="private"), relation, d=5, **BOX),
    "low dim, ranges": lambda relation: points(LOW_DIM(1), relation, d=5, epsilon=20.0, **BOX),
    "low dim, delta": lambda relation: points(LOW_DIM(2), relation, d=5, epsilon=4.0, **BOX, **DELTA),
    "low dim, private bounds": lambda relation: points(LOW_DIM(1), relation, d=5, **WIDE),
    "low dim, units": lambda relation: point_units(LOW_DIM(2), relation, d=5, **BOX),
    "measure, adaptive": lambda relation: points(PMM("adaptive"), relation, epsilon=4.0, **BOX),
    "measure, adaptive, one column": lambda relation: points(PMM(), relation, d=1, **BOX),
    "measure, optimal": lambda relation: points(PMM("optimal"), relation, epsilon=4.0, **BOX),
    "measure, paper": lambda relation: points(PMM("paper"), relation, epsilon=4.0, **BOX),
    "measure, private bounds": lambda relation: points(PMM(), relation, **WIDE),
    "measure, units": lambda relation: point_units(PMM(), relation, epsilon=4.0, **BOX),
    "measure, units, private bounds": lambda relation: point_units(PMM(), relation, **WIDE),
    "signed": lambda relation: points(PSMM(), relation, d=2, epsilon=4.0, **BOX),
    "signed, cells": lambda relation: points(PSMM(50, metric="cityblock"), relation, d=2, **BOX),
    "signed, private bounds": lambda relation: points(PSMM(), relation, d=2, **WIDE),
    "signed, units": lambda relation: point_units(PSMM(), relation, d=2, **BOX),
    "search, strategies": lambda relation: search(PMM(), {"strategy": ["adaptive", "optimal"]}, relation),
    "search, depths": lambda relation: search(PMM("optimal"), {"depth": [2, 4, 6]}, relation, search_share=0.5),
    "search, centers": lambda relation: search(PCA(1), {"center": ["public", "private"]}, relation),
    "search, Gaussian": lambda relation: search(PCA(1, noise="gaussian"), {"center": ["public", "private"]}, relation, **DELTA),
    "search, cells": lambda relation: search(PSMM(), {"n_cells": [4, 64]}, relation),
    "fit to error, bound": lambda relation: searched(points(PMM(), relation, d=1, **BOX), "bound", 0.05),
    "fit to error, units, bound": lambda relation: searched(point_units(PMM(), relation, d=1, **BOX), "bound", 0.05),
    "fit to error, pairs": lambda relation: searched(mixed(relation, n=2000), "pairs", 0.25),
    "fit to error, delta": lambda relation: searched(mixed(relation, n=2000, **DELTA), share_over_epsilon, 0.4),
    "fit to error, scores, delta": lambda relation: searched(
        mixed(relation, n=2000, in_middle=False, strategy="scores", **DELTA), share_over_epsilon, 0.4
    ),
    "fit to error, private facts": lambda relation: searched(mixed(relation, n=2000, schema=PRIVATE, **DELTA), share_over_epsilon, 0.4),
    "fit to error, weights": lambda relation: searched(weighed(relation, n=2000), share_over_epsilon, 0.4),
    "fit to error, areas": lambda relation: searched(areas(relation, n=2000), share_over_epsilon, 0.4),
    "stream, blocks": lambda relation: point_stream(ONLINE(synthesizer=PMM("optimal"), **BOX), relation),
    "stream, default": lambda relation: point_stream(ONLINE(epsilon=2.0, **BOX), relation),
    "stream, auto, window": lambda relation: point_stream(ONLINE(growth="auto", window=10 if "add" in relation else 1000, **BOX), relation),
    "stream, signed": lambda relation: point_stream(ONLINE(synthesizer=PSMM(20), **BOX), relation),
    "stream, low dim, delta": lambda relation: point_stream(ONLINE(synthesizer=LOW_DIM(1), epsilon=4.0, **BOX, **DELTA), relation),
    "stream, paper, kary": lambda relation: point_stream(ONLINE("paper", **BOX), relation, n=200, n_ticks=40),
    "stream, paper, binary": lambda relation: point_stream(ONLINE("paper", counter="binary", **BOX), relation, n=200, n_ticks=40),
    "stream, mixed, pure": lambda relation: mixed_stream(ONLINE(synthesizer=block(), epsilon=8.0, **BOX), relation),
    "stream, mixed, delta": lambda relation: mixed_stream(ONLINE(synthesizer=block(), **BOX, **BLOCK), relation),
    "stream, mixed, window": lambda relation: mixed_stream(
        ONLINE(synthesizer=block(), growth=1.5, window=4 if "add" in relation else 2000, **BOX, **BLOCK), relation
    ),
    "stream, units": lambda relation: stream_of_units(ONLINE(epsilon=3.0, **BOX), relation),
}


# The whole


def result(name: str, relation: str) -> tuple[str, bool]:
    """Return the line of a case, and whether it holds."""
    with ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for (module, constant), value in QUICK.items():
            stack.enter_context(patch.object(module, constant, value))
        case = CASES[name](relation)
        n_releases, charged, whole, (share, worst), state = replay(case)
    kind = "add" if "add" in relation else "replace"
    line = f"{name:34} {kind:8} {n_releases:8}  {charged!s:30} {whole:9.6f} {share:9.6f}  {worst[:34]:34} {state}"
    return line, max(whole, share) <= ROUNDING and state == "same"


def main() -> int:
    """Print one line a case, and return whether a promise is broken."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=[""], help="parts of names of cases")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    wanted = [name for name in CASES if any(part in name for part in arguments.only)]
    print(f"{'case':34} relation releases  {'charged':30} {'lost':>9} {'worst':>9}  {'release':34} state", flush=True)
    broken = 0
    with ProcessPoolExecutor(arguments.jobs, get_context("spawn")) as pool:
        for line, holds in pool.map(result, *zip(*itertools.product(wanted, RELATIONS), strict=True)):
            print(line, flush=True)
            broken += not holds
    print(f"{2 * len(wanted)} cases, {broken} broken")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
