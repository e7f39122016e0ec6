"""The unit of privacy of one fit."""

from typing import Any

from skdpsynth._validation import is_integer, short_repr
from skdpsynth.domain import Identifier, Schema, Unique
from skdpsynth.fitting._facts import check_unit_noise
from skdpsynth.frames import name_of_unit
from skdpsynth.privacy import PrivacyAccountant, Unit


def check_y_is_ignored(y: Any) -> None:
    """Refuse the name of a column as `y`, which nobody reads: it would be a promise to rows that was meant for people."""
    if isinstance(y, str):
        raise ValueError(f"y is ignored and must not name a column, got {short_repr(y)}; for whose row each is, say unit={short_repr(y)}.")


def identifier_without_unit(schema: Schema) -> Any:
    """Return the first column of a schema that says whose row it is, unless a rule says that no two rows are of one; None if there is none.

    A public fact, as the schema is.
    """
    keys = [rule.columns_named for rule in schema.rules if isinstance(rule, Unique)]
    return next((name for name, kind in schema.items() if isinstance(kind, Identifier) and (name,) not in keys), None)


def check_rows_per_unit(n_rows: Any, epsilon: Any) -> None:
    """Refuse what is no number of rows of a unit, or one for whose noise 64 bits are too few."""
    if not is_integer(n_rows, 1):
        raise ValueError(f"max_rows_per_unit must be a positive integer, got {short_repr(n_rows)}; 1 keeps one row of each unit.")
    check_unit_noise(epsilon, int(n_rows))


def privacy_unit(labels: Any, n_rows: int, shared: PrivacyAccountant | None) -> Unit | None:
    """Return whom a fit protects, None where that is the row; refuse it where this is not whom the caller thinks of.

    Parameters
    ----------
    labels : str, int, array-like or None
        As `fit` gets them.
    n_rows : int
        The most rows of one unit.
    shared : PrivacyAccountant or None
    """
    if labels is None and n_rows > 1:
        raise ValueError(
            f"max_rows_per_unit is {n_rows}, but fit got no unit, so each row would be protected by itself; give fit(X, unit=...), or "
            "leave max_rows_per_unit at 1."
        )
    unit = None if labels is None else Unit(name_of_unit(labels), n_rows)
    wanted = None if shared is None else shared.unit
    if wanted not in (None, unit):
        raise ValueError(f"unit must be that of accountant, {wanted}, got {unit or 'None'}; give that unit, or another accountant.")
    return unit
