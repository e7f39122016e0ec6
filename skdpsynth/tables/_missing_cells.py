"""Rows with missing cells: read by the schema of a fit, deduced by functional dependencies, and written back filled."""

from collections.abc import Hashable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth.domain import (
    AllowedCells,
    ColumnKind,
    Continuous,
    Derived,
    Determines,
    Schema,
    Sum,
    as_nullable,
    compute_columns,
    inputs_of,
    list_names,
    table_of,
    written_kind,
)
from skdpsynth.frames import Column, Table, TableKind, eager_frame, split_columns, without_categories
from skdpsynth.tables._cells import missing_cells
from skdpsynth.tables._open import read_column
from skdpsynth.tables._table import TableFormat, array_out, check_dtype, column_out

_NEAR = 1e-6  # relative: numbers of 32 bits are rounded
Columns = Mapping[Any, np.ndarray]


class Evidence:
    """Known cells of all columns that are synthesized or computed, as `read_columns` gives them, and those that follow from them.

    A computed column follows from its inputs, a part from its total and all other parts, and a level by `Determines`, where no other
    level of it has the value that is there. `dtypes` are those in which the cells are written.
    """

    def __init__(self, schema: Schema, values: Columns, known: Columns, dtypes: Mapping[Any, str]) -> None:
        self.schema, self.dtypes, self.sources = schema, dtypes, dict(schema.sources)
        self.kinds = {name: written_kind(name, self.sources.get(name, kind), schema) for name, kind in schema.items() if name in values}
        self.values = {name: column.copy() for name, column in values.items()}
        self.known = {name: column.copy() for name, column in known.items()}
        self.n_rows = len(next(iter(known.values())))
        for _ in range(2 * len(self.sources)):
            before = sum(int(each.sum()) for each in self.known.values())
            self._deduce()
            if sum(int(each.sum()) for each in self.known.values()) == before:
                break

    def take(self, rows: np.ndarray) -> "Evidence":
        taken = copy(self)
        taken.values, taken.known = ({name: column[rows] for name, column in each.items()} for each in (self.values, self.known))
        taken.n_rows = len(rows)
        return taken

    def _deduce(self) -> None:
        for name, source in self.sources.items():
            rows = np.flatnonzero(~self.known[name] & self._are_known(inputs_of(source, self.schema)))
            self._set(name, rows, self.compute(name, rows))
        for name, source in reversed(self.sources.items()):
            for place, given in enumerate(source.given if isinstance(source, Determines) else ()):
                others = self._are_known((*source.given[:place], *source.given[place + 1 :]))
                rows = np.flatnonzero(self.known[name] & ~self.known[given] & others)
                agrees = self._agreeing_levels(name, source, place, rows)
                agrees[:, -1] &= bool(self.schema[given].nullable) & ~agrees[:, :-1].any(axis=1)
                single = agrees.sum(axis=1) == 1
                self._set(given, rows[single], agrees[single].argmax(axis=1))
            if isinstance(source, Sum):  # all parts but a missing one are subtracted from the total
                unknown = np.sum([~self.known[each] for each in source.columns], axis=0)
                for part in source.columns:
                    rows = np.flatnonzero(self.known[name] & (unknown == 1) & ~self.known[part])
                    rest = self.values[name][rows] - np.sum([self.values[each][rows] for each in source.columns if each != part], axis=0)
                    kind = self.schema[part]
                    rest = np.rint(rest) if kind.integer else rest
                    slack = 0 if kind.integer else _NEAR * (1 + np.abs(self.values[name][rows]))
                    fits = (rest >= kind.low - slack) & (rest <= kind.high + slack)  # not so where one is missing
                    self._set(part, rows[fits], np.clip(rest[fits], kind.low, kind.high))

    def _are_known(self, names: tuple) -> np.ndarray:
        return np.all([self.known[each] for each in names], axis=0) if names else np.ones(self.n_rows, dtype=bool)

    def _set(self, name: Hashable, rows: np.ndarray, values: np.ndarray) -> None:
        self.values[name][rows] = values
        self.known[name][rows] = True

    def compute(self, name: Hashable, rows: np.ndarray) -> np.ndarray:
        """Return a computed column of some rows from its inputs as they stand."""
        source = self.sources[name]
        own = {each: self.values[each][rows] for each in inputs_of(source, self.schema)}
        kinds = {**self.schema, **{each: self.kinds[each] for each in own if isinstance(self.schema[each], Derived)}}
        return compute_columns(kinds, {name: source}, own, self.dtypes)[name]

    def _agreeing_levels(
        self, name: Hashable, rule: Determines, place: int, rows: np.ndarray, allowed: np.ndarray | None = None
    ) -> np.ndarray:
        """Return which levels of one of the given columns, the last a missing cell, agree with what is known of each row.

        The target must have its value, or where that is missing one of those `allowed` in each row. Rows alike are looked at once.
        """
        known, target = self.known[name][rows], np.nan_to_num(self.values[name][rows].astype(float), nan=np.inf)
        codes = np.column_stack([np.where(self.known[each], self.values[each], -1)[rows] for each in rule.given])
        among = np.zeros((len(rows), 0)) if allowed is None else np.where(known[:, None], False, allowed[rows])
        alike = np.column_stack([known, np.where(known, target, 0), codes, among])
        _, firsts, groups = np.unique(alike.view(f"V{8 * alike.shape[1]}"), return_index=True, return_inverse=True)
        table = table_of(rule, self.schema).reshape([len(self.schema[each].levels) + 1 for each in rule.given])  # values of the target
        found = np.ones((len(firsts), table.shape[place]), dtype=bool)
        for group, first in enumerate(firsts.tolist()):
            own = [slice(None, -1) if code < 0 else slice(code, code + 1) for code in codes[first].astype(int).tolist()]
            own[place] = slice(None)
            left = table[tuple(own)]
            if known[first]:
                same = self._same(name, left.reshape(1, -1), rows[first : first + 1]).reshape(left.shape)
            else:
                same = np.append(among[first].astype(bool), False)[left]
            found[group] = same.any(axis=tuple(each for each in range(left.ndim) if each != place))
        return found[groups.ravel()]

    def _same(self, name: Hashable, targets: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return which of some targets are the value of each row, or among those that it may have."""
        found = self.values[name][rows][:, None]
        if hasattr(self.schema[name], "levels"):
            return np.asarray(targets == found)
        with np.errstate(invalid="ignore"):
            near = np.abs(targets - found) <= _NEAR * (1 + np.abs(found))
        return near | (np.isnan(targets) & np.isnan(found))

    def allowed_levels(self) -> list[tuple[np.ndarray, dict[Any, AllowedCells]]]:
        """Return rows, and the levels that rules allow for their missing cells, given the known ones."""
        masks: dict[Any, np.ndarray] = {}
        for name, source in reversed(self.sources.items()):
            for place, given in enumerate(source.given if isinstance(source, Determines) else ()):
                mask = masks.setdefault(given, np.ones((self.n_rows, len(self.schema[given].levels)), dtype=bool))
                # Levels are left out with which the target has another value, whatever other missing cells are.
                of_target = masks.get(name)
                rows = np.flatnonzero(~self.known[given] & (self.known[name] | (of_target is not None)))
                left = mask[rows] & self._agreeing_levels(name, source, place, rows, of_target)[:, :-1]
                has_any = left.any(axis=1)
                mask[rows[has_any]] = left[has_any]
        masks = {name: mask for name, mask in masks.items() if name not in self.sources and not mask.all()}
        if not masks:
            return [(np.arange(self.n_rows), {})]
        packed = np.packbits(np.column_stack(list(masks.values())), axis=1)
        different, inverse = np.unique(packed, axis=0, return_inverse=True)
        groups = [np.flatnonzero(inverse.ravel() == number) for number in range(len(different))]
        return [
            (rows, {name: AllowedCells(among=np.flatnonzero(mask[rows[0]])) for name, mask in masks.items() if not mask[rows[0]].all()})
            for rows in groups
        ]

    def disagreement(self, values: Columns, are_sums: bool) -> np.ndarray:
        """Return how far known computed columns are from their values by the cells that are now filled, shape (n_rows,)."""
        far = np.zeros(self.n_rows)
        whole = with_all(self, values, self.known)
        for name, source in self.sources.items():
            if isinstance(source, Sum if are_sums else Determines):
                rows = np.flatnonzero(self.known[name] & ~self._are_known(source.columns_named))
                made = whole.compute(name, rows)
                if are_sums:
                    far[rows] += np.nan_to_num(np.abs(made - self.values[name][rows]))
                else:
                    far[rows] += ~whole._same(name, made[:, None], rows)[:, 0]
        return far


def with_all(evidence: Evidence, values: Columns, present: Columns) -> Evidence:
    """Return all columns, with computed ones; cells that are present stay, even where their inputs give another value."""
    whole = copy(evidence)
    whole.values = {**evidence.values, **values}
    for name in evidence.sources:
        whole.values[name] = np.where(present[name], evidence.values[name], whole.compute(name, np.arange(evidence.n_rows)))
    return whole


@dataclass(frozen=True, eq=False)
class IncompleteRows:
    X: Any
    table: TableFormat  # of the fit
    given: TableKind  # of X
    raw: list[Any]
    values: dict[Any, np.ndarray]  # of the columns that are synthesized or computed, in the order of the fit, as `read_columns` gives them
    missing: dict[Any, np.ndarray]

    @classmethod
    def of(cls, X: Table, table: TableFormat) -> "IncompleteRows":
        """Read a table; columns that a frame lacks are missing throughout."""
        given, raw = split_columns(X)
        if given.library == "numpy" and (table.library != "numpy" or len(given.columns) != len(table.columns)):
            wanted = f"an array of {len(table.columns)} columns" if table.library == "numpy" else "a data frame"
            got = f"an array of {len(given.columns)} columns; for cells that are not known give missing ones"
            raise ValueError(f"X must be {wanted}, as that of fit was, got {got}.")
        if not given.columns:
            raise ValueError(
                "X must have one or more columns of the table that fit got, got a table without any; give those that are known."
            )
        if extra := [name for name in given.columns if name not in table.schema]:
            raise ValueError(f"X must have columns of the table that fit got, but {list_names(extra)} is none of them; drop it.")
        n_rows = len(raw[0])
        values: dict[Any, np.ndarray] = {}
        missing: dict[Any, np.ndarray] = {}
        for name, stated in table.schema.items():
            kind = _kind(table, name)
            if kind.coded is None:
                continue
            if name in table.schema.sources and stated is kind:
                kind = as_nullable(kind)  # computed values are compared with it as it stands
            place = given.columns.index(name) if name in given.columns else None
            gone = np.ones(n_rows, dtype=bool) if place is None else missing_cells(raw[place])
            if place is None or gone.all():
                values[name] = np.zeros(n_rows, dtype=float if isinstance(kind.coded, Continuous) else np.int64)
            else:
                check_dtype(name, kind, given.dtypes[place])
                values[name] = read_column(raw[place], kind, given.dtypes[place])
                if kind.missing:
                    own = as_nullable(kind)
                    gone = gone | _is_missing(read_column(raw[place], own, given.dtypes[place]), own)
            missing[name] = gone
        return cls(X, table, given, raw, values, missing)

    @property
    def dtypes(self) -> dict[Any, str]:
        """The dtypes in which cells are written: those of X, but for columns without any cell those of the fit."""
        given = dict(zip(self.given.columns, self.given.dtypes, strict=True))
        return {name: self._dtype_of_fit(name) if gone.all() else given[name] for name, gone in self.missing.items()}

    def with_cells(self, values: Mapping[Any, np.ndarray]) -> Any:
        """Return the table in the caller's kind, with missing cells from these columns; all other cells are as they were."""
        columns = dict(zip(self.given.columns, self.raw, strict=True))
        changed = {name: np.flatnonzero(gone) for name, gone in self.missing.items() if gone.any() or name not in columns}
        if self.given.library == "numpy":
            rows = np.array(self.X) if isinstance(self.X, np.ndarray) else np.column_stack([*self.raw]).astype(object)
            for place, gone in changed.items():
                rows[gone, place] = array_out([values[place][gone]], [_kind(self.table, place)], rows.dtype)[:, 0]
            return rows
        made = {name: self._column(name, columns.get(name), values[name], gone) for name, gone in changed.items()}
        if self.given.library == "pandas":
            import pandas as pd

            out = self.X.copy()
            for name, column in made.items():
                out[name] = pd.Series(getattr(column, "array", column), index=out.index)
            return out
        import narwhals.stable.v2 as nw

        for name, column in made.items():
            series = column if hasattr(column, "to_native") else nw.from_native(column, series_only=True, allow_series=True)
            made[name] = series.alias(name)
        return eager_frame(self.X).with_columns(*made.values()).to_native()

    def _column(self, name: Hashable, column: Column, new: np.ndarray, gone: np.ndarray) -> Any:
        """Return a column with the cells that were missing."""
        kind, backend = _kind(self.table, name), self.given.library
        if column is None or len(gone) == len(new):
            return column_out(new, kind, backend, self._dtype_of_fit(name))
        gone = gone[~_is_missing(new[gone], kind)]  # rules left others no value
        made = column_out(new[gone], kind, backend, without_categories(self.given.dtypes[self.given.columns.index(name)]))
        if backend != "pandas":
            import narwhals.stable.v2 as nw

            if not hasattr(made, "to_native"):
                made = nw.new_series("", np.asarray(made).tolist(), backend=column.implementation)
            made = made.cast(nw.String()) if "Enum" in f"{made.dtype} {column.dtype}" else made
            return column.scatter(gone.tolist(), made.cast(column.dtype))
        import pandas as pd

        column, cells = column.copy(), np.asarray(made, dtype=object)
        if isinstance(column.dtype, pd.CategoricalDtype):
            # Levels that the column lacks need a category each.
            lacking = [level for level in pd.unique(cells) if level not in column.cat.categories]
            column = column.cat.add_categories(lacking) if lacking else column
            column.iloc[gone] = cells
        else:
            column.iloc[gone] = pd.Series(cells).astype(column.dtype).array
        return column.array

    def _dtype_of_fit(self, name: Hashable) -> str:
        """Return the dtype that a column had in the fit; where that was a table of another library, a dtype that holds anything."""
        if self.given.library == self.table.library:
            return self.table.dtypes[list(self.table.schema).index(name)]
        return "object" if self.given.library == "pandas" else "Unknown"


def _is_missing(values: np.ndarray, kind: ColumnKind) -> np.ndarray:
    return np.isnan(values) if isinstance(kind.coded, Continuous) else values >= len(kind.levels)


def _kind(table: TableFormat, name: Hashable) -> Any:
    """Return the kind by which a column is read and written."""
    return written_kind(name, table.schema.sources.get(name), table.schema)
