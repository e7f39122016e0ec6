"""The privacy contract as tables: what each estimator releases, found by fitting public numbers while the door is watched.

Nothing is written by hand here: names, sensitivities, noise and losses are those of the ledger, and which statistic
stated a sensitivity is seen where it is made.
"""

import inspect
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from docutils import nodes
from sklearn.base import clone
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import skdpsynth
from skdpsynth import (
    AreaSynthesizer,
    LatentFactorSynthesizer,
    LinkedTablesSynthesizer,
    LowDimSynthesizer,
    OnlineSynthesizer,
    PrivateMeasureMechanism,
    PrivatePCA,
    SignedMeasureMechanism,
)
from skdpsynth.domain import Children, Hierarchy
from skdpsynth.model_selection import PrivateSearchCV
from skdpsynth.statistics import Sensitivity
from skdpsynth.testing._harness import entries_of, fixed_bits, rows, use_roots, watch_releases
from skdpsynth.testing._roots import Roots

RELATIONS = ("replace_one", "add_or_remove_one")
DELTAS = (0.0, 1e-6)
STATEMENTS = ("skdpsynth.statistics.", "skdpsynth.continual.", "skdpsynth.model_selection.")  # rooms whose statistics state sensitivities


LINKED = LinkedTablesSynthesizer(
    {"household": {"region": ["north", "south"], "income": (0.0, 100.0)}, "person": {"age": (0, 99), "works": [False, True]}},
    links=[Children("person", of="household", key="household_id", most=3)],
)
TABLES = {
    "household": pd.DataFrame({"household_id": np.arange(4), "region": ["north", "south"] * 2, "income": [10.5, 20.5, 30.5, 40.5]}),
    "person": pd.DataFrame({"household_id": [0, 1, 1, 2, 2, 2], "age": [20, 30, 40, 50, 60, 70], "works": [True, False] * 3}),
}
AREAS = Hierarchy(["part", 0], {10: [0, 2], 11: [1, 3]})


@dataclass(frozen=True)
class Release:
    """A line of the contract.

    Attributes
    ----------
    account : tuple of str
        The parts of the estimator that it was charged through, the outermost first.
    entry : LedgerEntry
        What the ledger says of it.
    statistic : str or None
        Full name of the method that stated the sensitivity; None where the mechanism needs none.
    """

    account: tuple[str, ...]
    entry: Any
    statistic: str | None


def settings() -> dict[str, dict[str, Any]]:
    """Return the settings that have a contract of their own: name of the class -> what a person calls the setting -> estimator."""
    search = PrivateSearchCV(PrivateMeasureMechanism(), {"strategy": ["adaptive", "optimal"]})
    return {
        "PrivatePCA": {"as it is": PrivatePCA(2), '`center="public"`': PrivatePCA(2, center="public")},
        "PrivateMeasureMechanism": {
            '`strategy="adaptive"`': PrivateMeasureMechanism("adaptive"),
            '`strategy="optimal"`': PrivateMeasureMechanism("optimal"),
            '`strategy="paper"`': PrivateMeasureMechanism("paper"),
            '`bounds="private"`': PrivateMeasureMechanism("optimal", bounds="private"),
        },
        "SignedMeasureMechanism": {"as it is": SignedMeasureMechanism()},
        "LowDimSynthesizer": {
            "as it is": LowDimSynthesizer(2),
            '`synthesizer="psmm"`': LowDimSynthesizer(2, synthesizer="psmm"),
        },
        "OnlineSynthesizer": {'`strategy="blocks"`': OnlineSynthesizer(), '`strategy="paper"`': OnlineSynthesizer("paper")},
        "LatentFactorSynthesizer": {
            "as it is": LatentFactorSynthesizer(),
            '`strategy="scores"`': LatentFactorSynthesizer(strategy="scores"),
        },
        "LinkedTablesSynthesizer": {"households with up to 3 persons": LINKED},
        "AreaSynthesizer": {"two levels, `by` one column": AreaSynthesizer({1: [0, 1], 2: (0.0, 1.0)}, AREAS, by=[1])},
        "PrivateSearchCV": {"over two strategies of PMM": search},
    }


def releases(estimator: Any, relation: str, delta: float) -> list[Release]:
    """Return the lines of the contract of an estimator: epsilon is 1, 200 rows of 3 numbers, or 200 roots.

    Raises
    ------
    ValueError
        Where the estimator refuses the relation or delta.
    """
    table = table_for(estimator)
    with warnings.catch_warnings(), stated() as statements, watch_releases(), fixed_bits():
        warnings.simplefilter("ignore")
        fitted = _set(clone(estimator), relation, delta).fit(table)
    entries = {entry.id: entry for entry in entries_of(fitted.accountant_)}
    return [
        Release(_account(entry, entries), entry, statements.get(id(entry.sensitivity)))
        for entry in entries.values()
        if entry.noise is not None
    ]


def table_for(estimator: Any) -> Any:
    """Return what the estimator is fitted to: an array of numbers, or linked tables."""
    with use_roots(Roots.of(estimator, TABLES) if hasattr(estimator, "links") else None):
        return rows(200)


def _set(estimator: Any, relation: str, delta: float) -> Any:
    """Set what every estimator has; a search leaves the relation to the estimator that it tries."""
    name = "neighboring" if "neighboring" in estimator.get_params() else "estimator__neighboring"
    return estimator.set_params(**{"epsilon": 1.0, "delta": delta, name: relation})


def _account(entry: Any, entries: dict[int, Any]) -> tuple[str, ...]:
    """Return the names of the charges that an entry is a part of."""
    if entry.part_of is None:
        return ()
    whole = entries[entry.part_of]
    return (*_account(whole, entries), whole.name)


@contextmanager
def stated() -> Iterator[dict[int, str]]:
    """Note which method makes each sensitivity: its id -> full name of the method."""
    names: dict[int, str] = {}
    kept = []  # or an id would come again
    made, times = Sensitivity.__init__, Sensitivity.times

    def noted(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        kept.append(self)
        if name := _stating():
            names[id(self)] = name

    def of_units(self: Any, n_rows: int) -> Any:
        several = times(self, n_rows)
        if id(self) in names:
            names[id(several)] = names[id(self)]
        return several

    with patch.multiple(Sensitivity, __init__=noted, times=of_units):
        yield names


def _stating() -> str | None:
    """Return the full name of the method of a statistic that runs now, the outermost of an unbroken line of them."""
    frame, found = sys._getframe(2), None
    # A sensitivity that is changed is made by `replace` of dataclasses.
    while frame is not None and frame.f_globals.get("__name__", "").startswith(("skdpsynth._sensitivity", "dataclasses", *STATEMENTS)):
        module, method = frame.f_globals["__name__"], frame.f_code.co_qualname
        if method == "units" or (module.startswith(STATEMENTS) and "sensitivity" in method):
            found = f"{module}.{method}"
        frame = frame.f_back
    return found


def method_of(statistic: str) -> str:
    """Return the name of a method without its module."""
    return statistic.removeprefix(f"{_module_of(statistic)}.")


def _module_of(statistic: str) -> str:
    return max((name for name in sys.modules if statistic.startswith(f"{name}.")), key=len)


# The page


def spoken(name: str) -> str:
    """Return a name with its numbers left open, so that the releases of all levels make one line."""
    letters = iter("ijklmn")
    return re.sub(r"\d+", lambda _: f"*{next(letters)}*", name)


def lines_of(found: list[Release]) -> Iterator[str]:
    """Yield the rows of a table in Markdown, releases of one kind in one."""

    def kind(release: Release) -> tuple[Any, ...]:
        account = tuple(map(spoken, release.account))
        return account, spoken(release.entry.name), release.statistic, release.entry.noise

    order = {key: place for place, key in reversed(list(enumerate(map(kind, found))))}
    for (account, name, statistic, noise), alike in groupby(sorted(found, key=lambda each: order[kind(each)]), kind):
        entries = [release.entry for release in alike]
        count = f" ({len(entries)} times)" if len(entries) > 1 else ""
        changes = [entry.sensitivity for entry in entries if entry.sensitivity is not None]
        scales = span([float(scale) for entry in entries for scale in entry.scale])
        cells = [
            " › ".join([*account, name]) + count,
            "" if statistic is None else f"[{method_of(statistic)}](#{anchor(statistic)})",
            span([float(sensitivity.l1) for sensitivity in changes]),
            span([float(sensitivity.l2_squared) ** 0.5 for sensitivity in changes]),
            f"{noise.removeprefix('Discrete')}, {scales}",
            loss_of(entries),
        ]
        yield f"| {' | '.join(cells)} |"


def span(numbers: list[float]) -> str:
    """Return numbers in words: one, or the least and the largest."""
    if not numbers:
        return ""
    low, high = shown(min(numbers)), shown(max(numbers))
    return low if low == high else f"{low} to {high}"


def shown(number: float) -> str:
    """Return a number in few characters: 8, 2.667, 1.31e6."""
    return f"{number:.4g}" if number < 1e4 else f"{number:.2e}".replace("e+", "e").replace("e0", "e")


def loss_of(entries: list[Any]) -> str:
    """Return what entries cost, each."""
    kinds = {re.sub(r"=[\d.e+-]+", "", str(entry.loss)) for entry in entries}
    numbers = [float(found[1]) for entry in entries if (found := re.search(r"=([\d.e+-]+)", str(entry.loss)))]
    greek = {"epsilon": "ε", "rho": "ρ"}
    return f"{' or '.join(greek.get(kind.split()[0], kind) for kind in sorted(kinds))} = {span(numbers)}"


def anchor(statistic: str) -> str:
    """Return the name of the place on the page where a statistic's proof stands."""
    return "change-of-" + re.sub(r"[\W_]+", "-", statistic.removeprefix("skdpsynth.")).strip("-").lower()


HEAD = ["| release | sensitivity by | ℓ1 | ℓ2 | noise, scale | loss |", "|---|---|---|---|---|---|"]
SAID = {"replace_one": "replace one", "add_or_remove_one": "add or remove one"}


def page() -> str:
    """Return the generated part of the page, in Markdown."""
    statistics: dict[str, None] = {}
    lines: list[str] = []
    for cls, named in settings().items():
        lines += [f"## {cls}", ""]
        for setting, estimator in named.items():
            lines += [f"### {cls}, {setting.replace('`', '')}" if setting != "as it is" else "", ""]
            lines += _tables(estimator, statistics)
    return "\n".join([*lines, *_proofs(statistics)])


def _tables(estimator: Any, statistics: dict[str, None]) -> Iterator[str]:
    """Yield the tables of an estimator, one for each relation and delta, and note the statistics in them."""
    for relation in RELATIONS:
        before = None
        for delta in DELTAS:
            try:
                found = releases(estimator, relation, delta)
            except ValueError as error:
                yield from ["", f"**{SAID[relation]}, δ = {delta:g}**: refused. {error}", ""]
                continue
            statistics |= dict.fromkeys(release.statistic for release in found if release.statistic)
            table = list(lines_of(found))
            if table == before:
                yield from ["", f"**{SAID[relation]}, δ = {delta:g}**: the same, because Gaussian noise would not be smaller.", ""]
            else:
                yield from ["", f"**{SAID[relation]}, δ = {delta:g}**", "", *HEAD, *table, ""]
            before = table


def _proofs(statistics: dict[str, None]) -> Iterator[str]:
    """Yield what the methods that state the sensitivities say of them."""
    yield from ["## Why these sensitivities are true", ""]
    yield from ["Each is stated by a method of the code, and this is what its docstring says. A brute-force test stands beside it.", ""]
    for statistic in sorted(statistics, key=method_of):
        yield from [f"({anchor(statistic)})=", f"### {method_of(statistic)}", ""]
        yield from ["```text", inspect.cleandoc(_method(statistic).__doc__ or ""), "```", ""]


def _method(statistic: str) -> Any:
    """Return the method of a full name."""
    thing: Any = sys.modules[_module_of(statistic)]
    for name in method_of(statistic).split("."):
        thing = getattr(thing, name)
    return thing


class PrivacyContract(SphinxDirective):
    """``privacy-contract``: the tables, made when the page is."""

    def run(self) -> list[nodes.Node]:
        """Fit, and parse what was found."""
        return self.parse_text_to_nodes(page(), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, Any]:
    """Offer the directive."""
    app.add_directive("privacy-contract", PrivacyContract)
    return {"version": skdpsynth.__version__, "parallel_read_safe": True, "parallel_write_safe": True}
