"""What all synthesizers share: sampling and its container, and the score."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, check_random_state

from skdpsynth._checks import is_whole, shown
from skdpsynth._sklearn import validate_rows
from skdpsynth.fitting import Facts, PrivateEstimator
from skdpsynth.metrics import wasserstein_distance

_SCORE_ROWS = 2000
_SCORE_SEED = 20


class PrivateSynthesizer(PrivateEstimator):
    """Base of the synthesizers: think twice before adding anything to it."""

    @abstractmethod
    def _sample_rows(self, n_samples: int, rng: np.random.Generator) -> Any:
        """Return an (n_samples, n_features) array of floats in the box; `rng` is a numpy Generator."""

    def _placed(self, lattice_of: Callable[[int], Any], facts: Facts) -> Any:
        """Return this, unfitted, for rows that were projected; ``lattice_of(n_cells)`` gives cells that cover just their image."""
        return self

    def sample(self, n_samples: Any = None, random_state: Any = None) -> Any:
        """Draw synthetic rows; this is post-processing and costs no privacy.

        Parameters
        ----------
        n_samples : int, default=None
            None: as many as the data had (under "add_or_remove_one": the noisy count).
        random_state : int, RandomState or None, default=None
            May be seeded freely. None: fresh entropy, never the seed of `fit`.

        Returns
        -------
        X : array or data frame of shape (n_samples, n_features)
            In the kind of table that `fit` got, with its columns and dtypes.
        """
        check_is_fitted(self)
        return self._filled(self.n_samples_ if n_samples is None else n_samples, random_state, self._sample_rows)

    def _filled(self, n_samples: Any, random_state: Any, rows: Callable[[int, np.random.Generator], Any]) -> Any:
        """Return ``rows(n_samples, generator)`` in the caller's kind of table."""
        if not is_whole(n_samples, 1):
            raise ValueError(f"n_samples must be a positive integer or None, got {shown(n_samples)}.")
        if random_state is None:
            rng = np.random.default_rng()
        else:
            _check_seed(random_state)
            rng = np.random.default_rng(np.frombuffer(check_random_state(random_state).bytes(32), dtype=np.uint32))
        with np.errstate(all="ignore"):  # underflow is expected, and no error to a caller who asks for errors
            return self._container.fill(rows(int(n_samples), rng))

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the 1-Wasserstein distance (chebyshev, in units of the data) between `X` and a sample of its size.

        Reads `X` unprotected, so the score of the training rows is **not private**. Both are thinned to at most 2000 rows by a
        fixed public seed, so it repeats.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        score : float
        """
        check_is_fitted(self)
        X = self._points(X)
        rng = np.random.default_rng(_SCORE_SEED)
        if len(X) > _SCORE_ROWS:
            X = X[rng.choice(len(X), _SCORE_ROWS, replace=False)]
        return -wasserstein_distance(X, self._sample_points(len(X), rng))

    def _points(self, X: Any) -> np.ndarray:
        """Return the rows that `score` compares as points."""
        return validate_rows(self, X, reset=False)

    def _sample_points(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        return self._sample_rows(n_samples, rng)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "density_estimator"
        return tags


def _check_seed(random_state: Any) -> None:
    """Refuse what is no seed; scikit-learn's own message would print a table given by mistake."""
    if not (is_whole(random_state, 0, 2**32 - 1) or isinstance(random_state, np.random.RandomState)):
        raise ValueError(
            f"random_state must be None, an int from 0 to 2**32 - 1 or a numpy RandomState, got {shown(random_state)}; None is fresh."
        )
