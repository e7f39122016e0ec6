"""The public laws: a class from outside the package passes them, and broken ones fail the right law."""

import warnings
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pytest
from internals import LAWS, Noise, fixed_bits, rows, watch_releases
from laws import in_threads, refuses

from skdpsynth import PrivateMeasureMechanism, PrivatePCA
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.fitting import Plan
from skdpsynth.measures import DiscreteMeasure, Lattice
from skdpsynth.persistence import savable
from skdpsynth.privacy import DiscreteLaplace, Mechanism, PrivacyAccountant, PrivacyLoss, SecureBits, mechanism
from skdpsynth.statistics import Histogram, Query, Sensitivity, total
from skdpsynth.synthesis import PrivateSynthesizer
from skdpsynth.testing import check_synthesizer


@dataclass(frozen=True)
class Cells(Plan):
    """The cells that are counted, and the noise of their counts."""

    cells: Any = None
    noise: Mechanism | None = None


@savable
class NoisyHistogram(PrivateSynthesizer):
    """Counts of the cells of a grid, with noise; what falls below zero is cut off."""

    def __init__(
        self, n_parts=4, *, epsilon=1.0, delta=0.0, bounds=(0.0, 1.0), neighboring="replace_one", accountant=None, random_state=None
    ):
        self.n_parts = n_parts
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.neighboring = neighboring
        self.accountant = accountant
        self.random_state = random_state

    def _plan(self, facts):
        if not isinstance(self.n_parts, int) or not 1 <= self.n_parts <= 10:
            raise ValueError("n_parts must be a whole number from 1 to 10; 4 is the default.")
        cells = Lattice(facts.box, (self.n_parts,) * facts.n_features)
        return Cells(
            cells=cells, noise=mechanism(Histogram.sensitivity(facts.neighboring), PrivacyLoss(epsilon=facts.epsilon), ("laplace",))
        )

    def _release(self, rows, plan, budget):
        noisy = budget.answer(total(rows, Histogram.over(plan.cells)).query(budget.relation), plan.noise, "counts of the cells")
        self._keep(noisy, plan.cells)

    def _keep(self, noisy, cells):
        weights = np.maximum(noisy, 0) + 1e-9
        everywhere = np.arange(len(noisy))
        self.measure_ = DiscreteMeasure.from_mass(cells, everywhere, np.zeros_like(everywhere), weights / weights.sum())

    def _sample_rows(self, n_samples, rng):
        return self.measure_.sample(n_samples, rng)


@pytest.mark.parametrize("estimator", [NoisyHistogram(), NoisyHistogram(2, neighboring="add_or_remove_one")])
def test_a_class_from_outside_the_package_keeps_all_laws_which_leave_it_as_it_was(estimator):
    before, door = dict(vars(estimator)), PrivacyAccountant.release
    check_synthesizer(estimator)
    assert vars(estimator) == before
    assert PrivacyAccountant.release is door


# Broken ones: a function takes the place of a method of the right class, and names the laws that it breaks

BROKEN = []
COVERS, LOSE = "the_noise_of_every_entry_covers_its_loss", "neighbors_that_get_the_same_answers_lose_at_most_epsilon"
LEAVES = "what_leaves_depends_on_the_answers_alone"


def breaks(*laws, method="_release", **attributes):
    def made(function):
        cls = type(function.__name__, (NoisyHistogram,), {method: function, **attributes})
        BROKEN.extend((cls, law) for law in laws)
        return cls

    return made


def counted(rows, plan):
    return total(rows, Histogram.over(plan.cells))


def released(rows, plan, budget, noise, **stated):
    """Pass counts through the door with a noise of the caller's own."""
    return budget.accountant.release(counted(rows, plan).counts, noise, budget.rng, name="counts", loss=plan.noise.loss, **stated)


def half_of(plan):
    return mechanism(plan.noise.sensitivity, PrivacyLoss(epsilon=plan.noise.loss.epsilon / 2), ("laplace",))


@breaks(COVERS)
def TooLittleNoise(self, rows, plan, budget):
    """Says by how much a row moves the counts, and draws an eighth of the noise for it."""
    self._keep(released(rows, plan, budget, DiscreteLaplace(plan.noise.noise.scale / 8), sensitivity=plan.noise.sensitivity), plan.cells)


@breaks(COVERS, LOSE)
def TooLittleNoiseForAnUnstatedChange(self, rows, plan, budget):
    self._keep(released(rows, plan, budget, DiscreteLaplace(plan.noise.noise.scale / 8)), plan.cells)


@breaks(LOSE)
def TooLittleNoiseForAFalseChange(self, rows, plan, budget):
    """Counts each row eight times, and says that it counts it once."""
    query = Query(8 * counted(rows, plan).counts, Histogram.sensitivity(budget.relation))
    self._keep(budget.answer(query, plan.noise, "counts"), plan.cells)


@breaks(COVERS, LEAVES)
def NoiseOfItsOwn(self, rows, plan, budget):
    """Draws beside the door."""
    budget.accountant.spend(plan.noise.loss, name="counts")
    self._keep(counted(rows, plan).counts + np.random.default_rng().integers(-3, 4, plan.cells.n_cells), plan.cells)


def mean(rows):
    return rows.collect().mean(axis=0)


def refuse(model, *_):
    if model.epsilon > 1000:
        raise ValueError("epsilon must be at most 1000; take less.")


AFTERWARDS = {  # what is done with the rows after the release, and attributes that it leaves
    "TellsOfRows": (LEAVES, lambda _, rows, __: {"n_inside_": int(((rows.collect() >= 0) & (rows.collect() <= 1)).all(axis=1).sum())}),
    "TellsOfManyRows": (LEAVES, lambda _, rows, __: {"mean_": mean(rows)} if 300 < rows.n_samples < 1000 else {}),
    "TellsOfOneColumn": (LEAVES, lambda _, rows, __: {"mean_": mean(rows)} if rows.n_features == 1 else {}),
    "TellsOfManyColumns": (LEAVES, lambda _, rows, __: {"mean_": mean(rows)} if rows.n_features > 3 else {}),
    "TellsOfWholeNumbers": (LEAVES, lambda _, rows, __: {"dtype_": np.dtype(float if np.mod(rows.collect(), 1).any() else int)}),
    # An error that follows from the exact number of rows, but for few, where it is as large as the box.
    "TellsOfTheBoundOfManyRows": (
        "large_tables_leave_what_their_answers_say",
        lambda _, rows, __: {"error_bound_": min(1.0, 500 / rows.n_samples)},
    ),
    "WarnsOfRows": (LEAVES, lambda _, rows, budget: budget.warn("some are large") if (rows.collect() > 0.99).any() else None),
    "KeepsTheMean": (LEAVES, lambda _, rows, __: {"_mean": mean(rows)}),  # in a private attribute, which a pickle takes along
    "KeepsRows": ("a_pickle_holds_no_row_and_works", lambda _, rows, __: {"_rows": rows}),
    "RefusesAfterTheCharge": ("absurd_epsilons_are_served_or_refused_before_the_charge", refuse),
    "WarnsAfterTheCharge": ("warnings_as_errors_lose_no_money", lambda *_: warnings.warn("an experiment", UserWarning, stacklevel=2)),
}
for name, (law, act) in AFTERWARDS.items():

    def release(self, rows, plan, budget, act=act):
        NoisyHistogram._release(self, rows, plan, budget)
        vars(self).update(act(self, rows, budget) or {})

    release.__name__ = name
    globals()[name] = breaks(law)(release)  # where a pickle looks for it


@breaks(LEAVES)
def AsksWhatRowsSay(self, rows, plan, budget):
    """Releases once more where a row is large."""
    query, half = counted(rows, plan).query(budget.relation), half_of(plan)
    again = budget.answer(query, half, "again") if (rows.collect() > 0.99).any() else 0
    self._keep(budget.answer(query, half, "counts") + again, plan.cells)


class Box:
    """Holds what no pickle takes along."""

    def __init__(self, held):
        self.held = held

    def __getstate__(self):
        return {}


def keep_a_box(self, rows, plan, budget):
    NoisyHistogram._release(self, rows, plan, budget)
    self._box = Box(rows.collect().copy())


@breaks(LEAVES, method="_sample_rows", _release=keep_a_box)
def GivesRowsInLargeSamples(self, n_samples, rng):
    drawn = NoisyHistogram._sample_rows(self, n_samples, rng)
    if n_samples > 50:
        drawn[:5] = self._box.held[:5].clip(0, 1)
    return drawn


@breaks(LEAVES)
def IsHonestWithASeedOnly(self, rows, plan, budget):
    """Gives the exact counts where no test looks: the bits say that they are secure."""
    counts = counted(rows, plan)
    noisy = budget.answer(counts.query(budget.relation), plan.noise, "counts")
    self._keep(noisy if budget.rng.seeded else counts.counts + (noisy > counts.counts), plan.cells)


@dataclass(frozen=True)
class QuietLaplace(Noise):
    """Says that it is Laplace noise, and draws next to nothing."""

    scale: Any
    norm = "l1"

    def sample(self, size, rng):
        return rng.generator().integers(0, 2, size)

    def variance(self, n_values=1):
        return 2 * float(self.scale) ** 2


class FrankQuietLaplace(QuietLaplace):
    """States the variance of what it draws; but its scale is another."""

    def variance(self, n_values=1):
        return 0.5


@dataclass(frozen=True)
class LoudLaplace(QuietLaplace):
    """An honest noise of somebody else."""

    def sample(self, size, rng):
        return DiscreteLaplace(self.scale).sample(size, rng)


def release_by(cls):
    def release(self, rows, plan, budget):
        noise = cls(plan.noise.noise.scale) if plan.noise.noise.scale else plan.noise.noise
        self._keep(released(rows, plan, budget, noise, sensitivity=plan.noise.sensitivity), plan.cells)

    release.__name__ = f"NoiseOf{cls.__name__}"
    return release


NoiseOfAnotherClass = breaks()(release_by(LoudLaplace))
for cls in (QuietLaplace, FrankQuietLaplace):
    breaks(COVERS)(release_by(cls))


@breaks(LOSE)
def AnswersThroughAPartOfADoor(self, rows, plan, budget):
    """Charges for a standing release, and answers through a part of it with less noise."""
    noise, loss = plan.noise.noise, PrivacyLoss(epsilon=Fraction(1, 10**9))
    door = budget.accountant.standing(noise, budget.rng, name="counts", loss=plan.noise.loss, sensitivity=plan.noise.sensitivity)
    if noise.scale:
        door = door.part(DiscreteLaplace(1), loss, plan.noise.sensitivity)
    self._keep(door.release(counted(rows, plan).counts, "counts"), plan.cells)


@breaks("the_order_of_rows_means_nothing")
def ReadsTheOrder(self, rows, plan, budget):
    NoisyHistogram._release(self, rows.only(np.arange(rows.n_samples) < rows.n_samples // 2), plan, budget)


@breaks("the_input_is_read_only_and_of_any_layout")
def WritesToItsTable(self, rows, plan, budget):
    rows.collect().sort(axis=0)
    NoisyHistogram._release(self, rows, plan, budget)


FITS = WeakKeyDictionary()  # remembers from fit to fit, where no attribute can


@breaks("a_refit_leaves_nothing_of_the_fit_before", method="fit")
def CountsItsFits(self, X, y=None):
    FITS[self] = FITS.get(self, 0) + 1
    NoisyHistogram.fit(self, X, y)
    self.n_fits_ = FITS[self]
    return self


@breaks("no_refusal_of_a_table_quotes_a_cell", method="_open_table")
def QuotesACell(self, X):
    try:
        np.asarray(X, dtype=float)
    except ValueError as error:
        raise ValueError(f"X must hold numbers: {error}") from error
    return NoisyHistogram._open_table(self, X)


@breaks("a_table_in_place_of_a_parameter_is_not_printed", method="_plan")
def PrintsAParameter(self, facts):
    if not isinstance(self.n_parts, int):
        raise ValueError(f"n_parts must be a whole number, got {self.n_parts}.")
    return NoisyHistogram._plan(self, facts)


@breaks("warnings_name_the_file_and_line_of_the_caller", method="_plan")
def WarnsAtItsOwnLine(self, facts):
    warnings.warn("there are few rows", SmallSampleWarning, stacklevel=2)
    return NoisyHistogram._plan(self, facts)


@breaks("samples_lie_in_the_box_and_are_as_many_as_the_rows", method="_sample_rows")
def SamplesOutsideTheBox(self, n_samples, rng):
    return NoisyHistogram._sample_rows(self, n_samples, rng) + 1


@breaks("samples_repeat_by_their_own_seed_only", method="_sample_rows")
def SamplesAlwaysTheSame(self, n_samples, rng):
    return NoisyHistogram._sample_rows(self, n_samples, np.random.default_rng(0))


@breaks("a_fit_does_not_fail_after_its_charge", method="_plan")
def RefusesTheSecondPlan(self, facts):
    """Where the number of rows is private, the plan is made again after the charge."""
    if facts.neighboring == "add_or_remove_one" and facts.n_samples > 1:
        raise ValueError("n_parts must be less for so many rows; take 1.")
    return NoisyHistogram._plan(self, facts)


@breaks("errors_do_not_depend_on_the_rows", method="_open_table")
def RefusesConstantColumns(self, X):
    if np.ndim(X) == 2 and len(X) > 1 and not np.ptp(np.asarray(X, dtype=float), axis=0).all():
        raise ValueError("X must have no constant column; drop it.")
    return NoisyHistogram._open_table(self, X)


@breaks(LOSE)
def ReleasesInAThread(self, rows, plan, budget):
    in_threads(partial(NoisyHistogram._release, self, rows, plan, budget))


@breaks("the_ledger_sums_to_epsilon")
def LosesTheBudget(self, rows, plan, budget):
    """Spends half of what it charges."""
    self._keep(budget.answer(counted(rows, plan).query(budget.relation), half_of(plan), "counts"), plan.cells)


@breaks("fits_in_threads_leave_the_process_as_it_was")
def LeavesFiltersChanged(self, rows, plan, budget):
    warnings.simplefilter("ignore", SmallSampleWarning)
    NoisyHistogram._release(self, rows, plan, budget)


def law_of(name):
    return next(check for check in LAWS if check.__name__ == f"check_{name}")


@pytest.mark.parametrize(("cls", "law"), BROKEN)
def test_a_broken_class_fails_the_law_that_it_breaks(cls, law):
    """Its base keeps that law; and the error says which law, of whom, and what was found."""
    check = law_of(law)
    check(NoisyHistogram())
    refuses(AssertionError, rf"check_{law}: {cls.__name__} breaks the law .* Found: (?!TypeError|AttributeError).+", check, cls())


@dataclass(frozen=True)
class Copies(Cells):
    """Counts that are asked for several times."""

    times: int = 1


class AsksMoreOfMoreRows(NoisyHistogram):
    """Its noise is for the whole budget: Laplace for one row, and Gaussian would be less for more rows."""

    def _plan(self, facts):
        cells, times = Lattice(facts.box, (2,) * facts.n_features), 1 if facts.n_samples < 5 else 60
        once = Histogram.sensitivity(facts.neighboring)
        sensitivity = Sensitivity(facts.neighboring, times * once.l1, times * once.l2_squared, once.sup)
        noise = mechanism(sensitivity, facts.share, ("laplace", "gaussian"))
        return Copies(cells=cells, noise=noise, times=times, spends_delta=noise.spends_delta)

    def _release(self, rows, plan, budget):
        counts = np.tile(total(rows, Histogram.over(plan.cells)).counts, (plan.times, 1))
        noisy = budget.answer(Query(counts, plan.noise.sensitivity), plan.noise, "counts")
        self._keep(noisy.mean(axis=0), plan.cells)


def test_a_second_plan_has_no_delta_that_was_not_charged():
    estimator = AsksMoreOfMoreRows(delta=1e-6, neighboring="add_or_remove_one")
    law_of("a_fit_does_not_fail_after_its_charge")(estimator)
    ledger = estimator.fit(rows()).accountant_.ledger
    assert [entry.noise for entry in ledger] == ["DiscreteLaplace"] * 2


def test_a_noise_of_another_class_that_keeps_its_word_is_taken():
    law_of("the_noise_of_every_entry_covers_its_loss")(NoiseOfAnotherClass())


def test_a_plan_of_another_type_is_refused_by_name():
    class PlansNothing(NoisyHistogram):
        def _plan(self, facts):
            return {"cells": 3}

    refuses(TypeError, r"PlansNothing._plan must return a Plan, got a dict; derive yours", PlansNothing().fit, rows())


def test_laws_are_named_by_a_sentence_and_found_by_what_an_estimator_can_do():
    of_synthesizer, of_transformer = (
        {check.__name__ for _, check in check_synthesizer(estimator, generate_only=True)}
        for estimator in (PrivateMeasureMechanism(), PrivatePCA())
    )
    assert of_transformer < of_synthesizer
    assert "check_sample_refuses_a_bad_number_of_rows" in of_synthesizer - of_transformer
    assert len(LAWS) == len({law.__name__ for law in LAWS})
    assert all(law.__doc__.strip().endswith(".") and "\n" not in law.__doc__ for law in LAWS)


FEW_ROWS = pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning")


@FEW_ROWS
@pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.InsecureRandomnessWarning")
def test_the_tap_concerns_only_the_thread_that_opened_it():
    """A fit of another thread is neither replayed nor seen, also while two threads watch and leave in any order."""
    X, fitted, theirs, before = rows(), [], [], PrivacyAccountant.release

    def fit():
        fitted.append(PrivateMeasureMechanism().fit(X))

    def watch_and_fit():
        with watch_releases() as other:
            fit()
        theirs.extend(other.draws)

    with watch_releases() as door, fixed_bits():
        seeded = PrivateMeasureMechanism(random_state=0).fit(X)
        door.replay(door.take())
        in_threads(fit)
        in_threads(watch_and_fit)
        assert not door.draws
        fit()  # of this thread: replayed
        assert len(door.draws) == len(theirs) > 0
    samples = [m.sample(50, random_state=1).tobytes() for m in (seeded, *fitted)]
    assert samples[3] == samples[0]
    assert len(set(samples)) == 3
    assert PrivacyAccountant.release is before


@FEW_ROWS
def test_fixed_bits_repeat_what_says_that_it_is_secure():
    def fit():
        with fixed_bits():
            return PrivateMeasureMechanism().fit(rows())

    first, second = fit(), fit()
    assert first.sample(50, random_state=1).tobytes() == second.sample(50, random_state=1).tobytes()
    assert {entry.randomness for entry in first.accountant_.ledger} == {"secure"}
    assert SecureBits().bytes(16) != SecureBits().bytes(16)
