"""Quality report: marginals, pairs, numbers, associations, distance, use for a model, broken rules."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from skdpsynth._text import Result
from skdpsynth._validation import short_repr
from skdpsynth.domain import MICROSECONDS, Calendar, Continuous, Inequality, Kind, Schema, Times, list_names
from skdpsynth.frames import Rows
from skdpsynth.metrics._distances import wasserstein_distance
from skdpsynth.metrics._downstream import default_scoring, kind_of_target, score_of, split_target
from skdpsynth.metrics._marginals import Pairs, associations_of, distances_of
from skdpsynth.metrics._read_tables import SchemaLike, Table, check_random_state, read_both, schema_of_ranges, with_facts_of_rows
from skdpsynth.tables import Violations, count_violations, encode

WARNING = "Reads the real rows unprotected: do not publish."
_MOST_SHOWN = 5
_MOST_NUMBERS = 20
_WORDS = {
    "marginals": "marginals, mean total variation",
    "pairs": "pairs of columns, mean total variation",
    "correlation_error": "associations, mean difference",
    "wasserstein": "Wasserstein distance (shares of the bounds)",
}
_MOST_ROWS = 50_000  # of each table: a share is then within 0.005, and thirty columns take seconds
_MOST_PAIRS = 1000
_TRANSPORT_ROWS = 1000
_MODEL_ROWS = 10_000
_QUANTILES = {"5 %": 0.05, "median": 0.5, "95 %": 0.95}
_FAR = 0.999
_BROKEN = {  # finding of `Schema.check` -> its name in the report
    "clipped": "out of bounds",
    "unknown levels": "unknown level",
    "near miss": "unknown level",
    "missing": "missing",
    "not whole": "not whole",
    "no number": "no number",
    "no time": "no time",
    "rule": "rule",
}


@dataclass(frozen=True)
class Summary:
    """Statistics of a column of numbers, or of a span between two, in the real and in the synthetic rows.

    Statistics are "mean", "deviation", the quantiles "5 %", "median" and "95 %", the share "zeros", and "far", the share above the 99.9 %
    quantile of the real rows. They are of known cells; times count from their lower bound, in their resolution.
    """

    real: dict[str, float]
    synthetic: dict[str, float]
    unit: str  # "days" or "hours" of times and spans of times; else empty
    origin: np.datetime64 | None = None  # lower bound of times

    def format(self, statistic: str, rows: str) -> str:
        """Format a statistic of the "real" or "synthetic" rows: moments as such, shares in percent."""
        value = getattr(self, rows)[statistic]
        if statistic == "zeros" and self.origin is not None:
            return ""  # no moment is zero
        if statistic in ("zeros", "far"):
            return f"{value:.2%}"
        if self.origin is None or statistic == "deviation":
            return f"{value:.4g}" + (f" {self.unit}" if self.origin is not None else "")
        size = MICROSECONDS[self.unit[:-1]]
        moment = self.origin + np.timedelta64(round(value * size), "us")
        return str(moment.astype("datetime64[D]" if size >= MICROSECONDS["hour"] else "datetime64[m]")).replace("T", " ")


@dataclass(frozen=True, repr=False)
class QualityReport(Result):
    """Quality of synthetic rows, from `quality_report`; prints as a table, and is as secret as the real rows.

    Attributes
    ----------
    n_real, n_synthetic : int
        Number of rows of the tables.
    marginals : dict of column to float
        Total variation distance of each column, in [0, 1], as `marginal_total_variation` defines it.
    pairs : dict of (column, column) to float
        The same of pairs of columns: of all, or of 1000 drawn ones where there are more.
    correlation_error : float or None
        Mean absolute difference of the associations of these pairs, as `skdpsynth.metrics.correlation_error` defines them. None: there is
        only one column.
    wasserstein : float
        1-Wasserstein distance (chebyshev) between rows that are encoded by `skdpsynth.domain.MixedTypeEncoder`, so in shares of the bounds.
    auc : dict of str to float, or None
        "synthetic": the score on real rows of a random forest that was trained on synthetic ones; "real": of one that was trained on other
        real rows. None where no target was named.
    broken : dict of str to float
        Rule -> share of synthetic rows that break it, such as ``{"age: out of bounds": 0.01}``: outside the bounds, not among the levels,
        missing where that may not be, not whole. Only rules that some row breaks.
    halves : dict of str to float, or None
        "marginals" and "pairs" (means), "correlation_error" and "wasserstein" between two random halves of the real rows: the values of
        perfect synthetic rows, for comparison. None for fewer than four rows.
    scoring : str or None
        The score in `auc`: "roc_auc" for a target of two levels, "accuracy" for one of more, "r2" for one of numbers.
    target : column or None
    numbers : dict of column to Summary
        For each column of numbers or times, and each span between two columns that an `Inequality` orders (as ``"end - begin"``), in the
        real and in the synthetic rows: mean, deviation, quantiles, share of zeros, and share above the 99.9 % quantile of the real rows.
    associations : dict of (column, column) to (float, float)
        Associations of the same pairs in the real and in the synthetic rows, as `correlation_error` has them, the farthest apart first.

    See Also
    --------
    skdpsynth.metrics.quality_report : Makes it.
    skdpsynth.metrics.marginal_total_variation : One of the numbers in it.
    """

    n_real: int
    n_synthetic: int
    marginals: dict[Any, float]
    pairs: dict[tuple[Any, Any], float]
    correlation_error: float | None
    wasserstein: float
    auc: dict[str, float] | None
    broken: dict[str, float]
    halves: dict[str, float] | None = None
    scoring: str | None = None
    target: Any = None
    numbers: dict[Any, Summary] = field(default_factory=dict)
    associations: dict[tuple[Any, Any], tuple[float, float]] = field(default_factory=dict)

    def to_records(self) -> list[dict[str, Any]]:
        """Return all numbers as a list of dicts with the keys of `to_frame`; a missing value, as of correlations of one column, is None.

        "measure" is such as "marginal", "pair" or "broken", "what" a column, pair, rule or kind of rows, and "value" the number.
        """
        lines: list[tuple[str, Any, float | None]] = [("rows", "real", self.n_real), ("rows", "synthetic", self.n_synthetic)]
        lines += [("marginal", column, value) for column, value in self.marginals.items()]
        lines += [("pair", pair, value) for pair, value in self.pairs.items()]
        for pair, values in self.associations.items():
            lines += [(f"association in {rows} rows", pair, value) for rows, value in zip(("real", "synthetic"), values, strict=True)]
        lines += [("correlation_error", "synthetic", self.correlation_error), ("wasserstein", "synthetic", self.wasserstein)]
        lines += [(self.scoring or "auc", f"trained on {rows} rows", value) for rows, value in (self.auc or {}).items()]
        for column, each in self.numbers.items():
            for rows, statistics in (("real", each.real), ("synthetic", each.synthetic)):
                lines += [(f"{name} of {rows} rows", column, value) for name, value in statistics.items()]
        lines += [("broken", rule, share) for rule, share in self.broken.items()]
        lines += [(measure, "two halves of the real rows", value) for measure, value in (self.halves or {}).items()]
        return [{"measure": measure, "what": what, "value": None if value is None else float(value)} for measure, what, value in lines]

    __repr__ = Result.__str__

    def _parts(self) -> Iterator[str | list[tuple[str, ...]]]:
        yield f"Quality of {self.n_synthetic} synthetic rows beside {self.n_real} real ones.\n{WARNING}"

        halves, found = self.halves or {}, {"marginals": _mean(self.marginals)}
        if self.correlation_error is not None:
            found |= {"pairs": _mean(self.pairs), "correlation_error": self.correlation_error}
        found["wasserstein"] = self.wasserstein
        rows = [(_WORDS[name], _number(value), _number(halves.get(name))) for name, value in found.items()]
        yield [("0 is best", "synthetic", "real halves"), *rows]

        lines = [f"Worst columns: {_worst(self.marginals)}."] + [f"Worst pairs: {_worst(self.pairs)}."] * bool(self.pairs)
        if self.associations:
            worst = [f"{a} x {b} {real:.2f} -> {made:.2f}" for (a, b), (real, made) in self.associations.items()][:_MOST_SHOWN]
            lines.append(f"Worst associations, real -> synthetic: {', '.join(worst)}.")
        if self.auc is not None:
            scores = ", ".join(f"{_number(value)} after training on {rows} rows" for rows, value in self.auc.items())
            lines.append(f"Predicting {self.target!r} in real rows ({self.scoring}): {scores}.")
        broken = sorted(self.broken.items(), key=lambda each: -each[1])
        shares = ", ".join(f"{rule} in {share:.2%} of rows" for rule, share in broken[:_MOST_SHOWN])
        more = f" and {len(broken) - _MOST_SHOWN} more" if len(broken) > _MOST_SHOWN else ""
        yield "\n".join([*lines, f"Broken rules: {shares or 'none'}{more}."])

        heads, numbers = numbers_table(self)
        if numbers:
            yield [heads, *numbers]
        if len(self.numbers) > _MOST_NUMBERS:
            yield f"... and {len(self.numbers) - _MOST_NUMBERS} more columns of numbers."


def numbers_table(report: QualityReport, most: int = _MOST_NUMBERS) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return heads and lines of a table of numbers, two for each column, those whose means are farthest off first."""
    heads = ("numbers", "rows", "mean", "deviation", "5 %", "median", "95 %", "zeros", "above the real 99.9 %")

    def off(each: Summary) -> float:
        return abs(each.synthetic["mean"] - each.real["mean"]) / max(each.real["deviation"], 1e-300)

    lines = []
    for name, each in sorted(report.numbers.items(), key=lambda item: -off(item[1]))[:most]:
        named = f"{name}, {each.unit}" if each.unit and each.origin is None else str(name)
        lines.append((named, "synthetic", *(each.format(key, "synthetic") for key in each.real)))
        lines.append(("", "real", *(each.format(key, "real") for key in each.real)))
    return heads, lines


def _worst(distances: dict[Any, float]) -> str:
    worst = sorted(distances.items(), key=lambda each: -each[1])[:_MOST_SHOWN]
    return ", ".join(f"{' x '.join(map(str, what)) if isinstance(what, tuple) else what} {_number(value)}" for what, value in worst)


def _mean(distances: dict[Any, float]) -> float:
    return float(np.mean(list(distances.values())))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def quality_report(
    X: Table, X_synthetic: Table, schema: SchemaLike | None = None, *, target: Hashable = None, random_state: int | None = 0
) -> QualityReport:
    """Compare synthetic rows with real ones in one call; the result is **not private**.

    Beside each distance stands the one between two halves of the real rows: synthetic rows can hardly be nearer.

    Parameters
    ----------
    X, X_synthetic : array-like, data frame or other table that `fit` takes, of shape (n_samples, n_features) and (m_samples, n_features)
        The real and the synthetic table. Both are read unprotected, without noise. Take real rows that the synthesizer has not seen, if
        you want to know how it does on new ones.
    schema : dict, Schema or path of a file, default=None
        ``{column: (low, high), [levels] or a kind}``, see `skdpsynth.domain.Schema`; private bounds and levels are those of both tables.
        None: all columns are numbers, within the range that they have in both tables, and there is no rule to break.
    target : column, default=None
        Column to predict: one random forest is trained on synthetic rows, another on real rows, and both are scored on other real rows.
    random_state : int or None, default=0
        Seed of the halves, of the rows that are drawn from large tables, and of the forest. None: other ones at each call.

    Returns
    -------
    report : QualityReport
        Printed, a table. ``report.to_frame()`` gives all numbers.

    See Also
    --------
    marginal_total_variation : The mean over marginals of one, two or three columns, of all rows.
    train_synthetic_test_real : The same for any model and score.
    skdpsynth.domain.Schema.check : Finds cells that do not fit a schema.

    Notes
    -----
    From larger tables 50,000 rows each are drawn (but all are held against the rules), for the Wasserstein distance 1000, for models
    10,000. Thirty columns take a few seconds.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth.metrics import quality_report
    >>> rng = np.random.default_rng(0)
    >>> X, X_synthetic = rng.normal(5, 1, (2, 1000, 2))
    >>> report = quality_report(X, X_synthetic, {0: (0.0, 10.0), 1: (0.0, 10.0)})
    >>> report.broken
    {}
    >>> report.marginals[0] < 0.1
    True
    """
    check_random_state(random_state)
    rng, names = np.random.default_rng(random_state), ("X", "X_synthetic")
    given = dict(zip(names, (X, X_synthetic), strict=True))
    stated = schema_of_ranges(given) if schema is None else with_facts_of_rows(Schema.of(schema), given)
    kind = None if target is None else kind_of_target(stated, target)
    coded, tables = read_both(X, X_synthetic, stated, names)
    real, synthetic = (Rows.of(_draw_columns(rows, _MOST_ROWS, rng)) for rows in tables)
    pairs = list(combinations(range(len(coded)), 2))
    if len(pairs) > _MOST_PAIRS:
        pairs = [pairs[place] for place in np.sort(rng.choice(len(pairs), _MOST_PAIRS, replace=False))]
    # The distance of two samples depends on their sizes, so they are the same for halves.
    size = min(_TRANSPORT_ROWS, max(1, (real.n_samples or 0) // 2), synthetic.n_samples or 0)
    found = _compare(real, synthetic, coded, pairs, size, rng)
    auc, scoring = (None, None) if kind is None else _scores(real, synthetic, coded, target, kind, rng)
    return QualityReport(
        n_real=tables[0].n_samples or 0,
        n_synthetic=tables[1].n_samples or 0,
        **found,
        auc=auc,
        broken={} if schema is None else _broken_rule_shares(X_synthetic, stated),
        halves=_compare_halves(real, coded, pairs, size, rng),
        scoring=scoring,
        target=target,
        numbers=_summarize_columns([rows.collect() for rows in (real, synthetic)], coded, stated),
    )


def _compare(first: Rows, second: Rows, schema: Schema, pairs: Pairs, size: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return distances of each column and pair, the mean difference of associations, and the Wasserstein distance of `size` rows."""
    distances = distances_of([first, second], schema, [*((place,) for place in range(len(schema))), *pairs])
    singles, joint, columns = distances[: len(schema)], distances[len(schema) :], list(schema)
    both = zip(*(associations_of(rows, schema, pairs).tolist() for rows in (first, second)), strict=True)
    associations = {(columns[i], columns[j]): values for (i, j), values in zip(pairs, both, strict=True)}
    changes = {pair: abs(one - other) for pair, (one, other) in associations.items()}
    X, Y = (encode(_draw_columns(rows, size, rng), schema) for rows in (first, second))
    return {
        "marginals": dict(zip(columns, singles, strict=True)),
        "pairs": {(columns[i], columns[j]): value for (i, j), value in zip(pairs, joint, strict=True)},
        "correlation_error": _mean(changes) if pairs else None,
        "associations": {pair: associations[pair] for pair in sorted(changes, key=lambda pair: -changes[pair])},
        "wasserstein": wasserstein_distance(X, Y),
    }


def _compare_halves(rows: Rows, schema: Schema, pairs: Pairs, size: int, rng: np.random.Generator) -> dict[str, float] | None:
    n_samples = rows.n_samples or 0
    if n_samples < 4:
        return None
    first, second = (Rows.of(rows.take(half)) for half in np.array_split(rng.permutation(n_samples), 2))
    found = _compare(first, second, schema, pairs, size, rng)
    means = {"marginals": _mean(found["marginals"]), "wasserstein": found["wasserstein"]}
    return means | ({"pairs": _mean(found["pairs"]), "correlation_error": found["correlation_error"]} if pairs else {})


def _scores(
    real: Rows, synthetic: Rows, schema: Schema, target: Hashable, kind: Kind, rng: np.random.Generator
) -> tuple[dict[str, float], str]:
    """Score forests that were trained on synthetic rows, and on half of the real ones, on the other half."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    cls = RandomForestRegressor if isinstance(kind, Continuous) else RandomForestClassifier
    # A random forest suits all tables without tuning.
    forest = cls(n_estimators=100, min_samples_leaf=5, max_features="sqrt", random_state=int(rng.integers(2**31)))
    X, y = split_target(_draw_columns(real, 2 * _MODEL_ROWS, rng), target, schema, kind, "X")
    if len(y) < 4:
        raise ValueError(f"X must have at least 4 rows with a target, got {len(y)} in column {short_repr(target)}; leave target out.")
    train, test = np.array_split(rng.permutation(len(y)), 2)
    few = split_target(_draw_columns(synthetic, _MODEL_ROWS, rng), target, schema, kind, "X_synthetic")
    held_out, scoring = (X[test], y[test]), default_scoring(forest, target, kind)
    return {
        "synthetic": score_of(forest, scoring, few, held_out, kind),
        "real": score_of(forest, scoring, (X[train], y[train]), held_out, kind),
    }, scoring


def _broken_rule_shares(X: Table, schema: Schema) -> dict[str, float]:
    shares: dict[str, float] = {}
    for each in schema.check(X):
        if each.problem in _BROKEN and each.share:
            columns = list_names(each.column) if each.problem == "rule" and isinstance(each.column, tuple) else each.column
            rule = f"{columns}: {_BROKEN[each.problem]}"
            shares[rule] = shares.get(rule, 0.0) + each.share
    return shares


def _draw_columns(rows: Rows, size: int, rng: np.random.Generator) -> list[np.ndarray]:
    n_samples = rows.n_samples or 0
    return rows.collect() if n_samples <= size else rows.take(np.sort(rng.choice(n_samples, size, replace=False)))


def _summarize_columns(tables: Sequence[Sequence[np.ndarray]], coded: Schema, stated: Schema) -> dict[Any, Summary]:
    """Summarize columns of numbers, and the spans of columns that an `Inequality` orders, as ``"end - begin"``.

    `tables` are the columns of the real and of the synthetic rows by the schema `coded`; `stated` has the kinds and rules of the caller.
    """
    columns = [dict(zip(coded, table, strict=True)) for table in tables]
    found: dict[Any, Summary | None] = {}
    for name, kind in coded.items():
        if isinstance(kind, Continuous):
            given = stated[name]
            # Times of day and durations count from zero, dates from their lower bound.
            offset = given.first if isinstance(given, Times) and not isinstance(given, Calendar) else 0
            found[name] = _summary([each[name] + offset for each in columns], given)
    for rule in stated.rules:
        if isinstance(rule, Inequality):
            kind, low = stated[rule.high], stated[rule.low]
            if not isinstance(kind, Times):
                summary = _summary([each[rule.high] - each[rule.low] for each in columns], kind)
            else:  # in the largest unit in which the mean of the real spans is at least two
                sizes = MICROSECONDS[kind.resolution], MICROSECONDS[low.resolution]
                spans = [(each[rule.high] + kind.first) * sizes[0] - (each[rule.low] + low.first) * sizes[1] for each in columns]
                known = spans[0][~np.isnan(spans[0])]
                mean = float(known.mean()) if len(known) else 0.0
                large = [unit for unit, size in MICROSECONDS.items() if size >= sizes[0] and mean >= 2 * size]
                unit = max(large, key=MICROSECONDS.__getitem__, default=kind.resolution)
                summary = _summary([each / MICROSECONDS[unit] for each in spans], kind)
                summary = summary and replace(summary, unit=f"{unit}s", origin=None)
            found[f"{rule.high} - {rule.low}"] = summary
    return {name: summary for name, summary in found.items() if summary is not None}


def _summary(columns: Sequence[np.ndarray], kind: Kind) -> Summary | None:
    known = [column[~np.isnan(column)] for column in columns]
    if not all(map(len, known)):
        return None
    far = float(np.quantile(known[0], _FAR, method="inverted_cdf"))
    real, synthetic = (
        {
            "mean": float(x.mean()),
            "deviation": float(x.std()),
            **dict(zip(_QUANTILES, np.quantile(x, list(_QUANTILES.values()), method="inverted_cdf").tolist(), strict=True)),
            "zeros": float((x == 0).mean()),
            "far": float((x > far).mean()),
        }
        for x in known
    )
    if not isinstance(kind, Calendar):
        return Summary(real, synthetic, f"{kind.resolution}s" if isinstance(kind, Times) else "")
    origin = np.datetime64(kind.first * MICROSECONDS[kind.resolution], "us")
    return Summary(real, synthetic, f"{kind.resolution}s", origin)


def rule_violations(X: Table, schema: SchemaLike) -> dict[str, Violations]:
    """Return how many rows of a table break each rule of a schema.

    Synthetic rows of `LatentFactorSynthesizer` break none. The function reads `X` unprotected and adds no noise: for real rows the result
    is **not private**.

    Parameters
    ----------
    X : array-like, data frame or other table that `fit` takes, of shape (n_samples, n_features)
        With the columns that rules name.
    schema : Schema, or path of a file
        With rules, or `Derived` columns, each of which is a rule too.

    Returns
    -------
    broken : dict of str to (rows, share)
        For each rule, as printed, in the order of the schema, `Derived` columns last: ``rows``, how many rows break it, and ``share``,
        which part of all rows that is. For a key, rows count whose key an earlier row has.

    See Also
    --------
    skdpsynth.domain.Schema.check : Says of real rows what else does not fit.
    skdpsynth.metrics.quality_report : Compares two tables.

    Notes
    -----
    Cells are read as a fit reads them: numbers are clipped to their bounds. Computed numbers may differ by rounding, one part in a million.

    Examples
    --------
    >>> from skdpsynth.domain import Inequality, Schema
    >>> from skdpsynth.metrics import rule_violations
    >>> schema = Schema({0: (0, 9), 1: (0, 9)}, rules=[Inequality(0, 1)])
    >>> rule_violations([[1, 2], [3, 3], [5, 4], [8, 9]], schema)
    {'Inequality(low=0, high=1, strict=False)': Violations(rows=1, share=0.25)}
    """
    found, _ = count_violations(Schema.of(schema), X)
    return {f"{rule[0]!r}: {rule[1]!r}" if isinstance(rule, tuple) else repr(rule): broken for rule, broken in found}
