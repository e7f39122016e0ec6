"""Rows of linked tables that keep all rules: those that break one are drawn again."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from skdpsynth.frames import take_rows
from skdpsynth.tables import LinkedFormat

_ROUNDS = 100
Columns: TypeAlias = list[np.ndarray]


def draw_kept(
    form: LinkedFormat,
    table: str,
    n: int,
    draw: Callable[[np.ndarray], tuple[np.ndarray, Columns]],
    owner: np.ndarray | None,
    tables: Mapping[str, Columns],
    rng: np.random.Generator,
    mends: bool = True,
) -> tuple[np.ndarray, Columns, np.ndarray]:
    """Return codes and columns of rows of a table that keep its rules, and the places of these rows.

    `draw` makes codes, shape (n_columns, n_rows), and columns as they are written, of rows at some places. `owner` has the parents of
    rows, None of roots, and `tables` the columns of the tables before this one. Siblings of a row that breaks a rule stay, but those of a
    history are drawn again with it. If a row breaks one after all, it is left out, or in its place a root comes twice. Where `mends` is
    False no cell is moved into what rules allow, as it might leave what `draw` is on condition of; and draws go on ten times as long.
    """
    codes, columns = draw(np.arange(n))
    if table not in form.rules.checks:
        return codes, columns, np.arange(n)
    is_history, places = table in form.below() and form.below()[table].order is not None, np.arange(n)
    broken = np.zeros(n, dtype=bool)
    rounds = _ROUNDS if mends else 10 * _ROUNDS
    for turn in range(rounds + 1):
        mine, own = None if owner is None else owner[places], take_rows(columns, places)
        cells = form.cells(table, own, mine, tables)
        if turn == rounds:
            broken[places] = (form.rules.mend if mends else form.rules.broken)(table, cells, mine)
            _replace(columns, places, own)
            break
        bad = form.rules.broken(table, cells, mine)
        near = bad if mine is None else np.isin(mine, mine[bad])  # with siblings
        places, bad = places[near], bad[near]
        if not len(places):
            break
        again = places if is_history else places[bad]
        codes[:, again], drawn = draw(again)
        _replace(columns, again, drawn)
    kept = np.flatnonzero(~broken)
    if owner is None and len(kept) < n:
        if not len(kept):
            what = "rules must leave roots that the model can draw" if mends else "conditions must leave roots that keep the rules"
            raise ValueError(f"{what}, but none of {n} kept them in {rounds} rounds; correct them.")
        kept = np.sort(np.append(kept, rng.choice(kept, n - len(kept))))
    return codes[:, kept], take_rows(columns, kept), kept


def _replace(columns: Columns, places: np.ndarray, others: Columns) -> None:
    for column, other in zip(columns, others, strict=True):
        column[places] = other
