"""What other libraries call things, and what they are called here: hints for errors of those who come from there.

The one place for such names. A hint is added to the error that Python raises anyway, of the same type, so ``hasattr`` and ``except`` do
what they always did, and what exists costs nothing.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

_SAMPLE = "fit(X) first, then sample(n_samples) as often as you like"
_SCHEMA = "what is public about the columns is said in `schema` of LatentFactorSynthesizer: {column: (low, high) or [levels]}"
_SHARED = "there is no default accountant: give one to each estimator, as accountant=PrivacyAccountant(epsilon)"
_NO_TRAINING = "there is no training loop to set; leave it out"
_LOAD = "files are read by skdpsynth.load(path), whatever class they hold"
_SELECTED = (
    "rows on conditions are drawn by LatentFactorSynthesizer(strategy='marginals'), as sample(n, conditions={'column': value}); of others, "
    "draw more rows and keep those that you want: rows = model.sample(n); rows[rows['column'] == value]; it costs no privacy"
)

ESTIMATORS = {  # attributes of estimators
    "create": "call the class: LatentFactorSynthesizer(schema, epsilon=1.0)",
    "evaluate_quality": "call evaluate(X), which compares a sample with real rows",
    "fit_generate": _SAMPLE,
    "fit_resample": _SAMPLE,
    "fit_sample": _SAMPLE,
    "generate": "rows are drawn by sample(n_samples), or in batches by sample_batches",
    "get_metadata": "what is public about the columns is in `schema_` of LatentFactorSynthesizer, and in `bounds` elsewhere",
    "get_parameters": "parameters are those of scikit-learn: get_params()",
    "load": _LOAD,
    "load_from_dict": _LOAD,
    "privacy_spent": "what was spent is in `accountant_`: accountant_.spent, accountant_.ledger",
    "sample_conditional": _SELECTED,
    "sample_from_conditions": _SELECTED,
    "sample_remaining_columns": "rows of which some cells are given are completed by impute(frame) of LatentFactorSynthesizer",
    "spent_budget": "what was spent is in `accountant_`: accountant_.spent, accountant_.ledger",
    "train": "train by fit(X)",
}
ACCOUNTANTS = {  # attributes of accountants
    "budget": "the budget is in `epsilon` and `delta`, what is left in `remaining`",
    "check": "a charge that does not fit is refused before anything is drawn; what is left is in `remaining`",
    "compose": "a loss is charged by spend(epsilon, name=...), and fits with accountant=... charge theirs",
    "get_epsilon": "epsilon at a delta is epsilon_at(delta), and what was spent is in `spent`",
    "load": "a ledger in a file is opened by PrivacyAccountant.at('budget.db')",
    "load_default": _SHARED,
    "map": "what was spent is in `spent` and `spent_delta`",
    "pop_default": _SHARED,
    "privacy_spent": "what was spent is in `spent` and `spent_delta`",
    "set_default": _SHARED,
    "slack": "losses are added by the tightest proved rule, without a slack to choose",
    "spent_budget": "what was charged is in `ledger`, entry by entry (to_frame() gives a data frame)",
    "step": "a loss is charged by spend(epsilon, name=...), and fits with accountant=... charge theirs",
    "total": "what was spent is in `spent` and `spent_delta`",
}
CLASSES = ("create", "load", "load_default", "pop_default")  # of these, what others call on a class
KEYWORDS = {  # arguments of estimators, their methods and accountants
    "batch_size": "rows come in batches of a size by sample_batches(n_samples, batch_size)",
    "budget": "the budget is `epsilon`, and a shared one `accountant`",
    "categorical_columns": _SCHEMA,
    "centered": "rows need not be centred; `center` of PrivatePCA says how the mean is found: 'private' or 'public'",
    "conditions": _SELECTED,
    "continuous_columns": _SCHEMA,
    "cuda": _NO_TRAINING,
    "data": "the table is `X`, the first argument",
    "data_norm": "the norm of rows is bounded by `max_norm` of PrivatePCA, and their range by `bounds`",
    "discrete_columns": _SCHEMA,
    "embedding_dim": _NO_TRAINING,
    "enforce_min_max_values": "samples lie within the public bounds",
    "enforce_rounding": "samples come back in the dtypes of fit, and whole numbers are whole",
    "epochs": _NO_TRAINING,
    "eps": "the budget is `epsilon`",
    "locales": _SCHEMA,
    "metadata": "what is public about the columns is said in `schema`; Schema.from_sdv(metadata, domains={...}) reads metadata of SDV",
    "n": "the number of rows is `n_samples`",
    "n_rows": "the number of rows is `n_samples`",
    "nullable": "cells that may be missing are said in `schema`: Continuous(low, high, nullable=True)",
    "num_rows": "the number of rows is `n_samples`",
    "ordinal_columns": _SCHEMA,
    "output_file_path": "rows are written to a file by sample(n_samples, out='rows.csv')",
    "preprocessor_eps": "`epsilon` is the whole budget of a fit; facts that nobody knows are bought from it by bounds='private'",
    "range": "the public range of each column is `bounds`",
    "sample_weight": "rows have no weights, because a weight would change how far one row moves what is released",
    "seed": "a seed, for tests only, is `random_state`",
    "slack": "losses are added by the tightest proved rule, without a slack to choose",
    "spent_budget": "what was spent before is charged by spend(epsilon, name=...)",
    "table_name": "the model is of one table; leave it out",
    "verbose": "fits say nothing; leave it out",
}


class Hinted:
    """Mixin: an attribute that other libraries have, and this class has not, is missed with a hint.

    Attributes
    ----------
    _names_elsewhere : dict of str to str
        Name -> what to do instead.
    """

    _names_elsewhere: dict[str, str] = {}  # noqa: RUF012  nobody writes to it

    if not TYPE_CHECKING:  # else every name would count as known

        def __getattr__(self, name: str) -> Any:
            hint = type(self)._names_elsewhere.get(name)
            if hint is None:
                return object.__getattribute__(self, name)  # fails again, in Python's own words or those of a property
            raise _missing(f"{type(self).__name__!r} object", name, self, hint)


def _missing(what: str, name: str, thing: Any, hint: str | None) -> AttributeError:
    return AttributeError(f"{what} has no attribute {name!r}; {hint}.", name=name, obj=thing)


class Elsewhere:
    """A name that others call on a class: neither the class nor its objects have it, and both say what to do instead."""

    def __init__(self, hint: str) -> None:
        self._hint = hint

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, thing: Any, owner: type) -> NoReturn:
        raise _missing(f"type object {owner.__name__!r}", self._name, owner, self._hint)

    def __set__(self, thing: Any, value: Any) -> NoReturn:  # else `inspect` took it for a method
        raise _missing(f"{type(thing).__name__!r} object", self._name, thing, self._hint)


class HintedEstimator(Hinted):
    """Mixin of estimators."""

    _names_elsewhere = ESTIMATORS
    create, load = (Elsewhere(ESTIMATORS[name]) for name in ("create", "load"))


class HintedAccountant(Hinted):
    """Mixin of accountants."""

    _names_elsewhere = ACCOUNTANTS
    load, load_default, pop_default = (Elsewhere(ACCOUNTANTS[name]) for name in ("load", "load_default", "pop_default"))

    if not TYPE_CHECKING:

        def __enter__(self) -> NoReturn:
            raise TypeError(f"{type(self).__name__!r} object does not support the context manager protocol; {_SHARED}.")

        def __exit__(self, *about_error: Any) -> None:  # asked for before what refuses
            pass


def hinted(method: _Function) -> _Function:
    """Decorate a method: arguments that it does not take are refused by a TypeError that says what it takes."""
    parameters = list(signature(method).parameters.values())[1:]
    takes = frozenset(each.name for each in parameters)
    most = 1 + sum(each.kind is not Parameter.KEYWORD_ONLY for each in parameters)

    @wraps(method)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if len(args) > most or not takes.issuperset(kwargs):
            raise TypeError(_refusal(method, args, [name for name in kwargs if name not in takes], parameters))
        return method(*args, **kwargs)

    return checked  # type: ignore[return-value]


def _refusal(method: Any, args: tuple, unknown: list[str], parameters: list[Parameter]) -> str:
    is_made = method.__name__ == "__init__"
    call = f"{type(args[0]).__name__ if args else method.__qualname__}{'' if is_made or not args else f'.{method.__name__}'}()"
    names = [each.name for each in parameters]
    if unknown:
        name = unknown[0]
        return f"{call} got an unexpected keyword argument {name!r}; {_way_out(name, names)}"
    first = [each.name for each in parameters if each.kind is not Parameter.KEYWORD_ONLY]
    others = [each.name for each in parameters if each.kind is Parameter.KEYWORD_ONLY]
    by_name = f"name the others, such as {others[0]}=..." if others else "leave the others out"
    return f"{call} takes {', '.join(first) or 'nothing'} by position, but {len(args) - 1} positional arguments were given; {by_name}."


def _way_out(name: str, names: list[str]) -> str:
    from difflib import get_close_matches

    if name in KEYWORDS:
        return f"{KEYWORDS[name]}."
    near = get_close_matches(name, names, 1)
    return f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(names) or 'nothing'}."


class Uncalled(Fraction):
    """A fraction that is a property here, and a method elsewhere: called, it says so."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse the call."""
        raise TypeError(
            f"'Fraction' object is not callable; `remaining` is a property, here {float(self):g}, and split([1] * k) shares it among k."
        )

    def __repr__(self) -> str:
        return f"Fraction({self.numerator}, {self.denominator})"

    def __reduce__(self) -> tuple:
        return Fraction, (self.numerator, self.denominator)
