"""Laws of the unit of privacy: a unit may bring many rows, and the noise covers it."""

from typing import Any

import numpy as np

from skdpsynth.testing._budget_laws import check_answer_losses, refuse_unseen_releases, relation_delta_pairs
from skdpsynth.testing._check import clone_with, clone_with_seed, entries_of, ignores_row_order, law, record_warnings, require, rows
from skdpsynth.testing._side_effects import released_state, require_equal
from skdpsynth.testing._spy import fixed_bits, watch_releases

_MOST = 3
_UNITS = 40
_ROWS = 180  # of these, more than count: a stream releases something of them


def _has_units(estimator: Any) -> bool:
    return "max_rows_per_unit" in estimator.get_params(deep=False)


def _max_rows_per_unit(estimator: Any, **parameters: Any) -> int:
    """Return a supported number of rows of a unit: several, or one if the estimator refuses more."""
    try:
        clone_with(estimator, max_rows_per_unit=_MOST, **parameters).fit(rows(10), unit=np.arange(10))
    except ValueError as error:
        require("max_rows_per_unit" in str(error), f"several rows of a unit were refused with {error}")
        return 1
    return _MOST


def _table_with_units() -> tuple[np.ndarray, np.ndarray]:
    """Return rows and labels: units of about four rows, after one of a hundred equal rows in a corner."""
    table = np.vstack([np.zeros((100, 3)), rows(_ROWS)])
    return table, np.append(np.full(100, _UNITS), np.arange(_ROWS) % _UNITS)


@law(needs=_has_units)
def check_units_that_get_the_same_answers_lose_at_most_epsilon(estimator: Any) -> None:
    """Whatever one unit brings, be it a hundred rows: given back the answers of its neighbor, a table has lost at most epsilon."""
    for relation, delta in relation_delta_pairs(estimator):
        settings = {"neighboring": relation, "delta": delta, "bounds": (0.0, 1.0)}
        settings["max_rows_per_unit"] = _max_rows_per_unit(estimator, **settings)
        table, labels = _table_with_units()
        with watch_releases() as door:
            with fixed_bits():
                accountant = clone_with(estimator, random_state=None, **settings).fit(table, unit=labels).accountant_
            answers = door.take()
            refuse_unseen_releases(answers, accountant)
            for neighbor in _neighbors(table, labels, relation):
                door.replay(answers)
                with fixed_bits():  # the same key chooses the rows that count, as it does with the same chance
                    clone_with(estimator, random_state=None, **settings).fit(neighbor[0], unit=neighbor[1])
                check_answer_losses(answers, door.take(), accountant)


def _neighbors(table: np.ndarray, labels: np.ndarray, relation: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return tables in which one unit has other rows or none, or another unit has come."""
    other = labels != _UNITS
    if relation == "replace_one":
        return [(np.where(other[:, None], table, corner), labels) for corner in ([1.0, 1.0, 1.0], [1.0, 0.0, 1.0], [0.375] * 3)]
    came = np.vstack([np.ones((50, 3)), table]), np.append(np.full(50, _UNITS + 1), labels)
    return [(table[other], labels[other]), came]


@law(needs=_has_units)
def check_rows_beyond_the_most_of_their_unit_change_nothing(estimator: Any) -> None:
    """A unit with a hundred equal rows is learned from, and warned of, as if it had only `most`; rows without a label as if not there."""
    most = _max_rows_per_unit(estimator)
    table, labels = _table_with_units()
    labels[100:] = np.arange(_ROWS) // most  # the others have as many as count
    first = np.append(np.arange(100) < most, np.full(_ROWS, True))
    labels[:100] = _ROWS
    more, named = np.vstack([table, np.ones((20, 3))]), [*labels.tolist(), *[None] * 20]
    with record_warnings() as told:
        whole = clone_with_seed(estimator, max_rows_per_unit=most).fit(more, unit=named)
    with record_warnings() as of_few:
        few = clone_with_seed(estimator, max_rows_per_unit=most).fit(table[first], unit=labels[first])
    words = [[str(w.message) for w in caught] for caught in (told, of_few)]
    require(words[0] == words[1], f"with rows beyond the most of their unit a fit warns with {words[0]}, else with {words[1]}")
    require_equal(released_state(whole), released_state(few), "with rows beyond the most of their unit")
    require(not hasattr(whole, "n_samples_") or whole.n_samples_ == few.n_samples_, "they count in n_samples_")


@law(needs=lambda estimator: _has_units(estimator) and ignores_row_order(estimator))
def check_rows_of_other_units_decide_nothing(estimator: Any) -> None:
    """The order of rows means nothing, be they of one unit or of several, and also where a unit has more different rows than count."""
    most = _max_rows_per_unit(estimator)
    table, labels = np.vstack([rows(100), rows(_ROWS)]), _table_with_units()[1]
    order = np.random.default_rng(1).permutation(len(labels))
    first = clone_with_seed(estimator, max_rows_per_unit=most).fit(table, unit=labels)
    second = clone_with_seed(estimator, max_rows_per_unit=most).fit(table[order], unit=labels[order])
    require_equal(released_state(first), released_state(second), "between orders of rows")


@law(needs=lambda estimator: _has_units(estimator) and not estimator.delta)
def check_noise_for_units_of_k_rows_is_k_fold(estimator: Any) -> None:
    """With delta 0 and k rows of a unit, k epsilon releases what epsilon does of rows: all noise is exactly k times larger."""
    most = _max_rows_per_unit(estimator, delta=0)
    table, labels = rows(100), np.arange(100) % 40
    units = clone_with_seed(estimator, delta=0, epsilon=most * 0.5, max_rows_per_unit=most).fit(table, unit=labels)
    alone = clone_with_seed(estimator, delta=0, epsilon=0.5).fit(table if most > 1 else table[:40])
    scales = [[entry.scale for entry in entries_of(fitted.accountant_)] for fitted in (units, alone)]
    require(scales[0] == scales[1], f"the scales are {scales[0]}, and those of rows {scales[1]}")
    of_units, of_rows = ({path: leaf for path, leaf in released_state(fitted).items() if "(" in path} for fitted in (units, alone))
    require_equal(of_units, of_rows, "between units and rows")


@law(needs=_has_units)
def check_the_ledger_says_the_unit(estimator: Any) -> None:
    """Each entry of a fit with units says whom it protects; those of a fit without say none."""
    most = _max_rows_per_unit(estimator)
    table, labels = rows(200), np.arange(200) % 70  # a stream has released something of so many
    fitted = clone_with(estimator, max_rows_per_unit=most).fit(np.column_stack([labels, table]), unit=0)
    require(fitted.n_features_in_ == 3, f"the column of the units counts among the {fitted.n_features_in_} features")
    said = {entry.unit for entry in entries_of(fitted.accountant_)}
    require(said == {f"column 0, at most {most} row{'s' * (most > 1)}"}, f"the ledger says {said}")
    said = {entry.unit for entry in entries_of(clone_with(estimator).fit(table).accountant_)}
    require(said == {None}, f"the ledger of a fit to rows says {said}")
