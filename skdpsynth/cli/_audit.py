"""The command `audit`."""

from dataclasses import asdict
from typing import Any

import click

from skdpsynth.cli._choose_estimator import METHODS, choose_method, make_estimator, say_method
from skdpsynth.cli._exit_codes import CHECK_FAILED
from skdpsynth.cli._models import open_model
from skdpsynth.cli._output import Refusal, Voice, add_output_options, json_number
from skdpsynth.cli._privacy_options import RELATIONS


@click.command(short_help="Test a promise: fit made-up tables many times.")
@click.argument("path", metavar="[MODEL]", required=False, type=click.Path())
@click.option("--schema", "stated", type=click.Path(), help="In place of MODEL: what is public about the columns.")
@click.option("--epsilon", type=float, help="With --schema: what is promised.")
@click.option("--delta", type=float, default=0.0, help="With --schema.  [default: 0]")
@click.option("--neighboring", type=click.Choice(RELATIONS), default=RELATIONS[0], help="With --schema.  [default: replace_one]")
@click.option("--method", type=click.Choice(METHODS), default="auto", help="With --schema.  [default: auto]")
@click.option("--rows", type=click.IntRange(2), default=500, show_default=True, help="Of the made-up tables.")
@click.option("--trials", type=click.IntRange(20), default=400, show_default=True, help="Fits; more of them can show more.")
@click.option("--confidence", type=float, default=0.99, show_default=True, help="With which the bound holds.")
@click.option("--released", is_flag=True, help="Look at what is released alone: much faster, but blind to leaks beside it.")
@click.option("--jobs", type=int, help="Processes.  [default: 1]")
@add_output_options
def audit(voice: Voice, path: str | None, rows: int, trials: int, confidence: float, released: bool, jobs: int | None, **given: Any) -> int:
    """Bound from below what is lost, by fitting two made-up neighboring tables many times.

    Of the settings that MODEL was fitted with, or of a method on a schema. No private row is read and nothing is charged. Exit code 1 if
    the promise was refuted; if not, that is no proof of it.
    """
    from skdpsynth.auditing import audit_epsilon, worst_case_neighbors

    estimator, n_features = _recipe(voice, path, given)
    with voice.progress_bars():
        pair = worst_case_neighbors(estimator, rows, n_features=n_features)
        event = "released" if released else None
        result = audit_epsilon(estimator, *pair, event, n_trials=trials, confidence=confidence, n_jobs=jobs)
    told = {name: json_number(value) if isinstance(value, float) else value for name, value in asdict(result).items()}
    voice.result({"is_broken": bool(result.is_broken), **told}, str(result))
    return CHECK_FAILED if result.is_broken else 0


def _recipe(voice: Voice, path: str | None, given: dict[str, Any]) -> tuple[Any, int | None]:
    """Return an unfitted estimator, from a model or a schema, and the number of columns if the estimator does not tell."""
    if (path is None) == (given["stated"] is None):
        raise Refusal("audit takes either MODEL or --schema; give one of them")
    if path is not None:
        model = open_model(path)
        made = _copy_for_audit(model)
        return made, None if getattr(made, "schema", None) is not None else getattr(model, "n_features_in_", None)
    if given["epsilon"] is None:
        raise Refusal("--epsilon must go with --schema, because it is what is promised; add it")
    from skdpsynth.domain import Schema

    schema = Schema.of(given["stated"]).coded
    method, why = choose_method(given["method"], schema, None, given["delta"])
    say_method(voice, given["method"], method, why)
    settings = {name: given[name] for name in ("epsilon", "delta", "neighboring")}
    return make_estimator(method, schema, None, **settings), None


def _copy_for_audit(model: Any) -> Any:
    """Return an unfitted copy without an accountant, units of several rows, or columns of labels."""
    from sklearn.base import clone

    from skdpsynth.domain import Schema

    if not hasattr(model, "get_params"):
        raise Refusal(f"MODEL must be a private estimator, but it holds a {type(model).__name__}; give what synthesize --model wrote")
    settings: dict[str, Any] = {"accountant": None, "max_rows_per_unit": 1}
    given = model.get_params(deep=False)
    if given.get("schema") is not None:
        settings["schema"] = Schema.of(given["schema"]).coded
    return clone(model).set_params(**{name: value for name, value in settings.items() if name in given})
