"""Checks for skeptics: `check_synthesizer` runs the laws of private estimators."""

from collections.abc import Callable
from typing import Any

from skdpsynth._validation import check_bool
from skdpsynth.fitting import PrivateEstimator
from skdpsynth.testing import _budget_laws, _fit_laws, _input_laws
from skdpsynth.testing._budget_laws import NoiseLoss, pair_loss
from skdpsynth.testing._harness import Draw, Estimator, StopRun, find_laws, is_for, kind_of, watch_releases

__all__ = ["check_synthesizer"]

LAWS = find_laws(_budget_laws, _fit_laws, _input_laws)
_SHARED = ("epsilon", "delta", "bounds", "neighboring", "accountant", "random_state")


def check_synthesizer(estimator: Estimator, *, generate_only: bool = False) -> list[tuple[Any, Callable[[Any], None]]] | None:
    """Check that a private estimator keeps the laws that those of this package keep.

    The noise covers what is charged, neighbors look alike, a refit is a fresh fit, no message quotes a cell, and more: a law is a
    function, and its docstring says what it asks. Some minutes of work for a slow estimator.

    Parameters
    ----------
    estimator : estimator object
        Unfitted, of any class derived from the bases of this package: a synthesizer or a transformer. It is cloned, and its
        parameters are varied. Its columns are numbers; which laws are for it follows from its methods and tags.
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
    statistic, and test it by brute force. scikit-learn's ``check_estimator`` should pass too.

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
    lacking = [name for name in _SHARED if name not in estimator.get_params()]
    if lacking:
        raise TypeError(f"{type(estimator).__name__}.__init__ must have the parameters of every private estimator, but lacks {lacking}.")
    checks = [(estimator, check) for check in LAWS if is_for(check, estimator)]
    if generate_only:
        return checks
    for _, check in checks:
        check(estimator)
    return None
