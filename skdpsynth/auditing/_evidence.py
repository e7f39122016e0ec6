"""Whether synthetic rows give away who was in the data: attacks on training rows beside the same on held-out rows."""

from typing import Any

import numpy as np

from skdpsynth._validation import is_integer, is_real, short_repr
from skdpsynth.auditing._attacked import SYNTHETIC, Space, Tables, secret_places
from skdpsynth.auditing._attacks import attributes, closest_record, find_copies, membership
from skdpsynth.auditing._found import PrivacyEvidence


def privacy_evidence(
    model: Any,
    train: Any,
    holdout: Any,
    schema: Any = None,
    *,
    secret: Any = None,
    confidence: float = 0.99,
    max_samples: int = 5000,
    random_state: int | None = 0,
) -> PrivacyEvidence:
    """Attack a model's synthetic rows, and compare how the attacks do on training rows and on held-out rows; **not private**.

    Exact copies, the closest record, a membership attack and an attribute attack: whatever they find out about rows that the model never
    saw is no leak, so each number stands beside that of held-out rows. What finds nothing proves nothing: another attack might. What
    protects people is epsilon, for every attack there is; this shows gross mistakes, to whom a number says more than a proof.

    Parameters
    ----------
    model : fitted synthesizer, or table of synthetic rows
        Anything with ``sample(n_samples, random_state=...)``, of this package or of another: as many rows are drawn as `train` has, 100,000
        at most. Better give the very table that you will publish: an array, a frame, or whatever else `fit` takes.
    train : array-like, data frame or other table that `fit` takes, of shape (n_samples, n_features)
        The rows that the model was fitted to, or a random part of them. Read unprotected.
    holdout : array-like, data frame or other table that `fit` takes, of shape (m_samples, n_features)
        Rows of other people, set aside at random before the fit. Read unprotected. If somebody has several rows, all of them belong on one
        side.
    schema : dict, Schema or path of a file, default=None
        ``{column: (low, high), [levels] or a kind}``, see `skdpsynth.domain.Schema`. None: the model's own ``schema_``; without one, all
        columns are numbers.
    secret : column or list of columns, default=None
        What the attribute attack guesses. None: each column in turn.
    confidence : float, default=0.99
        Of each interval. Where nothing leaks, each finding comes up by chance in half of what is left: of 1000 honest models about 20 are
        suspected by one of the four.
    max_samples : int, default=5000
        At most so many rows of each table are attacked, drawn at random; exact copies are looked for among all. More show smaller leaks:
        the time grows with the square.
    random_state : int or None, default=0
        Seed of the synthetic rows, of the rows that are drawn and of the halves. None: other ones at each call.

    Returns
    -------
    evidence : PrivacyEvidence
        ``print(evidence)`` is a paragraph; it has `to_frame` and `plot`.

    Raises
    ------
    TypeError
        If `model` has no `sample` and is no table, or without a schema a column has no numbers.
    ValueError
        If a table has fewer than 20 rows, `holdout` is `train`, the columns are not those of the schema, or a parameter is out of its
        domain.

    See Also
    --------
    audit_epsilon : A lower bound on epsilon, from made-up rows.
    skdpsynth.report.card : Shows it on the internal card, with ``holdout=``.
    skdpsynth.PrivacyAccountant.risk : What the best attack there can be gains.

    Notes
    -----
    *Why held-out rows.* The synthetic table is fixed. Every real row gets a score that depends on it and on the synthetic table alone; the
    membership attack also uses a half of the held-out rows, which it then leaves out. If training rows and held-out rows come from one
    law, and the synthetic rows were made without either, the scores of both have one law too. So the interval of the difference holds 0
    with probability `confidence`, up to the normal approximation of means: Newcombe's interval for shares, t intervals for means.

    *Closest record.* Mean Euclidean distance of real rows to the closest synthetic one, over the root of the number of columns. Two rows
    are apart by 1 in a column of levels that differ, and by 1 in one of numbers that are as far from each other as the ends of the middle
    nine tenths of its synthetic values; a missing number is 1 apart from any other.

    *Exact copies.* All cells are equal. In small domains many rows are found by chance, whoever they are: as many as of held-out rows.

    *Membership.* As DOMIAS [1]_: rows where synthetic rows are denser than the population are called members. Both densities are those of
    the nearest neighbor, that of the population in one half of the held-out rows. A tenth of that half sets the threshold, so about a
    tenth of the rows of strangers raise a false alarm.

    *Attributes.* The attacker knows all cells of a row but one, and takes that of the closest synthetic row [2]_. A guess of a number is
    right within a twentieth of the range of the middle nine tenths of the synthetic values, one of levels if it is equal.

    Rows are sorted first, so the order in which they come changes nothing (in tables of at most 2^25 cells; of larger ones rows are drawn
    by their place).

    References
    ----------
    .. [1] van Breugel, Sun, Qian, van der Schaar (2023), "Membership Inference Attacks against Synthetic Data through Overfitting
       Detection".
    .. [2] Giomi, Boenisch, Wehmeyer, Tasnádi (2023), "A Unified Framework for Quantifying Privacy Risk in Synthetic Data".

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth import PrivateMeasureMechanism
    >>> from skdpsynth.auditing import privacy_evidence
    >>> train, holdout = np.random.default_rng(0).beta(2, 5, size=(2, 500, 2))
    >>> evidence = privacy_evidence(PrivateMeasureMechanism(epsilon=1.0, bounds=(0, 1)).fit(train), train, holdout)
    >>> evidence.exact_copies.train
    0.0
    >>> privacy_evidence(train, train, holdout).exact_copies.is_found  # of rows that are no synthetic ones at all
    True
    """
    _check(confidence, max_samples, random_state)
    every = Tables.read(model, train, holdout, schema, random_state)
    places, rng = secret_places(secret, every.schema), np.random.default_rng(random_state)
    copies = find_copies(every, confidence)
    few = every.subsample_rows(int(max_samples), rng)
    space = Space.of(few)
    together, alone = attributes(few, space, places, confidence)
    n_train, n_holdout, n_synthetic = every.sizes()
    return PrivacyEvidence(
        exact_copies=copies.gap,
        closest_record=closest_record(space, confidence),
        membership=membership(space, confidence, rng),
        attributes=together,
        by_column=alone,
        confidence=float(confidence),
        n_train=n_train,
        n_holdout=n_holdout,
        n_synthetic=n_synthetic,
        n_attacking=few.sizes()[SYNTHETIC],
        n_copies=copies.n_found,
        n_overlapping=copies.n_overlapping,
        is_overlap=copies.is_overlap,
    )


def _check(confidence: Any, max_samples: Any, random_state: Any) -> None:
    if not (is_real(confidence) and 0.5 <= confidence < 1):
        raise ValueError(f"confidence must be a number in [0.5, 1), got {short_repr(confidence)}; 0.99 is the default.")
    if not is_integer(max_samples, 20):
        raise ValueError(f"max_samples must be an integer of at least 20, got {short_repr(max_samples)}; 5000 is the default.")
    if random_state is not None and not is_integer(random_state, 0):
        raise ValueError(f"random_state must be a non-negative integer or None, got {short_repr(random_state)}.")
