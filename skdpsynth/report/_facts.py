"""Facts of a card: public facts, noisy results and synthetic rows of a model, but no row of the fit."""

import inspect
import platform
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdpsynth._sklearn import check_feature_names
from skdpsynth._validation import short_repr
from skdpsynth._version import __version__
from skdpsynth.domain import Box, Schema
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.report._promise import Promise

SAMPLE_ROWS = 1000  # synthetic rows that the pictures show
_MOST_LEVELS = 12
_MOST_COLUMNS = 200
_SEED = 0  # of the sample, which is post-processing: equal cards have equal pictures
_PRIVACY_PARAMETERS = {"epsilon", "delta", "neighboring", "max_rows_per_unit", "accountant", "bounds", "schema", "random_state"}
_DISTANCE = (
    "Proved: on average over the noise, the data and as many synthetic rows are at most this far apart in the 1-Wasserstein distance. That "
    "is how far each row must be moved, on average, to turn one table into the other (largest difference of a coordinate, in units of the "
    "data)."
)
_NEAREST = (
    "Proved: noisy counts can be negative, so they were replaced by the nearest probability measure. The first number is how far that is "
    "from the noisy counts, the second how near any could be."
)
_EDGE = "By the law of the noise: the largest variance that a direction is likely to show by noise alone. Directions below it mean nothing."
_PACKAGES = ("numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class ColumnFact:
    """Public facts about a column."""

    name: str
    kind: str
    values: str  # bounds, or the first twelve levels
    nullable: bool
    origin: str = "stated"  # "stated", "bought" (released for a part of the budget, hence noisy), "computed" or "left out"


@dataclass(frozen=True)
class Bound:
    """A proved or computed bound that follows from released numbers."""

    name: str  # of the attribute, such as "error_bound_"
    value: str
    words: str


@dataclass(frozen=True)
class CardFacts:
    """The content of a release card, before it is laid out as a page.

    Attributes
    ----------
    title : str
    made : str
        The day, in UTC.
    what : str or None
        Class of the model; None for the card of an account.
    what_words : str
        Description of such a model.
    promise : Promise
    n_samples : int or None
        Rows of the fit: exact and public under "replace_one", noisy under "add_or_remove_one".
    is_stream : bool
    is_multiline : bool
        Whether cells of CSV files might hold line breaks.
    columns : tuple of ColumnFact
        At most 200.
    n_columns : int
    bounds : tuple of Bound
    parameters : tuple of (str, str)
        The model's own, as they stand; never a seed.
    versions : tuple of (str, str)
    sample : array or data frame, or None
        Synthetic rows; None for a model that has none.
    schema : Schema or None

    See Also
    --------
    card : Collects them, and lays them out.
    """

    title: str
    made: str
    what: str | None
    what_words: str
    promise: Promise
    n_samples: int | None = None
    is_stream: bool = False
    is_multiline: bool = False
    columns: tuple[ColumnFact, ...] = ()
    n_columns: int = 0
    bounds: tuple[Bound, ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    sample: Any = field(default=None, repr=False)
    schema: Schema | None = field(default=None, repr=False)


def facts_of(model: Any, accountant: PrivacyAccountant | None, title: str | None) -> CardFacts:
    if isinstance(model, PrivacyAccountant):
        promise = Promise.of(model if accountant is None else accountant)
        words = "All that was charged to one privacy budget: the releases of several models, or parts of models, about the same people."
        return CardFacts(title or "What was spent of a privacy budget", _today(), None, words, promise, versions=_versions(promise))
    check_model(model)
    is_stream = hasattr(model, "n_samples_seen_")
    # A stream with its own account may spend more later; a shared account was charged all of it at the start.
    in_full = is_stream and (accountant is None or model.accountant_._account is None)
    promise = Promise.of(model.accountant_ if accountant is None else accountant, in_full=in_full)
    winner = getattr(model, "best_estimator_", model)  # the account of a private search itself holds its whole cost
    schema = getattr(winner, "schema_", None)
    columns = tuple(_columns(winner, schema))
    return CardFacts(
        title=title or f"A release made by {type(model).__name__}",
        made=_today(),
        what=type(model).__name__,
        what_words=(inspect.getdoc(type(model)) or "A model of the table.").split("\n\n")[0].replace("\n", " "),
        promise=promise,
        n_samples=int(winner.n_samples_) if hasattr(winner, "n_samples_") else None,
        is_stream=is_stream,
        is_multiline=bool(getattr(getattr(model, "schema_", None), "read", {})),
        columns=columns[:_MOST_COLUMNS],
        n_columns=len(columns),
        bounds=tuple(_bounds(winner)),
        parameters=tuple(_parameters(model)),
        versions=_versions(promise),
        sample=winner.sample(SAMPLE_ROWS, random_state=_SEED) if hasattr(winner, "sample") else None,
        schema=schema,
    )


def check_model(model: Any) -> None:
    if not isinstance(model, BaseEstimator):
        raise TypeError(
            f"model must be a fitted private estimator or a PrivacyAccountant, got {short_repr(model)}; of a Pipeline give the step."
        )
    check_is_fitted(model)
    if not isinstance(getattr(model, "accountant_", None), PrivacyAccountant):
        raise TypeError(
            f"model must be a private estimator, which has accountant_ once it is fitted, got a {type(model).__name__}; of a Pipeline or a "
            "search give the private step."
        )


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


# Columns


def _columns(model: Any, schema: Schema | None) -> Iterator[ColumnFact]:
    if schema is not None:
        asked = getattr(model, "schema", None)
        stated = None if asked is None or isinstance(asked, str) else Schema.of(asked) if isinstance(asked, dict) else asked
        everything_bought = asked is None and getattr(model, "bounds", None) == "private"
        for name, kind in schema.items():
            before = stated.get(name) if isinstance(stated, Schema) else None
            bought = everything_bought or getattr(before, "unstated", None) == "private"
            yield _column(_name(name), kind.to_keys(), "bought" if bought else "stated")
        return
    box, bought = _box_of(model)
    for place, name in enumerate(getattr(model, "feature_names_in_", range(model.n_features_in_))):
        values = "its own partition of the space" if box is None else f"{box.low[place]:g} to {box.high[place]:g}"
        yield ColumnFact(str(name), "number", values, False, "bought" if bought else "stated")


def _box_of(model: Any) -> tuple[Box | None, bool]:
    """Return the bounds of the fit, and whether they were bought; None if the caller's partition has its own."""
    if hasattr(model, "bounds_"):
        return Box(*model.bounds_), True
    if getattr(model, "partition", None) is not None:
        return None, False
    return Box.from_bounds(model.bounds, model.n_features_in_, check_feature_names(model)), False


def _column(name: str, keys: dict[str, Any], origin: str) -> ColumnFact:
    kind, nullable = keys["kind"], bool(keys.get("nullable", False))
    if kind in ("identifier", "text"):
        return ColumnFact(name, kind, "made anew" if keys.get("labels") else "never read", False, "left out")
    if kind == "derived":
        return ColumnFact(name, kind, keys["expression"], False, "computed")
    if "bounds" in keys:
        low, high = keys["bounds"] if not isinstance(keys["bounds"], str) else (keys["bounds"], keys["bounds"])
        kind = "whole number" if keys.get("integer") else "number" if kind == "continuous" else kind
        return ColumnFact(name, kind, f"{low} to {high}", nullable, origin)
    levels = [keys["value"]] if "value" in keys else keys.get("levels") or keys.get("words") or ["false", "true"]
    more = f" and {len(levels) - _MOST_LEVELS} more" if len(levels) > _MOST_LEVELS else ""
    return ColumnFact(name, kind, ", ".join(map(str, levels[:_MOST_LEVELS])) + more, nullable, origin)


def _name(name: Any) -> str:
    return " / ".join(map(str, name)) if isinstance(name, tuple) else str(name)


# Bounds


def _bounds(model: Any) -> Iterator[Bound]:
    parts = [(getattr(model, name, None), words) for name, words in (("reducer_", "projection"), ("synthesizer_", "projected rows"))]
    for each, of_what in [(model, "")] + [(part, f" of the {words}") for part, words in parts if isinstance(part, BaseEstimator)]:
        if hasattr(each, "error_bound_"):
            yield Bound(f"error_bound_{of_what}", f"{each.error_bound_:.4g}", _DISTANCE)
        solution = getattr(each, "solution_", None)
        if solution is not None:
            value = f"{solution.value:.4g}, at least {solution.lower_bound:.4g} ({solution.status})"
            yield Bound(f"solution_{of_what}", value, _NEAREST)
        if hasattr(each, "noise_edge_"):
            yield Bound(f"noise_edge_{of_what}", f"{each.noise_edge_:.4g}", _EDGE)


# Parameters and versions


def _parameters(model: Any) -> Iterator[tuple[str, str]]:
    """Yield the model's parameters except those that the ledger and the schema describe better; no seed, path or array."""
    for name, value in sorted(model.get_params(deep=False).items()):
        if name not in _PRIVACY_PARAMETERS:
            yield name, _format_parameter(name, value)


def _format_parameter(name: str, value: Any) -> str:
    if name == "prior" and value is not None:  # neither its rows nor where they lie
        return "a public table"
    return f"a {type(value).__name__}" if isinstance(value, BaseEstimator) else short_repr(value)


def _versions(promise: Promise) -> tuple[tuple[str, str], ...]:
    charged = sorted({line.version for line in promise.lines})
    ours = ("skdpsynth, at the charge", ", ".join(charged) or "nothing was charged"), ("skdpsynth, for this page", __version__)
    return (*ours, ("Python", platform.python_version()), *((name, _installed(name)) for name in _PACKAGES))


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"
