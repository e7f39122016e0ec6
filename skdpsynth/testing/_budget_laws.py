"""Laws of the budget: amount and time of charges, noise that covers them, and units of privacy with many rows."""

import math
import time
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from skdpsynth._sensitivity import Sensitivity
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.privacy import (
    DiscreteGaussian,
    DiscreteLaplace,
    DiscreteMatrixLaplace,
    DiscreteSupNorm,
    PrivacyAccountant,
    PrivacyLoss,
    SecureBits,
    epsilon_beside,
    epsilon_of_rho,
    rho_of_epsilon,
)
from skdpsynth.testing._harness import (
    Draw,
    Estimator,
    catch_refusal,
    clone_with,
    clone_with_seed,
    current_roots,
    entries_of,
    fixed_bits,
    is_stream,
    kind_of,
    needs,
    record_warnings,
    relations,
    released_state,
    require,
    require_equal,
    rows,
    takes_nan,
    watch_releases,
)

_MILLIONTH = Fraction(1, 10**6)
_ROUNDING = 1 + 1e-9  # of the conversion of rho, which is computed in floats
_KINDS: dict[str, Any] = {
    "Gaussian": DiscreteGaussian,
    "MatrixLaplace": DiscreteMatrixLaplace,
    "SupNorm": DiscreteSupNorm,
    "Laplace": DiscreteLaplace,
}
_DRAWS = 10_000
_MOST = 3  # rows of a unit
_UNITS = 40
_ROWS = 180  # of these, more than count: a stream releases something of them


# Losses


@dataclass(frozen=True)
class NoiseLoss:
    """Loss of noise between two tables."""

    epsilon: Any = Fraction(0)  # Fraction or inf, of noise with a pure loss
    rho: Any = Fraction(0)  # of Gaussian noise, in zCDP: the sum of change^2 over 2 scale^2
    gaussian: Any = Fraction(0)  # half of mu^2 of the continuous noise that was rounded: over 2 (scale^2 - 5/3); inf for scales below 3

    def __add__(self, other: "NoiseLoss") -> "NoiseLoss":
        return NoiseLoss(self.epsilon + other.epsilon, self.rho + other.rho, self.gaussian + other.gaussian)


def pair_loss(draw: Draw, other: Draw) -> NoiseLoss:
    """Return the exact loss of one answer between the tables of two draws.

    Laplace noise loses the sum of |change| over scale, sup-norm noise the largest of them, matrix Laplace noise the sum of the absolute
    eigenvalues of the change over scale, Gaussian noise sums of squares.
    """
    kind = kind_of(draw.noise)
    if "MatrixLaplace" in kind:
        norm, scale = float(np.abs(np.linalg.eigvalsh((draw.values - other.values).astype(float))).sum()), Fraction(draw.noise.scale)
        loss = Fraction(norm * (1 - 1e-9)) / scale if scale else math.inf  # less what floats may be wrong
        return NoiseLoss(loss) if norm else NoiseLoss()
    moved = np.flatnonzero(draw.values.ravel() != other.values.ravel())
    if not len(moved):
        return NoiseLoss()
    scales = np.broadcast_to(np.asarray(draw.noise.scale, dtype=object), draw.values.shape).ravel()[moved]
    if any(scale == 0 for scale in scales):
        return NoiseLoss(math.inf)
    first, second = draw.values.ravel()[moved].tolist(), other.values.ravel()[moved].tolist()
    changes = [(Fraction(abs(a - b)), Fraction(scale)) for a, b, scale in zip(first, second, scales, strict=True)]
    if "Gaussian" in kind:
        return sum((gaussian_loss(sensitivity**2, scale) for sensitivity, scale in changes), NoiseLoss())
    return loss_of_ratios(kind, [sensitivity / scale for sensitivity, scale in changes])


def gaussian_loss(squared: Fraction, scale: Fraction) -> NoiseLoss:
    continuous = scale**2 - Fraction(5, 3)
    return NoiseLoss(rho=squared / (2 * scale**2), gaussian=squared / (2 * continuous) if scale >= 3 else math.inf)


def loss_of_ratios(kind: str, ratios: list[Fraction]) -> NoiseLoss:
    """Return the loss of noise of a pure kind, from |change| over scale of each value."""
    if "SupNorm" in kind:
        return NoiseLoss(max(ratios))
    if "Laplace" in kind:
        return NoiseLoss(sum(ratios, Fraction(0)))
    raise AssertionError(f"the noise {kind} has no loss that is known here")


# The ledger


def check_the_ledger_sums_to_epsilon(estimator: Estimator) -> None:
    """The total of pure losses is exactly epsilon; with delta it is at most epsilon, and short of it by under a millionth."""
    for epsilon, delta in ((0.1, None), (1, None), (Fraction(1, 3), None), (7.5, None), (0.7, 1e-6)):
        delta = estimator.delta if delta is None else delta
        spent = clone_with(estimator, epsilon=epsilon, delta=delta).fit(rows(300)).accountant_.spent
        exact = Fraction(str(epsilon))
        least = exact * (1 - _MILLIONTH) if delta else exact
        require(least <= spent <= exact, f"epsilon={epsilon} and delta={delta} spent {spent}")


def check_delta_is_charged_where_gaussian_noise_is_drawn(estimator: Estimator) -> None:
    """A fit charges delta if it draws Gaussian noise, and else leaves it to others."""
    shared = PrivacyAccountant(1, 1e-6, neighboring=estimator.neighboring)
    clone_with(estimator, epsilon=1, delta=1e-6, accountant=shared).fit(rows())
    gaussian = any("Gaussian" in str(entry.noise) for entry in entries_of(shared))
    charged = shared.spent_delta
    require(gaussian == (charged > 0), f"delta={float(charged):g} was charged for {'' if gaussian else 'no '}Gaussian noise")


def check_infinite_epsilon_is_recorded_as_an_infinite_loss(estimator: Estimator) -> None:
    """Without noise the ledger says inf."""
    fitted = clone_with(estimator, epsilon=float("inf")).fit(rows())
    require(fitted.accountant_.spent == math.inf, f"spent is {fitted.accountant_.spent}")
    require("inf" in repr(fitted.accountant_), f"the accountant shows {fitted.accountant_!r}")


def check_a_shared_accountant_is_charged_epsilon_at_each_fit(estimator: Estimator) -> None:
    """A shared accountant is charged the whole epsilon at each fit, or its rho, and refuses what it lacks without a trace."""
    shared = PrivacyAccountant(1, estimator.delta * 2, neighboring=estimator.neighboring)
    fitted = clone_with(estimator, epsilon=0.4, accountant=shared).fit(rows())
    require(clone_with(fitted).accountant is shared, "a clone has another accountant")
    clone_with(fitted).fit(rows())
    losses = [entry.loss for entry in shared.ledger]
    in_rho, gaussian = losses[0].rho is not None, losses[0].gaussian
    whole = PrivacyLoss(rho=rho_of_epsilon(0.4, estimator.delta, gaussian=gaussian), gaussian=gaussian) if in_rho else PrivacyLoss(0.4)
    expected = [whole if in_rho else PrivacyLoss(0.4, loss.delta) for loss in losses]
    require(losses == expected, f"fits at 0.4 were charged {', '.join(map(str, losses))}")
    require(shared.spent <= Fraction(8, 10) and (in_rho or shared.spent == Fraction(8, 10)), f"two fits at 0.4 spent {shared.spent}")
    for _ in range(10 if in_rho else 1):
        before, spent = dict(vars(fitted)), shared.spent
        try:
            fitted.fit(rows())
        except BudgetExceededError:
            require(shared.spent == spent, f"a refused fit spent {shared.spent - spent}")
            require(_same(before, vars(fitted)), "a refused fit changed the object")
            return
    raise AssertionError("more fits at 0.4 than there are in 1 were not refused")


def check_a_refused_fit_spends_nothing_and_changes_nothing(estimator: Estimator) -> None:
    """A fit that is refused spends nothing, and leaves the object as it was."""
    shared = PrivacyAccountant(1, estimator.delta, neighboring=estimator.neighboring)
    fitted = clone_with(estimator).fit(rows())
    tables = [np.array([["a", "b", "c"]]), np.ones(5)] + ([] if takes_nan(estimator) else [np.full((5, 3), np.nan)])
    cases: list[tuple[Any, dict[str, Any]]] = [(table, {}) for table in tables]
    cases += [(np.ones((4, 7)), {"bounds": (1, 0)})] if "bounds" in fitted.get_params(deep=False) else []
    for table, bad in (*cases, (rows(), {"epsilon": -1})):
        keep = {name: getattr(fitted, name) for name in (*bad, "accountant")}
        before = dict(vars(fitted))
        try:
            fitted.set_params(accountant=shared, **bad).fit(table)
        except (ValueError, TypeError):
            fitted.set_params(**keep)
        else:
            raise AssertionError(f"{bad or 'a table of other things than numbers'} was accepted")
        require(shared.spent == 0, f"a refused fit spent {shared.spent}")
        require(_same(before, vars(fitted)), "a refused fit changed the object")
    if is_stream(fitted):
        before = dict(vars(fitted))
        catch_refusal(partial(fitted.partial_fit, np.ones((2, 5))), "more rows of another width")
        require(_same(before, vars(fitted)), "a refused partial_fit changed the object")


def check_an_accountant_of_another_relation_is_refused(estimator: Estimator) -> None:
    """A shared accountant counts under the relation of the estimator, or is refused before it is charged."""
    other = "replace_one" if estimator.neighboring == "add_or_remove_one" else "add_or_remove_one"
    shared = PrivacyAccountant(1, neighboring=other)
    error = catch_refusal(partial(clone_with(estimator, accountant=shared).fit, rows()), "an accountant of another relation")
    require("neighboring" in str(error), f"it was refused with {error}")
    require(shared.spent == 0, f"it was refused, but charged {shared.spent}")


def check_the_ledger_as_a_frame_sums_to_what_was_spent(estimator: Estimator) -> None:
    """The column epsilon of `to_frame` sums to what was spent."""
    if not find_spec("pandas"):
        return
    for delta in {estimator.delta, 1e-6}:
        shared = PrivacyAccountant(2, 3 * delta, neighboring=estimator.neighboring)
        for accountant in (clone_with(estimator, epsilon=0.5, delta=delta, accountant=shared).fit(rows()).accountant_, shared):
            shown, spent = accountant.to_frame()["epsilon"].sum(), float(accountant.spent)
            require(abs(shown - spent) <= 1e-9 * spent, f"the column sums to {shown:g}, and {spent:g} was spent")


def check_absurd_epsilons_are_served_or_refused_before_the_charge(estimator: Estimator) -> None:
    """An epsilon far out of any use fits, or is refused before anything is spent."""
    for epsilon in (1e-300, 1e-17, 1e-3, 1e4, 1e300):
        shared = PrivacyAccountant(math.inf, estimator.delta, neighboring=estimator.neighboring)
        fitted = clone_with(estimator, epsilon=epsilon, accountant=shared)
        try:
            fitted.fit(rows())
        except ValueError as error:
            require(epsilon != 1e-3, f"epsilon=0.001 is of use, but was refused: {error}")
            require(shared.spent == 0, f"epsilon={epsilon:g} was refused, but spent {float(shared.spent):g}")
        else:
            # A stream has spent nothing before its first rows are released.
            spent = fitted.accountant_.spent
            whole = fitted.accountant_.remaining <= fitted.accountant_.epsilon * (_MILLIONTH if estimator.delta else 0)
            require(whole or (is_stream(fitted) and spent == 0), f"epsilon={epsilon:g} spent {float(spent):g}")


def check_a_fit_does_not_fail_after_its_charge(estimator: Estimator) -> None:
    """Under both relations, and over a grid of epsilon and delta, a fit is refused before anything is spent, or does not fail."""
    for relation in relations(estimator):
        for epsilon, delta in ((0.2, 1e-6), (5, 0), (5, 1e-6)):
            shared = PrivacyAccountant(epsilon, delta, neighboring=relation)
            try:
                clone_with(estimator, epsilon=epsilon, delta=delta, neighboring=relation, accountant=shared).fit(rows(30))
            except Exception as error:
                where = f"epsilon={epsilon}, delta={delta} and neighboring={relation!r}"
                require(shared.spent == 0 and isinstance(error, ValueError), f"{where} met, once charged, {type(error).__name__}: {error}")


def check_absurd_epsilons_take_no_longer(estimator: Estimator) -> None:
    """Epsilons from 1e4 to infinity take at most ten times a fit at 100 and half a second, or are refused before the charge."""
    # Training takes longer with little noise, so a fit at epsilon=1 is no yardstick.
    usual = min(_seconds(estimator, epsilon=100.0) for _ in range(2))
    for epsilon in (1e4, 1e8, 1e15, math.inf):
        tries = (_seconds(estimator, epsilon=epsilon) for _ in range(3))  # other processes take processor time, too
        require(any(taken <= 10 * usual + 0.5 for taken in tries), f"epsilon={epsilon:g} took over 10 * {usual:.3f} + 0.5 s three times")


def _seconds(estimator: Estimator, **parameters: Any) -> float:
    unfitted, table = clone_with(estimator, **parameters), rows(300)
    start = time.process_time()
    try:
        unfitted.fit(table)
    except ValueError as error:
        require("epsilon" in str(error), f"{parameters} was refused: {error}")
    return time.process_time() - start


# The noise covers the loss


def check_the_noise_of_every_entry_covers_its_loss(estimator: Estimator) -> None:
    """Each entry states by how much one row moves its values; its noise loses at most what was charged, and is what its class says."""
    for relation, delta in relation_delta_pairs(estimator):
        with watch_releases() as door:
            accountant = clone_with(estimator, neighboring=relation, delta=delta).fit(rows()).accountant_
        for draw in door.draws:
            _check_noise_variance(draw)
        drawn = [entry for entry in entries_of(accountant) if entry.noise is not None]
        require(drawn, "something was charged, but nothing was drawn at the door")
        for entry in drawn:
            require(entry.sensitivity is not None, f"{entry.name!r} does not state its change")
            stated = entry.sensitivity.relation
            require(stated == relation, f"{entry.name!r} states its change under {stated}, the fit is under {relation}")
            loss = noise_loss(entry.noise, entry.scale, entry.sensitivity)
            require(is_covered(loss, entry.loss), f"{entry.name!r} costs {_text(loss)} by its noise, and was charged {entry.loss}")


def relation_delta_pairs(estimator: Estimator) -> list[tuple[str, Any]]:
    """Return each relation with and without delta, or with the estimator's own."""
    return [(relation, delta) for relation in relations(estimator) for delta in ([estimator.delta] if estimator.delta else [0.0, 1e-6])]


def _check_noise_variance(draw: Draw) -> None:
    """Refuse noise of a foreign class whose draws do not have the variance of its kind and scale.

    The estimated variance of 10^4 draws from fixed bits deviates by 2 % (Laplace; 3 % at the least scale that is asked), and up to a half
    is accepted. A false alarm is beyond ten standard errors, and repeats.
    """
    noise, kind = draw.noise, kind_of(draw.noise)
    if type(noise) in _KINDS.values() or not draw.values.size:
        return
    twin = next((cls for name, cls in _KINDS.items() if name in kind), None)
    require(twin is not None, f"the noise {kind} has no loss that is known here")
    scales = np.broadcast_to(np.asarray(noise.scale, dtype=object), draw.values.shape)
    asked = np.array([scale >= Fraction(1, 2) for scale in scales.ravel()])
    if not asked.any():
        return  # hardly any noise: the loss is large, and charged
    n_values = draw.values.size
    wanted = np.broadcast_to(twin(noise.scale).variance(n_values), draw.values.shape).ravel()[asked]  # type: ignore[misc]
    stated = np.broadcast_to(noise.variance(n_values), draw.values.shape).ravel()[asked]
    with fixed_bits():
        drawn = [noise.sample(draw.values.shape, SecureBits()).ravel()[asked] for _ in range(max(2, -(-_DRAWS // n_values)))]
    found = np.square(np.array(drawn, dtype=float))
    for variance, whose in ((wanted, f"a {twin.__name__} of its scale has"), (stated, "it states")):  # type: ignore[union-attr]
        ratio = float(np.mean(found / variance)) if np.all(variance > 0) else math.inf
        require(0.5 <= ratio <= 2, f"the draws of {kind} have {ratio:.2g} times the variance that {whose}")
    require(any((again != drawn[0]).any() for again in drawn), f"all draws of {kind} are the same")


def noise_loss(kind: str, scales: tuple, sensitivity: Sensitivity) -> NoiseLoss:
    """Return the loss of noise with these scales, of which the smallest counts, for a sensitivity.

    Laplace: l1 / scale. Matrix Laplace: nuclear / scale. Sup-norm: sup / scale. Gaussian: by l2_squared.
    """
    if min(scales) == 0:
        return NoiseLoss(math.inf if sensitivity.sup else Fraction(0))
    if "Gaussian" in kind:
        return gaussian_loss(sensitivity.l2_squared, min(scales))
    norm = sensitivity.nuclear if "MatrixLaplace" in kind else sensitivity.sup if "SupNorm" in kind else sensitivity.l1
    return loss_of_ratios(kind, [norm / min(scales)])


def is_covered(lost: NoiseLoss, charged: PrivacyLoss) -> bool:
    epsilon, rho = lost.epsilon, lost.rho
    if charged.gaussian:
        return charged.rho == math.inf or (not epsilon and lost.gaussian <= charged.rho)
    if charged.rho is not None:
        return rho + (Fraction(epsilon) ** 2 / 2 if epsilon != math.inf else math.inf) <= charged.rho or charged.rho == math.inf
    if charged.epsilon == math.inf:
        return True
    if not rho:
        return epsilon <= charged.epsilon
    if not charged.delta:
        return False
    # Pure and Gaussian losses together keep a promise by the best of four bounds.
    rounded = float(epsilon_of_rho(lost.gaussian, charged.delta, gaussian=True))
    apart = float(epsilon) + min(float(epsilon_of_rho(rho, charged.delta)), rounded)
    both = min(apart, float(epsilon_of_rho(rho + Fraction(epsilon) ** 2 / 2, charged.delta)))
    beside = float(epsilon_beside(epsilon, charged.epsilon, charged.delta)) if 0 < epsilon < charged.epsilon else 0.0
    return both <= float(charged.epsilon) * _ROUNDING or rounded <= beside * _ROUNDING


def _text(lost: NoiseLoss) -> str:
    epsilon, rho = lost.epsilon, lost.rho
    return f"epsilon={float(epsilon):g}" if not rho else f"rho={float(rho):g}" + (f" and epsilon={float(epsilon):g}" if epsilon else "")


def check_neighbors_that_get_the_same_answers_lose_at_most_epsilon(estimator: Estimator) -> None:
    """Given back the answers of its neighbor, a table has lost at most what was charged, answer by answer and in all."""
    for relation, delta in relation_delta_pairs(estimator):
        unfitted = clone_with(estimator, random_state=None, neighboring=relation, delta=delta, bounds=(0.0, 1.0))
        table, neighbors = worst_neighbors(relation)
        with watch_releases() as door, fixed_bits():
            accountant = clone_with(unfitted).fit(table).accountant_
            answers = door.take()
            refuse_unseen_releases(answers, accountant)
            for neighbor in neighbors:
                door.replay(answers)
                with fixed_bits():  # so that rows are hashed by the same key
                    clone_with(unfitted).fit(neighbor)
                require_covered_answers(answers, door.take(), accountant)


def refuse_unseen_releases(draws: list[Draw], accountant: PrivacyAccountant) -> None:
    """Refuse releases that no law can observe: in another thread, or through a foreign accountant."""
    listed = sum(entry.n_values is not None for entry in entries_of(accountant))  # a standing release does not state its number of values
    seen = sum(not draw.standing for draw in draws)
    require(listed <= seen, f"the ledger lists {listed} releases, but only {seen} went through the door of the thread that fits")


def worst_neighbors(relation: str, n_rows: int = 40) -> tuple[Any, list[Any]]:
    """Return a table and its neighbors: the first row moves from a corner of the box to others and to the middle, or disappears."""
    if (roots := current_roots()) is not None:
        return roots.neighbors(relation, n_rows)
    table = rows(n_rows)
    table[0] = 0.0
    if relation == "add_or_remove_one":
        return table, [table[1:], np.vstack([table, [1.0, 0.0, 1.0]]), np.vstack([np.full(3, 0.375), table])]
    return table, [np.vstack([[row], table[1:]]) for row in ([1.0, 1.0, 1.0], [1.0, 0.0, 1.0], [0.375, 0.375, 0.375])]


def require_covered_answers(answers: list[Draw], others: list[Draw], accountant: PrivacyAccountant) -> None:
    require(len(answers) == len(others), f"{len(answers)} releases for a table, {len(others)} for its neighbor")
    whole = PrivacyLoss(accountant.epsilon, accountant.delta)
    total = NoiseLoss()
    for first, second in zip(answers, others, strict=True):
        lost = pair_loss(first, second)
        if first.shared:
            # Answers that share noise lose less together than their sum; the ledger states the sensitivity of their parts.
            require(is_covered(lost, whole), f"{first.name!r} alone lost {_text(lost)} of a budget of {whole}")
            continue
        charged = first.loss if isinstance(first.loss, PrivacyLoss) or first.loss is None else PrivacyLoss(epsilon=first.loss)
        if charged is not None:
            require(is_covered(lost, charged), f"{first.name!r} lost {_text(lost)}, and was charged {charged}")
        total = total + lost
    require(is_covered(total, whole), f"all lost {_text(total)} of a budget of {whole}")


def _same(before: dict[str, Any], after: dict[str, Any]) -> bool:
    return before.keys() == after.keys() and all(after[name] is before[name] for name in before)


# Units


def _max_rows_per_unit(estimator: Estimator, **parameters: Any) -> int:
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


@needs("max_rows_per_unit")
def check_units_that_get_the_same_answers_lose_at_most_epsilon(estimator: Estimator) -> None:
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
            for neighbor, unit in _neighbors_of_units(table, labels, relation):
                door.replay(answers)
                with fixed_bits():  # the same key chooses the rows that count, as it does with the same chance
                    clone_with(estimator, random_state=None, **settings).fit(neighbor, unit=unit)
                require_covered_answers(answers, door.take(), accountant)


def _neighbors_of_units(table: np.ndarray, labels: np.ndarray, relation: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return tables in which one unit has other rows or none, or another unit has come."""
    other = labels != _UNITS
    if relation == "replace_one":
        return [(np.where(other[:, None], table, corner), labels) for corner in ([1.0, 1.0, 1.0], [1.0, 0.0, 1.0], [0.375] * 3)]
    came = np.vstack([np.ones((50, 3)), table]), np.append(np.full(50, _UNITS + 1), labels)
    return [(table[other], labels[other]), came]


@needs("max_rows_per_unit")
def check_rows_beyond_the_most_of_their_unit_change_nothing(estimator: Estimator) -> None:
    """A unit with a hundred equal rows is learned from, and warned of, as if it had only `most`; rows without a label as if not there."""
    most = _max_rows_per_unit(estimator)
    table, labels = _table_with_units()
    labels[100:] = np.arange(_ROWS) // most  # the others have as many as count
    first = np.append(np.arange(100) < most, np.full(_ROWS, True))
    labels[:100] = _ROWS
    more, named = np.vstack([table, np.ones((20, 3))]), [*labels.tolist(), *[None] * 20]
    with record_warnings() as of_whole:
        whole = clone_with_seed(estimator, max_rows_per_unit=most).fit(more, unit=named)
    with record_warnings() as of_few:
        few = clone_with_seed(estimator, max_rows_per_unit=most).fit(table[first], unit=labels[first])
    words = [[str(w.message) for w in caught] for caught in (of_whole, of_few)]
    require(words[0] == words[1], f"with rows beyond the most of their unit a fit warns with {words[0]}, else with {words[1]}")
    require_equal(released_state(whole), released_state(few), "with rows beyond the most of their unit")
    require(not hasattr(whole, "n_samples_") or whole.n_samples_ == few.n_samples_, "they count in n_samples_")


@needs("max_rows_per_unit", unless="partial_fit")
def check_rows_of_other_units_decide_nothing(estimator: Estimator) -> None:
    """The order of rows means nothing, be they of one unit or of several, and also where a unit has more different rows than count."""
    most = _max_rows_per_unit(estimator)
    table, labels = np.vstack([rows(100), rows(_ROWS)]), _table_with_units()[1]
    order = np.random.default_rng(1).permutation(len(labels))
    first = clone_with_seed(estimator, max_rows_per_unit=most).fit(table, unit=labels)
    second = clone_with_seed(estimator, max_rows_per_unit=most).fit(table[order], unit=labels[order])
    require_equal(released_state(first), released_state(second), "between orders of rows")


@needs("max_rows_per_unit")
def check_noise_for_units_of_k_rows_is_k_fold(estimator: Estimator) -> None:
    """With delta 0 and k rows of a unit, k epsilon releases what epsilon does of rows: all noise is exactly k times larger."""
    if estimator.delta:
        return
    most = _max_rows_per_unit(estimator, delta=0)
    table, labels = rows(100), np.arange(100) % 40
    units = clone_with_seed(estimator, delta=0, epsilon=most * 0.5, max_rows_per_unit=most).fit(table, unit=labels)
    alone = clone_with_seed(estimator, delta=0, epsilon=0.5).fit(table if most > 1 else table[:40])
    scales = [[entry.scale for entry in entries_of(fitted.accountant_)] for fitted in (units, alone)]
    require(scales[0] == scales[1], f"the scales are {scales[0]}, and those of rows {scales[1]}")
    of_units, of_rows = ({path: leaf for path, leaf in released_state(fitted).items() if "(" in path} for fitted in (units, alone))
    require_equal(of_units, of_rows, "between units and rows")


@needs("max_rows_per_unit")
def check_the_ledger_says_the_unit(estimator: Estimator) -> None:
    """Each entry of a fit with units says whom it protects; those of a fit without say none."""
    most = _max_rows_per_unit(estimator)
    table, labels = rows(200), np.arange(200) % 70  # a stream has released something of so many
    fitted = clone_with(estimator, max_rows_per_unit=most).fit(np.column_stack([labels, table]), unit=0)
    require(fitted.n_features_in_ == 3, f"the column of the units counts among the {fitted.n_features_in_} features")
    said = {entry.unit for entry in entries_of(fitted.accountant_)}
    require(said == {f"column 0, at most {most} row{'s' * (most > 1)}"}, f"the ledger says {said}")
    said = {entry.unit for entry in entries_of(clone_with(estimator).fit(table).accountant_)}
    require(said == {None}, f"the ledger of a fit to rows says {said}")
