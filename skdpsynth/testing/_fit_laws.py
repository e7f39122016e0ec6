"""Laws of what leaves a fit: noisy answers and what follows from them, nothing else, and nothing of the fit before."""

import pickle
import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from skdpsynth.exceptions import BudgetExceededError, InsecureRandomnessWarning
from skdpsynth.persistence import load
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.testing._budget_laws import worst_neighbours
from skdpsynth.testing._door import Door, fixed_bits, watched
from skdpsynth.testing._law import (
    entries_of,
    fresh,
    holds,
    in_any_order,
    law,
    noted_warnings,
    refusal,
    relations,
    rows,
    samples,
    saves,
    seeded,
    streams,
)
from skdpsynth.testing._state import as_rows, difference, held, ledger_line, released, written

_COLUMNS = 3  # of the usual tables
_FITS = 30  # that would all be equal by chance once in 2**29 times

# Randomness


@law()
def check_unseeded_fits_differ_and_are_secure(estimator: Any) -> None:
    """Without a seed fits differ, nothing warns of a seed, and the ledger says secure."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", InsecureRandomnessWarning)
        first, *others = (fresh(estimator, random_state=None) for _ in range(_FITS))
        shown = released(first.fit(rows()))
        # Most differ at once. Where the answers are few, as the shares of two cells, one may be as likely as 1/2.
        holds(any(difference(shown, released(other.fit(rows()))) for other in others), f"{_FITS} fits released the same")
    sources = {entry.randomness for entry in entries_of(first.accountant_) if entry.randomness}
    holds(sources == {"secure"}, f"the ledger says {sources}")


@law()
def check_seeded_fits_are_equal_and_say_so(estimator: Any) -> None:
    """With a seed two fits are equal, warn that they protect nobody, and the ledger says seeded."""
    with noted_warnings() as caught:
        first = fresh(estimator, random_state=7).fit(rows())
    holds(any(w.category is InsecureRandomnessWarning for w in caught), "a seeded fit did not warn")
    second = fresh(estimator, random_state=7).fit(rows())
    _equal(released(first), released(second), "of two fits with one seed")
    shared = PrivacyAccountant(1, estimator.delta, neighboring=estimator.neighboring)
    fresh(estimator, epsilon=1, random_state=7, accountant=shared).fit(rows())
    for ledger in (first.accountant_.ledger, shared.ledger):
        sources = {entry.randomness for entry in ledger if entry.randomness}
        holds(sources == {"seeded"}, f"the ledger says {sources or 'nothing'}")


# What leaves


_SHAPES = ((9, 1), (600, 3), (9, 6))  # of more tables
_MANY = 5_000  # rows: what the few of other laws never reach, because it is clamped or left out, is told apart in so many
_TICKS = 4


@law()
def check_what_leaves_depends_on_the_answers_alone(estimator: Any) -> None:
    """Tables that get the same answers leave the same attributes, samples, files, warnings and ledger, whatever their rows are."""
    for relation in relations(estimator):
        # Without a seed, because a mechanism may ask whether there is one; the bits are fixed where none can see it.
        unfitted = fresh(estimator, random_state=None, neighboring=relation, bounds=(0.0, 1.0))
        table, neighbours = worst_neighbours(relation)
        _leave_the_same(unfitted, table, [*neighbours, _outside(table)])
        for shape in _SHAPES:
            other = rows(*shape, seed=2)
            corners = np.zeros_like(other) + (np.arange(len(other)) % 2)[:, None]  # of an even number of rows, sums about the middle are 0
            _leave_the_same(unfitted, other, [_outside(np.full_like(other, 0.5)), corners])
        whole = np.round(rows(9))  # kinds of numbers are told apart by all cells together
        _leave_the_same(unfitted, whole, [np.vstack([whole[:-1], np.full((1, _COLUMNS), 0.375)])])


@law()
def check_large_tables_leave_what_their_answers_say(estimator: Any) -> None:
    """One row among thousands, changed or gone, changes nothing that leaves a fit, or the ticks of a stream, given the same answers."""
    for relation in relations(estimator):
        unfitted = fresh(estimator, random_state=None, neighboring=relation, bounds=(0.0, 1.0))
        table, (neighbour, *_) = worst_neighbours(relation, _MANY)
        if not streams(estimator):
            _leave_the_same(unfitted, table, [neighbour])
        elif relation == "add_or_remove_one":  # else rows are time, and so many are only more blocks of few
            before, *after = (rows(_MANY, seed=seed) for seed in range(_TICKS - 1))
            _leave_the_same_along(unfitted, [before, table, *after], [[before, neighbour, *after]])


def _outside(table: np.ndarray) -> np.ndarray:
    table = table.copy()
    table[0] = np.resize([-1e300, 1e300, 5.0], table.shape[1])
    return table


def _leave_the_same(unfitted: Any, table: np.ndarray, others: list[np.ndarray]) -> None:
    with watched() as door:
        try:
            expected = _left(unfitted, table, door, len(table))
        except ValueError:
            if table.shape[1] == _COLUMNS:
                raise
            return  # so many columns are refused: by a parameter of its own
        door.replay(door.take())
        for other in others:
            _equal(expected, _left(unfitted, other, door, len(table)), f"although the answers were the same, of shape {table.shape}")
            holds(len(door.take()) == len(door.answers or ()), "a table made fewer releases than another")


def _left(unfitted: Any, table: np.ndarray, door: Door, size: int) -> dict[str, Any]:
    """Return all that leaves a fit, also in samples of more sizes than one; a stream that holds open rows is not looked into."""
    with noted_warnings() as caught, fixed_bits():
        fitted = fresh(unfitted).fit(table)
        draws, shown = list(door.draws), released(fitted)  # a stream may draw while it samples
        if samples(fitted):
            shown |= {f"sample({n})": as_rows(fitted.sample(n, random_state=1)).tobytes() for n in (None, 7, 2 * size)}
    names = {name: type(value).__name__ for name, value in vars(fitted).items()}
    ledger = [ledger_line(entry) for entry in entries_of(fitted.accountant_)]
    inside = {} if streams(fitted) else held(fitted) | written(fitted)
    said = [str(w.message) for w in caught]
    return {**shown, **inside, "the attributes": names, "the warnings": said, "the ledger": ledger, "the releases": len(draws)}


@law(needs=streams)
def check_rows_that_come_later_leave_the_answers_alone(estimator: Any) -> None:
    """Along a stream too, neighbours that get the same answers leave the same attributes, samples, warnings and ledger."""
    for relation in relations(estimator):
        unfitted = fresh(estimator, random_state=None, neighboring=relation, bounds=(0.0, 1.0), epsilon=5.0)
        table, neighbours = worst_neighbours(relation)
        others = [rows(40, seed=seed) for seed in range(9)]
        whole, *streams_beside = ([*others[:4], each, *others[5:]] for each in (table, *neighbours))
        _leave_the_same_along(unfitted, whole, streams_beside)


def _leave_the_same_along(unfitted: Any, whole: list[np.ndarray], others: list[list[np.ndarray]]) -> None:
    with watched() as door:
        expected = _left_along(unfitted, whole, door)
        door.replay(door.take())
        for other in others:
            where = f"of streams that are neighbours under {unfitted.neighboring!r}, although the answers were the same"
            _equal(expected, _left_along(unfitted, other, door), where)
            holds(len(door.take()) == len(door.answers or ()), "a stream made fewer releases than its neighbour")


def _left_along(unfitted: Any, tables: list[np.ndarray], door: Door) -> dict[str, Any]:
    """Return all that leaves a stream, after each table."""
    stream, left = fresh(unfitted), dict[str, Any]()
    with fixed_bits():
        for place, table in enumerate(tables):
            with noted_warnings() as caught:
                stream.partial_fit(table)
            n_draws = len(door.draws)
            shown = {**released(stream), "sample(None)": as_rows(stream.sample(random_state=1)).tobytes(), "repr": repr(stream)}
            shown |= {"the warnings": [str(w.message) for w in caught], "the releases": n_draws}
            shown |= {"the ledger": [ledger_line(entry) for entry in entries_of(stream.accountant_)]}
            left |= {f"after table {place}, {name}": value for name, value in shown.items()}
    return left


@law()
def check_a_pickle_holds_no_row_and_works(estimator: Any) -> None:
    """A pickle of a fitted estimator holds no number of the rows, and shows what the original shows."""
    table = np.random.default_rng(1).random((200, 3))
    fitted = fresh(estimator).fit(table)
    data = pickle.dumps(fitted)
    holds(not any(value.tobytes() in data for value in table.ravel()), "a number of the table stands in the pickle")
    again = pickle.loads(data)  # bytes that were made right here: no file and nobody else's
    holds(again.accountant_.spent == fitted.accountant_.spent, f"the copy has spent {again.accountant_.spent}")
    _equal(released(fitted), released(again), "of a fit and its pickle")


@law()
def check_a_shared_accountant_is_pickled_as_a_record(estimator: Any) -> None:
    """An open budget is not pickled; a fitted estimator takes along a closed record of it, and the original stays open."""
    shared = PrivacyAccountant(3, estimator.delta, neighboring=estimator.neighboring)
    unfitted = fresh(estimator, epsilon=1, accountant=shared)
    holds(
        "cannot be pickled" in str(refusal(partial(pickle.dumps, unfitted), "a pickle of an open budget")),
        "another error than that of a budget",
    )
    again = pickle.loads(pickle.dumps(unfitted.fit(rows())))  # bytes that were made right here
    holds(again.accountant_.spent == unfitted.accountant_.spent, f"the copy has spent {again.accountant_.spent}")
    try:
        again.fit(rows())
    except BudgetExceededError as error:
        holds("closed record" in str(error), f"it was refused with {error}")
    else:
        raise AssertionError("a fit on a record was not refused")
    shared.spend(shared.ledger[-1].loss, name="the original stays open")


@law(needs=saves)
def check_a_saved_estimator_is_the_same_when_loaded(estimator: Any) -> None:
    """What save writes, load reads as the same estimator; a class that is not savable is refused in one sentence that says so."""
    fitted = fresh(estimator).fit(rows())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fitted.zip"
        try:
            fitted.save(path)
        except TypeError as error:
            holds("savable" in str(error), f"save was refused with {error}")
            return
        again = load(path)
    holds(type(again) is type(fitted), f"a {type(again).__name__} was loaded")
    _equal(released(fitted), released(again), "of a fit and its file")


@law()
def check_a_refit_leaves_nothing_of_the_fit_before(estimator: Any) -> None:
    """After a second fit the object holds what a fresh one would, also if the first had other rows, columns and parameters."""
    other = "add_or_remove_one" if "add_or_remove_one" in relations(estimator) else "replace_one"
    leaves_nothing(fresh(estimator, epsilon=3.0, delta=1e-6, neighboring=other, bounds=(-1.0, 2.0)), estimator)


def leaves_nothing(before: Any, estimator: Any) -> None:
    """Raise AssertionError unless a fit as `estimator`, after one as `before` of the same class, is as a fresh one.

    Parameters
    ----------
    before, estimator : unfitted estimators of one class
    """
    expected = seeded(estimator).fit(rows())
    refitted = seeded(before)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refitted.fit(_named(rows(90, 2, seed=1)))
        refitted.set_params(**expected.get_params(deep=False)).fit(rows())
    _equal(held(expected), held(refitted), "of a fresh fit and a refit")


def _named(table: np.ndarray) -> Any:
    """Return a table with column names where pandas is there, so that names are what a refit could leave."""
    try:
        import pandas as pd
    except ImportError:
        return table
    return pd.DataFrame(table, columns=[f"column {i}" for i in range(table.shape[1])])


# Rows


@law()
def check_the_input_is_read_only_and_of_any_layout(estimator: Any) -> None:
    """Fit does not write to its table, and releases the same of each memory layout of it."""
    table = rows()
    before = table.copy()
    table.flags.writeable = False
    first = released(seeded(estimator).fit(table))
    holds(np.array_equal(table, before), "fit has changed its table")
    for other in (np.asfortranarray(table), np.repeat(table, 2, axis=0)[::2], table.tolist()):
        _equal(first, released(seeded(estimator).fit(other)), "between memory layouts of one table")


@law(needs=in_any_order)
def check_the_order_of_rows_means_nothing(estimator: Any) -> None:
    """Rows in another order release the same, unless they are a stream, where the order is time."""
    table = rows(200)
    first, second = (released(seeded(estimator).fit(z)) for z in (table, np.random.default_rng(5).permutation(table)))
    _equal(first, second, "between orders of the rows")


def _equal(first: dict[str, Any], second: dict[str, Any], where: str) -> None:
    found = difference(first, second)
    holds(found is None, f"{found} {where}")
