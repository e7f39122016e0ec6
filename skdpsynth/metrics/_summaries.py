"""Summary statistics of columns of numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpsynth.domain import MICROSECONDS, Calendar, Continuous, Inequality, Schema, Times

_QUANTILES = {"5 %": 0.05, "median": 0.5, "95 %": 0.95}
_FAR = 0.999


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


def summarize_columns(tables: Sequence[Sequence[np.ndarray]], coded: Schema, stated: Schema) -> dict[Any, Summary]:
    """Summarize columns of numbers, and the spans of columns that an `Inequality` orders, as ``"end - begin"``.

    `tables` are the columns of the real and of the synthetic rows by the schema `coded`; `stated` has the kinds and rules of the caller.
    """
    columns = [dict(zip(coded, table, strict=True)) for table in tables]
    found = {
        name: _summary([_from_zero(stated[name], each[name]) for each in columns], stated[name])
        for name, kind in coded.items()
        if isinstance(kind, Continuous)
    }
    for rule in stated.rules:
        if isinstance(rule, Inequality):
            spans = [_numbers(stated[rule.high], each[rule.high]) - _numbers(stated[rule.low], each[rule.low]) for each in columns]
            found[f"{rule.high} - {rule.low}"] = _span_summary(spans, stated[rule.high])
    return {name: summary for name, summary in found.items() if summary is not None}


def _span_summary(spans: Sequence[np.ndarray], kind: Any) -> Summary | None:
    """Summarize spans; for times, given in microseconds, in the largest unit in which the mean of the real ones is at least two."""
    if not isinstance(kind, Times):
        return _summary(spans, kind)
    known, units = spans[0][~np.isnan(spans[0])], [unit for unit, size in MICROSECONDS.items() if size >= MICROSECONDS[kind.resolution]]
    mean = float(known.mean()) if len(known) else 0.0
    unit = max((unit for unit in units if mean >= 2 * MICROSECONDS[unit]), key=MICROSECONDS.__getitem__, default=kind.resolution)
    found = _summary([each / MICROSECONDS[unit] for each in spans], kind)
    return None if found is None else replace(found, unit=f"{unit}s", origin=None)


def _summary(columns: Sequence[np.ndarray], kind: Any) -> Summary | None:
    known = [column[~np.isnan(column)] for column in columns]
    if not all(map(len, known)):
        return None
    far = float(np.quantile(known[0], _FAR, method="inverted_cdf"))
    real, synthetic = ({**_statistics(x), "far": float((x > far).mean())} for x in known)
    if not isinstance(kind, Calendar):
        return Summary(real, synthetic, f"{kind.resolution}s" if isinstance(kind, Times) else "")
    origin = np.datetime64(kind.first * MICROSECONDS[kind.resolution], "us")
    return Summary(real, synthetic, f"{kind.resolution}s", origin)


def _statistics(x: np.ndarray) -> dict[str, float]:
    quantiles = dict(zip(_QUANTILES, np.quantile(x, list(_QUANTILES.values()), method="inverted_cdf").tolist(), strict=True))
    return {"mean": float(x.mean()), "deviation": float(x.std()), **quantiles, "zeros": float((x == 0).mean())}


def _from_zero(kind: Any, column: np.ndarray) -> np.ndarray:
    """Return times of day and durations as their units, all others as they are."""
    return column + kind.first if isinstance(kind, Times) and not isinstance(kind, Calendar) else column


def _numbers(kind: Any, column: np.ndarray) -> np.ndarray:
    """Return numbers that can be subtracted from those of another column: for times, microseconds since 1970."""
    return (column + kind.first) * MICROSECONDS[kind.resolution] if isinstance(kind, Times) else column
