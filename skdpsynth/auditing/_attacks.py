"""Attacks that score training and held-out rows by the synthetic rows, and confidence intervals for the gap between them.

The synthetic table is fixed, and each row gets a score that does not look at the others. If training rows and held-out rows come from one
distribution, and the synthetic table was made without either, both kinds of scores have one distribution: their means differ by chance.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtrit

from skdpsynth._validation import short_repr
from skdpsynth.domain import Continuous, Nominal, Schema, as_nullable, is_name
from skdpsynth.frames import open_source, take_rows
from skdpsynth.metrics import columns_in, schema_of_ranges, with_facts_of_rows
from skdpsynth.tables import encode


@dataclass(frozen=True)
class Gap:
    """A number of training rows beside the same number of held-out rows.

    Attributes
    ----------
    what : str
        The number, in words.
    train, holdout : float
        Means over the rows of each kind.
    low, high : float
        Confidence interval of `difference`, two-sided.
    n_train, n_holdout : int
        Rows that were looked at.
    is_share : bool
        Whether the number is a share of rows, or of guesses; else a distance.

    See Also
    --------
    privacy_evidence : Makes it.
    """

    what: str
    train: float
    holdout: float
    low: float
    high: float
    n_train: int
    n_holdout: int
    is_share: bool = True

    @property
    def difference(self) -> float:
        """Value of the training rows minus value of the held-out rows."""
        return self.train - self.holdout

    @property
    def is_found(self) -> bool:
        """Whether the whole interval lies on the side to which copies of training rows would move it."""
        return self.low > 0 if self.is_share else self.high < 0


def gap_of_shares(what: str, train: np.ndarray, holdout: np.ndarray, confidence: float) -> Gap:
    """Compare two samples of booleans by Newcombe's interval [1]_ from Wilson's, which holds for few rows and for shares of 0.

    References
    ----------
    .. [1] Newcombe (1998), "Interval estimation for the difference between independent proportions", method 10.
    """
    (p, below_p, above_p), (q, below_q, above_q) = (_wilson(hits, confidence) for hits in (train, holdout))
    low, high = p - q - math.hypot(p - below_p, above_q - q), p - q + math.hypot(above_p - p, q - below_q)
    return Gap(what, p, q, low, high, len(train), len(holdout))


def gap_of_means(what: str, train: np.ndarray, holdout: np.ndarray, confidence: float, is_share: bool) -> Gap:
    n, m = len(train), len(holdout)
    x, y = float(train.mean()), float(holdout.mean())
    apart = math.sqrt(train.var(ddof=1) / n + holdout.var(ddof=1) / m)
    # Scores of few rows may all be equal by luck, which would make an interval of no width. If both kinds are alike, the variance of all
    # rows together is that of each.
    together = math.sqrt(np.concatenate([train, holdout]).var(ddof=1) * (1 / n + 1 / m))
    reach = float(stdtrit(min(n, m) - 1, 0.5 + confidence / 2)) * max(apart, together)
    return Gap(what, x, y, x - y - reach, x - y + reach, n, m, is_share)


def _wilson(hits: np.ndarray, confidence: float) -> tuple[float, float, float]:
    n, share, z = len(hits), float(np.mean(hits)), float(ndtri(0.5 + confidence / 2))
    middle, reach = share + z * z / (2 * n), z * math.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2)
    return share, (middle - reach) / (1 + z * z / n), (middle + reach) / (1 + z * z / n)


TRAIN, HOLDOUT, SYNTHETIC = 0, 1, 2
_NAMES = ("train", "holdout", "model")
_MOST_DRAWN = 100_000  # synthetic rows of a model
_LEAST = 20  # rows of each table
_MIDDLE = (0.05, 0.5, 0.95)

Columns = list[np.ndarray]


@dataclass(frozen=True, eq=False)
class Tables:
    """Training, held-out and synthetic rows, sorted, so that the order in which they were given has no influence."""

    schema: Schema  # nullable throughout, so that a missing cell is neither a midpoint nor a first level
    columns: tuple[Columns, ...]  # one list of columns for each of the three tables

    @classmethod
    def read(cls, model: Any, train: Any, holdout: Any, schema: Any, seed: int | None) -> "Tables":
        """Read the three tables, drawing the synthetic one if a model was given."""
        if train is holdout:
            raise ValueError("holdout must be rows that the model was not fitted to, got the very table of train; set some rows aside.")
        schema = getattr(model, "schema_", None) if schema is None else schema
        stated = None if schema is None else Schema.of(schema)
        synthetic = model if is_table(model) else _draw_synthetic_rows(model, train, stated, seed)
        given = dict(zip(_NAMES, (train, holdout, synthetic), strict=True))
        stated = schema_of_ranges(given) if stated is None else with_facts_of_rows(stated, given)
        kinds = Schema({name: _unrounded_nullable(kind) for name, kind in stated.items()}, read=stated.read)
        read = [columns_in(table, kinds, name) for name, table in given.items()]
        for name, rows in zip(_NAMES, read, strict=True):
            if (rows.n_samples or 0) < _LEAST:
                raise ValueError(f"{name} must have at least {_LEAST} rows, got {rows.n_samples}; so few say nothing.")
        tables = [rows.collected() for rows in read]
        return cls(kinds.coded, tuple(take_rows(columns, np.lexsort(columns[::-1])) for columns in tables))

    def sizes(self) -> tuple[int, ...]:
        return tuple(len(columns[0]) for columns in self.columns)

    def numbered(self) -> list[np.ndarray]:
        """Number the rows of all tables so that rows have the same number if all their cells are equal."""
        numbers = np.zeros(sum(self.sizes()), dtype=np.int64)
        for parts in zip(*self.columns, strict=True):
            _, codes = np.unique(np.concatenate(parts), return_inverse=True)
            _, numbers = np.unique(numbers * (int(codes.max()) + 1) + codes, return_inverse=True)
        return np.split(numbers, np.cumsum(self.sizes())[:-1])

    def subsample_rows(self, most: int, rng: np.random.Generator) -> "Tables":
        """Draw at most `most` rows of each table."""
        sizes = self.sizes()
        drawn = [np.sort(rng.choice(n, most, replace=False)) if n > most else np.arange(n) for n in sizes]
        return Tables(self.schema, tuple(take_rows(columns, some) for columns, some in zip(self.columns, drawn, strict=True)))


@dataclass(frozen=True, eq=False)
class Space:
    """Rows of mixed tables as points, with the Euclidean distance of an attacker.

    The squared distance of two rows adds, for each column of levels, 1 if they differ; for each column of numbers, their squared difference
    in units of the range of the middle nine tenths of the synthetic values, and 1 if one of the two is missing. The scale follows from
    synthetic rows alone, so bounds that are far too wide hide no column from the attack.
    """

    blocks: tuple[list[np.ndarray], ...]  # for each table, an array of shape (n_rows, n_coordinates) for each column

    @classmethod
    def of(cls, tables: Tables) -> "Space":
        blocks: tuple[list[np.ndarray], ...] = ([], [], [])
        for (name, kind), parts in zip(tables.schema.items(), zip(*tables.columns, strict=True), strict=True):
            encoded = [encode([part], Schema({name: kind})) for part in parts]
            change = _scale_levels if isinstance(kind, Nominal) else _scale_numbers
            for place, block in enumerate(change(encoded)):
                blocks[place].append(block)
        return cls(blocks)

    def points(self, table: int, without: int | None = None) -> np.ndarray:
        """Return the points of a table, shape (n_rows, n_coordinates), leaving out one column if asked."""
        return np.hstack([block for place, block in enumerate(self.blocks[table]) if place != without])


def _scale_levels(encoded: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Scale one-hot codes so that different levels are at distance 1."""
    return [block * np.sqrt(0.5) if block.shape[1] > 1 else block for block in encoded]


def _scale_numbers(encoded: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Center and scale numbers by their synthetic quantiles; a missing one lies at the center."""
    unit, missing = encoded[SYNTHETIC].T
    known = unit[missing == 0]
    low, middle, high = np.quantile(known, _MIDDLE) if len(known) else (0.0, 0.5, 1.0)
    width = high - low if high > low else 1.0
    return [np.column_stack([np.where(block[:, 1] > 0, 0.0, (block[:, 0] - middle) / width), block[:, 1]]) for block in encoded]


def is_table(thing: Any) -> bool:
    """Tell rows from a model; data frames have a method `sample`, too."""
    is_held = isinstance(thing, list) or any(hasattr(thing, name) for name in ("shape", "columns", "__array__"))
    return is_held or not open_source(thing).in_memory


def secret_places(secret: Any, schema: Schema) -> list[int]:
    """Return the places of the columns to attack, or none in a table of one column."""
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
    """Allow missing cells and do not round numbers, because rounding would turn different rows into copies."""
    kind = as_nullable(kind)
    return replace(kind, integer=False) if isinstance(kind, Continuous) and kind.integer else kind


def _draw_synthetic_rows(model: Any, train: Any, stated: Schema | None, seed: int | None) -> Any:
    if isinstance(model, type) or not callable(getattr(model, "sample", None)):
        raise TypeError(
            f"model must be a fitted synthesizer, which has sample, or a table of synthetic rows, got {short_repr(model)}; give what fit "
            "returned, or the rows."
        )
    own = {"train": train}
    n_train = columns_in(train, schema_of_ranges(own) if stated is None else with_facts_of_rows(stated, own), "train").n_samples or 0
    return model.sample(min(n_train, _MOST_DRAWN), random_state=seed)


FALSE_ALARM_RATE = 0.1  # of the membership attack
_NEAR = 0.05  # largest error of a right guess of a number, in units of `Space`
_TINY = 1e-9  # so that, among rows with a copy, those far from all others score highest


def find_copies(tables: Tables, confidence: float) -> dict[str, Any]:
    """Look up every real row among the synthetic ones, and held-out rows among training rows; return fields of `PrivacyEvidence`.

    Copies of held-out rows show how many copies to expect by chance, and duplicates of training rows how many overlaps.
    """
    train, holdout, synthetic = tables.numbered()
    found, by_chance = np.isin(train, synthetic), np.isin(holdout, synthetic)
    gap = gap_of_shares("exact copies: rows that are among the synthetic ones", found, by_chance, confidence)
    _, places, counts = np.unique(train, return_inverse=True, return_counts=True)
    overlapping = np.isin(holdout, train)
    beyond_chance = gap_of_shares("", overlapping, counts[places] > 1, confidence)
    numbers = {"n_copies": int(found.sum()), "n_overlapping": int(overlapping.sum())}
    return {"exact_copies": gap, **numbers, "is_overlap": beyond_chance.is_found}


def closest_record(space: Space, confidence: float) -> Gap:
    """Measure the distance of each real row to the closest synthetic one.

    The direction from real to synthetic rows gives every real row a distance of its own, whatever the numbers of rows.
    """
    synthetic, n_columns = space.points(SYNTHETIC), len(space.blocks[SYNTHETIC])
    train, holdout = (_nearest(synthetic, space.points(table))[1] / np.sqrt(n_columns) for table in (TRAIN, HOLDOUT))
    return gap_of_means("closest record: mean distance to the closest synthetic row", train, holdout, confidence, is_share=False)


def membership(space: Space, confidence: float, rng: np.random.Generator) -> Gap:
    """Call rows members where synthetic rows are much denser than the population.

    This is the attack of DOMIAS with nearest-neighbor densities: the score is the distance to the closest row of one half of the held-out
    rows over the distance to the closest synthetic row. A tenth of that half, each row looked up among the others, exceeds the threshold.
    Training rows and the other half of the held-out rows are judged by it.
    """
    holdout, synthetic = space.points(HOLDOUT), space.points(SYNTHETIC)
    known, others = (holdout[half] for half in np.array_split(rng.permutation(len(holdout)), 2))

    def ratios(rows: np.ndarray, among: int = 1) -> np.ndarray:
        return (_nearest(known, rows, among)[1] + _TINY) / (_nearest(synthetic, rows)[1] + _TINY)

    threshold = np.quantile(ratios(known, among=2), 1 - FALSE_ALARM_RATE)
    train, unseen = ratios(space.points(TRAIN)) > threshold, ratios(others) > threshold
    return gap_of_shares("membership: rows that the attack calls members", train, unseen, confidence)


def attributes(tables: Tables, space: Space, places: list[int], confidence: float) -> tuple[Gap | None, dict]:
    """Guess each secret cell from the closest synthetic row; return the gap over all columns and the gap of each column."""
    if not places:
        return None, {}
    right = [_correct_guesses(tables, space, place) for place in places]
    what = "attributes: cells that are guessed right from the others of their row"
    train, holdout = (np.mean(hits, axis=0) for hits in zip(*right, strict=True))
    names = [list(tables.schema)[place] for place in places]
    alone = {
        name: gap_of_shares(f"attributes: {name}, guessed right", *hits, confidence=confidence)
        for name, hits in zip(names, right, strict=True)
    }
    return gap_of_means(what, train, holdout, confidence, is_share=True), alone


def _correct_guesses(tables: Tables, space: Space, secret: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which guesses are right, for the training and for the held-out rows."""
    synthetic, kind = space.points(SYNTHETIC, secret), list(tables.schema.values())[secret]

    def right(table: int) -> np.ndarray:
        guesses, _ = _nearest(synthetic, space.points(table, secret))
        if not isinstance(kind, Continuous):
            return tables.columns[table][secret] == tables.columns[SYNTHETIC][secret][guesses]
        apart = np.abs(space.blocks[table][secret] - space.blocks[SYNTHETIC][secret][guesses])
        return (apart[:, 0] <= _NEAR) & (apart[:, 1] == 0)

    return right(TRAIN), right(HOLDOUT)


def _nearest(table: np.ndarray, rows: np.ndarray, among: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return the place and the distance of the `among`-th closest row of a table for each of `rows`."""
    from sklearn.neighbors import NearestNeighbors

    places = NearestNeighbors(n_neighbors=among).fit(table).kneighbors(rows, return_distance=False)[:, among - 1]
    # Measured again: the search finds squares by sums that cancel, so copies would be a little apart.
    return places, np.linalg.norm(rows - table[places], axis=1)
