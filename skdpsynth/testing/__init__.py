"""Checks for skeptics: `check_synthesizer` runs the laws of private estimators."""

from collections.abc import Mapping
from functools import partial, wraps
from typing import Any

from skdpsynth._validation import check_bool
from skdpsynth.fitting import PrivateEstimator
from skdpsynth.frames import Table
from skdpsynth.testing import _budget_laws, _fit_laws, _input_laws, _linked_laws
from skdpsynth.testing._budget_laws import NoiseLoss, pair_loss
from skdpsynth.testing._harness import Draw, Estimator, Law, StopRun, find_laws, is_for, kind_of, use_roots, watch_releases
from skdpsynth.testing._roots import Roots

__all__ = ["check_synthesizer"]

LAWS = find_laws(_budget_laws, _fit_laws, _input_laws, _linked_laws)
_SHARED = ("epsilon", "delta", "neighboring", "accountant", "random_state")


def check_synthesizer(
    estimator: Estimator, X: Mapping[str, Table] | None = None, *, generate_only: bool = False
) -> list[tuple[Any, Law]] | None:
    """Check that a private estimator keeps the laws that those of this package keep.

    The noise covers what is charged, neighbors look alike, a refit is a fresh fit, no message quotes a cell, and more: a law is a
    function, and its docstring says what it asks. Some minutes of work for a slow estimator.

    Parameters
    ----------
    estimator : estimator object
        Unfitted, of any class derived from the bases of this package: a synthesizer or a transformer. It is cloned, and its
        parameters are varied. Its columns are numbers; which laws are for it follows from its methods and tags.
    X : dict of str to table, default=None
        For an estimator of linked tables, and for no other: tables as its `fit` takes them, with at least one root. Laws are asked of
        their roots, and of extreme ones. Those of arrays are left out.
    generate_only : bool, default=False
        If True, run nothing and return pairs (estimator, check), so that a test runner can call each ``check(estimator)`` by itself,
        as in ``pytest.mark.parametrize("estimator, check", check_synthesizer(MySynthesizer(), generate_only=True))``.

    Returns
    -------
    checks : list of (estimator, callable) or None

    Raises
    ------
    AssertionError
        With the law that is broken, and what was found.

    See Also
    --------
    PrivateSynthesizer : Base class of new synthesizers.
    sklearn.utils.estimator_checks.check_estimator : Requirements of scikit-learn on estimators.

    Notes
    -----
    Laws are tests, not a proof: they compare worst-case rows, and what the ledger states. Prove the sensitivity of each
    statistic, and test it by brute force. scikit-learn's ``check_estimator`` should pass too, except for estimators of linked tables:
    it gives them arrays.

    Examples
    --------
    >>> from skdpsynth import PrivateMeasureMechanism
    >>> from skdpsynth.testing import check_synthesizer
    >>> checks = {check.__name__: check for _, check in check_synthesizer(PrivateMeasureMechanism(), generate_only=True)}
    >>> checks["check_the_ledger_sums_to_epsilon"](PrivateMeasureMechanism())
    """
    check_bool("generate_only", generate_only)
    if isinstance(estimator, type) or not isinstance(estimator, PrivateEstimator):
        given = f"the class {estimator.__name__}" if isinstance(estimator, type) else f"a {type(estimator).__name__}"
        raise TypeError(f"estimator must be an unfitted instance of a class derived from PrivateEstimator, got {given}.")
    is_linked = hasattr(estimator, "links")
    lacking = [name for name in (*_SHARED, *(() if is_linked else ("bounds",))) if name not in estimator.get_params()]
    if lacking:
        raise TypeError(f"{type(estimator).__name__}.__init__ must have the parameters of every private estimator, but lacks {lacking}.")
    if X is not None and not is_linked:
        raise ValueError(f"X must be None for {type(estimator).__name__}, which takes one table; laws make rows of their own.")
    laws = map(partial(_asked_of, Roots.of(estimator, X)), LAWS) if is_linked else LAWS
    checks = [(estimator, check) for check in laws if is_for(check, estimator)]
    if generate_only:
        return checks
    for _, check in checks:
        check(estimator)
    return None


def _asked_of(roots: Roots, check: Law) -> Law:
    """Return a law that is asked of linked tables."""

    @wraps(check)
    def law(estimator: Estimator) -> None:
        with use_roots(roots):
            check(estimator)

    return law
