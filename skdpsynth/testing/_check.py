"""Laws, and the tables and questions that they share."""

import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.base import clone

from skdpsynth.privacy import PrivacyAccountant

SECRET = "31415"  # in cells that no message may quote
LONGEST = 400  # characters of a message
LAWS: list[Callable[[Any], None]] = []


def law(*, needs: Callable[[Any], bool] = lambda estimator: True) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Make a function a law with its docstring as the sentence, for the estimators that `needs` accepts.

    Any exception becomes an AssertionError with the sentence and the finding.
    """

    def made(check: Callable[[Any], None]) -> Callable[[Any], None]:
        sentence = (check.__doc__ or check.__name__).strip()

        @functools.wraps(check)
        def checked(estimator: Any) -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    check(estimator)
                except Exception as error:
                    found = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
                    raise AssertionError(
                        f"{check.__name__}: {type(estimator).__name__} breaks the law {sentence!r} Found: {found}"
                    ) from error

        checked.needs = needs  # type: ignore[attr-defined]
        LAWS.append(checked)
        return checked

    return made


def require(true: Any, found: str) -> None:
    """Raise AssertionError with the finding unless `true` holds, also under ``python -O``."""
    if not true:
        raise AssertionError(found)


# Kinds of estimators, asked of themselves


def can_sample(estimator: Any) -> bool:
    return hasattr(estimator, "sample")


def is_stream(estimator: Any) -> bool:
    return hasattr(estimator, "partial_fit")


def can_save(estimator: Any) -> bool:
    return hasattr(estimator, "save")


def ignores_row_order(estimator: Any) -> bool:
    return not is_stream(estimator)


def takes_nan(estimator: Any) -> bool:
    return bool(estimator.__sklearn_tags__().input_tags.allow_nan)


def takes_sparse(estimator: Any) -> bool:
    return bool(estimator.__sklearn_tags__().input_tags.sparse)


def relations(estimator: Any) -> list[str]:
    """Return the supported neighboring relations, the estimator's own first."""

    def supported(relation: str) -> bool:
        try:
            clone_with(estimator, neighboring=relation).fit(rows(20))
        except ValueError as error:
            if "neighboring" not in str(error):
                raise
            return False
        return True

    other = "add_or_remove_one" if estimator.neighboring == "replace_one" else "replace_one"
    return [estimator.neighboring, *([other] if supported(other) else [])]


# Tables, estimators, accountants


def rows(n_samples: int = 60, n_features: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).beta(2, 4, size=(n_samples, n_features))


def with_column_names(table: np.ndarray) -> Any:
    """Return a data frame if pandas is there, else the rows as tuples."""
    if not find_spec("pandas"):
        return tuple(map(tuple, table))
    import pandas as pd

    return pd.DataFrame(table, columns=[f"column {i}" for i in range(table.shape[1])])


def clone_with(estimator: Any, **parameters: Any) -> Any:
    return clone(estimator).set_params(**parameters)


def clone_with_seed(estimator: Any, **parameters: Any) -> Any:
    return clone_with(estimator, random_state=0, **parameters)


def entries_of(accountant: PrivacyAccountant) -> Iterator[Any]:
    """Yield the entries of a ledger, each before its parts."""

    def with_parts(entries: Iterable[Any]) -> Iterator[Any]:
        for entry in entries:
            yield entry
            yield from with_parts(accountant.parts_of(entry))

    return with_parts(accountant.ledger)


# Refusals


def catch_refusal(call: Callable[[], Any], what: str) -> Exception:
    """Return the ValueError or TypeError with which `call` refuses `what`."""
    try:
        call()
    except (ValueError, TypeError) as error:
        return error
    except Exception as error:
        raise AssertionError(f"{what} met {type(error).__name__}: {str(error)[:200]}") from error
    raise AssertionError(f"{what} was accepted")


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and the chain of its causes or contexts."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def check_no_secret_in_error(error: BaseException, what: str) -> None:
    for one in chain(error):
        require(SECRET not in str(one), f"the message about {what} quotes a cell")


def parameters_of(function: Callable[..., Any]) -> list[str]:
    return [name for name, p in inspect.signature(function).parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


@contextmanager
def record_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Record all warnings, also repeated ones."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", "invalid escape sequence")  # raised by Python when it compiles another package
        yield caught
