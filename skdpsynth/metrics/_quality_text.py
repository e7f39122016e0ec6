"""Text and HTML of quality reports."""

from html import escape
from typing import Any

import numpy as np

WARNING = "Reads the real rows unprotected: do not publish."
_MOST_SHOWN = 5
_MOST_NUMBERS = 20
_WORDS = {
    "marginals": "marginals, mean total variation",
    "pairs": "pairs of columns, mean total variation",
    "correlation_error": "associations, mean difference",
    "wasserstein": "Wasserstein distance (shares of the bounds)",
}


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
