"""What all private estimators share: the parameters of the promise, and the order in which fit checks them."""

import functools
import math
import warnings
from fractions import Fraction

from sklearn.base import BaseEstimator

from skdpsynth._sklearn import validate_rows
from skdpsynth.domain import Box, Container
from skdpsynth.exceptions import InsecureRandomnessWarning
from skdpsynth.persistence import save
from skdpsynth.privacy import PrivacyAccountant, check_accountant, check_delta, check_epsilon, check_neighboring, check_rng

_SMALLEST_EPSILON = Fraction(1, 10**9)  # its noise still fits into 64 bits


class PrivateEstimator(BaseEstimator):
    """Base of the private estimators: think twice before adding anything to it."""

    def _begin(self, X, bits=16):
        """Check parameters and rows; refuse here whatever can be refused, before any budget is spent.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
        box : Box
        rng : stream of random bits
        """
        self._check_promise()
        container = Container.of(X)
        X = validate_rows(self, X, reset=True, ensure_min_samples=self._least_rows)
        box = Box.from_bounds(self.bounds, X.shape[1], container.columns, bits, container.whole(X.shape[1]))
        self._container = container
        return X, box, self._bits()

    def _check_promise(self):
        """Check the parameters that every private estimator has, but for bounds."""
        check_useful(self.epsilon)
        check_delta(self.delta)
        check_neighboring(self.neighboring)
        check_accountant(self.accountant)
        if self.accountant is not None and self.accountant.neighboring != self.neighboring:
            raise ValueError(
                f"accountant counts under {self.accountant.neighboring!r}, but neighboring is {self.neighboring!r}; "
                "use one relation for both."
            )

    @property
    def _least_rows(self):
        """An empty table is a neighbour of one row under add/remove, so it must fit too."""
        return 1 if self.neighboring == "replace_one" else 0

    def _bits(self):
        """Return a stream of random bits; a seed warns in the name of the caller of ``fit``."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", InsecureRandomnessWarning)
            rng = check_rng(self.random_state)
        for warning in caught:
            warnings.warn(warning.message, stacklevel=5)
        return rng

    def _open_accountant(self, delta=None):
        """Return the accountant of this fit: its own, or a child that charges the shared one at once.

        `delta` is what this fit needs of it (None: all of ``self.delta``).
        """
        delta = self.delta if delta is None else delta
        if self.accountant is None:
            return PrivacyAccountant(self.epsilon, delta, neighboring=self.neighboring)
        return self.accountant.child(self.epsilon, delta, name=type(self).__name__)

    def save(self, path):
        """Write this estimator to a file that `skdpsynth.load` reads, without code in it and without a seed.

        Parameters
        ----------
        path : str or path-like
        """
        save(self, path)

    def __getstate__(self):
        state = dict(super().__getstate__())
        shared = state.get("accountant")
        if "accountant_" in state and shared is not None and not shared.closed:
            # A fitted estimator keeps what was spent, as a record; the open budget stays where it is.
            state["accountant"] = shared.record()
        return state


def all_or_nothing(fit):
    """Wrap a ``fit`` that leaves the object as it was if it raises."""

    @functools.wraps(fit)
    def wrapper(self, X, y=None):
        before = vars(self).copy()
        try:
            return fit(self, X, y)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return wrapper


def check_useful(epsilon):
    """Raise unless epsilon is valid and not absurdly small."""
    if check_epsilon(epsilon) < _SMALLEST_EPSILON:
        raise ValueError(f"epsilon must be at least 1e-9, got {float(epsilon):g}: less has no use; common choices lie between 0.1 and 10.")


def public_size(epsilon, n_samples):
    """Return ``epsilon * n_samples``, capped so that sizes derived from it stay within memory.

    Size rules (depths, numbers of cells) are functions of this public number only; epsilon = inf gets the cap.
    """
    cap = 2.0**24
    return cap if epsilon == math.inf else min(float(epsilon) * n_samples, cap)
