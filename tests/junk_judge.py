"""What comes of a call with junk among its arguments: the documented result, a sentence of ours, or a fault."""

import contextlib
import copy
import dis
import itertools
import os
import pickle
import re
import signal
import threading
import time
import traceback
from collections.abc import Iterator

import numpy as np
import pandas as pd
import scipy.sparse
import sklearn
from junk_values import SECRETS

import skdpsynth

OURS = tuple(os.path.dirname(module.__file__) + os.sep for module in (skdpsynth, sklearn))
SECONDS, LONGEST = 20, 400  # of a call; characters of a message
FAULTS = ("foreign", "hung", "spent", "changed", "quoted", "long")


class TimeUp(BaseException):
    """A call takes too long; no `except Exception` stops it."""


@contextlib.contextmanager
def limited(seconds):
    """Stop what takes longer, where there are signals."""
    if not hasattr(signal, "SIGALRM") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_):
        raise TimeUp

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def is_ours(error):
    """Whether an error was raised by a statement of this package or of scikit-learn, and not somewhere below."""
    place = error.__traceback__
    while place.tb_next:
        place = place.tb_next
    code = place.tb_frame.f_code
    return dis.opname[code.co_code[place.tb_lasti]] == "RAISE_VARARGS" and code.co_filename.startswith(OURS)


def _state(value):
    """What must be the same after a call; None of what has no cells."""
    if isinstance(value, pd.DataFrame | pd.Series):
        return pickle.dumps((value.to_numpy(dtype=object), list(getattr(value, "columns", [])), list(value.index)))
    if scipy.sparse.issparse(value):
        return pickle.dumps((value.tocoo().data, value.tocoo().row, value.shape))
    if isinstance(value, np.ndarray | list | dict | set | bytearray):
        try:
            return pickle.dumps(value)
        except Exception:  # values that cannot be written
            return None
    return None


def judge(function, arguments, writes=(), spent=lambda: 0):
    """Call a function; return (outcome, faults, message), where the outcome is "accepted" or "refused".

    `writes` are arguments that it writes to; `spent` says what its budget has spent.
    """
    before, money = {name: _state(value) for name, value in arguments.items() if name not in writes}, spent()
    faults, message, outcome, start = [], "", "accepted", time.perf_counter()
    try:
        with limited(SECONDS):
            result = function(**arguments)
            if isinstance(result, Iterator):
                list(itertools.islice(result, 3))
    except TimeUp as error:
        faults.append("hung")
        message = "".join(traceback.format_tb(error.__traceback__)[-1:])
    except Warning:  # a warning that is an error, as the caller wished
        outcome = "warned"
    except Exception as error:
        outcome, message = "refused", str(error.args[0] if isinstance(error, KeyError) and error.args else error)
        faults += _faults_of(error, message)
    if time.perf_counter() - start > SECONDS and "hung" not in faults:
        faults.append("hung")
    if outcome != "accepted" and spent() != money:
        faults.append("spent")
    if any(state is not None and _state(arguments[name]) != state for name, state in before.items()):
        faults.append("changed")
    return outcome, faults, message


def _faults_of(error, message):
    documented = ValueError | TypeError | RuntimeError | OSError | ImportError | AttributeError | KeyError
    faults = [] if is_ours(error) and isinstance(error, documented) else ["foreign"]
    if any(secret in message for secret in SECRETS):
        faults.append("quoted")
    if "\n" in message or len(message) > LONGEST or len(re.findall(r"[a-z0-9)'\"]\. [A-Z]", message)) > 1:
        faults.append("long")
    return faults


@contextlib.contextmanager
def odd_settings(mode):
    """Settings of a program that calls us: NaN unlooked for, warnings or floating-point trouble as errors."""
    import warnings

    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("error" if mode == "warnings" else "ignore")
        if mode == "assume_finite":
            stack.enter_context(sklearn.config_context(assume_finite=True))
        if mode == "seterr":
            stack.enter_context(np.errstate(all="raise"))
        yield


def copied(value):
    """A copy of a good argument, so that no call sees what another did."""
    try:
        return copy.deepcopy(value)
    except Exception:
        return value
