"""A promise in sentences for readers without a background in differential privacy."""

import math
from fractions import Fraction

from skdpsynth.privacy import LONE_ROW
from skdpsynth.report._promise import Promise, round_up

_LARGEST = 15.0  # larger epsilons make e^epsilon unimaginable


def describe_unit(promise: Promise) -> str:
    if promise.unit is None:
        return "One row of the table. Somebody with several rows is protected as many times less."
    if promise.unit == LONE_ROW:
        return f"One {LONE_ROW}, because not all releases protect the same unit. Somebody with several rows is protected less."
    return f"All rows of one unit together: {promise.unit}. Rows beyond that number were not counted."


def describe_relation(promise: Promise) -> str:
    what = _unit_phrase(promise)
    if promise.neighboring == "replace_one":
        return f"Replace-one: {what} may be replaced by any other. The number of rows is public."
    return f"Add or remove: {what} may be there or not. The number of rows is private too."


def _unit_phrase(promise: Promise) -> str:
    if promise.unit in (None, LONE_ROW):
        return "one row" if promise.unit is None else f"one {LONE_ROW}"
    return f"the rows of one unit ({promise.unit})"


def describe_guarantee(promise: Promise) -> str:
    """Say what epsilon and delta mean."""
    if promise.is_seeded:
        return "Nothing is promised: the noise was seeded, and whoever knows or guesses the seed can subtract it."
    if promise.epsilon == math.inf:
        return "Nothing is promised: no noise was added (epsilon is infinite)."
    what = _unit_phrase(promise)
    change = f"had {what} been any other" if promise.neighboring == "replace_one" else f"had {what} not been there"
    if promise.epsilon > _LARGEST:
        return f"Next to nothing is promised: epsilon {promise.epsilon:g} lets this release be many million times as likely as {change}."
    times = f"{round_up(Fraction(math.ceil(math.exp(promise.epsilon) * 100), 100)):g}"
    words = f"Anything that could come out of this release is at most {times} times as likely as it would be {change}."
    if promise.delta:
        words = f"{words[:-1]}, plus a probability of at most {promise.delta:g} (delta)."
    return words


def describe_composition(promise: Promise) -> str:
    if not promise.lines:
        return "Nothing was charged yet."
    words = ["Sequential: the losses of all releases add up."]
    if {"gaussian", "zcdp"} & set(promise.kinds):
        words.append("Those of Gaussian noise add up in rho, and their sum is converted to epsilon and delta once.")
    if promise.has_groups:
        words.append("Parallel within a group: its members hold disjoint rows, and cost what the largest of them does.")
    return " ".join(words)


def describe_mechanisms(promise: Promise) -> str:
    if promise.n_noisy == 0:
        return "No noise was added by this account." + describe_unknown_charges(promise)
    kinds = sorted({line.noise.split("(")[0] for line in promise.lines if line.noise})
    source = "from a seed, so they are not private" if promise.is_seeded else "from the secure randomness of the operating system"
    return f"{', '.join(kinds)}: exact whole numbers {source}; charged before they were drawn.{describe_unknown_charges(promise)}"


def describe_unknown_charges(promise: Promise) -> str:
    """Mention charges whose releases are unknown, if there are any."""
    if not promise.n_untold:
        return ""
    what = "1 charge names" if promise.n_untold == 1 else f"{promise.n_untold} charges name"
    return f" {what} no noise: how that was made, and whether it fits, is not covered."


def unprotected(promise: Promise, is_stream: bool, is_multiline: bool) -> tuple[str, ...]:
    """List what the promise does not cover, the gravest first."""
    rows = (
        "The number of rows: it is public, and exact."
        if promise.neighboring == "replace_one"
        else "The number of rows is protected, and any size shown here is noisy."
    )
    person = (
        "A person with several rows: the promise is to one row."
        if promise.unit is None
        else "People whom the labels do not tell apart, or who have several labels."
    )
    stream = ("The file of the stream itself, which holds rows and counts that wait: publish samples, not the file.",) * is_stream
    records = (
        "Records of CSV files that leave a quote open: cells were allowed to hold line breaks, so such a record takes others with it, and "
        "the promise assumes that there is none.",
    ) * is_multiline
    return (
        "What the data holder stated as public: names of columns, their kinds, bounds and levels. If they were read off the rows, they "
        "tell of them.",
        "Other releases about the same people. Each adds its own epsilon to this one.",
        person,
        rows,
        *records,
        *stream,
        "What is true of many: that smokers fall ill can be learned from this release, and is meant to be, whoever took part.",
        "Choices made by looking at the rows: columns, filters, settings that were tried and dropped.",
        "Whatever reads the rows again: transform and score of the rows of the fit, evaluations, an internal version of this page.",
        "How long the computation took, and how the rows themselves are kept.",
    )
