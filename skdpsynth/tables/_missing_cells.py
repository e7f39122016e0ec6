"""What cells that are there tell of cells that are missing, by rules that compute columns; and the columns computed afterwards."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from skdpsynth.domain import AllowedCells, Derived, Determines, Sum, compute_columns, inputs_of, table_of, written_kind

_NEAR = 1e-6  # relative: numbers of 32 bits are rounded
Columns = Mapping[Any, np.ndarray]


class Evidence:
    """Cells of rows that are known: those that are there, and those that follow from them.

    Parameters
    ----------
    schema : Schema
        Of all columns.
    values : dict of column to ndarray
        Of all columns that are synthesized or computed, as `read` gives them.
    known : dict of column to ndarray of bool
    dtypes : dict of column to str
        Of the table in which the cells are written.

    Attributes
    ----------
    values, known : dict of column to ndarray
        With cells that follow from others: of a computed column from its inputs, of a part from its total and all other parts, and of a
        level by `Determines`, where no other level of it has the value that is there.
    """

    def __init__(self, schema: Any, values: Columns, known: Columns, dtypes: Mapping[Any, str]) -> None:
        self.schema, self.dtypes, self.sources = schema, dtypes, schema.sources
        self.kinds = {name: written_kind(name, self.sources.get(name, kind), schema) for name, kind in schema.items() if name in values}
        self.values = {name: column.copy() for name, column in values.items()}
        self.known = {name: column.copy() for name, column in known.items()}
        for _ in range(2 * len(self.sources)):
            before = sum(int(each.sum()) for each in self.known.values())
            self._deduce()
            if sum(int(each.sum()) for each in self.known.values()) == before:
                break

    def _deduce(self) -> None:
        for name, source in self.sources.items():
            inputs = inputs_of(name, source, self.schema)
            rows = np.flatnonzero(~self.known[name] & np.all([self.known[each] for each in inputs], axis=0))
            self._tell(name, rows, self.computed(name, rows))
        for name, source in reversed(self.sources.items()):
            if isinstance(source, Sum):
                self._deduce_part(name, source)
            elif isinstance(source, Determines):
                for place, given in enumerate(source.given):
                    self._deduce_level(name, source, place, given)

    def _tell(self, name: Any, rows: np.ndarray, values: np.ndarray) -> None:
        self.values[name][rows] = values
        self.known[name][rows] = True

    def computed(self, name: Any, rows: np.ndarray) -> np.ndarray:
        """Return a computed column of some rows from its inputs as they stand."""
        source = self.sources[name]
        own = {each: self.values[each][rows] for each in inputs_of(name, source, self.schema)}
        kinds = {**self.schema, **{each: self.kinds[each] for each in own if isinstance(self.schema[each], Derived)}}
        return compute_columns(kinds, {name: source}, own, self.dtypes)[name]

    def _deduce_part(self, name: Any, rule: Sum) -> None:
        """Take from a total all parts but one that is missing."""
        unknown = np.sum([~self.known[each] for each in rule.columns], axis=0)
        for part in rule.columns:
            rows = np.flatnonzero(self.known[name] & (unknown == 1) & ~self.known[part])
            rest = self.values[name][rows] - np.sum([self.values[each][rows] for each in rule.columns if each != part], axis=0)
            kind = self.schema[part]
            rest = np.rint(rest) if kind.integer else rest
            slack = 0 if kind.integer else _NEAR * (1 + np.abs(self.values[name][rows]))
            fits = (rest >= kind.low - slack) & (rest <= kind.high + slack)  # not so where one is missing
            self._tell(part, rows[fits], np.clip(rest[fits], kind.low, kind.high))

    def _deduce_level(self, name: Any, rule: Determines, place: int, given: Any) -> None:
        rows = np.flatnonzero(self.known[name] & ~self.known[given] & self._others_known(rule, place))
        for some in _parts_of(rows, len(self.schema[given].levels)):
            agrees = self._agreeing(name, rule, place, some)
            single = agrees.sum(axis=1) == 1
            self._tell(given, some[single], agrees[single].argmax(axis=1))

    def _others_known(self, rule: Determines, place: int) -> np.ndarray:
        flags = [self.known[each] for other, each in enumerate(rule.given) if other != place]
        return np.all(flags, axis=0) if flags else np.ones(len(self.known[rule.column]), dtype=bool)

    def _agreeing(self, name: Any, rule: Determines, place: int, rows: np.ndarray) -> np.ndarray:
        """Return which levels of one of the given columns agree with all else that is known of each row, (n_rows, n_levels + 1).

        The last is a missing cell: only where no level agrees.
        """
        table = self._targets(rule)
        told = np.moveaxis(table, place, -1)
        index = tuple(self.values[each][rows] for other, each in enumerate(rule.given) if other != place)
        of_levels = told[index] if index else np.broadcast_to(told, (len(rows), table.shape[place]))
        agrees = self._same(name, of_levels, rows)
        agrees[:, -1] &= bool(self.schema[rule.given[place]].nullable) & ~agrees[:, :-1].any(axis=1)
        return agrees

    def _targets(self, rule: Determines) -> np.ndarray:
        """Return the value of the target by the codes of all given columns."""
        return table_of(rule, self.schema).reshape([len(self.schema[each].levels) + 1 for each in rule.given])

    def _same(self, name: Any, targets: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return which of some targets are the value of each row, or among those that it may have."""
        found = self.values[name][rows][:, None]
        if hasattr(self.schema[name], "levels"):
            return np.asarray(targets == found)
        with np.errstate(invalid="ignore"):
            near = np.abs(targets - found) <= _NEAR * (1 + np.abs(found))
        return near | (np.isnan(targets) & np.isnan(found))

    def wanted(self) -> list[tuple[np.ndarray, dict[Any, AllowedCells]]]:
        """Return rows, and what they want of cells that are missing: levels that rules leave, given what is there."""
        n_rows = len(next(iter(self.known.values())))
        masks: dict[Any, np.ndarray] = {}
        for name, source in reversed(self.sources.items()):
            if isinstance(source, Determines):
                for place, given in enumerate(source.given):
                    mask = masks.setdefault(given, np.ones((n_rows, len(self.schema[given].levels)), dtype=bool))
                    self._narrow(mask, name, source, place, masks.get(name))
        masks = {name: mask for name, mask in masks.items() if name not in self.sources and not mask.all()}
        if not masks:
            return [(np.arange(n_rows), {})]
        packed = np.packbits(np.column_stack(list(masks.values())), axis=1)
        different, inverse = np.unique(packed, axis=0, return_inverse=True)
        groups = [np.flatnonzero(inverse.ravel() == number) for number in range(len(different))]
        told = [{name: mask[rows[0]] for name, mask in masks.items() if not mask[rows[0]].all()} for rows in groups]
        return [
            (rows, {name: AllowedCells(among=np.flatnonzero(mask)) for name, mask in each.items()})
            for rows, each in zip(groups, told, strict=True)
        ]

    def _narrow(self, mask: np.ndarray, name: Any, rule: Determines, place: int, of_target: np.ndarray | None) -> None:
        """Leave out levels, in place, with which the target of a rule is not what it is, whatever other missing cells are."""
        given = rule.given[place]
        rows = np.flatnonzero(~self.known[given] & (self.known[name] | (of_target is not None)))
        codes = [np.where(self.known[each], self.values[each], -1)[rows] for each in rule.given]
        target = np.where(self.known[name], self.values[name], np.nan)[rows]
        alike: dict[tuple, list[int]] = {}
        for row, *key in zip(rows.tolist(), target.tolist(), *(each.tolist() for each in codes), strict=True):
            may = b"" if of_target is None or self.known[name][row] else np.packbits(of_target[row]).tobytes()
            alike.setdefault((str(key), may), []).append(row)
        table = self._targets(rule)
        for some in alike.values():
            first = some[:1]
            index = tuple(
                slice(None, -1) if not self.known[each][first[0]] else slice(code := int(self.values[each][first[0]]), code + 1)
                for each in rule.given
            )
            left = table[index]
            if self.known[name][first[0]]:
                same = self._same(name, left.reshape(1, -1), np.array(first)).reshape(left.shape)
            else:
                assert of_target is not None
                same = np.append(of_target[first[0]], False)[left]
            levels = same.any(axis=tuple(each for each in range(left.ndim) if each != place))
            if (mask[first[0]] & levels).any():
                mask[some] &= levels

    def disagreeing(self, values: Columns, are_sums: bool) -> np.ndarray:
        """Return how far computed columns that are there are from what cells, now filled, make of them, shape (n_rows,)."""
        far = np.zeros(len(next(iter(self.known.values()))))
        whole = with_all(self, values, self.known)
        for name, source in self.sources.items():
            if isinstance(source, Sum if are_sums else Determines):
                open_cells = self.known[name] & ~np.all([self.known[each] for each in source.columns_named], axis=0)
                rows = np.flatnonzero(open_cells)
                made = whole.computed(name, rows)
                if are_sums:
                    far[rows] += np.nan_to_num(np.abs(made - self.values[name][rows]))
                else:
                    far[rows] += ~whole._same(name, made[:, None], rows)[:, 0]
        return far


def with_all(evidence: Evidence, values: Columns, present: Columns) -> Evidence:
    """Return all columns, computed ones as well: cells that are there stay, whatever others would make of them."""
    whole = object.__new__(Evidence)
    vars(whole).update({**vars(evidence), "values": {**evidence.values, **values}})
    rows = np.arange(len(next(iter(present.values()))))
    for name in evidence.sources:
        whole.values[name] = np.where(present[name], evidence.values[name], whole.computed(name, rows))
    return whole


def _parts_of(rows: np.ndarray, width: int) -> list[np.ndarray]:
    """Return rows in parts of which tables of so many columns are small."""
    return np.array_split(rows, max(1, len(rows) * width >> 22)) if len(rows) else []
