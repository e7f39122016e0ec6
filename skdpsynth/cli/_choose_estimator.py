"""Choice of a synthesizer by public facts alone."""

from typing import Any

from skdpsynth.cli._output import Refusal, Voice

METHODS = ("auto", "latent-factor", "pmm", "lowdim")
_MAX_PMM_COLUMNS = 4  # columns of numbers up to which cells of a box are best; measured by benchmarks/command_line.py


def choose_method(method: str, kinds: Any, stratify: Any, delta: float) -> tuple[str, str]:
    """Choose a method, with a reason, by the kinds and the number of the learned columns and by delta."""
    from skdpsynth.domain import Continuous

    plain = [name for name, kind in kinds.items() if isinstance(kind, Continuous) and kind.unstated is None and not kind.nullable]
    # A column that is left out counts last: it is no reason that users look for.
    odd = next(iter(sorted((name for name in kinds if name not in plain), key=lambda name: kinds[name].coded is None)), None)
    if method == "latent-factor":
        return method, "as asked"
    if method != "auto":
        if kinds.rules:
            raise Refusal(f"--method {method} keeps no rules, but the schema has {len(kinds.rules)}; use --method latent-factor")
        if odd is not None:
            raise Refusal(
                f"--method {method} takes numbers with bounds and without missing cells alone, but the schema says otherwise of "
                f"column {str(odd)!r}; use --method latent-factor"
            )
        if stratify is not None:
            raise Refusal(f"--stratify goes with --method latent-factor alone, got {method!r}; leave one of them out")
        return method, "as asked"
    if stratify is not None:
        return "latent-factor", "--stratify counts each class apart"
    if odd is not None:
        has_other = "columns that are left out" if kinds[odd].coded is None else f"other columns than plain numbers, {str(odd)!r} for one"
        return "latent-factor", f"the schema has {has_other}"
    if kinds.rules:
        return "latent-factor", "the schema has rules, which no other method keeps"
    has_numbers = f"the schema has {len(kinds)} column{'s' * (len(kinds) != 1)}, all numbers,"
    if len(kinds) <= _MAX_PMM_COLUMNS:
        return "pmm", f"{has_numbers} and up to {_MAX_PMM_COLUMNS} cells of their box are most accurate"
    if delta:
        return "latent-factor", f"{has_numbers} and with delta above 0 counts of pairs are accurate"
    return "lowdim", f"{has_numbers} too many for pure noise on pairs of them"


def say_method(voice: Voice, asked: str, method: str, why: str) -> None:
    if asked == "auto":
        voice.note(f"Method {method}: {why}.")


def modeled_schema(schema: Any, unit: str | None) -> Any:
    """Leave out the column of units and the rules that name it."""
    from skdpsynth.domain import Schema

    columns = {name: kind for name, kind in schema.items() if str(name) != unit}
    return Schema(columns, [rule for rule in schema.rules if columns.keys() >= set(rule.columns_named)], schema.read)


def fit_input(table: Any, estimator: Any, schema: Any) -> Any:
    """Wrap a table for estimators that take only numbers, because the schema knows which of them are whole."""
    import numpy as np

    from skdpsynth.frames import open_source

    if hasattr(estimator, "schema"):
        return table
    source = open_source(table, read=schema.read, skips_damaged=estimator.neighboring != "replace_one", wanted=list(schema))
    source.number_dtypes = {name: np.dtype(np.int64) for name, kind in schema.items() if getattr(kind, "integer", False)}
    return source


def make_estimator(method: str, schema: Any, unit: str | None, stratify: Any = None, **settings: Any) -> Any:
    if method == "latent-factor":
        from skdpsynth.synthesis import LatentFactorSynthesizer

        return LatentFactorSynthesizer(schema, stratify=stratify, **settings)
    from skdpsynth.synthesis import LowDimSynthesizer, PrivateMeasureMechanism

    bounds = {name: (kind.low, kind.high) for name, kind in modeled_schema(schema, unit).items()}
    return (PrivateMeasureMechanism if method == "pmm" else LowDimSynthesizer)(bounds=bounds, **settings)
