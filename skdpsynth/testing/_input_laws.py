"""Laws of bad input: one short sentence each that names the fault and quotes no cell."""

import inspect
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy.sparse import csc_array, csr_array

from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.testing._harness import (
    SECRET,
    Estimator,
    catch_refusal,
    clone_with,
    clone_with_seed,
    difference,
    needs,
    record_warnings,
    released_state,
    require,
    rows,
    takes_nan,
    takes_sparse,
    with_column_names,
)

_CELL = 31415.5
_LONGEST = 400  # characters of a message

BAD_PARAMETERS: dict[str, dict[str, tuple[Any, ...]]] = {
    # parameter -> words of its message -> values
    "epsilon": {"epsilon must be a number greater than 0": (0, -1, float("nan"), "1", None, True)},
    "delta": {"delta must be a number in [0, 1)": (-0.1, 1, float("nan"), "x")},
    "bounds": {
        "low < high": ((1, 0), (0, 0)),
        "finite": ((0, np.inf), (0, np.nan)),
        "one number a feature, 3 in all": (([0, 0], [1, 1]),),
        "pair": (5,),
        "numbers": (("a", "b"),),
        "no column names": ({"a": (0, 1)},),
    },
    "neighboring": {"neighboring": ("both", None, 1)},
    "accountant": {"accountant": (1.0, "mine")},
    "random_state": {"random_state": (np.random.default_rng(0), "seed", -1, True)},
}


class _Objects:
    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return np.array([[str(_CELL), "x"]], dtype=object)


def bad_tables() -> dict[str, Any]:
    """Return tables that every estimator refuses, by name; each holds a secret cell."""
    tables: dict[str, Any] = {
        "one-dimensional array": np.array([_CELL, 0.2, 0.7]),
        "list of numbers": [_CELL, 0.2],
        "number": np.array(_CELL),
        "complex array": np.array([[_CELL + 1j, 2]]),
        "dict": {"a": [_CELL]},
        "list with a word": [[_CELL, "x"]],
        "list with a huge integer": [[_CELL, 10**400]],
        "objects": _Objects(),
        "array of words": np.array([[f"secret-{SECRET}", "1"], ["2", "3"]]),
        "array of objects": np.array([[f"secret-{SECRET}", 1.0], [2.0, 3.0]], dtype=object),
        "dates": np.array([[f"{SECRET}-01-01"]], dtype="M8[D]"),
        "records": np.array([(_CELL, 1)], dtype=[("a", float), ("b", int)]),
        "masked array": np.ma.array([[_CELL, 0.1], [0.2, 0.3]], mask=[[True, False], [False, False]]),
    }
    if find_spec("pandas"):
        import pandas as pd

        tables["pandas series"] = pd.Series([_CELL, 1])
        tables["pandas frame with words"] = pd.DataFrame({"a": [_CELL, 1], "b": ["x", "y"]})
        tables["pandas frame of categories"] = pd.DataFrame({"a": pd.Categorical([SECRET, "y"])})
    if find_spec("polars"):
        import polars as pl

        words = pl.DataFrame({"a": [SECRET, "y"]})
        tables |= {"polars series": pl.Series([_CELL, 1]), "polars frame of words": words, "lazy polars frame of words": words.lazy()}
    return tables


def check_bad_parameters_are_refused_by_name(estimator: Estimator) -> None:
    """A bad value of a parameter of the promise is refused in its name, with what is asked of it, in one short sentence."""
    for name, messages in BAD_PARAMETERS.items():
        if name not in estimator.get_params(deep=False):
            continue
        for words, values in messages.items():
            for value in values:
                error = catch_refusal(partial(_fit_with, estimator, **{name: value}), f"{name}={value!r}")
                require(name in str(error) and words in str(error), f"{name}={value!r} was refused with {error}")
                _check_message(error, f"{name}={value!r}")


def check_no_refusal_of_a_table_quotes_a_cell(estimator: Estimator) -> None:
    """A table that is none of numbers is refused in one short sentence that quotes no cell."""
    tables = bad_tables() if takes_sparse(estimator) else bad_tables() | {"sparse array": csr_array(np.array([[_CELL, 0.0], [0.0, 1.0]]))}
    for name, table in tables.items():
        error = catch_refusal(partial(clone_with(estimator).fit, table), f"a table ({name})")
        _check_message(error, f"a table ({name})")


@needs("fit", unless="links")
def check_sparse_rows_release_what_dense_rows_do_or_are_refused(estimator: Estimator) -> None:
    """Sparse rows release bit for bit what they do as an array where the tag ``input_tags.sparse`` says so; else they are refused."""
    table = np.where(rows(200) > 0.3, rows(200), 0)
    if not takes_sparse(estimator):
        error = catch_refusal(partial(clone_with(estimator).fit, csr_array(table)), "a sparse array")
        require("parse" in str(error), f"a sparse array was refused with {error}")
        return
    expected = released_state(clone_with_seed(estimator).fit(table))
    for container in (csr_array, csc_array):
        differing = difference(expected, released_state(clone_with_seed(estimator).fit(container(table))))
        require(differing is None, f"in a {container.__name__} {differing}")


@needs("fit", unless="links")
def check_words_and_dates_are_refused_as_no_numbers(estimator: Estimator) -> None:
    """Words, objects and dates, few or many, are refused because X must hold numbers only, and no other error stands behind."""
    words = [bad_tables()[name] for name in ("array of words", "array of objects")]
    dates = [np.arange(2 * n).reshape(-1, 2).astype("M8[D]") for n in (63, 64, 128)]
    for table in (*words, *dates):
        error = catch_refusal(partial(clone_with(estimator).fit, table), f"a table of {table.dtype}")
        require("X must hold numbers only" in str(error), f"a table of {table.dtype} was refused with {error}")
        require(len(list(_chain(error))) == 1, f"behind the refusal of {table.dtype} stands {list(_chain(error))[-1]!r:.80}")
    require(
        "2D array" in str(catch_refusal(partial(clone_with(estimator).fit, np.ones(5)), "a row of numbers")),
        "a row of numbers has another message",
    )


@needs("fit", unless="links")
def check_nan_is_taken_or_refused_in_one_short_sentence(estimator: Estimator) -> None:
    """NaN is a missing value where the tag allow_nan says so; else it is refused by name, in one short sentence."""
    table = rows()
    table[3, 1] = np.nan
    if takes_nan(estimator):
        clone_with(estimator).fit(table)
        return
    error = catch_refusal(partial(clone_with(estimator).fit, table), "NaN")
    require("NaN" in str(error), f"NaN was refused with {error}")
    _check_message(error, "NaN")


@needs("fit", unless="links")
def check_another_width_is_refused_after_fit(estimator: Estimator) -> None:
    """A fitted estimator refuses tables of another width."""
    fitted = clone_with(estimator).fit(rows())
    for name in ("score", "transform", "partial_fit"):
        if hasattr(fitted, name):
            error = catch_refusal(partial(getattr(fitted, name), rows(n_features=2)), f"{name} of two columns of three")
            require("features" in str(error), f"{name} of another width was refused with {error}")


@needs("fit", unless="links")
def check_tiny_tables_fit(estimator: Estimator) -> None:
    """One row, or one column, fits; only a parameter of its own may refuse, before anything is spent."""
    for shape in ((1, 1), (1, 3), (2, 1), (50, 1)):
        shared = PrivacyAccountant(1, estimator.delta, neighboring=estimator.neighboring)
        try:
            fitted = clone_with(estimator, epsilon=1, accountant=shared).fit(np.full(shape, 0.25))
        except ValueError as error:
            defaults = inspect.signature(type(estimator)).parameters
            changed = [name for name, value in estimator.get_params(deep=False).items() if value is not defaults[name].default]
            require(any(name in str(error) for name in changed), f"a table of shape {shape} was refused with {error}")
            require(shared.spent == 0, f"a table of shape {shape} was refused, but spent {float(shared.spent):g}")
        else:
            require(fitted.n_features_in_ == shape[1], f"n_features_in_ is {fitted.n_features_in_} for {shape[1]} columns")


@needs("fit", unless="links")
def check_values_at_the_ends_of_floating_point_say_nothing(estimator: Estimator) -> None:
    """The largest and the smallest numbers cause no floating-point error and no warning, which would tell of values."""
    for dtype in (np.float32, np.float64):
        table = rows(128, 2).astype(dtype)
        most = np.finfo(dtype).max
        table[[0, 8]], table[[100, 108]], table[[3, 4]] = most, -most, np.finfo(dtype).smallest_subnormal
        with np.errstate(over="raise", invalid="raise", divide="raise"), warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            clone_with(estimator).fit(table)


@needs("fit", unless="links")
def check_errors_do_not_depend_on_the_rows(estimator: Estimator) -> None:
    """Tables of usual, constant and extreme rows of one shape are all taken, or all refused with the same words."""
    for shape in ((4, 1), (30, 2)):
        usual, extreme = rows(*shape), rows(*shape, seed=1)
        extreme[0], extreme[1], extreme[2] = 1e300, -1e300, np.finfo(float).smallest_subnormal
        kinds = {"usual": usual, "constant": np.full(shape, 0.5), "extreme": extreme}
        words: dict[str, str | None] = {}
        for kind, table in kinds.items():
            try:
                clone_with(estimator).fit(table)
                words[kind] = None
            except Exception as error:
                words[kind] = f"{type(error).__name__}: {error}"
        differing = next((kind for kind in words if words[kind] != words["usual"]), None)
        found = f"usual rows of shape {shape} met {words['usual'] or 'no error'}"
        require(differing is None, f"{found}, and {differing} rows {words.get(differing or '') or 'no error'}")


def check_a_table_in_place_of_a_parameter_is_not_printed(estimator: Estimator) -> None:
    """A table given for a parameter, of the class or of sample, is refused or taken, but no message or warning quotes a cell."""
    table = np.full((20, 3), _CELL)
    for secret in (table, table.tolist(), with_column_names(table)):
        _check_quotes_no_cell(partial(_fit_first, estimator, secret), "the first parameter")
        for name in estimator.get_params(deep=False):
            _check_quotes_no_cell(partial(_fit_with, estimator, **{name: secret}), name)
        if hasattr(estimator, "sample"):
            fitted = clone_with(estimator).fit(rows())
            for name, parameter in inspect.signature(fitted.sample).parameters.items():
                if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                    _check_quotes_no_cell(partial(fitted.sample, **{name: secret}), f"{name} of sample")


def _fit_with(estimator: Estimator, **parameters: Any) -> Any:
    return clone_with(estimator).set_params(**parameters).fit(rows())


def _fit_first(estimator: Estimator, value: object) -> Any:
    return type(estimator)(value).fit(rows())


def _check_quotes_no_cell(call: Callable[[], Any], what: str) -> None:
    with record_warnings() as caught:
        try:
            call()
        except Exception as error:
            _check_message(error, f"a table for {what}")
            require(isinstance(error, ValueError | TypeError), f"a table for {what} met {type(error).__name__}")
    require(not any(SECRET in str(w.message) for w in caught), f"a warning about {what} quotes a cell")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and the chain of its causes or contexts."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _check_message(error: BaseException, what: str) -> None:
    """Require one short line, and no cell in it or in its causes."""
    require(not any(SECRET in str(one) for one in _chain(error)), f"the message about {what} quotes a cell")
    n_lines = str(error).count("\n") + 1
    require(n_lines == 1 and len(str(error)) <= _LONGEST, f"the message about {what} has {len(str(error))} characters in {n_lines} lines")
