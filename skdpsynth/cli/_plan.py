"""The command `plan`."""

import math
from typing import Any

import click

from skdpsynth.cli._choose_estimator import METHODS, choose_method, make_estimator, modeled_schema, say_method
from skdpsynth.cli._output import Voice, add_output_options
from skdpsynth.cli._privacy_options import RELATIONS

_GUESSED_BOUND, _GUESSED_LEVELS = 1000, 10


@click.command(short_help="Tell what errors to expect, before you spend.")
@click.option("--schema", "stated", required=True, type=click.Path(), help="What is public about the columns.")
@click.option("--rows", required=True, type=click.IntRange(1), help="How many rows the table has, or about how many.")
@click.option("--epsilon", "epsilons", multiple=True, type=float, help="What to try; may be given again. [default: 0.1 to 10]")
@click.option("--delta", type=float, default=0.0, show_default=True)
@click.option("--neighboring", type=click.Choice(RELATIONS), default=RELATIONS[0], show_default=True)
@click.option("--unit", help="The column that says whose row it is.")
@click.option("--max-rows-per-unit", "--max-rows", "most", type=click.IntRange(1), help="How many rows of one unit count.")
@click.option("--method", type=click.Choice(METHODS), default="auto", show_default=True)
@click.option("--stratify", help="The column that a model shall predict from the synthetic rows.")
@click.option("--too-wide", type=click.FloatRange(1), default=1.0, show_default=True, help="How many times too wide the bounds may be.")
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True, help="Tables that are simulated.")
@click.option("--time-limit", type=float, default=60.0, show_default=True, help="Seconds after which no further table is begun.")
@add_output_options
def plan(voice: Voice, stated: str, rows: int, repeats: int, time_limit: float, **given: Any) -> None:
    """Tell what errors to expect at several epsilons, from public facts: a schema and a number of rows.

    Tables are simulated; no private row is read, and nothing is spent.
    """
    from skdpsynth.domain import Schema
    from skdpsynth.model_selection import plan as planned

    schema, unit = Schema.of(stated), given["unit"]
    kinds = modeled_schema(schema, unit)
    method, why = choose_method(given["method"], kinds, given["stratify"], given["delta"])
    say_method(voice, given["method"], method, why)
    settings = {"delta": given["delta"], "neighboring": given["neighboring"]}
    estimator = make_estimator(method, kinds, unit, given["stratify"], **settings)
    epsilons = given["epsilons"] or (0.1, 0.3, 1, 3, 10)
    with voice.progress_bars():
        settings = {"unit_rows": given["most"], "too_wide": given["too_wide"], "n_repeats": repeats, "time_limit": time_limit}
        expected = planned(estimator, rows, epsilons=epsilons, schema=_guesses(voice, kinds), **settings)
    voice.result({"method": method, "why": why, **_plan_record(expected)}, str(expected))


def _guesses(voice: Voice, kinds: Any) -> Any:
    """Return a schema in which bounds and levels that are to be bought are guesses, to simulate rows; None where all are stated."""
    from skdpsynth.domain import Nominal, list_names
    from skdpsynth.tables import with_bounds

    private = [name for name, kind in kinds.items() if kind.unstated == "private"]
    if not private:
        return None
    voice.note(
        f"What is private of {list_names(private)} is simulated within [0, {_GUESSED_BOUND}], or as {_GUESSED_LEVELS} levels, and bought; "
        "for closer errors give a schema with guesses in their place."
    )
    levels = [f"level {number}" for number in range(_GUESSED_LEVELS)]
    made = {
        name: Nominal(levels, nullable=kind.nullable) if hasattr(kind, "levels") else with_bounds(kind, 0, _GUESSED_BOUND)
        for name, kind in kinds.items()
        if name in private
    }
    return kinds.with_kinds({**kinds, **made})


def _plan_record(expected: Any) -> dict[str, Any]:
    names = [measure.name for measure in expected.measures]
    points = [
        {"epsilon": point.epsilon, "delta": point.delta, "unit_rows": point.unit_rows, "too_few_rows": point.is_small}
        | {"error": _numbers(names, point.mean), "spread": _numbers(names, point.spread)}
        for point in expected.points
    ]
    record = {"estimator": expected.estimator, "rows": expected.n_samples, "neighboring": expected.neighboring, "budgets": points}
    return record | {"no_privacy": _numbers(names, expected.no_privacy), "no_data": _numbers(names, expected.no_data)}


def _numbers(names: list[str], values: Any) -> dict[str, float | None]:
    return {name: None if math.isnan(value) else float(value) for name, value in zip(names, values, strict=True)}
