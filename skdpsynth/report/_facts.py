"""Facts of a card: the promise of an account, and public facts, noisy results and synthetic rows of a model, but no row of the fit."""

import hashlib
import inspect
import math
import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Self

from sklearn.base import BaseEstimator

from skdpsynth._sensitivity import Sensitivity
from skdpsynth._sklearn import check_feature_names
from skdpsynth._text import percent_at_most
from skdpsynth._validation import short_repr
from skdpsynth._version import __version__
from skdpsynth.domain import Box, Schema, SchemaLike, Total, list_names
from skdpsynth.frames import Table
from skdpsynth.privacy import LONE_ROW, AttackRisk, LedgerEntry, PrivacyAccountant, PrivacyLoss
from skdpsynth.synthesis import Interval

_SAMPLE_ROWS = 1000  # synthetic rows that the pictures show
_SEED = 0  # of the sample, which is post-processing: equal cards have equal pictures
_MOST_LEVELS = 12
_MOST_COLUMNS = 200
_MOST_LINES = 60  # of a ledger that a page shows: a stream has one for each block
_FALSE_ALARMS = (0.01, 0.05, 0.1)
_LARGEST = 15.0  # larger epsilons make e^epsilon unimaginable
_UP = Context(prec=6, rounding=ROUND_CEILING)
_PRIVACY_PARAMETERS = {"epsilon", "delta", "neighboring", "max_rows_per_unit", "accountant", "bounds", "schema", "random_state"}
_PRIVACY_PARAMETERS |= {"schemas", "links", "rules"}
_DISTANCE = (
    "Proved: on average over the noise, the data and as many synthetic rows are at most this far apart in the 1-Wasserstein distance. That "
    "is how far each row must be moved, on average, to turn one table into the other (largest difference of a coordinate, in units of the "
    "data)."
)
_NEAREST = (
    "Proved: noisy counts can be negative, so they were replaced by the nearest probability measure. The first number is how far that is "
    "from the noisy counts, the second how near any could be."
)
_EXPECTED = "An estimate, not a bound: the same distance on average, found by running the mechanism again on rows of the model."
_ERROR = "Standard deviation of the noise in a count of {}, beside their number. Synthetic rows have the error of the model, too."
_AREAS = "Standard deviation of the noise in a released count of an area of this level, which rows of a sample agree with."
_TABLES = "Standard deviation of the noise in a count of the tables of other columns, by which areas of a group differ."
_PARITY = "Beyond pairs: the mean product of the signs of these columns, with noise; near 1 or -1, all but one of them tell the last."
_EDGE = "By the law of the noise: the largest variance that a direction is likely to show by noise alone. Directions below it mean nothing."


def round_up(amount: Fraction | float) -> float:
    """Round a fraction up to six digits: a page must not promise more than was kept."""
    if isinstance(amount, float):  # it is infinite
        return amount
    return float(_UP.divide(Decimal(amount.numerator), Decimal(amount.denominator)))


@dataclass(frozen=True)
class LedgerLine:
    """One line of a ledger, as a page shows it."""

    entry: LedgerEntry
    depth: int  # 0 for a charge; n for a part at depth n, which adds nothing
    epsilon: float | None  # added to the total; None for a part, as is delta
    delta: float | None

    @property
    def sensitivity(self) -> str | None:
        """The sensitivity of the released values, in their own units and the norm of the noise."""
        moved, noise = self.entry.sensitivity, self.entry.noise
        if moved is None:
            return None
        if noise == "DiscreteGaussian":
            return f"{math.sqrt(moved.l2_squared):.6g} (L2)"
        if noise == "DiscreteMatrixLaplace" and moved.nuclear is not None:
            return f"{float(moved.nuclear):.6g} (nuclear)"
        return f"{float(moved.l1):.6g} (L1)" if noise == "DiscreteLaplace" else f"{float(moved.sup):.6g} (largest)"


def _weighs_tables(sensitivity: Sensitivity) -> bool:
    """Whether the weights of a statistic share out the rows of linked tables, and are not those of a survey."""
    return {"weight", "survey"} & dict(sensitivity.statistic or ()).keys() == {"weight"}


@dataclass(frozen=True)
class Promise:
    """The promise of an account, by its ledger alone, and what it means in words."""

    epsilon: float  # spent, rounded up to six digits, as is delta
    delta: float
    budget_epsilon: float  # the limit of the account
    budget_delta: float
    neighboring: str
    unit: str | None  # whom all lines protect; None: one row
    is_linked: bool  # whether that is a row of a table with all that hang on it, as releases weigh rows
    is_seeded: bool  # whether a seed can reproduce any noise
    remark: str | None
    datasets: tuple[str, ...]  # names that callers gave to the data
    lines: tuple[LedgerLine, ...]  # the first 60
    n_more: int  # lines that are not listed
    has_rho: bool  # whether any noise adds up in rho
    has_groups: bool  # whether some charges hold disjoint rows, and cost their largest together
    n_noisy: int
    n_stated: int  # noisy releases with a stated sensitivity, which the accountant checked against the noise
    n_untold: int  # charges that name neither noise nor parts
    risks: tuple[AttackRisk, ...]  # at false alarms of 1, 5 and 10 %
    accuracy_of_epsilon: float  # that epsilon and delta alone allow an attacker

    @classmethod
    def of(cls, accountant: PrivacyAccountant, *, in_full: bool = False) -> Self:
        """Read an account; `in_full` promises the whole budget of a stream that continues."""
        record = spent = accountant.record()  # a snapshot, in case of charges meanwhile
        unit = record.risk().unit

        def charged(epsilon: Fraction | float, delta: Fraction) -> PrivacyAccountant:
            account = PrivacyAccountant(epsilon or 1, delta, neighboring=record.neighboring, unit=record.unit)
            account.spend(PrivacyLoss(epsilon=epsilon, delta=delta), name="all of it")
            return account

        if in_full and record.spent < record.epsilon:  # the worst that may still come
            spent = charged(record.epsilon, record.delta)
        entries, parents = zip(*record.lines(), strict=True) if record.ledger else ((), ())
        charges, lines = record.charges(), []
        for entry, part_of in zip(entries[:_MOST_LINES], parents, strict=False):
            added = (None, None) if part_of is not None else map(round_up, next(charges)[1:])
            lines.append(LedgerLine(entry, 0 if part_of is None else part_of.count(" / ") + 1, *added))
        noisy = [entry for entry in entries if entry.noise is not None]
        return cls(
            epsilon=round_up(spent.spent),
            delta=round_up(spent.spent_delta),
            budget_epsilon=round_up(record.epsilon),
            budget_delta=round_up(record.delta),
            neighboring=record.neighboring,
            unit=unit,
            is_linked=unit not in (None, LONE_ROW)
            and any(_weighs_tables(each.sensitivity) for each in noisy if each.sensitivity is not None),
            is_seeded=any(entry.randomness == "seeded" for entry in entries),
            remark=record.remark,
            datasets=tuple(dict.fromkeys(entry.dataset for entry in entries if entry.dataset)),
            lines=tuple(lines),
            n_more=len(entries) - len(lines),
            has_rho=any(entry.loss.rho is not None for entry in noisy or entries),
            has_groups=any(entry.group for entry in entries),
            n_noisy=len(noisy),
            n_stated=sum(entry.sensitivity is not None for entry in noisy),
            n_untold=sum(entry.noise is None and not record.parts_of(entry) for entry in entries),
            risks=tuple(map(spent.risk, _FALSE_ALARMS)),
            accuracy_of_epsilon=charged(spent.spent, spent.spent_delta).risk().accuracy,
        )

    @property
    def is_infinite(self) -> bool:
        return self.epsilon == math.inf

    @property
    def holds(self) -> bool:
        """Whether there is a promise at all: secure noise and a finite epsilon."""
        return not self.is_seeded and not self.is_infinite

    @property
    def has_public_size(self) -> bool:
        return self.neighboring == "replace_one"

    @property
    def counted_rows(self) -> str:
        """The rows whose number is public or not."""
        return f"rows of {str(self.unit).partition(' with ')[0]}" if self.is_linked else "rows"

    @property
    def protected_rows(self) -> str:
        if self.unit in (None, LONE_ROW):
            return "one row" if self.unit is None else f"one {LONE_ROW}"
        root, _, others = self.unit.partition(" with ")
        return f"one row of {root} with all that hang on it ({others})" if self.is_linked else f"the rows of one unit ({self.unit})"

    @property
    def unit_in_words(self) -> str:
        if self.unit is None:
            return "One row of the table. Somebody with k rows is protected k times less."
        if self.unit == LONE_ROW:
            return f"One {LONE_ROW}, because not all releases protect the same unit. Somebody with several rows is protected less."
        if self.is_linked:
            return f"O{self.protected_rows[1:]}. Rows beyond the public cap of a parent were not counted."
        return f"All rows of one unit together: {self.unit}. Rows beyond that number were not counted."

    @property
    def relation(self) -> str:
        others = " Those of all other tables are private." if self.is_linked else ""
        if self.has_public_size:
            return f"Replace-one: {self.protected_rows} may be replaced by any other. The number of {self.counted_rows} is public.{others}"
        return f"Add or remove: {self.protected_rows} may be there or not. The number of {self.counted_rows} is private too.{others}"

    @property
    def guarantee(self) -> str:
        """The meaning of epsilon and delta."""
        if self.is_seeded:
            return "Nothing is promised: the noise was seeded, and whoever knows or guesses the seed can subtract it."
        if self.is_infinite:
            return "Nothing is promised: no noise was added (epsilon is infinite)."
        change = f"had {self.protected_rows} been any other" if self.has_public_size else f"had {self.protected_rows} not been there"
        if self.epsilon > _LARGEST:
            return f"Next to nothing is promised: epsilon {self.epsilon:g} lets this release be many million times as likely as {change}."
        times = f"{round_up(Fraction(math.ceil(math.exp(self.epsilon) * 100), 100)):g}"
        words = f"Anything that could come out of this release is at most {times} times as likely as it would be {change}"
        return f"{words}, plus a probability of at most {self.delta:g} (delta)." if self.delta else f"{words}."

    @property
    def why_less_than_epsilon(self) -> str:
        """Why the best attack is right less often than epsilon and delta alone would allow; empty if it is not."""
        by_epsilon = percent_at_most(self.accuracy_of_epsilon)
        if percent_at_most(self.risks[0].accuracy) == by_epsilon:
            return ""
        return (
            f"By epsilon and delta alone it would be at most {by_epsilon}: they are one point of a curve that follows from the noise "
            "that was used, and this figure takes the whole curve."
        )

    @property
    def composition(self) -> str:
        if not self.lines:
            return "Nothing was charged yet."
        words = ["Sequential: the losses of all releases add up."]
        if self.has_rho:
            words.append("Those of Gaussian noise add up in rho, and their sum is converted to epsilon and delta once.")
        if self.has_groups:
            words.append("Parallel within a group: its members hold disjoint rows, and cost what the largest of them does.")
        return " ".join(words)

    @property
    def mechanisms(self) -> str:
        if self.n_noisy == 0:
            return "No noise was added by this account." + self.unknown_charges
        kinds = sorted({line.entry.noise for line in self.lines if line.entry.noise})
        source = "from a seed, so they are not private" if self.is_seeded else "from the secure randomness of the operating system"
        return f"{', '.join(kinds)}: exact whole numbers {source}; charged before they were drawn.{self.unknown_charges}"

    @property
    def unknown_charges(self) -> str:
        """A mention of charges whose releases are unknown, if there are any."""
        if not self.n_untold:
            return ""
        charges = "1 charge names" if self.n_untold == 1 else f"{self.n_untold} charges name"
        return f" {charges} no noise: how that was made, and whether it fits, is not covered."


class ColumnFact(NamedTuple):
    """Public facts about a column."""

    name: str
    kind: str
    values: str  # bounds, or the first twelve levels
    nullable: bool
    origin: str = "stated"  # "stated", "bought" (released for a part of the budget, hence noisy), "computed" or "left out"


class TableFact(NamedTuple):
    """Public facts about one of several linked tables."""

    name: str
    of: str = ""  # the table that it hangs on
    key: str = ""
    rows: str = ""  # of each parent
    order: str = ""
    head: str = ""  # cells that one row of each parent has
    parents: str = ""  # how many of them have so many rows, as released
    n_synthetic: str = ""


class FileFact(NamedTuple):
    """A file of synthetic rows that is released."""

    name: str
    sha256: str

    @classmethod
    def of_all(cls, files: object) -> tuple[Self, ...]:
        """Read the hashes of files, given as a path or several."""
        paths = [files] if isinstance(files, str | PathLike) else files
        if not isinstance(paths, list | tuple) or not all(isinstance(path, str | PathLike) for path in paths):
            raise TypeError(
                f"files must be the path of a synthetic file, or a list of paths, got {short_repr(files)}; name what is released."
            )
        found = []
        for path in paths:
            if not os.path.isfile(path):
                raise FileNotFoundError(f"files must exist, but there is no file {short_repr(str(path))}; name what is released.")
            with open(path, "rb") as file:
                found.append(cls(Path(path).name, hashlib.file_digest(file, "sha256").hexdigest()))
        return tuple(found)


class Bound(NamedTuple):
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
    unspent_delta : float
        The delta that the model might have spent, where it spent none.
    n_samples : int or None
        Rows of the fit: exact and public under "replace_one", noisy under "add_or_remove_one".
    is_stream : bool
    is_multiline : bool
        Whether cells of CSV files might hold line breaks.
    columns : tuple of ColumnFact
        At most 200.
    n_columns : int
    tables : tuple of TableFact
        Of a model of linked tables, the root first.
    rules : tuple of str
        Those between tables, which all synthetic ones keep.
    bounds : tuple of Bound
    files : tuple of FileFact
        Name and SHA-256 of synthetic files that are released with it.
    interval : Interval or None
    parameters : tuple of (str, str)
        The model's own, as they stand; never a seed.
    versions : tuple of (str, str)
    sample : array or data frame, or None
        Synthetic rows; None for a model that has none. It is a dict for linked tables, as is the schema.
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
    versions: tuple[tuple[str, str], ...]
    unspent_delta: float = 0.0
    n_samples: int | None = None
    is_stream: bool = False
    is_multiline: bool = False
    columns: tuple[ColumnFact, ...] = ()
    n_columns: int = 0
    tables: tuple[TableFact, ...] = ()
    rules: tuple[str, ...] = ()
    bounds: tuple[Bound, ...] = ()
    files: tuple[FileFact, ...] = ()
    interval: Interval | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    sample: Any = field(default=None, repr=False)
    schema: Schema | dict[str, Schema] | None = field(default=None, repr=False)


def facts_of(
    model: BaseEstimator,
    accountant: PrivacyAccountant | None,
    title: str | None,
    files: object = (),
    interval: Interval | None = None,
) -> CardFacts:
    """Collect the facts of a fitted model, or of an account, with the promise of `accountant`, if it is given."""
    made, released = datetime.now(UTC).date().isoformat(), FileFact.of_all(files)
    if isinstance(model, PrivacyAccountant):
        promise = Promise.of(model if accountant is None else accountant)
        words = "All that was charged to one privacy budget: the releases of several models, or parts of models, about the same people."
        return CardFacts(title or "Expenses of a privacy budget", made, None, words, promise, _versions(promise), files=released)
    is_stream = hasattr(model, "n_samples_seen_")
    # A stream with its own account may spend more later; a shared account was charged all of it at the start.
    in_full = is_stream and (accountant is None or model.accountant_._account.number is None)
    promise = Promise.of(model.accountant_ if accountant is None else accountant, in_full=in_full)
    winner = getattr(model, "best_estimator_", model)  # the account of a private search itself holds its whole cost
    columns, schema = tuple(_columns(winner)), getattr(winner, "schema_", getattr(winner, "schemas_", None))
    sample: Table = winner.sample(_SAMPLE_ROWS, random_state=_SEED) if hasattr(winner, "sample") else None
    return CardFacts(
        title=title or f"A release made by {type(model).__name__}",
        made=made,
        what=type(model).__name__,
        what_words=(inspect.getdoc(type(model)) or "A model of the table.").split("\n\n")[0].replace("\n", " "),
        promise=promise,
        versions=_versions(promise),
        unspent_delta=0.0 if promise.delta else float(getattr(model, "delta", 0)),
        n_samples=int(winner.n_samples_) if hasattr(winner, "n_samples_") else None,
        is_stream=is_stream,
        is_multiline=any(getattr(each, "read", {}) for each in (schema.values() if isinstance(schema, dict) else [schema])),
        columns=columns[:_MOST_COLUMNS],
        n_columns=len(columns),
        tables=tuple(_tables(winner, sample)) if isinstance(schema, dict) else (),
        rules=tuple(map(str, winner._container.stated.rules)) if isinstance(schema, dict) else (),
        bounds=tuple(_bounds(winner)),
        files=released,
        interval=interval,
        parameters=tuple(_parameters(model)),
        sample=sample,
        schema=schema,
    )


def _columns(model: BaseEstimator) -> Iterator[ColumnFact]:
    if hasattr(model, "schemas_"):
        stated = model._container.stated
        for table, schema in model.schemas_.items():
            for fact in _columns_of(schema, stated.schemas[table], is_bought=False):
                is_sum = any(isinstance(rule, Total) and rule.column == f"{table}.{fact.name}" for rule in stated.rules)
                yield fact._replace(name=f"{table}.{fact.name}", origin="computed" if is_sum else fact.origin)
        return
    if getattr(model, "schema_", None) is not None:
        asked = getattr(model, "schema", None)
        yield from _columns_of(model.schema_, asked, asked is None and getattr(model, "bounds", None) == "private")
        return
    names, box = getattr(model, "feature_names_in_", range(model.n_features_in_)), None
    if hasattr(model, "bounds_"):
        box = Box(*model.bounds_)
    elif getattr(model, "partition", None) is None:  # else it has its own
        box = Box.from_bounds(model.bounds, model.n_features_in_, check_feature_names(model))
    for place, name in enumerate(names):
        values = "its own partition of the space" if box is None else f"{box.low[place]:g} to {box.high[place]:g}"
        yield ColumnFact(str(name), "number", values, False, "bought" if hasattr(model, "bounds_") else "stated")


def _columns_of(schema: Schema, asked: SchemaLike | None, is_bought: bool) -> Iterator[ColumnFact]:
    """Yield the columns of a schema, for which a caller gave `asked`; all, or those that stand in for it, were bought."""
    stated = Schema.of(asked) if isinstance(asked, dict) else asked if isinstance(asked, Schema) else {}
    for name, kind in schema.items():
        origin = "bought" if is_bought or getattr(stated.get(name), "stand_in", None) == "private" else "stated"
        yield _column(" / ".join(map(str, name)) if isinstance(name, tuple) else str(name), kind.to_keys(), origin)


def _tables(model: BaseEstimator, sample: Mapping[str, Table]) -> Iterator[TableFact]:
    links = model._container.links
    yield TableFact(links[0].of, n_synthetic=f"{len(sample[links[0].of]):,}")
    for link in links:
        parts = [part if isinstance(part, tuple) else (part,) for part in (link.key if isinstance(link.key, tuple) else (link.key,))]
        noisy = model.marginals_consistent_[link.of,][f"{link.table}.number",].clip(0)
        words = [
            f"{k + (link.head is not None)} ({100 * share:.0f}\N{NO-BREAK SPACE}%)"
            for k, share in enumerate(noisy / max(noisy.sum(), 1e-9))
        ]
        yield TableFact(
            name=link.table,
            of=link.of,
            key=", ".join(" = ".join(map(str, dict.fromkeys(part))) for part in parts),
            rows=f"{link.least} to {link.most}" if link.least < link.most else str(link.most),
            order=" to ".join(str(name) for name in (link.order, link.until) if name is not None),
            head=", ".join(f"{name} = {cell}" for name, cell in (link.head or {}).items()),
            parents=", ".join(words[:_MOST_LEVELS]) + " ..." * (len(words) > _MOST_LEVELS),
            n_synthetic=f"{len(sample[link.table]):,}",
        )


def _column(name: str, keys: dict[str, Any], origin: str) -> ColumnFact:
    kind, nullable = keys["kind"], bool(keys.get("nullable", False))
    if kind in ("identifier", "text"):
        return ColumnFact(name, kind, "made anew" if keys.get("labels") else "never read", False, "left out")
    if kind == "derived":
        return ColumnFact(name, kind, keys["expression"], False, "computed")
    if "bounds" in keys:
        low, high = keys["bounds"] if not isinstance(keys["bounds"], str) else (keys["bounds"], keys["bounds"])
        kind = "whole number" if keys.get("integer") else "number" if kind == "continuous" else kind
        ends = (f"{end:.15g}" if isinstance(end, float) else str(end) for end in (low, high))
        return ColumnFact(name, kind, " to ".join(ends), nullable, origin)
    levels = [keys["value"]] if "value" in keys else keys.get("levels") or keys.get("words") or ["false", "true"]
    more = f" and {len(levels) - _MOST_LEVELS} more" if len(levels) > _MOST_LEVELS else ""
    return ColumnFact(name, kind, ", ".join(map(str, levels[:_MOST_LEVELS])) + more, nullable, origin)


def _bounds(model: BaseEstimator) -> Iterator[Bound]:
    parts = {"": model, " of the projection": getattr(model, "reducer_", None)}
    parts |= {" of the projected rows": getattr(model, "synthesizer_", None)}
    for of_what, part in parts.items():
        if not isinstance(part, BaseEstimator):
            continue
        if hasattr(part, "error_bound_"):
            if hasattr(type(part), "expected_error_"):  # asked of the type: of the object it would be simulated
                yield Bound(f"expected_error_{of_what}", f"{part.expected_error_:.4g}", _EXPECTED)
            yield Bound(f"error_bound_{of_what}", f"{part.error_bound_:.4g}", _DISTANCE)
        if (solution := getattr(part, "solution_", None)) is not None:
            value = f"{solution.value:.4g}, at least {solution.lower_bound:.4g} ({solution.status})"
            yield Bound(f"solution_{of_what}", value, _NEAREST)
        if hasattr(part, "noise_edge_"):
            yield Bound(f"noise_edge_{of_what}", f"{part.noise_edge_:.4g}", _EDGE)
    for number, (what, errors) in enumerate(_noise_of_counts(model)):
        both = " to ".join(dict.fromkeys(f"{error:.3g}" for error in (min(errors), max(errors))))
        words = "As above." if number else _ERROR.format("roots" if hasattr(model, "schemas_") else "rows")
        yield Bound(f"marginals_errors_ of {what}", f"{both} of {model.n_samples_:,}", words)
    for level, errors in getattr(model, "counts_errors_", {}).items():
        both = " to ".join(dict.fromkeys(f"{error:.3g}" for error in (errors.min(), errors.max())))
        yield Bound(f"counts_errors_ of {level}", both, _AREAS)
    if getattr(model, "noisy_tables_", None):
        yield Bound("tables_error_", f"{model.tables_error_:.3g}", _TABLES)
    for names, mean in getattr(model, "parities_", {}).items():
        means = [mean] if isinstance(mean, float) else mean
        yield Bound(f"parities_ of {list_names(names)}", ", ".join(f"{value:.2f}" for value in means), _PARITY)


def _noise_of_counts(model: BaseEstimator) -> Iterator[tuple[str, list[float]]]:
    """Yield the standard deviations of families of counts, each family with its name."""
    found: Mapping[tuple, Any] = getattr(model, "marginals_errors_", {})
    if hasattr(model, "schemas_"):
        yield from ((" with ".join(tables), [*errors.values()]) for tables, errors in found.items())
        return
    lead = getattr(model, "stratify", None) is not None
    for size, what in enumerate(("columns", "pairs of columns", "three columns"), 1 + lead):
        if errors := [error for names, error in found.items() if len(names) == size]:
            yield what + f" in each class of {model.stratify}" * lead, errors


def _parameters(model: BaseEstimator) -> Iterator[tuple[str, str]]:
    """Yield the model's parameters except those that the ledger and the schema describe better; no seed, path or array."""
    for name, value in sorted(model.get_params(deep=False).items()):
        if name == "prior" and value is not None:  # neither its rows nor where they lie
            yield name, "a public table"
        elif name not in _PRIVACY_PARAMETERS:
            yield name, f"a {type(value).__name__}" if isinstance(value, BaseEstimator) else short_repr(value)


def _versions(promise: Promise) -> tuple[tuple[str, str], ...]:
    charged = ", ".join(sorted({line.entry.version for line in promise.lines})) or "nothing was charged"
    found = [("skdpsynth, at the charge", charged), ("skdpsynth, for this page", __version__), ("Python", platform.python_version())]
    for name in ("numpy", "scipy", "scikit-learn"):
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            found.append((name, "unknown"))
    return tuple(found)
