"""Junk in any argument of any public callable is refused in a sentence, or gives what is documented.

Here a part of it; `benchmarks/bad_input.py` tries all.
"""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from laws import refuses

pytest.importorskip("pyarrow")
from junk_calls import attempt, calls_by_group, cases
from junk_judge import judge
from junk_values import JUNK, KINDS

from skdpsynth import LatentFactorSynthesizer, PrivacyAccountant, PrivateMeasureMechanism, PrivatePCA
from skdpsynth.auditing import audit_epsilon, worst_case_neighbors
from skdpsynth.domain import Box
from skdpsynth.exceptions import LedgerError
from skdpsynth.model_selection import plan
from skdpsynth.persistence import from_bytes

CALLS = dict(calls_by_group())
QUICK = [call for calls in CALLS.values() for call in calls if not call.slow]
FRAME = pd.DataFrame(np.random.default_rng(0).random((60, 2)), columns=["a", "b"])
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch, hasty):
    """Some junk is a good name of a file."""
    monkeypatch.chdir(tmp_path)


def wrong(call, junk, mode="plain"):
    """What is wrong with a call, and its message."""
    _, faults, message = attempt(call, junk, judge, mode)
    return [(fault, message) for fault in faults if fault != "long"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_argument_takes_junk_of_a_kind_in_peace(kind):
    """One value of a kind for each argument, another one for each; of a parameter of an estimator every third."""
    turn = itertools.cycle(KINDS[kind])
    for call in QUICK:
        n_values = {"parameters": (len(KINDS[kind]) + 2) // 3, "tables": 0}.get(call.group, 1)  # tables have laws of their own
        for argument in call.arguments:
            for name in (f"{kind}: {next(turn)}" for _ in range(n_values)):
                if name in call.junk_for(argument):
                    assert wrong(call, {argument: JUNK[name]()}) == [], f"{call} {argument} {name}"


@settings(max_examples=120, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(cases([call for call in QUICK if call.group not in ("parameters", "tables")]))
def test_any_junk_is_taken_in_peace_under_any_settings(case):
    call, junk, mode = case
    assert wrong(call, junk, mode) == [], f"{call} {mode}"


@pytest.mark.parametrize("cls", [PrivateMeasureMechanism, PrivatePCA, LatentFactorSynthesizer])
def test_bounds_that_only_look_like_a_pair_are_refused(cls):
    numbers = ((0, 10**400), (0, np.longdouble("1e400")), np.ma.array([0.0, 1.0], mask=[0, 1]))
    for bounds in ({0, 1}, frozenset([0.0, 1.0]), "05", ("0", "1"), b"05", *numbers):
        refuses(ValueError, r"^bounds must [^\n]*\.$", cls(bounds=bounds).fit, FRAME)


def test_bounds_without_a_number_that_the_dtype_of_the_rows_holds_are_refused():
    for dtype, bounds in ((np.uint8, (-5, -1)), (np.int64, (0.2, 0.8)), (np.float16, (7e4, 8e4))):
        with pytest.raises(ValueError, match=r"^bounds of column 0 must hold a number that its dtype, [^\n]*\.$"):
            PrivateMeasureMechanism(bounds=bounds).fit(np.arange(120).reshape(60, 2).astype(dtype))


def test_words_and_numbers_in_the_wrong_place_are_refused_in_one_line():
    budget = PrivacyAccountant(2, 1e-6)
    for error, words, call in [
        (TypeError, "whole must hold numbers only, got ", lambda: Box([0], [1], whole=["x"])),
        (TypeError, "name must be a string, got ", lambda: budget.children([0.1, 0.2], name=3)),
        (TypeError, r"name must be a string, got a list of 1\.", lambda: from_bytes(b"", [["SECRET"]])),
        (LedgerError, r"[^\n]*no\\nwhere", lambda: PrivacyAccountant(1, ledger="no\nwhere/budget.db")),
    ]:
        refuses(error, rf"^{words}[^\n]*$", call)
    assert budget.spent == 0


def test_no_cell_that_is_given_for_a_budget_or_a_seed_is_shown():
    model, words = PrivateMeasureMechanism(depth=2), []
    for epsilons in (pd.Series(["SECRET", "x"]), np.array([b"SECRET"]), {0.1, 1.0}):
        with pytest.raises(ValueError, match=r"^epsilons must be a number or a list of numbers, got a \w+ of [^\n]*\.$") as caught:
            plan(model, 100, n_features=1, epsilons=epsilons)
        words.append(str(caught.value))
    for seed in ([["SECRET"]], -1, 2**64, np.timedelta64(1, "D"), "x"):
        with pytest.raises(ValueError, match=r"^random_state must be None, [^\n]*\.$") as caught:
            audit_epsilon(model, *worst_case_neighbors(model, 20), n_trials=20, random_state=seed)
        words.append(str(caught.value))
    assert "SECRET" not in "".join(words)


def test_conditions_work_where_underflow_is_an_error():
    model = LatentFactorSynthesizer({"a": (0, 1), "b": (0, 1)}, n_factors=1).fit(FRAME)
    with np.errstate(all="raise"):
        assert (model.sample(3, random_state=0, conditions={"a": 0})["a"] == 0).all()
