"""Harness of the laws: the decorator, tables, states to compare, and a spy that records releases or repeats them for other rows."""

import enum
import functools
import pickle
import re
import tempfile
import threading
import types
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import patch

import numpy as np
from sklearn.base import BaseEstimator, clone

from skdpsynth.frames import Table
from skdpsynth.privacy import ContinualRelease, DiscreteLaplace, LedgerEntry, Noise, PrivacyAccountant, RandomBits, SecureBits
from skdpsynth.testing._roots import Roots

SECRET = "31415"  # in cells that no message may quote
Estimator: TypeAlias = BaseEstimator  # of this package or of others; audits also take counters and functions
Law = Callable[[Any], None]
_PROBES = 50  # rows that are drawn or transformed to compare two estimators
_PLAIN = (bool, int, float, complex, str, bytes, type(None), Fraction, np.generic, np.dtype, enum.Enum)
_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00|ledger-[0-9a-f]{32}")  # in a ledger, which has a random id


def needs(name: str, unless: str = "") -> Callable[[Law], Law]:
    """Keep a law for estimators that have one method or parameter, and lack another."""

    def mark(check: Law) -> Law:
        check.needs = (name, unless)  # type: ignore[attr-defined]
        return check

    return mark


def find_laws(*modules: types.ModuleType) -> list[Law]:
    """Return the functions of modules that are called ``check_...``, each as a law, with its docstring as the sentence.

    Any exception becomes an AssertionError with the sentence and the finding.
    """

    def make_law(check: Law) -> Law:
        @functools.wraps(check)
        def law(estimator: Estimator) -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    check(estimator)
                except Exception as error:
                    found = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
                    broken = f"{check.__name__}: {type(estimator).__name__} breaks the law {(check.__doc__ or '').strip()!r}"
                    raise AssertionError(f"{broken} Found: {found}") from error

        return law

    named = [each for module in modules for name, each in vars(module).items() if name.startswith("check_")]
    return [make_law(each) for each in named if each.__module__ in [module.__name__ for module in modules]]


def is_for(law: Law, estimator: Estimator) -> bool:
    name, unless = getattr(law, "needs", ("fit", ""))
    return hasattr(estimator, name) and not hasattr(estimator, unless)


def require(true: object, found: str) -> None:
    """Raise AssertionError with the finding unless `true` holds, also under ``python -O``."""
    if not true:
        raise AssertionError(found)


def is_stream(estimator: Estimator) -> bool:
    return hasattr(estimator, "partial_fit")


def takes_nan(estimator: Estimator) -> bool:
    return bool(estimator.__sklearn_tags__().input_tags.allow_nan)


def takes_sparse(estimator: Estimator) -> bool:
    return bool(estimator.__sklearn_tags__().input_tags.sparse)


def relations(estimator: Estimator) -> list[str]:
    """Return the supported neighboring relations, the estimator's own first."""
    other = "add_or_remove_one" if estimator.neighboring == "replace_one" else "replace_one"
    try:
        clone_with(estimator, neighboring=other).fit(rows(20))
    except ValueError as error:
        if "neighboring" not in str(error):
            raise
        return [estimator.neighboring]
    return [estimator.neighboring, other]


def rows(n_samples: int = 60, n_features: int = 3, seed: int = 0, order: int | None = None) -> Any:
    """Return a table of numbers, where `order` is the seed of the order of its rows; within `use_roots`, linked tables of roots."""
    if _MINE.roots is not None:
        return _MINE.roots.rows(n_samples, seed, order)
    table = np.random.default_rng(seed).beta(2, 4, size=(n_samples, n_features))
    return table if order is None else np.random.default_rng(order).permutation(table)


def current_roots() -> Roots | None:
    """Return the roots that laws of this thread are asked of; None: they are asked of tables of numbers."""
    return _MINE.roots


@contextmanager
def use_roots(roots: Roots | None) -> Iterator[None]:
    """Let `rows` and `worst_neighbors` give linked tables in this thread."""
    before, _MINE.roots = _MINE.roots, roots
    try:
        yield
    finally:
        _MINE.roots = before


def with_column_names(table: Table) -> Any:
    """Return a data frame if pandas is there, else the rows as tuples; linked tables have names."""
    if isinstance(table, Mapping):
        return table
    if not find_spec("pandas"):
        return tuple(map(tuple, table))
    import pandas as pd

    return pd.DataFrame(table, columns=[f"column {i}" for i in range(table.shape[1])])


def clone_with(estimator: Estimator, **parameters: Any) -> Any:
    """Return a clone with other parameters; without bounds, where schemas state them."""
    if not hasattr(estimator, "bounds") or "bounds" not in estimator.get_params(deep=False):
        parameters.pop("bounds", None)
    return clone(estimator).set_params(**parameters)


def clone_with_seed(estimator: Estimator, **parameters: Any) -> Any:
    return clone_with(estimator, random_state=0, **parameters)


def entries_of(accountant: PrivacyAccountant) -> Iterator[Any]:
    """Yield the entries of a ledger, each before its parts."""
    waiting = list(reversed(accountant.ledger))
    while waiting:
        entry = waiting.pop()
        yield entry
        waiting += reversed(accountant.parts_of(entry))


def catch_refusal(call: Callable[[], Any], what: str) -> Exception:
    """Return the ValueError or TypeError with which `call` refuses `what`."""
    try:
        call()
    except (ValueError, TypeError) as error:
        return error
    except Exception as error:
        raise AssertionError(f"{what} met {type(error).__name__}: {str(error)[:200]}") from error
    raise AssertionError(f"{what} was accepted")


@contextmanager
def record_warnings() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", "invalid escape sequence")  # raised by Python when it compiles another package
        yield caught


# States


def released_state(fitted: Estimator) -> dict[str, Any]:
    """Return all public results: fitted attributes, a seeded sample, transformed points.

    The accountant is left out, because two fits that release the same may be charged at different times.
    """
    shown = dict(leaf for name, value in fitted_attributes(fitted).items() for leaf in leaves(value, name))
    if hasattr(fitted, "sample"):
        shown.update(leaves(as_rows(fitted.sample(_PROBES, random_state=0)), f"sample({_PROBES})"))
    if hasattr(fitted, "transform"):
        points = np.random.default_rng(9).random((_PROBES, fitted.n_features_in_))
        shown.update(leaves(as_rows(fitted.transform(points)), "transform(points)"))
    return shown


def fitted_attributes(fitted: Estimator) -> dict[str, Any]:
    return {n: v for n, v in vars(fitted).items() if n.endswith("_") and not n.startswith("_") and n != "accountant_"}


def full_state(fitted: Estimator) -> dict[str, Any]:
    """Return the whole state, private attributes and ledger lines included."""
    return dict(leaves(dict(vars(fitted)), type(fitted).__name__))


def serialized_bytes(fitted: Estimator) -> dict[str, Any]:
    """Return the bytes of a pickle, and of each member of a saved file, without times of charges and random ids of ledgers."""
    data = {"pickle": pickle.dumps(fitted)}
    if hasattr(fitted, "save"):
        with tempfile.TemporaryDirectory() as folder, suppress(TypeError):  # it is not savable
            path = Path(folder) / "fitted.zip"
            fitted.save(path)
            with zipfile.ZipFile(path) as file:
                data |= {f"{name} in the file of save": file.read(name) for name in file.namelist()}
    return {name: _TIME.sub(b"", content) for name, content in data.items()}


def difference(first: dict[str, Any], second: dict[str, Any]) -> str | None:
    if missing := sorted(first.keys() ^ second.keys()):
        return f"only one of the two has {missing[0]}"
    return next((f"{path} differs" for path, leaf in first.items() if leaf != second[path]), None)


def require_equal(first: dict[str, Any], second: dict[str, Any], where: str) -> None:
    found = difference(first, second)
    require(found is None, f"{found} {where}")


def as_rows(table: Table) -> Any:
    """Return the rows of a table as an array, and of linked tables a dict of arrays."""
    if isinstance(table, Mapping):
        return {name: as_rows(each) for name, each in table.items()}
    return np.asarray(table.to_numpy() if hasattr(table, "to_numpy") else table)


def leaves(thing: object, path: str, above: tuple[int, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield (path, number or word) for everything in an object."""
    if isinstance(thing, _PLAIN):
        yield path, (type(thing).__name__, repr(thing))
    elif isinstance(thing, np.ndarray) and thing.dtype.kind != "O":
        yield path, (str(thing.dtype), thing.shape, thing.tobytes())
    elif isinstance(thing, type | types.FunctionType | types.BuiltinFunctionType | types.MethodType):
        yield path, thing.__qualname__
    elif isinstance(thing, PrivacyAccountant):
        yield path, [ledger_line(entry) for entry in thing.ledger]
    elif id(thing) in above:
        yield path, "itself"
    else:
        yield path, type(thing).__name__
        for name, part in _parts(thing):
            yield from leaves(part, f"{path}{name}", (*above, id(thing)))


def ledger_line(entry: LedgerEntry) -> tuple[str, ...]:
    """Return the facts of a ledger line, without its time and its number."""
    said = ("name", "loss", "noise", "scale", "sensitivity", "n_values", "randomness", "group")
    return (*(str(getattr(entry, name, None)) for name in said), str(getattr(getattr(entry, "sensitivity", None), "statistic", None)))


def _parts(thing: object) -> list[tuple[str, Any]]:
    if isinstance(thing, np.ndarray):
        thing = thing.tolist()
    if isinstance(thing, Mapping):
        return [(f"[{key!r}]", value) for key, value in thing.items()]
    if isinstance(thing, set | frozenset):
        thing = sorted(thing, key=repr)
    if isinstance(thing, list | tuple):
        return [(f"[{i}]", value) for i, value in enumerate(thing)]
    if type(thing).__module__.split(".")[0] == "numpy":
        return []  # a generator: where it stands is no result
    # The state for a pickle, which has no room that an object keeps for later rows.
    state = vars(thing) if isinstance(thing, BaseEstimator) else thing.__getstate__()
    states = state if isinstance(state, tuple) else (state,)
    return [(f".{name}", value) for part in states if isinstance(part, Mapping) for name, value in part.items()]


# Releases


@dataclass(frozen=True, eq=False)
class Draw:
    name: str | None
    values: np.ndarray  # exact, hence private, int64
    noise: Any
    loss: Any  # charged; None: all that remained
    sensitivity: Any  # stated
    answer: np.ndarray  # released, int64
    standing: bool = False  # whether it came from a standing release, which was charged before
    shared: bool = False  # whether it shares noise with other answers
    nodes: tuple[tuple[str, int], ...] = ()  # names of the draws whose signed sum its noise is


class StopRun(BaseException):
    """Ends a run at its last release; `except Exception` does not catch it."""


class Spy:
    def __init__(self, answers: list[Draw] | None = None, until: int | None = None) -> None:
        self.draws: list[Draw] = []
        self.answer: Callable[[str | None, np.ndarray, np.ndarray], np.ndarray] | None = None
        self.answers, self.until, self.n_choices = answers, until, 0

    def take(self) -> list[Draw]:
        """Return the draws since the last call, and forget them."""
        draws, self.draws = self.draws, []
        return draws

    def replay(self, answers: list[Draw]) -> None:
        """Release these answers from now on, and forget the draws so far."""
        self.answers, self.draws = answers, []

    def observe(self, values: np.ndarray, noise: Noise, drawn: np.ndarray, said: dict[str, Any], **how: Any) -> np.ndarray:
        values, name = np.array(values), said.get("name")
        answer = drawn if self.answer is None else self.answer(name, values, drawn)
        if self.answer is None and self.answers is not None:
            place = len(self.draws)
            known = self.answers[place] if place < len(self.answers) else None
            if known is None or known.name != name or known.answer.shape != drawn.shape:
                was = "nothing" if known is None else f"{known.name!r} of shape {known.answer.shape}"
                raise AssertionError(f"release {place} is {name!r} of shape {drawn.shape}, where on the neighbor it was {was}")
            answer = known.answer.copy()
        self.draws.append(Draw(name, values, noise, said.get("loss"), said.get("sensitivity"), answer.copy(), **how))
        if len(self.draws) == self.until:
            raise StopRun
        return answer


@contextmanager
def watch_releases(answers: list[Draw] | None = None, until: int | None = None) -> Iterator[Spy]:
    """Watch all releases of this thread; with `answers`, release these again; with `until`, raise `StopRun` after so many.

    Releases of other threads are neither recorded nor changed.
    """
    door = Spy(answers, until)
    with _PATCH:
        _MINE.doors.append(door)
        try:
            yield door
        finally:
            _MINE.doors.remove(door)


@contextmanager
def fixed_bits(seed: int = 0) -> Iterator[None]:
    """Silently draw the secure bits of this thread from a seed, so that a mechanism repeats what it does for users."""
    with _PATCH:
        before = _MINE.bits
        _MINE.bits = np.random.default_rng(seed)
        try:
            yield
        finally:
            _MINE.bits = before


class _Mine(threading.local):
    def __init__(self) -> None:
        self.doors: list[Spy] = []  # the latest last
        self.bits: np.random.Generator | None = None  # in place of the secure ones
        self.roots: Roots | None = None  # in place of rows of numbers


_MINE = _Mine()


class _Patch:
    """Patches of the release methods while any thread watches: the first to come applies them, the last to go removes them."""

    def __init__(self) -> None:
        self._lock, self._users, self._patches = threading.Lock(), 0, ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                self._patches.enter_context(_patch_releases())
            self._users += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._patches.close()


_PATCH = _Patch()


@contextmanager
def _patch_releases() -> Iterator[None]:
    """Lead the releases of this process past the spies of their threads."""
    standing = type(PrivacyAccountant(float("inf")).standing(DiscreteLaplace(0), SecureBits(), name="tap", loss=float("inf")))
    release, stand, nodes_of = PrivacyAccountant.release, standing.release, standing.release_nodes
    secure = SecureBits.bytes

    def through(self: PrivacyAccountant, values: np.ndarray, noise: Noise, rng: RandomBits, **said: Any) -> np.ndarray:
        return _notify_spies(values, noise, release(self, values, noise, rng, **said), said)

    def through_standing(self: ContinualRelease, values: np.ndarray, name: str) -> np.ndarray:
        return _notify_spies(values, self.noise, stand(self, values, name), {"name": name}, standing=True)

    def through_nodes(self: ContinualRelease, values: np.ndarray, nodes: Iterable[tuple], kept: dict) -> np.ndarray:
        nodes = list(nodes)
        name = ", ".join(f"{'-' if sign < 0 else '+'}{name}" for _, name, sign in nodes)
        how = {"standing": True, "shared": True, "nodes": tuple((each, sign) for _, each, sign in nodes)}
        return _notify_spies(values, self.noise, nodes_of(self, values, nodes, kept), {"name": name}, **how)

    def count_choice(method: Callable) -> Callable:
        def count_and_call(self: PrivacyAccountant, *given: Any, **said: Any) -> Any:
            for door in _MINE.doors:
                door.n_choices += 1
            return method(self, *given, **said)

        return count_and_call

    def bits(self: SecureBits, size: int) -> bytes:
        return secure(self, size) if _MINE.bits is None else _MINE.bits.bytes(size)

    of_standing = patch.multiple(standing, release=through_standing, release_nodes=through_nodes)
    choices: Any = {name: count_choice(getattr(PrivacyAccountant, name)) for name in ("release_choice", "release_discovered")}
    at_door = patch.multiple(PrivacyAccountant, release=through, **choices)
    with at_door, of_standing, patch.object(SecureBits, "bytes", bits):
        yield


def _notify_spies(values: np.ndarray, noise: Noise, drawn: np.ndarray, said: dict[str, Any], **how: Any) -> np.ndarray:
    for door in _MINE.doors:
        drawn = door.observe(values, noise, drawn, said, **how)
    return drawn


def kind_of(noise: Noise) -> str:
    return str(getattr(noise, "kind", type(noise).__name__))
