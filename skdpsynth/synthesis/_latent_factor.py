"""Synthetic data of mixed tables."""

from collections.abc import Hashable

from skdpsynth._estimator import all_or_nothing
from skdpsynth._sklearn import check_choice, is_whole
from skdpsynth.domain import Nominal, continue_table, encode, start_table
from skdpsynth.synthesis._base import PrivateSynthesizer
from skdpsynth.synthesis._latent_marginals import check_budget, check_size, fit_marginals
from skdpsynth.synthesis._latent_scores import fit_scores

_MOST_STRATA = 10
_MOST_FACTORS = 64


class LatentFactorSynthesizer(PrivateSynthesizer):
    """Synthetic tables of mixed types: numbers, ordered levels and categories, with missing cells.

    Releases the noisy counts of all columns and pairs of columns, and fits to them a model in which a few latent factors make the
    columns depend on each other. It takes about a second for twenty columns; the time grows with the square of the number of levels and
    bins of all columns together, so merge levels where there are thousands. Ordinal columns come back as ordered categories, all others
    in their dtype. For more than a few columns set ``delta`` (1e-6), and give the column that shall be predicted as `stratify`.

    Parameters
    ----------
    schema : dict or Schema, default=None
        The public facts about each column: ``{column: (low, high), [levels] or a kind}``, see `skdpsynth.domain.Schema`; for an array
        the keys are column numbers. Never inferred from rows. None: every column is a number within `bounds`.
    stratify : column, default=None
        A nominal column of at most 10 levels, such as the target of a prediction: everything is counted in each of its classes, and
        each gets a model of its own. This costs no more budget, and brings out how the other columns predict it. None: one model.
    n_factors : int, default=8
        Number of latent factors (strategy "scores": at most so many).
    strategy : {"marginals", "scores"}, default="marginals"
        "marginals": counts, then factors, as above. "scores": the published route (Algorithms 1 to 3 of [1]_) with its releases made
        private, for comparison; it is much less accurate.
    synthesizer : {None, "pmm", "psmm"}, default=None
        How the rows' factors are synthesized (strategy "scores"). None: from a normal distribution with the released moments, at no
        cost. "pmm", "psmm": by `LowDimSynthesizer`.
    epsilon : float, default=1.0
        The whole budget of one `fit`. ``float("inf")``: no noise, not private.
    delta : float, default=0.0
        Above 0 the noise is Gaussian, and much smaller if there are many columns; 1e-6 is common. 0: pure differential privacy.
    bounds : tuple or dict, default=(0.0, 1.0)
        Public bounds where `schema` is None: ``(low, high)`` as scalars or arrays of shape (n_features,), or ``{column: (low, high)}``.
    neighboring : {"replace_one", "add_or_remove_one"}, default="replace_one"
        "replace_one": the number of rows is public. "add_or_remove_one": it is private, and estimated from the noisy counts (strategy
        "marginals" only).
    accountant : PrivacyAccountant, default=None
        A shared budget, charged the whole ``epsilon`` and ``delta`` before the first draw. None: one of its own for each `fit`.
    random_state : int, RandomState or None, default=None
        None: secure noise. A seed makes the noise reproducible and the result *not private*.

    Attributes
    ----------
    schema_ : Schema
        In the order of the columns.
    marginals_ : dict of tuple of columns to int64 ndarray
        The noisy counts exactly as released, before any repair; see Notes. Strategy "scores": by column, those of the levels of each
        ordinal column that may not be missing (of two levels, of the first), and neither ``bins_`` nor ``cells_``.
    bins_ : dict of column to ndarray
        Of each continuous column, where its bins begin and the last ends: code k of the column stands for numbers from ``bins_[column][k]``
        up to, not with, ``bins_[column][k + 1]``. Codes of other columns are their levels in the order of the schema, and the last code
        is a missing cell where the column is nullable.
    cells_ : dict of column to int64 ndarray
        The noisy counts of the cells of each continuous column, as released: the measured levels of its tree, the coarsest first, the
        last with a count for each cell (and unused ones up to a power of two).
    factors_ : tuple of LatentFactors
        Of each block of columns (one, up to 40 columns), in all classes of `stratify`. Strategy "scores": the fitted `PrivatePCA` or
        `LowDimSynthesizer` of the latent columns.
    accountant_ : PrivacyAccountant
        What was spent, as a record.
    n_samples_ : int
        Number of rows; an estimate from noisy counts (at least 1) under "add_or_remove_one".
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only where the input had names.

    Raises
    ------
    ValueError
        If a parameter is out of its domain or `schema` does not fit the columns, before any budget is spent. With a schema no cell
        raises; without one, cells that are no numbers do, as everywhere.
    TypeError
        If a dtype cannot hold what `schema` says.
    BudgetExceededError
        If a shared accountant has less than ``epsilon`` left; nothing is drawn then.

    Notes
    -----
    *Privacy.* `fit` is epsilon-differentially private ((epsilon, delta) if delta > 0, by zero-concentrated differential privacy and its
    tight conversion) under `neighboring`; every attribute is released under that guarantee, and fitting again spends it again. `sample`
    is free. `score` is not private. Timing is not protected. The unit is the row: of people with several rows, `epsilon` protects one
    row.

    *Cells out of the domain* have a fixed place, because an error would tell of them: numbers are clipped (whole ones rounded), and
    unknown levels are missing; in a column that is not nullable a missing number becomes the midpoint and a missing level the first.

    *"marginals"*, in three releases with .1, .1 and .8 of the budget (a column's tables count a row once, so that k tables have L1
    sensitivity k, or 2 k under "replace_one", which is also the square of the L2 sensitivity; with `stratify` these are the same, as a
    class is one more coordinate of a table):

    1. of each continuous column every second level of a tree of cells (about 1000 of equal width; of whole numbers one each, up to
       131,072; the bounds and 0 have cells of their own), made consistent, and cut at its private quantiles into 16 bins, or more where
       single cells are heavy;
    2. the counts of the codes of each column: bins, levels, and missing as one more;
    3. the counts of pairs of columns.

    With more than 40 columns the shares are .2, .3, .2 and .3: before the last step the tables of all pairs are released with codes
    merged into two groups (nominal: three); columns whose table is farther from independence than its noise explains are joined into
    blocks of at most 12, the most dependent first; and only pairs within a block are counted in full. Blocks have models of their own,
    and are independent of each other but for `stratify`.

    The rest is post-processing: a model with normal factors z, in which the codes of a column are drawn with probabilities softmax(a +
    B z), is fitted by least squares until its error is that of the noise (chi squared a cell = 1); rows are drawn from it, and numbers
    within their bin by the noisy tree. ``marginals_`` has the key ``(column,)`` for a column and ``(column, column)`` for a pair, led
    by `stratify` where it is given; ``cells_`` has the levels of each tree, one after the other.

    *"scores"*: thresholds of ordinal columns from noisy counts, a latent normal draw of each cell by them, private moments of the
    latent rows (`PrivatePCA`), as many factors as hold 80 % of their noisy variance, and back. Corrected: thresholds are released
    before they are used, rows are clipped to a public box, the number of factors follows from noisy eigenvalues, no row's scores are
    released, and levels come from synthetic latent values. Columns that may be missing have a latent utility for it.

    References
    ----------
    .. [1] Zhang, Xu, Tang, Qu (2024), "Differentially Private Data Release for Mixed-type Data via Latent Factor Models", Algorithms 1
       to 3, equations 3 and 5 to 8.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth import LatentFactorSynthesizer
    >>> rng = np.random.default_rng(0)
    >>> ill = rng.random(5000) < 0.3
    >>> X = np.column_stack([rng.integers(18, 90, 5000), np.where(ill, "yes", "no")]).astype(object)
    >>> X[:, 0] = X[:, 0].astype(int)
    >>> model = LatentFactorSynthesizer({0: (18, 99), 1: ["no", "yes"]}, stratify=1, epsilon=1.0, delta=1e-6).fit(X)
    >>> model.sample(3).shape
    (3, 2)
    >>> model.marginals_[1, 0].shape
    (2, 16)
    """

    def __init__(
        self,
        schema=None,
        *,
        stratify=None,
        n_factors=8,
        strategy="marginals",
        synthesizer=None,
        epsilon=1.0,
        delta=0.0,
        bounds=(0.0, 1.0),
        neighboring="replace_one",
        accountant=None,
        random_state=None,
    ):
        self.schema = schema
        self.stratify = stratify
        self.n_factors = n_factors
        self.strategy = strategy
        self.synthesizer = synthesizer
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.neighboring = neighboring
        self.accountant = accountant
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X, y=None):
        """Release a model of `X`.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Columns as `schema` says; see Notes for cells that are not.
        y : None
            Ignored.

        Returns
        -------
        self : LatentFactorSynthesizer
        """
        self._check_promise()
        self._container, values = start_table(self, X, self._least_rows)
        self.schema_ = schema = self._container.schema
        self._check_parameters(schema)
        check_size(schema, self.stratify)
        rng = self._bits()
        if self.strategy == "marginals":
            check_budget(self.epsilon, self.delta)
            accountant = self._open_accountant()
            self._model, self.marginals_, self.cells_, self.n_samples_ = fit_marginals(
                values, schema, self.stratify, self.n_factors, accountant, rng
            )
            self.factors_, self.bins_ = self._model.factors, self._model.bins()
        else:
            self._model, self.marginals_, self.factors_, accountant = fit_scores(
                values, schema, self.synthesizer, self.n_factors, self._open_accountant, self.epsilon, self.delta, rng
            )
            self.n_samples_ = len(values[0])
        accountant.close()
        self.accountant_ = accountant
        return self

    def score(self, X, y=None):
        """Return minus the 1-Wasserstein distance (chebyshev) between encoded rows of `X` and of a sample of its size.

        Rows are encoded by `skdpsynth.domain.MixedTypeEncoder`, so a differing level costs 1, the whole range of a number.
        `skdpsynth.metrics.marginal_total_variation` often tells more. Reads `X` unprotected, so the score of the training rows is **not
        private**. Both are thinned to at most 2000 rows by a fixed public seed, so it repeats.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        score : float
        """
        return super().score(X, y)

    def _sample_rows(self, n_samples, rng):
        return self._model.sample(n_samples, rng)

    def _points(self, X):
        return encode(continue_table(self, X), self.schema_)

    def _sample_points(self, n_samples, rng):
        return encode(self._sample_rows(n_samples, rng), self.schema_)

    def _check_parameters(self, schema):
        check_choice("strategy", self.strategy, ("marginals", "scores"))
        if not is_whole(self.n_factors, 1, _MOST_FACTORS):
            raise ValueError(f"n_factors must be an integer from 1 to {_MOST_FACTORS}, got {self.n_factors!r}; 8 is the default.")
        if self.synthesizer is not None:
            check_choice("synthesizer", self.synthesizer, ("pmm", "psmm"))
            if self.strategy != "scores":
                raise ValueError(
                    f"synthesizer must be None for strategy='marginals', got {self.synthesizer!r}; it serves strategy='scores'."
                )
        if self.strategy == "scores" and self.neighboring != "replace_one":
            raise ValueError(
                f"strategy='scores' supports neighboring='replace_one' only, got {self.neighboring!r}; use strategy='marginals'."
            )
        if self.stratify is not None:
            self._check_stratify(schema)

    def _check_stratify(self, schema):
        if self.strategy == "scores":
            raise ValueError(f"stratify must be None for strategy='scores', got {self.stratify!r}; use strategy='marginals'.")
        if not isinstance(self.stratify, Hashable) or self.stratify not in schema:
            # A column of the table, given by mistake, would be quoted.
            got = repr(self.stratify) if isinstance(self.stratify, str | int) else f"a {type(self.stratify).__name__}"
            raise ValueError(f"stratify must be a column of schema, got {got}; give its name.")
        kind = schema[self.stratify]
        if not isinstance(kind, Nominal):
            raise ValueError(
                f"stratify must be a nominal column, but {self.stratify!r} is {type(kind).__name__.lower()}; give [levels] for it."
            )
        if kind.n_codes > _MOST_STRATA:
            raise ValueError(
                f"stratify must have at most {_MOST_STRATA} levels (missing is one), but {self.stratify!r} has {kind.n_codes}; merge some, "
                "or leave stratify out."
            )
        if len(schema) == 1:
            raise ValueError(f"stratify must leave other columns to synthesize, but {self.stratify!r} is the only one.")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = tags.input_tags.string = self.schema is not None
        return tags
