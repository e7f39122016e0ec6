"""Estimators inside estimators."""

from functools import partial
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone

from skdpsynth._progress import run_with_outer_callbacks
from skdpsynth._validation import short_repr, warn
from skdpsynth.exceptions import BudgetWarning
from skdpsynth.fitting._budget import Budget
from skdpsynth.fitting._facts import Facts
from skdpsynth.fitting._fit import NestedContext, PrivateEstimator
from skdpsynth.frames import Rows

_REQUIRED_PARAMETERS = ("epsilon", "delta", "bounds", "neighboring", "accountant", "random_state")


def clone_part(synthesizer: Any, owner: str, words: str = "", takes_tables: bool = False) -> Any:
    """Return an unfitted copy of a caller's synthesizer, or refuse it.

    Messages name the `owner` and, in `words`, other values of the parameter. With `takes_tables` the synthesizer may have a schema.
    """
    wanted = f"synthesizer must be {words}an unfitted synthesizer"
    if isinstance(synthesizer, type) or not hasattr(synthesizer, "get_params"):
        raise ValueError(f"{wanted}, got {short_repr(synthesizer)}; give an instance.")
    lacking = [name for name in _REQUIRED_PARAMETERS if name not in synthesizer.get_params()]
    lacking += ["sample"] if not hasattr(synthesizer, "sample") else []
    if lacking:
        raise ValueError(f"{wanted}, but {type(synthesizer).__name__} lacks {', '.join(lacking)}.")
    if not takes_tables and getattr(synthesizer, "schema", None) is not None:
        raise ValueError(
            f"synthesizer must have schema=None, because {owner} hands it rows of numbers; encode mixed rows with MixedTypeEncoder first."
        )
    if synthesizer.accountant is not None:
        raise ValueError(f"synthesizer must have accountant=None, because it is charged to this fit; give the accountant to {owner}.")
    if hasattr(synthesizer, "partial_fit"):
        # The rows of its open block would lie in what is fitted, and be published with it.
        raise ValueError(f"synthesizer must be no stream, because {owner} publishes it as it is; {type(synthesizer).__name__} keeps rows.")
    given = {name: short_repr(synthesizer.get_params()[name]) for name in ("epsilon", "delta", "neighboring")}
    usual = {name: each.default for name, each in signature(type(synthesizer)).parameters.items()}
    if unused := [name for name, value in given.items() if value != short_repr(usual.get(name))]:
        values = ", ".join(f"{name}={given[name]}" for name in unused)
        warn(f"synthesizer spends the budget of {owner}, so its own {values} is not used; give that to {owner}.", BudgetWarning)
    return clone(synthesizer)


def check_part(part: Any, facts: Facts) -> Any:
    """Return the plan of an inner estimator, which refuses its parameters before any budget is spent.

    A caller's synthesizer that cannot plan is fitted to made-up rows instead.
    """
    part.set_params(**_part_parameters(part, facts))
    if facts.rows_per_unit > 1 and not isinstance(part, PrivateEstimator):
        raise ValueError(
            f"max_rows_per_unit must be 1 for a synthesizer that is no PrivateEstimator, got {facts.rows_per_unit}: whether the noise of "
            f"{type(part).__name__} covers so many rows is not known."
        )
    if isinstance(part, PrivateEstimator):
        part._check_privacy_parameters()
        return part._plan(facts)
    steps = np.linspace(0, 1, 100)[:, None]
    clone(part).set_params(random_state=None).fit(facts.box.low + facts.box.width * steps)
    return None


def read_with_part(part: PrivateEstimator, X: Any) -> tuple[Rows, dict[str, Any]]:
    """Let an inner estimator read a table and remember its columns; return the rows and further fields of `Facts`."""
    return part._read(X)


def _part_parameters(part: Any, facts: Facts) -> dict[str, Any]:
    box = facts.box
    settings: dict[str, Any] = {} if box is None else {"bounds": (box.low, box.high)}
    if "max_rows_per_unit" in part.get_params(deep=False):
        settings["max_rows_per_unit"] = facts.rows_per_unit
    return {"epsilon": facts.epsilon, "delta": facts.delta, "neighboring": facts.neighboring, **settings}


def check_part_rows(part: Any, rows: Rows) -> None:
    """Refuse, before any budget is spent, a synthesizer that needs the rows themselves where they can only be summed."""
    if not rows.source.is_readable and not isinstance(part, PrivateEstimator):
        rows.source.chunks()


def fit_part(part: Any, rows: Any, budget: Budget, facts: Facts, *, name: str | None = None, group: str | None = None) -> Any:
    """Fit an inner estimator within the budget of the outer one, which issues all warnings; return it.

    Its epsilon, delta, relation and box come from `facts`; a private number of rows bought already, with its error, is not bought again.
    The `name` (None: that of its class) is for the ledger and the noise. Parts of one `group` hold disjoint rows.
    """
    part.set_params(**_part_parameters(part, facts))
    name = type(part).__name__ if name is None else name
    rng = budget.rng.child(name)
    if isinstance(part, PrivateEstimator):
        hand = NestedContext(budget, rng, name, group, facts.n_samples, facts.count_error, facts.rows_per_unit)
        run_with_outer_callbacks(part, f"fit {type(part).__name__}", partial(part._fit, rows, hand))
    else:
        child = budget.accountant.child(facts.epsilon, facts.delta, name=name, group=group)
        part.set_params(accountant=child, random_state=rng.random_state()).fit(
            np.clip(rows.collected(), facts.box.low, facts.box.high) if isinstance(rows, Rows) else rows
        )
        child.close()
    return part.set_params(accountant=None, random_state=None)  # no derived seed stays behind


def random_state_from(rng: np.random.Generator) -> np.random.RandomState:
    """Return a RandomState for an inner `sample`, from a numpy Generator."""
    return np.random.RandomState(rng.integers(2**32, size=8, dtype=np.uint32))
