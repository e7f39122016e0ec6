"""The three tables of an attack: training, held-out and synthetic rows, as columns in one order, and as points."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpsynth._validation import short_repr
from skdpsynth.domain import Continuous, Nominal, Schema, as_nullable, is_name
from skdpsynth.frames import open_source, take_rows
from skdpsynth.metrics import columns_in, schema_of_ranges
from skdpsynth.tables import encode

TRAIN, HOLDOUT, SYNTHETIC = 0, 1, 2
_NAMES = ("train", "holdout", "model")
_MOST_DRAWN = 100_000  # synthetic rows of a model
_LEAST = 20  # rows of each table
_MIDDLE = (0.05, 0.5, 0.95)

Columns = list[np.ndarray]


@dataclass(frozen=True, eq=False)
class Tables:
    """Training, held-out and synthetic rows.

    Attributes
    ----------
    schema : Schema
        In which every cell may be missing: a missing one is no midpoint and no first level.
    columns : tuple of list of ndarray
        Of each table; its rows are sorted, so that the order in which they were given has no bearing on anything.
    """

    schema: Schema
    columns: tuple[Columns, ...]

    @classmethod
    def read(cls, model: Any, train: Any, holdout: Any, schema: Any, seed: int | None) -> "Tables":
        """Read the tables, the synthetic one as it is given, or drawn of a model."""
        if train is holdout:
            raise ValueError("holdout must be rows that the model was not fitted to, got the very table of train; set some rows aside.")
        schema = getattr(model, "schema_", None) if schema is None else schema
        stated = None if schema is None else Schema.of(schema)
        synthetic = model if is_table(model) else _draw_synthetic_rows(model, train, stated, seed)
        given = dict(zip(_NAMES, (train, holdout, synthetic), strict=True))
        stated = schema_of_ranges(given) if stated is None else stated
        kinds = Schema({name: _unrounded_nullable(kind) for name, kind in stated.items()})
        read = [columns_in(table, kinds, name) for name, table in given.items()]
        for name, rows in zip(_NAMES, read, strict=True):
            if (rows.n_samples or 0) < _LEAST:
                raise ValueError(f"{name} must have at least {_LEAST} rows, got {rows.n_samples}; so few say nothing.")
        return cls(kinds.coded, tuple(_sorted(rows.collected()) for rows in read))

    def sizes(self) -> tuple[int, ...]:
        """Return how many rows each table has."""
        return tuple(len(columns[0]) for columns in self.columns)

    def numbered(self) -> list[np.ndarray]:
        """Return a whole number for each row of each table; rows have the same one if all their cells are equal."""
        numbers = np.zeros(sum(self.sizes()), dtype=np.int64)
        for parts in zip(*self.columns, strict=True):
            _, codes = np.unique(np.concatenate(parts), return_inverse=True)
            _, numbers = np.unique(numbers * (int(codes.max()) + 1) + codes, return_inverse=True)
        return np.split(numbers, np.cumsum(self.sizes())[:-1])

    def subsample_rows(self, most: int, rng: np.random.Generator) -> "Tables":
        """Return the same with at most so many rows each."""
        sizes = self.sizes()
        drawn = [np.sort(rng.choice(n, most, replace=False)) if n > most else np.arange(n) for n in sizes]
        return Tables(self.schema, tuple(take_rows(columns, some) for columns, some in zip(self.columns, drawn, strict=True)))


@dataclass(frozen=True, eq=False)
class Space:
    """Rows of mixed tables as points, whose Euclidean distance is that of an attacker.

    Two rows are apart, in squares: for each column of levels 1 where they differ; for each of numbers the difference, in units of the range
    of the middle nine tenths of the synthetic values; and 1 where a number is missing in one of them. It is known from synthetic rows
    alone, so bounds that are far too wide hide no column from the attack.

    Attributes
    ----------
    blocks : tuple of list of ndarray
        Of each table: its columns, as arrays of shape (n_rows, n_coordinates).
    """

    blocks: tuple[list[np.ndarray], ...]

    @classmethod
    def of(cls, tables: Tables) -> "Space":
        """Map all three tables."""
        blocks: tuple[list[np.ndarray], ...] = ([], [], [])
        for (name, kind), parts in zip(tables.schema.items(), zip(*tables.columns, strict=True), strict=True):
            encoded = [encode([part], Schema({name: kind})) for part in parts]
            change = _scale_levels if isinstance(kind, Nominal) else _scale_numbers
            for place, block in enumerate(change(encoded)):
                blocks[place].append(block)
        return cls(blocks)

    def points(self, table: int, without: int | None = None) -> np.ndarray:
        """Return the points of a table, shape (n_rows, n_coordinates), without those of a column."""
        return np.hstack([block for place, block in enumerate(self.blocks[table]) if place != without])


def _scale_levels(encoded: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Make different levels 1 apart: two one-hot codes differ in two places."""
    return [block * np.sqrt(0.5) if block.shape[1] > 1 else block for block in encoded]


def _scale_numbers(encoded: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Measure numbers from the middle of the synthetic ones, in their usual range; a missing one stands in the middle."""
    unit, missing = encoded[SYNTHETIC].T
    known = unit[missing == 0]
    low, middle, high = np.quantile(known, _MIDDLE) if len(known) else (0.0, 0.5, 1.0)
    width = high - low if high > low else 1.0
    return [np.column_stack([np.where(block[:, 1] > 0, 0.0, (block[:, 0] - middle) / width), block[:, 1]]) for block in encoded]


def is_table(thing: Any) -> bool:
    """Whether rows were given in place of a model; frames, too, have a method `sample`."""
    is_held = isinstance(thing, list) or any(hasattr(thing, name) for name in ("shape", "columns", "__array__"))
    return is_held or not open_source(thing).in_memory


def secret_places(secret: Any, schema: Schema) -> list[int]:
    """Return the places of the columns that are attacked; none where there is no other column to know."""
    if len(schema) < 2:
        return []
    names = list(schema)
    if secret is None:
        return list(range(len(names)))
    wanted = secret if isinstance(secret, list) else [secret]
    for name in wanted:
        if not is_name(name) or name not in schema:
            raise ValueError(f"secret must be columns of schema that are synthesized, got {short_repr(name)}; leave it out for all.")
    return [names.index(name) for name in wanted]


def _unrounded_nullable(kind: Any) -> Any:
    """Return a kind in which every cell may be missing, and no number is rounded: rows that a schema makes equal are no copies."""
    kind = as_nullable(kind)
    return replace(kind, integer=False) if isinstance(kind, Continuous) and kind.integer else kind


def _draw_synthetic_rows(model: Any, train: Any, stated: Schema | None, seed: int | None) -> Any:
    """Draw as many synthetic rows as there are training rows."""
    if isinstance(model, type) or not callable(getattr(model, "sample", None)):
        raise TypeError(
            f"model must be a fitted synthesizer, which has sample, or a table of synthetic rows, got {short_repr(model)}; give what fit "
            "returned, or the rows."
        )
    n_train = columns_in(train, schema_of_ranges({"train": train}) if stated is None else stated, "train").n_samples or 0
    return model.sample(min(n_train, _MOST_DRAWN), random_state=seed)


def _sorted(columns: Columns) -> Columns:
    return take_rows(columns, np.lexsort(columns[::-1]))
