"""Four ways to tell training rows from held-out ones by synthetic rows; each gives every row of both kinds a score."""

from dataclasses import dataclass

import numpy as np

from skdpsynth.auditing._attacked import HOLDOUT, SYNTHETIC, TRAIN, Space, Tables
from skdpsynth.auditing._gaps import Gap, gap_of_means, gap_of_shares
from skdpsynth.domain import Continuous

FALSE_ALARM_RATE = 0.1  # what the membership attack allows itself
_NEAR = 0.05  # a guess of a number is right so near to the truth, in units of `Space`
_TINY = 1e-9  # so that of rows with a copy those come first that are far from all others


@dataclass(frozen=True)
class Copies:
    """Exact copies, and held-out rows that may be training rows.

    Attributes
    ----------
    gap : Gap
    n_found : int
        Training rows that are among the synthetic ones.
    n_overlapping : int
        Held-out rows that equal a training row.
    is_overlap : bool
        Whether those are more than as many as chance explains: of training rows, fewer equal another one.
    """

    gap: Gap
    n_found: int
    n_overlapping: int
    is_overlap: bool


def find_copies(tables: Tables, confidence: float) -> Copies:
    """Look up every real row among all synthetic ones. In a small domain held-out rows are found there too: they say what to expect."""
    train, holdout, synthetic = tables.numbered()
    found, by_chance = np.isin(train, synthetic), np.isin(holdout, synthetic)
    gap = gap_of_shares("exact copies: rows that are among the synthetic ones", found, by_chance, confidence)
    _, places, counts = np.unique(train, return_inverse=True, return_counts=True)
    overlapping = np.isin(holdout, train)
    beyond_chance = gap_of_shares("", overlapping, counts[places] > 1, confidence)
    return Copies(gap, int(found.sum()), int(overlapping.sum()), beyond_chance.is_found)


def closest_record(space: Space, confidence: float) -> Gap:
    """Measure how far each real row is from the closest synthetic one.

    From real to synthetic rows, and not the other way round: then every real row has a distance of its own, whatever the numbers of
    training and of held-out rows.
    """
    synthetic, n_columns = space.points(SYNTHETIC), len(space.blocks[SYNTHETIC])
    train, holdout = (_nearest(synthetic, space.points(table))[1] / np.sqrt(n_columns) for table in (TRAIN, HOLDOUT))
    return gap_of_means("closest record: mean distance to the closest synthetic row", train, holdout, confidence, is_share=False)


def membership(space: Space, confidence: float, rng: np.random.Generator) -> Gap:
    """Call those rows members at which synthetic rows are much denser than rows of the population.

    The attack of DOMIAS, with densities by the nearest neighbor: their ratio rises with how many times farther the closest row of one half
    of the held-out rows is than the closest synthetic row. The threshold is what a tenth of that half exceeds, each looked up among the
    others; training rows and the other half of the held-out rows are judged by it.
    """
    holdout, synthetic = space.points(HOLDOUT), space.points(SYNTHETIC)
    known, others = (holdout[half] for half in np.array_split(rng.permutation(len(holdout)), 2))

    def ratios(rows: np.ndarray, among: int = 1) -> np.ndarray:
        """Of rows that are known themselves, the closest known one is the second."""
        return (_nearest(known, rows, among)[1] + _TINY) / (_nearest(synthetic, rows)[1] + _TINY)

    threshold = np.quantile(ratios(known, among=2), 1 - FALSE_ALARM_RATE)
    train, unseen = ratios(space.points(TRAIN)) > threshold, ratios(others) > threshold
    return gap_of_shares("membership: rows that the attack calls members", train, unseen, confidence)


def attributes(tables: Tables, space: Space, places: list[int], confidence: float) -> tuple[Gap | None, dict]:
    """Guess a cell from all other cells of its row: by what the closest synthetic row has there.

    Returns
    -------
    together : Gap or None
        Of all columns: the mean over rows of the share of their cells that is guessed right. None without columns.
    alone : dict of column to Gap
    """
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
    """Return whether the guess is right, for each training and each held-out row."""
    synthetic, kind = space.points(SYNTHETIC, secret), list(tables.schema.values())[secret]

    def right(table: int) -> np.ndarray:
        guesses, _ = _nearest(synthetic, space.points(table, secret))
        if not isinstance(kind, Continuous):
            return tables.columns[table][secret] == tables.columns[SYNTHETIC][secret][guesses]
        apart = np.abs(space.blocks[table][secret] - space.blocks[SYNTHETIC][secret][guesses])
        return (apart[:, 0] <= _NEAR) & (apart[:, 1] == 0)

    return right(TRAIN), right(HOLDOUT)


def _nearest(table: np.ndarray, rows: np.ndarray, among: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return the place of the closest row of a table, or of the next one, for each of some rows, and its distance."""
    from sklearn.neighbors import NearestNeighbors

    places = NearestNeighbors(n_neighbors=among).fit(table).kneighbors(rows, return_distance=False)[:, among - 1]
    # Measured again: the search finds squares by sums that cancel, so copies would be a little apart.
    return places, np.linalg.norm(rows - table[places], axis=1)
