"""What a quality report says of itself: as text, and for notebooks."""

from html import escape
from typing import Any

import numpy as np

WARNING = "Reads the real rows unprotected: do not publish."
_MOST_SHOWN = 5
_WORDS = {
    "marginals": "marginals, mean total variation",
    "pairs": "pairs of columns, mean total variation",
    "correlation_error": "associations, mean difference",
    "wasserstein": "Wasserstein distance (shares of the bounds)",
}


def text_of(report: Any) -> str:
    """Return a report as lines of text."""
    table = _table(report)
    width = max(len(words) for words, _, _ in table)
    lines = [_title(report), WARNING, "", f"{'0 is best':{width}}  synthetic  real halves"]
    lines += [f"{words:{width}}  {_number(value):>9}  {_number(halves):>11}" for words, value, halves in table]
    return "\n".join([*lines, "", *_remarks(report)])


def html_of(report: Any) -> str:
    """Return a report as a table for notebooks."""
    rows = "".join(
        f"<tr><td style='text-align:left'>{escape(words)}</td><td>{_number(value)}</td><td>{_number(halves)}</td></tr>"
        for words, value, halves in _table(report)
    )
    remarks = "".join(f"<li>{escape(line)}</li>" for line in _remarks(report))
    return (
        f"<div class='skdpsynth-quality'><p>{escape(_title(report))} <strong>{escape(WARNING)}</strong></p>"
        f"<table><thead><tr><th>0 is best</th><th>synthetic</th><th>real halves</th></tr></thead><tbody>{rows}</tbody></table>"
        f"<ul>{remarks}</ul></div>"
    )


def _title(report: Any) -> str:
    return f"Quality of {report.n_synthetic} synthetic rows beside {report.n_real} real ones."


def _table(report: Any) -> list[tuple[str, float | None, float | None]]:
    """Return (words, of the synthetic rows, between halves of the real ones) of each distance."""
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
