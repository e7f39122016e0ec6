"""Report on linked tables: pairs of columns within tables, of parents and children, and of two children of one parent."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import numpy as np

from skdpsynth._text import Result
from skdpsynth.domain import Children, Continuous, Kind, LinkedSchema, LinkedSchemaLike, Schema, as_nullable
from skdpsynth.frames import Rows, Table
from skdpsynth.metrics._marginals import N_PARTS, Pairs, quantile_bins
from skdpsynth.metrics._quality import WARNING
from skdpsynth.metrics._read_tables import check_random_state
from skdpsynth.statistics import SiblingRows
from skdpsynth.tables import Forest, LinkedFormat, check_enough, findings_of_links, name_table_in_errors, open_forest

_MOST_ROOTS = 50_000  # as of the rows of a QualityReport
_NUMBERS = ("rows", "repeated keys", "rows of a parent", "orphans", "beyond most")
_MOST_CELLS = 1 << 22  # of a table of counts that has a place for each cell


@dataclass(frozen=True, repr=False)
class LinkedReport(Result):
    """Quality of synthetic linked tables, from `linked_report`; prints as a table, and is as secret as the real rows.

    Attributes
    ----------
    figures : dict of (str, str) to (float, float)
        By table and measure, of the synthetic tables and, for comparison, of the real ones. First numbers: "rows" that hang on a root and
        count; "repeated keys", rows of a parent's table that have the key of one before; "rows of a parent", the mean; "orphans", rows
        without a parent; and "beyond most", rows that `most` leaves out. All other measures are mean total variation distances, in
        [0, 1], between synthetic and real tables, and between two random halves of the real roots, as perfect synthetic tables have them
        (NaN for fewer than four roots): "pairs" of columns of the table (of a single column, that of the column); "with parent", a column
        of a row and one of its parent; "siblings by pair", a column of a row and one of another row of its parent, or, in a history,
        "consecutive by pair", of the next row; "siblings by root", "consecutive by root", the same, but all pairs of one root count as one;
        "number", the number of rows of each parent; and "span", how long each history of two rows or more is, from its first row to its
        last, or to the end of that.

    See Also
    --------
    skdpsynth.metrics.linked_report : Makes it.
    """

    figures: dict[tuple[str, str], tuple[float, float]]

    def to_records(self) -> list[dict[str, Any]]:
        """Return all figures as a list of dicts with the keys of `to_frame`: "table", "measure", "synthetic" and "real"."""
        return [dict(zip(("table", "measure", "synthetic", "real"), (*key, *values), strict=True)) for key, values in self.figures.items()]

    __repr__ = Result.__str__

    def _parts(self) -> Iterator[str | list[tuple[str, ...]]]:
        yield f"Quality of synthetic linked tables. Distances, best at 0, are beside those of two halves of the real ones.\n{WARNING}"
        yield [("figure", "synthetic", "real"), *self._lines()]

    def _lines(self) -> list[tuple[str, ...]]:
        forms = dict.fromkeys(_NUMBERS, ".6g")
        return [(", ".join(key), *(f"{value:{forms.get(key[1], '.4f')}}" for value in both)) for key, both in self.figures.items()]


def linked_report(
    real: Mapping[str, Table],
    synthetic: Mapping[str, Table],
    schemas: LinkedSchemaLike,
    links: Sequence[Children] | None = None,
    *,
    random_state: int | None = 0,
) -> LinkedReport:
    """Compare synthetic linked tables with real ones in one call; the result is **not private**.

    Parameters
    ----------
    real, synthetic : dict of str to data frame or other table that `fit` takes
        The real and the synthetic tables. All are read unprotected, without noise.
    schemas : dict of str to dict, Schema or path of a file; or LinkedSchema or the path of its file
    links : list of Children, default=None
        Both as `skdpsynth.LinkedTablesSynthesizer` has them.
    random_state : int or None, default=0
        Seed of the halves, and of the roots that are drawn from large tables. None: other ones at each call.

    Returns
    -------
    report : LinkedReport
        Printed, a table. ``report.to_frame()`` gives all figures.

    See Also
    --------
    quality_report : Compares single tables, in more measures.

    Notes
    -----
    Columns of numbers are cut as `marginal_total_variation` cuts them, by the real rows; times of a history become gaps and lengths. Heads
    are rows like others. At most 50,000 roots are compared, and each of more than 16 siblings with 15 others.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdpsynth.domain import Children
    >>> from skdpsynth.metrics import linked_report
    >>> home = pd.DataFrame({"id": [1, 2], "region": ["n", "s"]})
    >>> person = pd.DataFrame({"id": [1, 1, 2, 2], "speaks": ["n", "n", "s", "s"]})
    >>> real, synthetic = {"home": home, "person": person}, {"home": home, "person": person.assign(speaks=["n", "s", "n", "s"])}
    >>> schemas = {"home": {"region": ["n", "s"]}, "person": {"speaks": ["n", "s"]}}
    >>> report = linked_report(real, synthetic, schemas, [Children("person", of="home", key="id", most=2)])
    >>> report.figures["person", "pairs"][0], report.figures["person", "siblings by pair"][0]
    (0.0, 1.0)
    """
    check_random_state(random_state)
    rng, facts = np.random.default_rng(random_state), LinkedSchema.of(schemas, links)
    whole, ordered = facts.schemas, facts.links
    stated = {name: Schema({column: as_nullable(kind) for column, kind in own.items()}, read=own.read) for name, own in whole.items()}
    below, forests, lost = {link.table: replace(link, head=None) for link in ordered}, [], []
    for name, tables in {"synthetic": synthetic, "real": real}.items():
        with name_table_in_errors(name):
            forest, form = open_forest(stated, list(below.values()), tables)
            check_enough(len(forest), 1)
            found = findings_of_links(form.stated, tables)
            lost.append({(name, each.problem): each.rows for name in found for each in found[name]})
        forests.append(_with_spans(forest, form))
    codes = {name: _coding(forests[1].tables[name], list(own.values()), len(form.model_kinds(name))) for name, own in form.schemas.items()}
    made, true = (forest[np.sort(rng.permutation(len(forest))[:_MOST_ROOTS])].map_tables(codes) for forest in forests)
    one, other = (true[half] for half in np.array_split(rng.permutation(len(true)), 2))
    halves = _distances(one, other, below) if len(true) >= 4 else {}
    figures: dict[tuple[str, str], Any] = {(name, "rows"): tuple(len(each.tables[name][0]) for each in forests) for name in codes}
    for table, link in below.items():
        figures[link.of, "repeated keys"] = tuple(each.get((link.of, "repeated key"), 0) for each in lost)
        figures[table, "rows of a parent"] = tuple(float(each.counts(table).mean()) for each in forests)
        figures[table, "orphans"] = tuple(each.get((table, "no parent"), 0) for each in lost)
        figures[table, "beyond most"] = tuple(each.get((table, "beyond most"), 0) for each in lost)
    return LinkedReport(figures | {key: (value, halves.get(key, np.nan)) for key, value in _distances(true, made, below).items()})


def _with_spans(forest: Forest, form: LinkedFormat) -> Forest:
    """Put a column after all others of a history: in its first row how long it is, if it has two or more, and elsewhere none."""
    tables = dict(forest.tables)
    for name, link in form.below().items():
        if link.order is None or link.grid is not None:
            continue
        places, owner = list(form.model_kinds(name)), forest.owners[name]
        follows = np.append(False, owner[1:] == owner[:-1])[: len(owner)]
        times, *lengths = (tables[name][places.index(each)] for each in (link.order, link.until) if each is not None)
        steps = times * follows + lengths[0] if lengths else np.diff(times, prepend=0) * follows  # beside lengths, times are gaps
        spans = np.bincount(owner, np.nan_to_num(steps))[owner]
        tables[name] = [*tables[name], np.where(follows | (forest.counts(name)[owner] < 2), np.nan, spans)]
    return replace(forest, tables=tables)


def _coding(columns: list[np.ndarray], kinds: Sequence[Kind], n_own: int) -> Callable[[list[np.ndarray]], list[np.ndarray]]:
    """Return what makes codes of a table's own columns, or, if it has none, of those that links add, and of spans."""
    places = [place for place, kind in enumerate(kinds) if isinstance(kind, Continuous)]
    bins = quantile_bins(Rows.of(columns), [*places, *range(len(kinds), len(columns))], N_PARTS)
    return lambda columns: [*(coded := bins(columns))[: n_own or len(kinds)], *coded[len(kinds) :]]


def _distances(first: Forest, second: Forest, below: Mapping[str, Children]) -> dict[tuple[str, str], float]:
    both = zip(_virtual_rows(first, below), _virtual_rows(second, below), strict=True)
    return {key: _variation([rows, others], pairs) for (key, rows, pairs), (_, others, _) in both}


def _virtual_rows(forest: Forest, below: Mapping[str, Children]) -> Iterator[tuple[tuple[str, str], list[np.ndarray], Pairs]]:
    """Yield by table and measure: columns, of which the last are weights, and the pairs of columns that are compared."""
    roots = {forest.root: np.arange(len(forest))}
    spans = {name: forest.tables[name][-1] for name, link in below.items() if link.order is not None and link.grid is None}
    tables = {name: columns[: -1 if name in spans else None] for name, columns in forest.tables.items()}
    for name in (forest.root, *below):
        columns, q = tables[name], len(tables[name])
        yield (name, "pairs"), [*columns, np.ones(len(columns[0]))], list(combinations(range(q), 2)) or [(0, 0)]
        if name not in below:
            continue
        owner, above = forest.owners[name], tables[below[name].of]
        roots[name], p = roots[below[name].of][owner], len(above)
        columns = [*columns, roots[name], np.ones(len(owner))]
        yield (name, "with parent"), [*(column[owner] for column in above), *columns], [(i, p + j) for i in range(p) for j in range(q)]
        if below[name].order is None:
            kind, at = "siblings", list(combinations_with_replacement(range(q), 2))
            both = SiblingRows(name, dict.fromkeys(forest.tables, 1))(replace(forest, tables={**forest.tables, name: columns}))[:-1]
        else:
            kind, at, first = "consecutive", list(product(range(q), range(q))), np.flatnonzero(owner[1:] == owner[:-1])
            both = [column[rows] for rows in (first, first + 1) for column in columns]
            starts = first[np.unique(owner[first], return_index=True)[1]]
            yield from [((name, "span"), [spans[name][starts], np.ones(len(starts))], [(0, 0)])] if name in spans else []
        pairs = [(i, q + 2 + j) for i, j in at]
        yield (name, f"{kind} by pair"), both, pairs
        yield (name, f"{kind} by root"), [*both, 1 / np.bincount(both[q])[both[q]]], pairs
        yield (name, "number"), [forest.counts(name), np.ones(len(above[0]))], [(0, 0)]


def _variation(tables: Sequence[list[np.ndarray]], pairs: Pairs) -> float:
    """Return the mean total variation distance of two lists of columns of codes, the last of which are weights, over pairs of columns."""
    empty, found = [not len(columns[0]) for columns in tables], []
    if any(empty):
        return float(not all(empty))
    for i, j in pairs:
        size = 1 + max(int(columns[j].max()) for columns in tables)
        cells = [columns[i].astype(np.int64) * size + columns[j] for columns in tables]
        if max(int(each.max()) for each in cells) > _MOST_CELLS:
            cells = np.split(np.unique(np.concatenate(cells), return_inverse=True)[1], [len(cells[0])])
        n_cells = 1 + max(int(each.max()) for each in cells)
        x, y = (np.bincount(each, columns[-1], n_cells) for each, columns in zip(cells, tables, strict=True))
        found.append(np.abs(x / x.sum() - y / y.sum()).sum() / 2)
    return float(np.mean(found))
