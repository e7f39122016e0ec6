"""Shares of rows that break the rules of a schema."""

from typing import Any

from skdpsynth.domain import Schema
from skdpsynth.tables import Violations, count_violations


def rule_violations(X: Any, schema: Any) -> dict[str, Violations]:
    """Return how many rows of a table break each rule of a schema.

    Synthetic rows of `LatentFactorSynthesizer` break none. The function reads `X` unprotected and adds no noise: for real rows the result
    is **not private**.

    Parameters
    ----------
    X : array-like, data frame or other table that `fit` takes, of shape (n_samples, n_features)
        With the columns that rules name.
    schema : Schema, or path of a file
        With rules, or `Derived` columns, each of which is a rule too.

    Returns
    -------
    broken : dict of str to (rows, share)
        For each rule, as printed, in the order of the schema, `Derived` columns last: ``rows``, how many rows break it, and ``share``,
        which part of all rows that is. For a key, rows count whose key an earlier row has.

    Raises
    ------
    ValueError
        If `X` lacks a column that a rule names.

    See Also
    --------
    skdpsynth.domain.Schema.check : Says of real rows what else does not fit.
    skdpsynth.metrics.quality_report : Compares two tables.

    Notes
    -----
    Cells are read as a fit reads them: numbers are clipped to their bounds. Computed numbers may differ by rounding, one part in a million.

    Examples
    --------
    >>> from skdpsynth.domain import Inequality, Schema
    >>> from skdpsynth.metrics import rule_violations
    >>> schema = Schema({0: (0, 9), 1: (0, 9)}, rules=[Inequality(0, 1)])
    >>> rule_violations([[1, 2], [3, 3], [5, 4], [8, 9]], schema)
    {'Inequality(low=0, high=1, strict=False)': Violations(rows=1, share=0.25)}
    """
    found, _ = count_violations(Schema.of(schema), X)
    return {f"{rule[0]!r}: {rule[1]!r}" if isinstance(rule, tuple) else repr(rule): broken for rule, broken in found}
