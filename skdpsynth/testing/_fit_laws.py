"""Laws of a fit: its results follow from noisy answers alone, nothing of an earlier fit remains, and it has no side effects."""

import pickle
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from skdpsynth.exceptions import BudgetExceededError, InsecureRandomnessWarning
from skdpsynth.frames import Table
from skdpsynth.persistence import load
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.testing._budget_laws import worst_neighbors
from skdpsynth.testing._harness import (
    Estimator,
    Spy,
    as_rows,
    catch_refusal,
    clone_with,
    clone_with_seed,
    current_roots,
    difference,
    entries_of,
    fixed_bits,
    full_state,
    is_stream,
    leaves,
    ledger_line,
    needs,
    record_warnings,
    relations,
    released_state,
    require,
    require_equal,
    rows,
    serialized_bytes,
    watch_releases,
    with_column_names,
)

_COLUMNS = 3  # of the usual tables
_FITS = 30  # that would all be equal by chance once in 2**29 times
_SHAPES = ((9, 1), (600, 3), (9, 6))  # of more tables
_MANY = 5_000  # rows: with the few of other laws, some differences are clamped or omitted
_TICKS = 4

# Randomness


def check_unseeded_fits_differ_and_are_secure(estimator: Estimator) -> None:
    """Without a seed fits differ, nothing warns of a seed, and the ledger says secure."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", InsecureRandomnessWarning)
        first, *others = (clone_with(estimator, random_state=None) for _ in range(_FITS))
        shown = released_state(first.fit(rows()))
        # Most differ at once. Where the answers are few, as the shares of two cells, one may be as likely as 1/2.
        require(any(difference(shown, released_state(other.fit(rows()))) for other in others), f"{_FITS} fits released the same")
    sources = {entry.randomness for entry in entries_of(first.accountant_) if entry.randomness}
    require(sources == {"secure"}, f"the ledger says {sources}")


def check_seeded_fits_are_equal_and_say_so(estimator: Estimator) -> None:
    """With a seed two fits are equal, warn that they protect nobody, and the ledger says seeded."""
    with record_warnings() as caught:
        first = clone_with(estimator, random_state=7).fit(rows())
    require(any(w.category is InsecureRandomnessWarning for w in caught), "a seeded fit did not warn")
    second = clone_with(estimator, random_state=7).fit(rows())
    require_equal(released_state(first), released_state(second), "of two fits with one seed")
    shared = PrivacyAccountant(1, estimator.delta, neighboring=estimator.neighboring)
    clone_with(estimator, epsilon=1, random_state=7, accountant=shared).fit(rows())
    for ledger in (first.accountant_.ledger, shared.ledger):
        sources = {entry.randomness for entry in ledger if entry.randomness}
        require(sources == {"seeded"}, f"the ledger says {sources or 'nothing'}")


# Outputs


def check_what_leaves_depends_on_the_answers_alone(estimator: Estimator) -> None:
    """Tables that get the same answers leave the same attributes, samples, files, warnings and ledger, whatever their rows are."""
    for relation in relations(estimator):
        # Without a seed, because a mechanism may ask whether there is one; the bits are fixed where none can see it.
        unfitted = clone_with(estimator, random_state=None, neighboring=relation, bounds=(0.0, 1.0))
        table, neighbors = worst_neighbors(relation)
        if current_roots() is not None:
            _check_same_outputs(unfitted, table, neighbors)
            continue
        _check_same_outputs(unfitted, table, [*neighbors, _with_out_of_bounds_row(table)])
        for shape in _SHAPES:
            other = rows(*shape, seed=2)
            corners = np.zeros_like(other) + (np.arange(len(other)) % 2)[:, None]  # of an even number of rows, sums about the middle are 0
            _check_same_outputs(unfitted, other, [_with_out_of_bounds_row(np.full_like(other, 0.5)), corners])
        whole = np.round(rows(9))  # kinds of numbers are told apart by all cells together
        _check_same_outputs(unfitted, whole, [np.vstack([whole[:-1], np.full((1, _COLUMNS), 0.375)])])


def check_large_tables_leave_what_their_answers_say(estimator: Estimator) -> None:
    """One row among thousands, changed or gone, changes nothing that leaves a fit, or the ticks of a stream, given the same answers."""
    for relation in relations(estimator):
        unfitted = clone_with(estimator, random_state=None, neighboring=relation, bounds=(0.0, 1.0))
        table, (neighbor, *_) = worst_neighbors(relation, _MANY)
        if not is_stream(estimator):
            _check_same_outputs(unfitted, table, [neighbor])
        elif relation == "add_or_remove_one":  # else rows are time, and so many are only more blocks of few
            before, *after = (rows(_MANY, seed=seed) for seed in range(_TICKS - 1))
            outputs = partial(_stream_outputs, unfitted)
            _compare_outputs(outputs, [before, table, *after], [[before, neighbor, *after]], "of streams of many rows")


def _with_out_of_bounds_row(table: np.ndarray) -> np.ndarray:
    table = table.copy()
    table[0] = np.resize([-1e300, 1e300, 5.0], table.shape[1])
    return table


def _check_same_outputs(unfitted: Estimator, table: Table, others: list[Table]) -> None:
    if isinstance(table, np.ndarray) and table.shape[1] != _COLUMNS:
        try:
            clone_with(unfitted).fit(table)
        except ValueError:  # a parameter of the estimator refuses so many columns
            return
    where = f"of tables of shape {table.shape}" if isinstance(table, np.ndarray) else "of linked tables"
    _compare_outputs(partial(_fit_outputs, unfitted, len(table)), table, others, where)


def _compare_outputs(outputs: Callable[[Any, Spy], dict[str, Any]], first: Table, others: list[Any], where: str) -> None:
    """Require the same outputs of others as of the first, given its answers, and as many releases."""
    with watch_releases() as door:
        expected = outputs(first, door)
        door.replay(door.take())
        for other in others:
            require_equal(expected, outputs(other, door), f"{where}, although the answers were the same")
            require(len(door.take()) == len(door.answers or ()), f"others made fewer releases {where}")


def _fit_outputs(unfitted: Estimator, size: int, table: Table, door: Spy) -> dict[str, Any]:
    """Return all outputs of a fit, with samples of several sizes; a stream that holds open rows is not looked into."""
    with record_warnings() as caught, fixed_bits():
        fitted = clone_with(unfitted).fit(table)
        draws, shown = list(door.draws), released_state(fitted)  # a stream may draw while it samples
        if hasattr(fitted, "sample"):
            for n in (None, 7, 2 * size):
                shown |= leaves(as_rows(fitted.sample(n, random_state=1)), f"sample({n})")
    names = {name: type(value).__name__ for name, value in vars(fitted).items()}
    ledger = [ledger_line(entry) for entry in entries_of(fitted.accountant_)]
    inside = {} if is_stream(fitted) else full_state(fitted) | serialized_bytes(fitted)
    said = [str(w.message) for w in caught]
    return {**shown, **inside, "the attributes": names, "the warnings": said, "the ledger": ledger, "the releases": len(draws)}


@needs("partial_fit")
def check_rows_that_come_later_leave_the_answers_alone(estimator: Estimator) -> None:
    """Along a stream too, neighbors that get the same answers leave the same attributes, samples, warnings and ledger."""
    for relation in relations(estimator):
        unfitted = clone_with(estimator, random_state=None, neighboring=relation, bounds=(0.0, 1.0), epsilon=5.0)
        table, neighbors = worst_neighbors(relation)
        others = [rows(40, seed=seed) for seed in range(9)]
        whole, *streams_beside = ([*others[:4], each, *others[5:]] for each in (table, *neighbors))
        where = f"of streams that are neighbors under {relation!r}"
        _compare_outputs(partial(_stream_outputs, unfitted), whole, streams_beside, where)


def _stream_outputs(unfitted: Estimator, tables: list[np.ndarray], door: Spy) -> dict[str, Any]:
    stream, left = clone_with(unfitted), dict[str, Any]()
    with fixed_bits():
        for place, table in enumerate(tables):
            with record_warnings() as caught:
                stream.partial_fit(table)
            n_draws = len(door.draws)
            shown = {**released_state(stream), "sample(None)": as_rows(stream.sample(random_state=1)).tobytes(), "repr": repr(stream)}
            shown |= {"the warnings": [str(w.message) for w in caught], "the releases": n_draws}
            shown |= {"the ledger": [ledger_line(entry) for entry in entries_of(stream.accountant_)]}
            left |= {f"after table {place}, {name}": value for name, value in shown.items()}
    return left


def check_a_pickle_holds_no_row_and_works(estimator: Estimator) -> None:
    """A pickle of a fitted estimator holds no number of the rows, and shows what the original shows."""
    table = np.random.default_rng(1).random((200, 3)) if current_roots() is None else rows(200)
    fitted = clone_with(estimator).fit(table)
    data = pickle.dumps(fitted)
    require(not any(value.tobytes() in data for value in _odd_numbers(table)), "a number of the table stands in the pickle")
    again = pickle.loads(data)  # bytes that were made right here: no file and nobody else's
    require(again.accountant_.spent == fitted.accountant_.spent, f"the copy has spent {again.accountant_.spent}")
    require_equal(released_state(fitted), released_state(again), "of a fit and its pickle")


def _odd_numbers(table: Table) -> list[np.float64]:
    """Return the numbers of tables that are in no public fact: others than whole ones."""
    numbers = [np.ravel(each) for _, each in sorted(as_rows(table).items())] if isinstance(table, Mapping) else [table.ravel()]
    return [np.float64(each) for each in chain(*numbers) if isinstance(each, float | np.floating) and each % 1]


def check_a_shared_accountant_is_pickled_as_a_record(estimator: Estimator) -> None:
    """An open budget is not pickled; a fitted estimator takes along a closed record of it, and the original stays open."""
    shared = PrivacyAccountant(3, estimator.delta, neighboring=estimator.neighboring)
    unfitted = clone_with(estimator, epsilon=1, accountant=shared)
    require(
        "cannot be pickled" in str(catch_refusal(partial(pickle.dumps, unfitted), "a pickle of an open budget")),
        "another error than that of a budget",
    )
    again = pickle.loads(pickle.dumps(unfitted.fit(rows())))  # bytes that were made right here
    require(again.accountant_.spent == unfitted.accountant_.spent, f"the copy has spent {again.accountant_.spent}")
    try:
        again.fit(rows())
    except BudgetExceededError as error:
        require("closed record" in str(error), f"it was refused with {error}")
    else:
        raise AssertionError("a fit on a record was not refused")
    loss = shared.ledger[-1].loss
    shared.spend(loss.epsilon if loss.rho is None else loss, name="the original stays open")


@needs("save")
def check_a_saved_estimator_is_the_same_when_loaded(estimator: Estimator) -> None:
    """A saved estimator is loaded as the same one; a class that is not savable is refused in one sentence that says so."""
    fitted = clone_with(estimator).fit(rows())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fitted.zip"
        try:
            fitted.save(path)
        except TypeError as error:
            require("savable" in str(error), f"save was refused with {error}")
            return
        again = load(path)
    require(type(again) is type(fitted), f"a {type(again).__name__} was loaded")
    require_equal(released_state(fitted), released_state(again), "of a fit and its file")


def check_a_refit_leaves_nothing_of_the_fit_before(estimator: Estimator) -> None:
    """After a second fit the object holds what a fresh one would, also if the first had other rows, columns and parameters."""
    other = "add_or_remove_one" if "add_or_remove_one" in relations(estimator) else "replace_one"
    require_fresh_refit(clone_with(estimator, epsilon=3.0, delta=1e-6, neighboring=other, bounds=(-1.0, 2.0)), estimator)


def require_fresh_refit(before: Estimator, estimator: Estimator) -> None:
    """Raise AssertionError unless a fit as `estimator`, after one as `before` of the same class, equals a fresh one."""
    expected = clone_with_seed(estimator).fit(rows())
    refitted = clone_with_seed(before)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refitted.fit(with_column_names(rows(90, 2, seed=1)))  # names are what a refit could leave
        refitted.set_params(**expected.get_params(deep=False)).fit(rows())
    require_equal(full_state(expected), full_state(refitted), "of a fresh fit and a refit")


# Rows


@needs("fit", unless="links")
def check_the_input_is_read_only_and_of_any_layout(estimator: Estimator) -> None:
    """Fit does not write to its table, and releases the same of each memory layout of it."""
    table = rows()
    before = table.copy()
    table.flags.writeable = False
    first = released_state(clone_with_seed(estimator).fit(table))
    require(np.array_equal(table, before), "fit has changed its table")
    for other in (np.asfortranarray(table), np.repeat(table, 2, axis=0)[::2], table.tolist()):
        require_equal(first, released_state(clone_with_seed(estimator).fit(other)), "between memory layouts of one table")


@needs("fit", unless="partial_fit")
def check_the_order_of_rows_means_nothing(estimator: Estimator) -> None:
    """Rows in another order release the same, unless they are a stream, where the order is time."""
    first, second = (released_state(clone_with_seed(estimator).fit(z)) for z in (rows(200, order=4), rows(200, order=5)))
    require_equal(first, second, "between orders of the rows")


@needs("sample", unless="links")
def check_samples_lie_in_the_box_and_are_as_many_as_the_rows(estimator: Estimator) -> None:
    """Synthetic rows lie within bounds, also if rows did not, and are as many as the rows (or as their noisy number)."""
    low, high = np.array([-3.0, 10.0, 0.1]), np.array([-1.0, 11.0, 0.3])
    table = low + (high - low) * np.random.default_rng(0).random((200, 3)) * 1.5  # some rows outside
    fitted = clone_with(estimator, bounds=(low, high)).fit(table)
    drawn = as_rows(fitted.sample())
    expected = len(table) if fitted.neighboring == "replace_one" else fitted.n_samples_
    require(drawn.shape == (expected, 3) == (fitted.n_samples_, 3), f"a sample of {expected} rows has shape {drawn.shape}")
    require(((drawn >= low) & (drawn <= high)).all(), "a synthetic row lies outside of bounds")


@needs("sample")
def check_samples_repeat_by_their_own_seed_only(estimator: Estimator) -> None:
    """A sample repeats by its own seed; without one it does not, also after a seeded fit."""
    for mechanism in (clone_with(estimator, random_state=None), clone_with_seed(estimator)):
        fitted = mechanism.fit(rows())
        first, second = (_cells_of(fitted.sample(50, random_state=0)) for _ in range(2))
        require(first == second, "two samples of one seed differ")
        require(current_roots() is not None or as_rows(fitted.sample(1)).shape == (1, 3), "a sample of one row has another shape")
        # Noise leaves a model of a single row now and then, but hardly four times in a row.
        fits = (mechanism.fit(rows()) for _ in range(4))
        repeated = all(_cells_of(again.sample(50)) == _cells_of(again.sample(50)) for again in fits)
        require(not repeated, "two samples without a seed are equal")


def _cells_of(sample: Table) -> dict[str, Any]:
    return dict(leaves(as_rows(sample), ""))


@needs("sample_batches")
def check_batches_are_the_rows_of_one_sample(estimator: Estimator) -> None:
    """A few batches are together the rows of a sample under the same seed, in their order."""
    fitted = clone_with(estimator).fit(rows())
    batches = [as_rows(batch) for batch in fitted.sample_batches(50, 20, random_state=0)]
    require([len(batch) for batch in batches] == [20, 20, 10], f"batches of 20 of 50 rows have {[len(batch) for batch in batches]} rows")
    require(np.array_equal(np.concatenate(batches), as_rows(fitted.sample(50, random_state=0))), "they are not the rows of the sample")


@needs("sample")
def check_sample_refuses_a_bad_number_of_rows(estimator: Estimator) -> None:
    """Sample refuses a number of rows that is none, in the name of n_samples."""
    fitted = clone_with(estimator).fit(rows())
    for bad in (0, -1, 2.5, "many", True):
        error = catch_refusal(partial(fitted.sample, bad), f"n_samples={bad!r}")
        require("n_samples must be a positive integer" in str(error), f"n_samples={bad!r} was refused with {error}")


@needs("sample", unless="links")
def check_score_is_a_repeatable_negative_distance(estimator: Estimator) -> None:
    """The score repeats, and is minus a distance."""
    fitted = clone_with(estimator).fit(rows())
    require(fitted.score(rows()) == fitted.score(rows()) < 0, f"it scored {fitted.score(rows())}, then {fitted.score(rows())}")


@needs("sample", unless="links")
def check_error_falls_as_epsilon_grows(estimator: Estimator) -> None:
    """Samples of clustered rows are better at epsilon 50 than at 0.0005: means of some fits, far apart even where there are two cells."""
    table = np.random.default_rng(0).beta(30, 70, size=(200, 3))

    def mean_score(epsilon: float, n_fits: int) -> float:
        return float(np.mean([clone_with(estimator, epsilon=epsilon).fit(table).score(table) for _ in range(n_fits)]))

    # Among two cells noise picks the right one every other time: 14 times out of 14 once in 16,000 runs of this law.
    weak, strong = mean_score(0.0005, 14), mean_score(50, 4)
    require(strong > weak, f"the mean score was {weak:.4g} at epsilon 0.0005 and {strong:.4g} at 50")


@needs("sample")
def check_sampling_spends_nothing_and_says_nothing(estimator: Estimator) -> None:
    """Samples are free: the ledger stays as it was, and no warning comes."""
    fitted = clone_with(estimator, random_state=None).fit(rows())
    before = fitted.accountant_.spent, len(fitted.accountant_.ledger)
    with record_warnings() as caught:
        fitted.sample(5)
        fitted.sample()
    require(before == (fitted.accountant_.spent, len(fitted.accountant_.ledger)), "the ledger has changed")
    require(not caught, f"sample warned: {caught[0].message if caught else ''}")


# Side effects


def _call(function: Callable[..., Any], *given: Any) -> Any:
    return function(*given)


_LINE = _call.__code__.co_firstlineno + 1  # of the call above, whose file is this one


def check_warnings_name_the_file_and_line_of_the_caller(estimator: Estimator) -> None:
    """Every warning names the file and the line that called into the package."""
    for n, parameters in ((3, {"random_state": 0}), (60, {"epsilon": 50.0}), (60, {"epsilon": 0.01}), (60, {"delta": 0.1})):
        with record_warnings() as caught:
            fitted = _call(clone_with(estimator, **parameters).fit, rows(n))
            for name in ("partial_fit", "transform", "score"):
                if hasattr(fitted, name):
                    _call(getattr(fitted, name), rows(n))
            if hasattr(fitted, "sample"):
                _call(fitted.sample)
        for warning in caught:
            place = (warning.filename, warning.lineno)
            require(
                place == (__file__, _LINE),
                f"{str(warning.message)[:60]!r} names line {warning.lineno} of {warning.filename.rpartition('/')[2]}",
            )


def check_warnings_as_errors_lose_no_money(estimator: Estimator) -> None:
    """If a warning is an error, then nothing was spent, or the estimator is fitted."""
    for n, parameters in ((1, {}), (5, {"epsilon": 0.1}), (60, {"epsilon": 50.0}), (60, {"delta": 0.1}), (5, {"random_state": 0})):
        shared = PrivacyAccountant(100, 0.5, neighboring=estimator.neighboring)
        unfitted = clone_with(estimator, accountant=shared, **parameters)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                unfitted.fit(rows(n))
            except Exception as error:
                kept = shared.spent == 0 or hasattr(unfitted, "accountant_")
                require(kept, f"{float(shared.spent):g} was spent and nothing is fitted, by {type(error).__name__}: {error}")
        if hasattr(unfitted, "accountant_"):
            released_state(unfitted)


def check_floating_point_errors_change_nothing(estimator: Estimator) -> None:
    """With all floating-point errors raised, a fit releases and samples the same."""
    expected = released_state(clone_with_seed(estimator).fit(rows()))
    with np.errstate(all="raise"):
        require_equal(expected, released_state(clone_with_seed(estimator).fit(rows())), "under np.seterr(all='raise')")


def check_fits_in_threads_leave_the_process_as_it_was(estimator: Estimator) -> None:
    """Fits in four threads leave the warning filters and the limits of BLAS as they were."""
    filters, limits, table = list(warnings.filters), _limits(), rows(40)
    try:
        _in_threads([lambda: [clone_with(estimator).fit(table) for _ in range(2)]] * 4)
        after = list(warnings.filters)
    finally:
        warnings.filters[:] = filters  # type: ignore[index]
    require(after == filters, f"warnings.filters begins with {after[:1]}, and began with {filters[:1]}")
    require(all(_limits().get(path) == n for path, n in limits.items()), f"threads of BLAS were {limits}, and are {_limits()}")


@needs("partial_fit")
def check_threads_feed_a_stream_as_one_would(estimator: Estimator) -> None:
    """Threads that feed a stream and sample from it lose no row (or tick), and no part of it is released twice."""
    fitted = clone_with(estimator).fit(rows(20))
    feed, draw = (lambda: [fitted.partial_fit(row[None]) for row in rows(40)]), (lambda: [fitted.sample(10) for _ in range(20)])
    _in_threads([feed] * 3 + [draw])
    in_ticks = hasattr(fitted, "n_ticks_seen_")  # where the number of rows is private: each call is one
    seen, came = (fitted.n_ticks_seen_, 1 + 3 * 40) if in_ticks else (fitted.n_samples_seen_, 20 + 3 * 40)
    require(seen == came, f"{seen} {'ticks' if in_ticks else 'rows'} have come of {came}")
    names = [entry.name for entry in fitted.accountant_.ledger]
    twice = [name for name in names if names.count(name) > 1]
    require(not twice, f"{twice[:1]} was charged {len(twice)} times")


def _in_threads(works: Sequence[Callable[[], Any]]) -> None:
    """Run all at once with frequent switches between threads, and raise an error of any of them."""
    failures: list[Exception] = []

    def collect_failure(work: Callable[[], Any]) -> None:
        try:
            work()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=collect_failure, args=(work,)) for work in works]
    pause = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(pause)
    if failures:
        raise failures[0]


def _limits() -> dict[str, int]:
    return {pool["filepath"].rpartition("/")[2]: pool["num_threads"] for pool in threadpool_info()}
