"""The command `interval`."""

from collections.abc import Sequence
from typing import Any

import click

from skdpsynth.cli._models import open_synthesizer
from skdpsynth.cli._output import Refusal, Voice, add_output_options

_LOOK, _FEW = 10_000, 1e-3  # rows of a sample, and the share of them that a group must have


@click.command(short_help="Tell means and shares of people like those of the data, with intervals.")
@click.argument("path", metavar="MODEL", type=click.Path())
@click.option("--mean", "means", multiple=True, metavar="COLUMN", help="Of numbers, where they are not missing; may be given again.")
@click.option("--share", "shares", multiple=True, metavar="COLUMN", help="Of each of its levels; may be given again.")
@click.option("--by", metavar="COLUMN", help="In each group of rows that have the same level there.")
@click.option("--confidence", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.95, show_default=True)
@click.option("--refits", type=click.IntRange(8, 10_000), default=40, show_default=True, help="More make the ends steadier.")
@add_output_options
def interval(
    voice: Voice, path: str, means: tuple[str, ...], shares: tuple[str, ...], by: str | None, confidence: float, refits: int
) -> None:
    """Estimate means and shares of the population from a model, with confidence intervals. It costs no privacy.

    The mechanism is run again and again on rows of the model, so that the intervals know of the noise, and of what the model leaves out.
    """
    if not means and not shares:
        raise Refusal("interval must have a --mean or a --share of a column; give one")
    model = open_synthesizer(path, "interval")
    numbers, words = ([_column(model, option, name) for name in names] for option, names in (("--mean", means), ("--share", shares)))
    statistic = _Statistic(model, numbers, words, None if by is None else _column(model, "--by", by))
    with voice.progress_bars():
        found = model.interval(statistic, confidence, n_refits=refits)
    lines = [
        {"name": name, "estimate": float(estimate), "low": float(low), "high": float(high), "error": float(error)}
        for name, estimate, low, high, error in zip(found.names, found.estimate, found.low, found.high, found.error, strict=True)
    ]
    voice.result({"confidence": confidence, "intervals": lines}, str(found))


def _column(model: Any, option: str, name: str) -> Any:
    """Return a column by the word that names it, of numbers for means and of levels for all else."""
    from skdpsynth.domain import Continuous

    schema = model.schema_
    column = {str(each): each for each in schema}.get(name)
    kind = None if column is None else schema[column]
    levels = getattr(kind, "levels", ())
    has_numbers = isinstance(kind, Continuous) or (
        levels and not any(isinstance(level, str) for level in getattr(kind, "words", None) or levels)
    )
    if (option == "--mean" and not has_numbers) or (option != "--mean" and not levels):
        what, other = ("numbers", "--share") if option == "--mean" else ("levels", "--mean")
        got = "which MODEL has not" if kind is None else f"which is {type(kind).__name__.lower()}"
        raise Refusal(f"{option} must name a column of {what}, got {name!r}, {got}; name another, or give {other}")
    return column


class _Statistic:
    """Means and shares of columns of a table, by name; those of groups that hardly any row is in are left out."""

    def __init__(self, model: Any, means: Sequence[Any], shares: Sequence[Any], by: Any) -> None:
        from skdpsynth.frames import split_columns
        from skdpsynth.tables import kind_out

        self._means, self._shares, self._by, sample = means, shares, by, model.sample(_LOOK)
        form = split_columns(sample)[0]
        dtypes = dict(zip(form.columns, form.dtypes, strict=True))
        self._levels = {name: kind_out(model.schema_[name], dtypes[name]).levels for name in (*shares, *([] if by is None else [by]))}
        self._names = [name for name, (_, n_known, _) in self._parts(sample).items() if n_known >= _FEW * len(sample)]
        if not self._names:
            raise Refusal("--mean and --share must be of columns in which cells are known, got none; name others")

    def __call__(self, table: Any) -> dict[str, float]:
        parts = self._parts(table)
        # A group without rows is as all are.
        return {name: found if n_known else of_all for name, (found, n_known, of_all) in parts.items() if name in self._names}

    def _parts(self, table: Any) -> dict[str, tuple[float, int, float]]:
        """Return by name a statistic of a group, of how many cells it is, and the same of all rows."""
        import numpy as np

        columns: dict[str, Any] = {f"mean of {name}": _cells(table, name).astype(float) for name in self._means}
        for name in self._shares:
            cells = _cells(table, name)
            columns |= {f"share of {name} {level}": (cells == level).astype(float) for level in self._levels[name]}
        groups: dict[str, Any] = {"": slice(None)}
        if self._by is not None:
            labels = _cells(table, self._by)
            groups = {f", {self._by} {level}": labels == level for level in self._levels[self._by]}
        found = {}
        for where, rows in groups.items():
            for what, cells in columns.items():
                known, every = (some[~np.isnan(some)] for some in (cells[rows], cells))
                found[f"{what}{where}"] = (
                    float(known.mean()) if len(known) else 0.0,
                    len(known),
                    float(every.mean()) if len(every) else 0.0,
                )
        return found


def _cells(table: Any, name: Any) -> Any:
    """Return a column of a table as an array of objects, with NaN where a cell is missing."""
    import numpy as np

    from skdpsynth.frames import split_columns

    kind, raw = split_columns(table)
    column = raw[kind.columns.index(name)]
    cells = column.tolist() if kind.library in ("numpy", "pandas") else column.to_list()
    return np.array([np.nan if cell is None or str(cell) == "<NA>" else cell for cell in cells], dtype=object)
