"""Attacks on linked synthetic tables."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdpsynth._validation import check_type
from skdpsynth.auditing._attacks import LEAST, PrivacyEvidence, Referee, Tables, attack, check_settings, schema_of_attacks
from skdpsynth.domain import Schema
from skdpsynth.frames import take_rows
from skdpsynth.metrics import Table
from skdpsynth.synthesis import LinkedTablesSynthesizer
from skdpsynth.tables import Forest, LinkedFormat, check_enough, name_table_in_errors, open_forest

_MOST_ROOTS = 50_000  # that are drawn from a model


def linked_evidence(
    model: LinkedTablesSynthesizer,
    train: Mapping[str, Table],
    holdout: Mapping[str, Table],
    synthetic: Mapping[str, Table] | None = None,
    *,
    confidence: float = 0.99,
    max_samples: int = 5000,
    random_state: int | None = 0,
) -> dict[str, PrivacyEvidence]:
    """Attack each of a model's linked synthetic tables, as `privacy_evidence` attacks one; **not private**.

    Parameters
    ----------
    model : fitted LinkedTablesSynthesizer
        Whose synthetic tables are attacked, and whose ledger the guesses are compared with.
    train, holdout : dict of str to data frame or other table that `fit` takes
        The tables of the fit, and those of other roots, set aside at random with all that hangs on them. Read unprotected.
    synthetic : dict of str to data frame or other table that `fit` takes, default=None
        The tables that you will publish. None: as many roots are drawn as `train` has, 50,000 at most.
    confidence : float, default=0.99
    max_samples : int, default=5000
    random_state : int or None, default=0
        All three as `privacy_evidence` has them.

    Returns
    -------
    evidence : dict of str to PrivacyEvidence
        By table. A table of which fewer than 20 roots of `train` or `holdout`, or of which fewer than 20 synthetic rows, are there is left
        out.

    See Also
    --------
    privacy_evidence : Attacks one table, and says what the attacks are.
    skdpsynth.metrics.linked_report : Compares linked tables in quality.

    Notes
    -----
    Rows of one root are in the fit together. So one row of each root is attacked, drawn at random, and each guess is one about a root: the
    limit of a ledger that protects roots holds for it. A row stands beside the columns of its parent, and the numbers of its children.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpsynth import LinkedTablesSynthesizer
    >>> from skdpsynth.auditing import linked_evidence
    >>> from skdpsynth.domain import Children
    >>> home, rng = np.arange(400), np.random.default_rng(0)
    >>> region, age = rng.choice(["n", "s"], 400), rng.integers(0, 99, 800)
    >>> tables = {"home": pd.DataFrame({"id": home, "region": region}), "person": pd.DataFrame({"id": np.repeat(home, 2), "age": age})}
    >>> train, holdout = ({name: t[(t["id"] < 200) == is_in] for name, t in tables.items()} for is_in in (True, False))
    >>> schemas = {"home": {"region": ["n", "s"]}, "person": {"age": (0, 99)}}
    >>> model = LinkedTablesSynthesizer(schemas, links=[Children("person", of="home", key="id", most=2)]).fit(train)
    >>> linked_evidence(model, train, holdout)["person"].refuting
    ()
    """
    check_type("model", model, LinkedTablesSynthesizer, "a LinkedTablesSynthesizer; to attack a single table, call privacy_evidence")
    check_is_fitted(model)
    max_samples, rng = check_settings(confidence, max_samples, random_state), np.random.default_rng(random_state)
    if train is holdout:
        raise ValueError("holdout must be tables that the model was not fitted to, got the very tables of train; set some roots aside.")
    stated = {name: schema_of_attacks(schema) for name, schema in model.schemas_.items()}
    links = [replace(link, head=None) for link in model._container.links]

    def read(name: str, tables: Mapping[str, Table]) -> tuple[Forest, LinkedFormat]:
        with name_table_in_errors(name):
            forest, form = open_forest(stated, links, tables)
            check_enough(len(forest), LEAST)
        return forest, form

    (real, form), (others, _) = read("train", train), read("holdout", holdout)
    if synthetic is None:
        synthetic = model.sample(min(len(real), _MOST_ROOTS), random_state=random_state)
    made, parents = read("synthetic", synthetic)[0], {link.table: link.of for link in links}
    rows, kinds, evidence = [_rows_with_parents(forest) for forest in (real, others, made)], dict[str, dict[Any, Any]](), {}
    referee = Referee.of(model.accountant_, confidence, rng, takes_units=True)
    for table in (form.root, *form.below()):
        above = parents.get(table)
        inherited = {f"{above}.{name}": kind for name, kind in kinds.get(above or "", {}).items()}
        kinds[table] = {**schema_of_attacks(form.schemas[table]).coded, **inherited}
        train_rows, holdout_rows, (synthetic_rows, _) = (each[table] for each in rows)
        attacked = _one_of_each_root(*train_rows, rng), _one_of_each_root(*holdout_rows, rng), synthetic_rows
        if min(len(columns[0]) for columns in attacked) >= LEAST:
            every = Tables(Schema(kinds[table]), tuple(take_rows(columns, np.lexsort(columns[::-1])) for columns in attacked))
            secrets = list(range(len(kinds[table]))) if len(kinds[table]) > 1 else []
            evidence[table] = attack(every, secrets, None, max_samples, referee)
    return evidence


def _rows_with_parents(forest: Forest) -> dict[str, tuple[list[np.ndarray], np.ndarray]]:
    """Return the columns of each table, those of its parents after its own, and the root of each row."""
    found = {forest.root: (list(forest.tables[forest.root]), np.arange(len(forest)))}
    for child, parent in forest.parents.items():
        (columns, roots), owner = found[parent], forest.owners[child]
        found[child] = [*forest.tables[child], *take_rows(columns, owner)], roots[owner]
    return found


def _one_of_each_root(columns: list[np.ndarray], roots: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    order = rng.permutation(len(roots))
    return take_rows(columns, order[np.unique(roots[order], return_index=True)[1]])
