"""The parameters of a stream: their domains, and which may change while it lasts."""

import copy
import math
import numbers
import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from skdpsynth._atomic_write import check_writable, output_path
from skdpsynth._validation import check_choice, is_integer, is_real, short_repr
from skdpsynth.fitting import Facts, PrivateEstimator, check_part, check_rows_per_unit, clone_part
from skdpsynth.frames import Rows
from skdpsynth.persistence import to_bytes
from skdpsynth.privacy import check_epsilon, is_durable
from skdpsynth.synthesis._online_blocks import JoinableSynthesizer
from skdpsynth.synthesis._private_measure import PrivateMeasureMechanism
from skdpsynth.tables import start_table

# For the length of a stream.
_FIXED_PARAMETERS = ("strategy", "counter", "epsilon", "delta", "neighboring", "bounds", "synthesizer", "max_rows_per_unit")
_CHANGEABLE_PARAMETERS = ("growth", "window", "horizon")
_MORE = 1 + sys.float_info.epsilon  # the least growth that is more than 1 as a float too; as a number of fewer bits this is 1


def check_parameters(stream: Any) -> None:
    """Refuse parameters that are out of their domain, or do not go together."""
    check_choice("strategy", stream.strategy, ("blocks", "paper"))
    check_choice("counter", stream.counter, ("kary", "binary", "sparse"))
    growth = stream.growth
    is_more = _MORE <= growth < math.inf if is_real(growth) else isinstance(growth, str) and growth == "auto"
    if growth is not None and not (is_more and growth != 1):
        raise ValueError(f"growth must be None, 'auto' or a number greater than 1, got {short_repr(growth)}; None is the default.")
    for name in ("window", "horizon"):
        value = getattr(stream, name)
        if value is not None and not is_integer(value, 1):
            raise ValueError(f"{name} must be None or a positive integer, got {short_repr(value)}; None sets no limit.")
    if stream.strategy == "paper" and (stream.window is not None or stream.synthesizer is not None):
        raise ValueError('window and synthesizer must be None for strategy="paper"; use strategy="blocks".')
    check_rows_per_unit(stream.max_rows_per_unit, check_epsilon(stream.epsilon))
    if stream._rows_per_unit > 1 and (stream.strategy == "paper" or stream.delta):
        # That blocks cost one of them together, where each holds some rows of a unit, is proved for pure losses.
        raise ValueError(
            'max_rows_per_unit must be 1 for a stream with strategy="paper" or delta > 0, got '
            f'{stream._rows_per_unit}; use strategy="blocks" and delta=0.'
        )


def check_inner(stream: Any, facts: Facts) -> Any:
    """Return the unfitted synthesizer of a block; refuse one that cannot run on it."""
    if stream.synthesizer is None:
        inner: Any = PrivateMeasureMechanism()
    else:
        inner = clone_part(stream.synthesizer, "OnlineSynthesizer", "None or ", takes_tables=stream._reader is not None)
    check_part(clone(inner), facts)
    if counts_ticks(stream):
        if not isinstance(inner, PrivateEstimator):
            raise ValueError(
                'synthesizer must derive from PrivateSynthesizer for neighboring="add_or_remove_one", because it must release how many '
                f"rows a block has; {type(inner).__name__} does not."
            )
        check_part(clone(inner), facts.part(n_samples=1))  # as few may be found
    return inner


def min_block_rows(inner: Any, facts: Facts) -> int:
    """Return the number of rows that a block needs to be more than noise: a public number."""
    if not isinstance(inner, JoinableSynthesizer):
        return 0
    part = clone(inner)
    check_part(part, facts.part())
    return int(part._least_rows_of_block(facts.part()))


def mixed_table_reader(stream: Any) -> Any:
    """Return the reader of the mixed tables of a stream; None where its rows are numbers."""
    given = stream.synthesizer
    check_choice("strategy", stream.strategy, ("blocks", "paper"))
    if stream.strategy == "paper" or getattr(given, "schema", None) is None or not isinstance(given, JoinableSynthesizer):
        return None
    return clone(given).set_params(bounds=stream.bounds)


def start_reading(reader: Any, X: Any, least: int) -> tuple[Any, Rows]:
    """Open the first rows of a stream of mixed tables, and let the reader remember their columns."""
    reader._buys_facts = False  # they must stand before the first row comes
    container, rows = start_table(reader, X, least)
    del reader._buys_facts
    reader._container, reader.schema_ = container, container.schema
    return container, rows


def check_since(stream: Any, since: Any) -> int:
    """Return the row, or tick, that a sample begins with, or refuse it."""
    if stream.strategy != "blocks":
        raise ValueError('since must be None for strategy="paper", which keeps no history; use strategy="blocks".')
    first, last = stream._first, stream._time - 1
    if not is_integer(since, first, last):
        raise ValueError(f"since must be a {time_unit(stream)[:-1]} of the stream from {first} to {last}, got {short_repr(since)}.")
    return int(since)


def check_save_path(stream: Any, save: Any) -> Path:
    """Return the path at which a stream is saved as it takes in rows; refuse one that cannot be written, before any charge."""
    place = output_path(save, "save", "None or a path")
    if stream.strategy != "blocks":
        raise ValueError(
            'save must be None for strategy="paper", whose counters draw their noise in place; call its method save after the rows, or use '
            'strategy="blocks".'
        )
    if not hasattr(stream, "_stream"):
        if place.exists():
            raise FileExistsError(
                f"save must name no file that exists where a stream begins, got {short_repr(str(place))}; load it, or name another."
            )
        if hasattr(stream.synthesizer, "get_params") and not isinstance(stream.synthesizer, type):
            to_bytes(clone(stream.synthesizer))  # raises where it cannot be saved
    check_writable(place)
    return place


def current_settings(stream: Any) -> dict:
    settings = {name: getattr(stream, name) for name in (*_FIXED_PARAMETERS, *_CHANGEABLE_PARAMETERS)}
    return {**settings, "bounds": copy.deepcopy(stream.bounds)}  # arrays could be changed in place


def check_settings(stream: Any) -> dict:
    """Return the parameters from now on; refuse those that may not change along a stream."""
    shared, was = stream.accountant, stream._charged_to
    may_move = stream._rng is None and is_durable(stream.accountant_)  # where its ledger lies now
    if not (shared is was or may_move or all(given is None or getattr(given, "closed", False) for given in (shared, was))):
        raise ValueError("accountant must not change along a stream; set it back, or call fit to start a new one.")
    if all(getattr(stream, name) is was for name, was in stream._settings.items()):
        return stream._settings
    check_parameters(stream)
    _check_fixed_settings(stream)
    return current_settings(stream)


def _check_fixed_settings(stream: Any) -> None:
    changed = [name for name in _FIXED_PARAMETERS if not _is_unchanged(getattr(stream, name), stream._settings[name])]
    if changed:
        raise ValueError(f"{', '.join(changed)} must not change along a stream; set it back, or call fit to start a new one.")
    state, window = stream._stream, stream.window
    if state.dropped > 0 and (window is None or state.n_seen - window < state.dropped):
        raise ValueError(
            f"window must not grow beyond what is kept, the {time_unit(stream)} from {state.dropped} on, got {short_repr(window)}; "
            "fit a new stream."
        )


def check_horizon(stream: Any, seen: int, more: int) -> None:
    """Refuse rows or ticks that would pass the horizon: public numbers."""
    if stream.horizon is not None and seen + more > stream.horizon:
        raise ValueError(
            f"horizon is {stream.horizon} {time_unit(stream)}, {seen} have come, and {more} more would pass it; raise horizon, or fit a "
            "new stream."
        )


def time_unit(stream: Any) -> str:
    return "ticks" if counts_ticks(stream) else "rows"


def counts_ticks(stream: Any) -> bool:
    """Whether the number of rows is private, so that each call is a tick."""
    return bool(stream.neighboring == "add_or_remove_one")


def _is_unchanged(value: Any, was: Any) -> bool:
    if isinstance(value, tuple | list) and isinstance(was, tuple | list):
        return len(value) == len(was) and all(np.array_equal(a, b) for a, b in zip(value, was, strict=True))
    return value is was or repr(value) == repr(was) or (isinstance(value, numbers.Real) and isinstance(was, numbers.Real) and value == was)
