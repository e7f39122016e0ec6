"""Quality report: marginals, pairs, numbers, associations, distance, use for a model, broken rules."""

from dataclasses import dataclass, field
from html import escape
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from skdpsynth._validation import is_integer, short_repr
from skdpsynth.domain import Schema, list_names
from skdpsynth.frames import Rows
from skdpsynth.metrics._associations import Pairs, associations_of
from skdpsynth.metrics._downstream import default_scoring, forest_for, kind_of_target, score_of, split_target
from skdpsynth.metrics._marginals import distances_of, read_both
from skdpsynth.metrics._quantiles import schema_of_ranges, with_facts_of_rows
from skdpsynth.metrics._summaries import Summary, summarize_columns
from skdpsynth.metrics._wasserstein import wasserstein_distance
from skdpsynth.tables import encode

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


@dataclass(frozen=True, repr=False)
class QualityReport:
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

    def __str__(self) -> str:
        return text_of(self)

    def __repr__(self) -> str:
        return text_of(self)

    def _repr_html_(self) -> str:
        return html_of(self)

    def to_frame(self) -> Any:
        """Return a pandas frame: "measure" (such as "marginal", "pair", "broken"), "what" (column, pair, rule or rows), "value"."""
        import pandas as pd

        lines = self.to_records()
        frame = pd.DataFrame({"measure": [line["measure"] for line in lines]})
        frame["what"] = pd.Series([line["what"] for line in lines], dtype=object)  # pairs stay tuples
        frame["value"] = np.array([line["value"] for line in lines], dtype=float)
        return frame

    def to_records(self) -> list[dict[str, Any]]:
        """Return the rows of `to_frame` as a list of dicts, without pandas; a missing value, as of correlations of one column, is None."""
        lines: list[tuple[str, Any, float | None]] = [("rows", "real", self.n_real), ("rows", "synthetic", self.n_synthetic)]
        lines += [("marginal", column, value) for column, value in self.marginals.items()]
        lines += [("pair", pair, value) for pair, value in self.pairs.items()]
        lines += [("correlation_error", "synthetic", self.correlation_error), ("wasserstein", "synthetic", self.wasserstein)]
        lines += [(self.scoring or "auc", f"trained on {rows} rows", value) for rows, value in (self.auc or {}).items()]
        for column, each in self.numbers.items():
            lines += [
                (f"{name} of {rows} rows", column, value) for rows in ("real", "synthetic") for name, value in getattr(each, rows).items()
            ]
        lines += [("broken", rule, share) for rule, share in self.broken.items()]
        lines += [(measure, "two halves of the real rows", value) for measure, value in (self.halves or {}).items()]
        return [{"measure": measure, "what": what, "value": None if value is None else float(value)} for measure, what, value in lines]


def quality_report(X: Any, X_synthetic: Any, schema: Any = None, *, target: Any = None, random_state: int | None = 0) -> QualityReport:
    """Compare synthetic rows with real ones in one call; the result is **not private**.

    The report holds marginals, pairs of columns, means and quantiles of numbers, associations, the Wasserstein distance, rules of the
    schema that synthetic rows break, and on demand scores of models trained on them. Beside each distance stands the one between two
    halves of the real rows: synthetic rows can hardly be nearer.

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

    Raises
    ------
    ValueError
        If the columns are not those of `schema`, `target` is not among them, or a table has no rows.
    TypeError
        If a dtype cannot hold what `schema` says, or without a schema a column has no numbers.

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
    if random_state is not None and not is_integer(random_state, 0):
        raise ValueError(f"random_state must be a non-negative integer or None, got {short_repr(random_state)}.")
    rng, names = np.random.default_rng(random_state), ("X", "X_synthetic")
    given = dict(zip(names, (X, X_synthetic), strict=True))
    stated = schema_of_ranges(given) if schema is None else with_facts_of_rows(Schema.of(schema), given)
    kind = None if target is None else kind_of_target(stated, target)
    coded, tables = read_both(X, X_synthetic, stated, names)
    real, synthetic = (Rows.held(_draw_columns(rows, _MOST_ROWS, rng)) for rows in tables)
    pairs = _pairs(len(coded), rng)
    # The distance of two samples depends on their sizes, so they are the same for halves.
    size = min(_TRANSPORT_ROWS, max(1, (real.n_samples or 0) // 2), synthetic.n_samples or 0)
    found = _compare(real, synthetic, coded, pairs, size, rng)
    auc, scoring = (None, None) if kind is None else _scores(real, synthetic, coded, target, kind, rng)
    columns = list(coded)
    return QualityReport(
        n_real=tables[0].n_samples or 0,
        n_synthetic=tables[1].n_samples or 0,
        marginals=dict(zip(columns, found.marginals, strict=True)),
        pairs={(columns[i], columns[j]): value for (i, j), value in zip(pairs, found.pairs, strict=True)},
        correlation_error=found.correlation_error,
        wasserstein=found.wasserstein,
        auc=auc,
        broken={} if schema is None else _broken_rule_shares(X_synthetic, stated),
        halves=_compare_halves(real, coded, pairs, size, rng),
        scoring=scoring,
        target=target,
        numbers=summarize_columns([rows.collected() for rows in (real, synthetic)], coded, stated),
    )


@dataclass(frozen=True)
class _Distances:
    marginals: list[float]
    pairs: list[float]
    correlation_error: float | None
    wasserstein: float

    def means(self) -> dict[str, float]:
        found = {"marginals": float(np.mean(self.marginals)), "wasserstein": self.wasserstein}
        if self.correlation_error is not None:
            found |= {"pairs": float(np.mean(self.pairs)), "correlation_error": self.correlation_error}
        return found


def _compare(first: Rows, second: Rows, schema: Schema, pairs: Pairs, size: int, rng: np.random.Generator) -> _Distances:
    singles = [(place,) for place in range(len(schema))]
    distances = distances_of([first, second], schema, [*singles, *pairs])
    error = None
    if pairs:
        differences = associations_of(first, schema, pairs) - associations_of(second, schema, pairs)
        error = float(np.mean(np.abs(differences)))
    X, Y = (encode(_draw_columns(rows, size, rng), schema) for rows in (first, second))
    return _Distances(distances[: len(singles)], distances[len(singles) :], error, wasserstein_distance(X, Y))


def _compare_halves(rows: Rows, schema: Schema, pairs: Pairs, size: int, rng: np.random.Generator) -> dict[str, float] | None:
    n_samples = rows.n_samples or 0
    if n_samples < 4:
        return None
    halves = np.array_split(rng.permutation(n_samples), 2)
    first, second = (Rows.held(rows.taken(half)) for half in halves)
    return _compare(first, second, schema, pairs, size, rng).means()


def _scores(real: Rows, synthetic: Rows, schema: Schema, target: Any, kind: Any, rng: np.random.Generator) -> tuple[dict[str, float], str]:
    """Score forests that were trained on synthetic rows, and on half of the real ones, on the other half."""
    forest = forest_for(kind, int(rng.integers(2**31)))
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


def _broken_rule_shares(X: Any, schema: Schema) -> dict[str, float]:
    """Return the share of rows that break each rule of the schema, for rules that some row breaks."""
    shares: dict[str, float] = {}
    for each in schema.check(X):
        if each.problem in _BROKEN and each.share:
            columns = list_names(each.column) if each.problem == "rule" and isinstance(each.column, tuple) else each.column
            rule = f"{columns}: {_BROKEN[each.problem]}"
            shares[rule] = shares.get(rule, 0.0) + each.share
    return shares


def _pairs(n_columns: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    pairs = list(combinations(range(n_columns), 2))
    if comb(n_columns, 2) <= _MOST_PAIRS:
        return pairs
    return [pairs[place] for place in np.sort(rng.choice(len(pairs), _MOST_PAIRS, replace=False))]


def _draw_columns(rows: Rows, size: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Return the columns of at most `size` rows."""
    n_samples = rows.n_samples or 0
    return rows.collected() if n_samples <= size else rows.taken(np.sort(rng.choice(n_samples, size, replace=False)))


def text_of(report: Any) -> str:
    table = _table(report)
    width = max(len(words) for words, _, _ in table)
    lines = [_title(report), WARNING, "", f"{'0 is best':{width}}  synthetic  real halves"]
    lines += [f"{words:{width}}  {_number(value):>9}  {_number(halves):>11}" for words, value, halves in table]
    return "\n".join([*lines, "", *_remarks(report), *_numbers_in_text(report)])


def numbers_table(report: Any, most: int = _MOST_NUMBERS) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return heads and lines of a table of numbers, two for each column, those whose means are farthest off first."""
    heads = ("numbers", "rows", "mean", "deviation", "5 %", "median", "95 %", "zeros", "above the real 99.9 %")

    def off(each: Any) -> float:
        return abs(each.synthetic["mean"] - each.real["mean"]) / max(each.real["deviation"], 1e-300)

    lines = []
    for name, each in sorted(report.numbers.items(), key=lambda item: -off(item[1]))[:most]:
        named = f"{name}, {each.unit}" if each.unit and each.origin is None else str(name)
        lines.append((named, "synthetic", *(each.format(key, "synthetic") for key in each.real)))
        lines.append(("", "real", *(each.format(key, "real") for key in each.real)))
    return heads, lines


def _numbers_in_text(report: Any) -> list[str]:
    heads, lines = numbers_table(report)
    if not lines:
        return []
    shown = [heads, *lines]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    n_more = len(report.numbers) - _MOST_NUMBERS
    more = [f"... and {n_more} more columns of numbers."] if n_more > 0 else []
    return ["", *("  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) for line in shown), *more]


def html_of(report: Any) -> str:
    rows = "".join(
        f"<tr><td style='text-align:left'>{escape(words)}</td><td>{_number(value)}</td><td>{_number(halves)}</td></tr>"
        for words, value, halves in _table(report)
    )
    heads, numbers = numbers_table(report)
    cell = "<td style='text-align:right;white-space:nowrap'>{}</td>"
    cells = "".join(f"<tr>{''.join(cell.format(escape(each)) for each in line)}</tr>" for line in numbers)
    table = f"<table><thead><tr>{''.join(f'<th>{escape(head)}</th>' for head in heads)}</tr></thead><tbody>{cells}</tbody></table>"
    remarks = "".join(f"<li>{escape(line)}</li>" for line in _remarks(report))
    return (
        f"<div class='skdpsynth-quality'><p>{escape(_title(report))} <strong>{escape(WARNING)}</strong></p>"
        f"<table><thead><tr><th>0 is best</th><th>synthetic</th><th>real halves</th></tr></thead><tbody>{rows}</tbody></table>"
        f"<ul>{remarks}</ul>{table if numbers else ''}</div>"
    )


def _title(report: Any) -> str:
    return f"Quality of {report.n_synthetic} synthetic rows beside {report.n_real} real ones."


def _table(report: Any) -> list[tuple[str, float | None, float | None]]:
    """Return (words, value for the synthetic rows, value between halves of the real ones) of each distance."""
    halves = report.halves or {}
    found = {"marginals": _mean(report.marginals)}
    if report.pairs:
        found |= {"pairs": _mean(report.pairs), "correlation_error": report.correlation_error}
    found["wasserstein"] = report.wasserstein
    return [(_WORDS[name], value, halves.get(name)) for name, value in found.items()]


def _remarks(report: Any) -> list[str]:
    lines = [f"Worst columns: {_worst(report.marginals)}."]
    if report.pairs:
        lines.append(f"Worst pairs: {_worst(report.pairs)}.")
    if report.auc is not None:
        scores = ", ".join(f"{_number(value)} after training on {rows} rows" for rows, value in report.auc.items())
        lines.append(f"Predicting {report.target!r} in real rows ({report.scoring}): {scores}.")
    broken = sorted(report.broken.items(), key=lambda each: -each[1])
    told = ", ".join(f"{rule} in {share:.2%} of rows" for rule, share in broken[:_MOST_SHOWN])
    more = f" and {len(broken) - _MOST_SHOWN} more" if len(broken) > _MOST_SHOWN else ""
    return [*lines, f"Broken rules: {told or 'none'}{more}."]


def _worst(distances: dict[Any, float]) -> str:
    worst = sorted(distances.items(), key=lambda each: -each[1])[:_MOST_SHOWN]
    return ", ".join(f"{' x '.join(map(str, what)) if isinstance(what, tuple) else what} {_number(value)}" for what, value in worst)


def _mean(distances: dict[Any, float]) -> float:
    return float(np.mean(list(distances.values())))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
