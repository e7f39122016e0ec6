"""The topics of NIST SP 800-226 with answers from code.

Near, Darais, Lefkovitz, Howarth (2025), "Guidelines for Evaluating Differential Privacy Guarantees",
https://doi.org/10.6028/NIST.SP.800-226. The names of topics are ours.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from skdpsynth.privacy import LONE_ROW
from skdpsynth.report._facts import CardFacts
from skdpsynth.report._promise import describe_composition, describe_mechanisms, describe_relation, describe_unit, describe_unknown_charges

COVERED, PARTLY, NOT_COVERED = "covered", "partly", "not covered"
_LARGE = 20.0  # larger epsilons promise little, and a fit warns of them


@dataclass(frozen=True)
class Check:
    """One topic of the checklist.

    Attributes
    ----------
    topic : str
    status : {"covered", "partly", "not covered"}
        "covered": the code answers it. "not covered": people must, for nothing in the code knows.
    answer : str

    See Also
    --------
    Card.checklist : The topics of a release.
    """

    topic: str
    status: str
    answer: str


def checklist_of(facts: CardFacts) -> tuple[Check, ...]:
    return (*_guarantee(facts), *_algorithms(facts), *_deployment(facts))


def _guarantee(facts: CardFacts) -> Iterator[Check]:
    promise = facts.promise
    if promise.is_seeded:
        answer = "The noise was seeded, so whoever knows the seed can remove it: no epsilon holds."
    elif promise.epsilon == math.inf:
        answer = "epsilon is infinite: no noise was added, and nothing is promised."
    else:
        large = " That is large, and promises little." if promise.epsilon > _LARGE else ""
        answer = f"epsilon {promise.epsilon:g}, delta {promise.delta:g}, from the ledger.{large}"
    yield Check("Privacy parameters", COVERED, answer)
    yield Check("Unit of privacy", COVERED if promise.unit not in (None, LONE_ROW) else PARTLY, describe_unit(promise))
    yield Check("Neighboring tables (bounded or unbounded)", COVERED, describe_relation(promise))
    yield Check("Composition within this release", COVERED, describe_composition(promise))
    yield Check(
        "Other releases about the same people",
        NOT_COVERED,
        "Accountants do not know of each other: whatever else was released about the same people adds up with this.",
    )
    invariant = "the exact number of rows, which is public under replace-one" if promise.neighboring == "replace_one" else "no statistic"
    yield Check("Releases without noise beside this one", PARTLY, f"This model releases {invariant}. What others publish is not covered.")


def _algorithms(facts: CardFacts) -> Iterator[Check]:
    promise = facts.promise
    known = PARTLY if promise.n_untold else COVERED
    stated = f"{promise.n_stated} of {promise.n_noisy} noisy releases say how far one unit moves them; their noise was checked to cover it."
    yield Check(
        "Mechanisms, and noise that fits them",
        known if promise.n_stated == promise.n_noisy else PARTLY,
        stated + describe_unknown_charges(promise),
    )
    yield Check(
        "Randomness", known, "Seeded: anybody with the seed removes the noise." if promise.is_seeded else describe_mechanisms(promise)
    )
    exact = "Statistics are whole numbers before noise, the noise is exact, and budgets are fractions."
    yield Check("Floating-point arithmetic", known, exact + describe_unknown_charges(promise))
    if facts.sample is not None:
        yield Check("Synthetic data", COVERED, "Samples are drawn from noisy results alone, so any number of them costs nothing more.")
    accuracy = "; ".join(f"{bound.name} {bound.value}" for bound in facts.bounds)
    yield Check("Accuracy", PARTLY if accuracy else NOT_COVERED, accuracy or "No bound is proved for this model; compare it internally.")
    yield Check(
        "Bias",
        NOT_COVERED,
        "Values outside the bounds were clipped, and noise weighs most on small groups. Whether that harms is for people.",
    )
    searched = promise.remark or "If settings, columns or bounds were chosen by looking at the rows, that choice is not in epsilon."
    yield Check("Preprocessing, exploration and tuning", NOT_COVERED, searched)


def _deployment(facts: CardFacts) -> Iterator[Check]:
    yield Check("Trust model", COVERED, "Central: whoever ran the fit saw the rows, and is trusted with them.")
    yield Check("Timing and other side channels", NOT_COVERED, "How long a fit takes, and what memory it uses, is not protected.")
    yield Check("Security of the rows, and who may see them", NOT_COVERED, "Nothing here knows how the rows are kept.")
    yield Check(
        "Exposure when the data were collected", NOT_COVERED, "Nothing here knows how, and with whose consent, they were collected."
    )
