"""Check of the evidence of a ledger: derive every sensitivity, every loss and their sum again from the document."""

import json
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from skdpsynth_evidence._kinds import RELATIONS, derive_sensitivity, derive_size
from skdpsynth_evidence._losses import (
    CHOICES,
    NORM_OF,
    add_charges,
    cost,
    is_amplified,
    is_budget_kept,
    is_charge_sufficient,
    is_least,
    is_tight,
    number,
    optimal_holds,
)

_LARGEST = 1 << 26  # bytes of a file


@dataclass
class EvidenceCheck:
    """Findings of a check of evidence, in sentences that each name a line.

    Attributes
    ----------
    wrong : list of str
        Faults: the promise is not shown.
    loose : list of str
        Safe lines whose figure is not the derived one: more noise, or a larger charge, than necessary.
    unchecked : list of str
        Lines that say too little to be derived: the caller answers for them.
    n_releases : int
        How many lines were read.
    told : str
        Their stated total cost, relation and unit of privacy.

    See Also
    --------
    skdpsynth_evidence.check_evidence : Makes it.
    """

    wrong: list[str] = field(default_factory=list)
    loose: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    n_releases: int = 0
    told: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong, unless in an unchecked line."""
        return not self.wrong

    @property
    def is_exact(self) -> bool:
        """Whether nothing is wrong, everything was derived, and every figure is the one that follows."""
        return not (self.wrong or self.loose or self.unchecked)

    def __str__(self) -> str:
        lines = [f"wrong: {line}" for line in self.wrong]
        lines += [f"loose: {line}" for line in self.loose] + [f"not checked: {line}" for line in self.unchecked]
        but = f", but {len(self.unchecked)} of them cannot be checked" if self.unchecked else ""
        head = f"{self.n_releases} release{'s' * (self.n_releases != 1)}, {self.told}{but}"
        return "\n".join([f"{'ok' if self.ok else 'NOT OK'}: {head}", *lines])


def check_evidence(evidence: Any) -> EvidenceCheck:
    """Derive everything in the evidence of a ledger again, and compare.

    The sensitivity of each statistic follows from its kind and its sizes: a definition of a few lines, brute force over all neighbors of
    small tables, and a formula that brute force agrees with. The loss follows from the sensitivity and the scales of the noise, and the
    total loss from a separate implementation of composition. No code is shared with the mechanisms, the noise or the accountant.

    Parameters
    ----------
    evidence : dict, str or path-like
        From `PrivacyAccountant.evidence`, or the path of a JSON file that holds it.

    Returns
    -------
    check : EvidenceCheck
        Its text begins with "ok" or "NOT OK" and what all releases cost, and names each line that is wrong, loose or not checked.

    Raises
    ------
    ValueError
        If it is no evidence, or of a later version.
    OSError
        If its file cannot be read.

    See Also
    --------
    PrivacyAccountant : Writes the evidence.
    skdpsynth.auditing.audit_epsilon : Attacks a mechanism by running it.

    Notes
    -----
    The check shows that the releases in the ledger add up to the promise. It cannot show that the program released these and nothing else:
    the laws of `check_synthesizer` and audits are for that.

    Examples
    --------
    >>> from skdpsynth import PrivateMeasureMechanism
    >>> from skdpsynth_evidence import check_evidence
    >>> model = PrivateMeasureMechanism(epsilon=0.5, bounds=(0, 1)).fit([[0.2], [0.7], [0.4]])
    >>> print(check_evidence(model.accountant_.evidence()))
    ok: 2 releases, epsilon 0.5 in all, under 'replace_one', for a row
    """
    document = _read(evidence)
    try:
        promise, (epsilon, delta) = document["promise"], (float(number(document["spent"][name])) for name in ("epsilon", "delta"))
        total = f"epsilon {epsilon:g} and delta {delta:g}" if delta else f"epsilon {epsilon:g}"
        told = f"{total} in all, under {promise['relation']!r}, for {promise['unit'] or 'a row'}"
        check = EvidenceCheck(n_releases=len(document["releases"]), told=told)
        _check_numbers(document, check)
        lines = {release["number"]: release for release in document["releases"]}
        for release in document["releases"]:
            problems = [f"{_line(release)} {problem}" for problem in find_format_errors(release, lines)]
            check.wrong += problems
            if not problems:
                _check_release(release, promise, check)
        _check_sums(document, check)
        if "population" in document:
            _check_population(document["population"], promise, document, check)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError) as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else f"something in it is not: {error}"
        raise ValueError(f"evidence must be what PrivacyAccountant.evidence gives, but {what}.") from None
    return check


def _read(evidence: Any) -> dict[str, Any]:
    if isinstance(evidence, str | os.PathLike):
        try:
            with open(evidence, "rb") as file:
                text = file.read(_LARGEST + 1)
        except (OSError, ValueError) as error:
            why = f" ({error.strerror})" if isinstance(error, OSError) else ""  # ValueError: it is no name of a file at all
            message = f"evidence must be a file that can be read, got {str(Path(evidence))[:80]!r}{why}; correct it."
            raise (type(error)(error.errno, message) if isinstance(error, OSError) else ValueError(message)) from None
        if len(text) > _LARGEST:
            raise ValueError(f"evidence must be a file of at most {_LARGEST >> 20} MiB, got one that is larger.")
        try:
            evidence = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError("evidence must be a file of JSON, got one that is not; write json.dumps(accountant.evidence()).") from None
    if not isinstance(evidence, dict) or evidence.get("format") != "skdpsynth evidence" or evidence.get("version") != 1:
        raise ValueError("evidence must be a document of the format 'skdpsynth evidence', version 1; ask PrivacyAccountant.evidence.")
    return evidence


def _check_numbers(document: dict[str, Any], check: EvidenceCheck) -> None:
    """Check that all lines are there, each once; lines that an open stream folded into one are not in the list of numbers."""
    there, known = [release["number"] for release in document["releases"]], set[int]()
    for first, last in document["numbers"]:
        known |= set(range(first, min(last, first + len(there)) + 1))
        if last - first > len(there):
            check.wrong.append(f"releases {first} to {last} are said to be here, and only {len(there)} are")
        else:
            check.wrong += [f"release {n} is missing" for n in range(first, last + 1) if n not in there]
    check.wrong += [f"release {n} is one too many" for n in there if n not in known or there.count(n) > 1]


_RELATION_OF_DESIGN = {"poisson": "add_or_remove_one", "simple_random": "replace_one"}  # others have no figure


def _check_population(population: dict[str, Any], promise: dict[str, Any], document: dict[str, Any], check: EvidenceCheck) -> None:
    """Derive what all releases about a secret sample cost a person of the population (Balle, Barthe, Gaboardi 2018)."""
    (rate, epsilon, delta), spent = (number(population[name]) for name in ("rate", "epsilon", "delta")), document["spent"]
    if document["charged"] is not None:
        check.wrong.append("the population has no figure: this is a part of an account, and more was released about the sample")
    if any(release["unit"] is not None or "survey" in (release.get("statistic") or ()) for release in document["releases"]):
        check.wrong.append("the population has no figure: a release protects a unit, or has survey weights, so chances were not alike")
    if _RELATION_OF_DESIGN.get(population["design"]) != promise["relation"] or promise["unit"] is not None or not 0 < rate <= 1:
        check.wrong.append(f"the population has no figure: its design is {population['design']!r} at a rate of {_short(rate)}")
    elif not is_amplified(rate, epsilon, number(spent["epsilon"])) or delta < rate * number(spent["delta"]):
        check.wrong.append(
            f"the population is promised {_format_cost((epsilon, delta))}, which is less than its sample at {_short(rate)} costs"
        )


def _line(release: dict[str, Any]) -> str:
    return f"release {release['number']} ({release['name']!r})"


def _check_release(release: dict[str, Any], promise: dict[str, Any], check: EvidenceCheck) -> None:
    line = _line(release)
    if release["relation"] != promise["relation"] or release["relation"] not in RELATIONS:
        check.wrong.append(f"{line} is stated under {release['relation']!r}, but the promise is under {promise['relation']!r}")
    if promise["unit"] is not None and (release["unit"], release["rows_per_unit"]) != (promise["unit"], promise["rows_per_unit"]):
        check.wrong.append(f"{line} protects {release['unit'] or 'a row'}, but the promise is for {promise['unit']}")
    if "noise" not in release:
        return
    scales = [number(scale) for scale in release["scales"]]
    if release["randomness"] == "seeded":
        check.wrong.append(f"{line} has noise of a seed, which protects nobody who knows it")
    if release["loss"].get("epsilon", release["loss"].get("rho")) == "inf":
        return
    sensitivity = _check_sensitivity(release, check)
    if sensitivity is None:
        return
    needed = cost(release, sensitivity, min(scales)) if sensitivity else (Fraction(0), Fraction(0))
    if not is_charge_sufficient(release["loss"], needed):
        check.wrong.append(f"{line} loses {_format_cost(needed)}, more than what is charged, {_format_loss(release['loss'])}")
    elif not is_least(release, sensitivity, min(scales)):
        check.loose.append(f"{line} loses {_format_cost(needed)}, less than what is charged, {_format_loss(release['loss'])}")


def _check_sensitivity(release: dict[str, Any], check: EvidenceCheck) -> Fraction | None:
    """Derive how far the rows of a unit move the release in the norm of its noise, and compare with the stated sensitivity."""
    line, norm, statistic = _line(release), NORM_OF.get(release["noise"]), release["statistic"]
    if norm is None:
        check.wrong.append(f"{line} has noise of a law that is not known here, {release['noise']!r}")
        return None
    if statistic is None or release["sensitivity"] is None:
        check.unchecked.append(f"{line} does not say what was released; the caller who charged it answers for its loss")
        return None
    found = derive_sensitivity(statistic, release["relation"], norm, release["rows_per_unit"])
    if found is None:
        check.unchecked.append(f"{line} is of the kind {statistic['kind']!r}, which is not known here")
        return None
    kinds = CHOICES.get(release["noise"])  # of a choice
    if kinds is not None and (release["values"] != 1 or statistic["kind"] not in kinds or "rank" in statistic):
        check.wrong.append(f"{line} is a choice, which shows one place and nothing else, but states {release['values']} values")
    size = release["values"] if kinds is not None else derive_size(statistic, release["relation"], release["values"])
    if release["values"] != size:
        check.wrong.append(f"{line} is of the kind {statistic['kind']!r}, which has {size} values here, but states {release['values']}")
    said = Fraction(release["sensitivity"])
    other = derive_sensitivity(statistic, next(r for r in RELATIONS if r != release["relation"]), norm, release["rows_per_unit"])
    if release["norm"] != norm:
        check.wrong.append(f"{line} states its change in {release['norm']}, but its noise covers {norm}")
    if said < found or (said != found and said == other):
        check.wrong.append(f"{line} moves by {_short(found)} ({norm}) under {release['relation']!r}, but states {_short(said)}")
    elif said > found:
        check.loose.append(f"{line} moves by {_short(found)} ({norm}), less than the {_short(said)} that it states")
    elif not found and release["values"]:
        check.loose.append(f"{line} has {release['values']} values that no row moves, and so need no noise")
    return found


def _check_sums(document: dict[str, Any], check: EvidenceCheck) -> None:
    """Check that parts cost no more than their charge, and that all charges add up to the spent amount, within the promise."""
    promise, spent = document["promise"], document["spent"]
    by_account: dict[Any, list[dict[str, Any]]] = {}
    for release in document["releases"]:
        by_account.setdefault(release["part_of"], []).append(release)
    lines = {release["number"]: release for release in document["releases"]}
    for account, parts in by_account.items():
        if account is None:
            continue
        if account not in lines:
            check.wrong += [f"{_line(part)} is part of release {account}, which is not here" for part in parts]
        elif problem := _excess_message(parts, lines[account]["loss"]):
            check.wrong.append(f"{_line(lines[account])} charged {_format_loss(lines[account]['loss'])}, {problem}")
    bare = [one for one in lines.values() if "noise" not in one and one["number"] not in by_account]
    check.unchecked += [f"{_line(one)} was charged, and nothing says for what" for one in bare]
    epsilon, delta = number(spent["epsilon"]), number(spent["delta"])
    total = add_charges(by_account.get(None, []))
    charged = {} if document["charged"] is None else dict(document["charged"])
    if charged and (not is_loss(charged) or _excess_message(by_account.get(None, []), charged)):
        check.wrong.append(f"{_format_loss(charged)} was charged for all releases, and they need more")
    if not is_unit(promise):
        check.wrong.append(f"the promise is for {promise['unit'] or 'a row'}, which are not {promise['rows_per_unit']!r} rows")
    if "rho" in charged and total.epsilon:
        total = total.all_in_rho(charged["gaussian"])
    if not is_budget_kept(epsilon, delta, total):
        check.wrong.append(f"all releases together lose more than the epsilon {_short(epsilon)} and delta {_short(delta)} that are said")
    elif not is_tight(epsilon, delta, total):
        check.wrong.append(f"all releases that are here lose less than the epsilon {_short(epsilon)} that is said to be spent")
    if epsilon > number(promise["epsilon"]) or delta > number(promise["delta"]):
        check.wrong.append(f"epsilon {_short(epsilon)} and delta {_short(delta)} were spent, more than was promised")


def _excess_message(parts: list[dict[str, Any]], charge: dict[str, Any]) -> str | None:
    """Return a message if the parts of a charge exceed it, else None."""
    total = add_charges(parts)
    if "rho" in charge:
        within = total.all_in_rho(charge["gaussian"]).rho <= number(charge["rho"]) and not total.delta
        return None if within and (total.gaussian or not charge["gaussian"]) else "and its parts need more"
    epsilon, delta = number(charge["epsilon"]), number(charge["delta"])
    if is_budget_kept(epsilon, delta, total):
        return None
    losses = [part["loss"] for part in parts]
    plain = all("rho" not in loss and loss["epsilon"] != "inf" for loss in losses) and all(part["group"] is None for part in parts)
    return None if plain and delta and optimal_holds(losses, epsilon, delta) else "and its parts need more"


def _format_cost(needed: Any) -> str:
    if not isinstance(needed, tuple):
        return f"rho {_short(needed)}"
    epsilon, delta = needed
    return f"epsilon {_short(epsilon)}" + (f" and delta {_short(delta)}" if delta else "")


def _format_loss(loss: dict[str, Any]) -> str:
    return _format_cost(number(loss["rho"]) if "rho" in loss else (number(loss["epsilon"]), number(loss["delta"])))


def _short(value: Any) -> str:
    """Format a number exactly if that is short."""
    exact = str(value)
    return exact if len(exact) <= 20 else "inf" if value == math.inf else f"{float(value):.12g}"


_LOSSES = ({"epsilon", "delta"}, {"rho", "gaussian"})
_WORDS, _SCALES = ("kind", "scoring"), ("segment_scale", "total_scale")
_MAY_BE_ZERO = ("tables", "coordinate", "mean_weight", "pairs")
_MOST = {"steps": 20_000, "bits": 62}  # so that its column fits in memory


def find_format_errors(release: dict[str, Any], lines: dict[Any, dict[str, Any]]) -> Iterator[str]:
    """Yield the faults in the form of a line, in words that follow its name; `lines` holds all lines by number."""
    if not is_loss(release["loss"]):
        yield "charges what is no loss: numbers of at least 0"
    if not is_unit(release):
        yield f"protects {release['unit'] or 'a row'}, which are not {release['rows_per_unit']!r} rows"
    seen, above = {release["number"]}, release["part_of"]
    while above in lines and above not in seen:
        seen.add(above)
        above = lines[above]["part_of"]
    if above in seen:
        yield "is part of itself, so nobody pays for it"
    if "noise" in lines.get(release["part_of"], ()):
        yield "is part of a line with noise of its own, which pays for that alone"
    if "noise" not in release:
        return
    if release["group"] is not None:
        yield "has noise and is of a group, but only the charges of children hold rows apart"
    scales = [number(scale) for scale in release["scales"]]
    if release["loss"].get("epsilon", release["loss"].get("rho")) != "inf" and not (scales and min(scales) > 0 and max(scales) < math.inf):
        yield "has noise of scale 0, whose loss is infinite" if scales and min(scales) == 0 else "does not say the scale of its noise"
    if release["randomness"] not in ("secure", "seeded"):
        yield "does not say where its noise comes from"
    for name, fact in (release["statistic"] or {}).items():
        if not _is_fact(name, fact):
            yield f"moves numbers whose {name} is {str(fact)[:40]!r}, which it cannot be"


def is_loss(loss: dict[str, Any]) -> bool:
    """Whether a loss is in epsilon and delta, or in rho, and nowhere negative."""
    if set(loss) not in _LOSSES or not isinstance(loss.get("gaussian", True), bool):
        return False
    return all(number(amount) >= 0 for name, amount in loss.items() if name != "gaussian")


def is_unit(protects: dict[str, Any]) -> bool:
    """Whether the number of protected rows is the one at the end of the words of the unit."""
    found = re.search(r", at most (\d+) rows?$", protects["unit"] or "")
    return _is_whole(protects["rows_per_unit"], 1) and protects["rows_per_unit"] == (int(found[1]) if found else 1)


def _is_fact(name: str, fact: Any) -> bool:
    """Whether a statistic can have a fact: whole numbers, nearly all of at least 1, or lists of them."""
    if name in _WORDS:
        return isinstance(fact, str)
    if name in _SCALES:
        return bool(0 < number(fact) < math.inf)
    if name == "ranges":
        return all(all(_is_whole(end, -math.inf) for end in (low, high)) and low <= high and _is_whole(n, 1) for low, high, n in fact)
    if isinstance(fact, list | tuple):
        return all(_is_fact(name, each) for each in fact)
    return _is_whole(fact, name not in _MAY_BE_ZERO) and fact <= _MOST.get(name, math.inf)


def _is_whole(value: Any, least: float) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
