"""Plan of a search, from public facts alone, before anything is charged."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import blake2b
from typing import Any

import numpy as np
from sklearn.exceptions import FitFailedWarning

from skdpsynth._sklearn import take_rows
from skdpsynth._validation import short_repr
from skdpsynth.domain import Box, Schema
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.fitting import Budget, Facts, Plan, check_part
from skdpsynth.frames import Rows
from skdpsynth.model_selection._utility_scores import Utility, make_utility
from skdpsynth.privacy import Mechanism, PrivacyLoss, mechanism, split_exactly
from skdpsynth.statistics import RowCount
from skdpsynth.tables import encode

SCORINGS = ("auto", "sliced_wasserstein", "marginals", "captured_variance")
_CHOICE, _SCORES = 1, 1  # shares of the budget of held-out rows for the choice and for the shown scores
_COUNT = Fraction(1, 20)  # share of it for their number, if that is private


@dataclass(frozen=True)
class Run:
    """A candidate that the estimator does not refuse."""

    place: int  # among all candidates
    loss: PrivacyLoss  # of its fit on the training rows
    told: Sequence[Any]  # warnings of its refit, as (text, category)
    final_spends_delta: bool


@dataclass(frozen=True, kw_only=True)
class SearchPlan(Plan):
    """The budget of a search in parts."""

    n_samples: int | None  # None where it is private
    params: list[dict[str, Any]]  # of all candidates
    runs: list[Run]  # the candidates that are fitted
    training: Facts  # of each candidate; its bounds are those of the estimator
    final: Facts | None  # of the refit
    learning: PrivacyLoss  # from the training rows
    asking: PrivacyLoss  # of the held-out rows, with the same epsilon
    utility: Utility
    schema: Schema | None  # of rows that are encoded to be compared
    choice: PrivacyLoss
    noise: Mechanism  # on the scores
    count: Mechanism | None  # of the number of held-out rows, where it is private


def plan_search(
    part_of: Callable[[dict[str, Any]], Any],
    params: list[dict[str, Any]],
    facts: Facts,
    scoring: str,
    share: float | None,
    holdout: float,
    raises: bool,
) -> SearchPlan:
    """Plan a search of `params`, whose unfitted estimators `part_of` makes.

    `share` is the share of the search in the budget (None: all of it, and no refit). With `raises`, a refused candidate ends the search.
    """
    weights = [1] if share is None else [share, 1 - share]
    epsilons, deltas = split_exactly(facts.epsilon, weights), split_exactly(facts.delta, weights)
    final = None if share is None else facts.part(epsilon=epsilons[1], delta=deltas[1])
    n_training = None if facts.n_samples is None else facts.n_samples - n_held_out(facts.n_samples, holdout)
    search = facts.part(epsilon=epsilons[0], delta=deltas[0], n_samples=n_training)
    runs, training = _runs(part_of, params, facts, search, final, raises)
    box = facts.box if facts.schema is None else _unit_box(facts.schema)
    utility, relation, asking = make_utility(scoring, box), facts.neighboring, PrivacyLoss(search.epsilon)
    first, rest = asking.split([_COUNT, 1 - _COUNT]) if facts.n_samples is None else (None, asking)
    choice, scores = rest.split([_CHOICE, _SCORES])
    return SearchPlan(
        any(run.loss.delta or run.final_spends_delta for run in runs),
        n_samples=facts.n_samples,
        params=params,
        runs=runs,
        training=_restore_bounds(training),
        final=None if final is None else _restore_bounds(final),
        learning=PrivacyLoss(search.epsilon, sum(run.loss.delta for run in runs)),
        asking=asking,
        utility=utility,
        schema=facts.schema,
        choice=choice,
        noise=mechanism(utility.sensitivity_of(len(runs), relation), scores, ("laplace",), len(runs)),
        count=None if first is None else mechanism(RowCount(0).query(relation).sensitivity, first, ("laplace",)),
    )


def _runs(
    part_of: Callable[[dict[str, Any]], Any], params: list[dict[str, Any]], facts: Facts, search: Facts, final: Facts | None, raises: bool
) -> tuple[list[Run], Facts]:
    """Return the accepted candidates and the facts of each fit; refused ones get no share.

    Candidates are asked again once shares have grown, because others were refused.
    """
    places = list(range(len(params)))
    while places:
        training = replace(search, epsilon=search.epsilon / len(places), delta=search.delta / len(places))
        runs, doubts = [], []
        for place in places:
            asked = [each.part(n_samples=each.n_samples or 1) for each in (training, final) if each is not None]
            parts = [part_of(params[place]) for _ in asked]  # a name that is no parameter ends the search
            try:
                plans = [check_part(*each) for each in zip(parts, asked, strict=True)]
            except ValueError as error:
                if raises:
                    raise
                facts.warn(f"{describe_candidate(params[place])} is refused, so the search goes on without it: {error}", FitFailedWarning)
                continue
            loss = PrivacyLoss(training.epsilon, training.delta if plans[0].spends_delta else 0)
            told = asked[-1].told if final and facts.n_samples is not None else ()  # otherwise it would mention a made-up number of rows
            runs.append(Run(place, loss, told, final is not None and plans[-1].spends_delta))
            doubts.append(any(category is SmallSampleWarning for _, category in asked[0].told))
        if len(runs) == len(places):
            if all(doubts) and facts.n_samples is not None:
                share = float(training.epsilon)
                facts.warn(
                    f"Each of {len(runs)} candidates is fitted with epsilon={share:.3g} on {training.n_samples} rows, which "
                    "are so few that their comparison may be noise; use a smaller param_grid, more rows or a larger epsilon."
                )
            return runs, training
        places = [run.place for run in runs]
    raise ValueError("param_grid must hold a candidate that the estimator takes, but all are refused; error_score='raise' says why.")


def _restore_bounds(facts: Facts) -> Facts:
    """Return facts for an estimator that reads its table itself, so its bounds stay as the caller wrote them."""
    return facts.part(box=None, schema=None)


def _unit_box(schema: Schema) -> Box:
    width = encode([np.zeros(0, dtype=np.int64)] * len(schema.coded), schema).shape[1]
    return Box(np.zeros(width), np.ones(width))


def points_of(chunk: Any, plan: SearchPlan) -> np.ndarray:
    """Return rows as points of the box in which models are compared."""
    return np.asarray(chunk) if plan.schema is None else encode(chunk, plan.schema)


def describe_candidate(params: dict[str, Any]) -> str:
    return ", ".join(f"{name}={short_repr(value)}" for name, value in params.items()) or "the estimator as it is"


def n_held_out(n_samples: int, holdout: float) -> int:
    """Return the number of held-out rows among a public number of rows: at least one, and not all."""
    return min(max(1, round(holdout * n_samples)), n_samples - 1)


def held_out_mask(rows: Rows, n_samples: int | None, holdout: float, budget: Budget) -> np.ndarray:
    """Return which rows of a table in memory are held out; `n_samples` is None where it is private.

    For neighboring tables, one part is the same and the other is the same or a neighbor:

    - "replace_one": positions are drawn at random, without a look at the rows; the row that is replaced stands at one position, in one
      part.
    - "add_or_remove_one": one more row would shift all later positions. A keyed hash of its own cells sends each row to a part, whatever
      other rows there are, so one more row is one more row in one part. Equal rows stay together.
    """
    rng = budget.rng.child("split")
    if n_samples is not None:
        chosen = np.zeros(n_samples, dtype=bool)
        chosen[rng.generator().permutation(n_samples)[: n_held_out(n_samples, holdout)]] = True
        return chosen
    return _hashes(rows.collected(), rng.bytes(16)) < int(holdout * 2**64)


def _hashes(table: Any, key: bytes) -> np.ndarray:
    """Return a keyed 64-bit hash of each row; equal numbers have equal hashes, whatever their dtype."""
    columns = table if isinstance(table, list) else list(np.asarray(table).T)
    numbers = np.column_stack([np.asarray(column, dtype=float) for column in columns]) + 0.0  # no minus zero
    numbers[np.isnan(numbers)] = np.nan  # one kind of NaN
    hashed = [blake2b(row.tobytes(), digest_size=8, key=key).digest() for row in numbers]
    return np.frombuffer(b"".join(hashed), dtype=np.uint64)


def select_rows(X: Any, chosen: np.ndarray) -> Any:
    return take_rows(X, np.flatnonzero(chosen))
