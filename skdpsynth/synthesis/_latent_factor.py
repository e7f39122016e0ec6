"""The synthesizer of mixed tables."""

import os
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, cast

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from skdpsynth._serialization import require
from skdpsynth._validation import Whole, check_parameters, short_repr
from skdpsynth.domain import BoundsLike, Continuous, Nominal, Schema, SchemaLike, is_name, list_names, ties_of, with_spans
from skdpsynth.fitting import Budget, Facts, MissingFact, PrivateLevels, private_columns
from skdpsynth.frames import Cell, Rows, Table, TableKind, open_source
from skdpsynth.models import pool_measurements, uniform_model
from skdpsynth.persistence import savable
from skdpsynth.privacy import AccountantLike, Seed
from skdpsynth.statistics import RowCount, total
from skdpsynth.synthesis._base import BlockPlan, StreamBlock
from skdpsynth.synthesis._conditional import ConditionalSynthesizer
from skdpsynth.synthesis._latent_marginals import MarginalsStrategy, model_attributes
from skdpsynth.synthesis._latent_planning import MANY_CLASSES, MAX_CODES, least_rows
from skdpsynth.synthesis._latent_scores import ScoresStrategy
from skdpsynth.synthesis._survey import Design, design_of
from skdpsynth.tables import TableFormat, close_schema, continue_table, encode, open_columns, schema_of_box, start_table

_STRATEGIES: dict[str, MarginalsStrategy | ScoresStrategy] = {"marginals": MarginalsStrategy(), "scores": ScoresStrategy()}
_MAX_FACTORS = 64


@savable
class LatentFactorSynthesizer(ConditionalSynthesizer):
    """Synthetic tables of mixed types: numbers, ordered levels and categories, with missing cells.

    It counts the values of each column and of each pair of columns, adds noise, and fits a model in which a few hidden factors make the
    columns depend on each other. Synthetic rows are drawn from the model. Twenty columns take about five seconds.

    For more than a few columns set `delta` (1e-6 is common); where all have few levels it is not needed, and then not spent. If you will
    train a classifier on the synthetic rows, name its target in `stratify`.

    Parameters
    ----------
    schema : dict, Schema or path of a file, default=None
        Public facts about each column: ``{column: (low, high), [levels] or a kind}``, see `skdpsynth.domain.Schema`. The keys are column
        names, or column numbers for an array. It is never inferred from rows. Unknown facts are bought first:
        ``Continuous(bounds="private")`` for a tenth of the budget, ``Nominal("private")`` for a tenth of epsilon and of delta. None: every
        column is a number within `bounds`, and no cell is missing.
    stratify : column, default=None
        A nominal column of at most 10 levels, such as the target of a prediction. Each of its levels is counted and modeled separately,
        which shows better how the other columns predict it. It costs no extra budget. None: one model.
    within : column, default=None
        A nominal column of at most 10 levels, such as a region, that no rule names. Pairs of other columns should be right in each of its
        levels: where noise is small enough, all triples of columns with it are counted, for half of what pairs would have. Unlike
        `stratify` it makes no models of its own. It needs `delta`. None: no such column.
    weights : column, default=None
        A column of survey weights, numbers with public bounds: the upper one is the cap, and the lower one is what negative and missing
        weights count as. A row of weight w counts w times, so synthetic rows stand for the population, and noise grows with the cap: give
        one not far above most weights. Epsilon covers a row with its weight as they stand in the table, not what the row did to weights of
        others by calibration. "marginals" only. None: each row counts once.
    n_factors : int or "auto", default="auto"
        Number of hidden factors, 1 to 64. "auto": 32 (strategy "scores": 8). More than needed do no harm but take time.
    strategy : {"marginals", "scores"}, default="marginals"
        "marginals": as described above. "scores": the published route (Algorithms 1 to 3 of [1]_) made private, for comparison.
    prior : array-like, data frame or any table that `fit` takes, default=None
        A **public** table with the columns of `X`, in any order by their names, such as last year's published rows, without any private
        row. The model leans on it as far as the noisy counts do not contradict it; no release but the choice of parities depends on
        it (proof: ``models/_public_prior.py``). Saved files do not hold it: a stream goes on without it after `load`. "marginals" only.
    synthesizer : {None, "pmm", "psmm"}, default=None
        Only for strategy "scores": how the factors of rows are synthesized. None: from a normal distribution with the released moments,
        at no cost. "pmm", "psmm": by `LowDimSynthesizer`.
    epsilon : float, default=1.0
        The whole budget of one `fit`. ``float("inf")``: no noise, not private.
    delta : float, default=0.0
        0: pure differential privacy. Above 0 the noise is Gaussian where that is less; else no delta is spent.
    bounds : tuple, dict or "private", default=None
        Public bounds of all columns, used where `schema` is None: ``(low, high)`` as scalars or arrays of shape (n_features,), or
        ``{column: (low, high)}``. None: (0, 1), with a `BoundsWarning`. "private": a tenth of the budget buys them first, into `schema_`.
    neighboring : {"replace_one", "add_or_remove_one"}, default="replace_one"
        "replace_one": the number of rows is public. "add_or_remove_one": it is private, and estimated from the noisy counts (strategy
        "scores": released by what learns the factors, with 4 % of the budget).
    max_rows_per_unit : int, default=1
        Where `fit` gets a `unit`: the most rows of each that count, chosen at random, a public number. `epsilon` protects all of them.
    accountant : PrivacyAccountant, str or path-like, default=None
        A shared budget, or the path of its ledger, charged all of `epsilon` and `delta` before the first draw. None: a new one a `fit`.
    random_state : int, RandomState or None, default=None
        None: secure noise. A seed makes the noise reproducible and the result *not private*.
    n_jobs : int, default=None
        Threads for counting and sampling; results do not depend on it. None: 1, or what ``joblib.parallel_config`` says.

    Attributes
    ----------
    schema_ : Schema
    factors_ : tuple of LatentFactors
        One for each block of columns (one block, up to 40 columns). Strategy "scores": the `PrivatePCA` or `LowDimSynthesizer` within.
    marginals_ : dict of tuple of columns to int64 ndarray
        The noisy counts exactly as released, with the key ``(column,)``, ``(column, column)`` or three columns; led by `stratify` where it
        is given. Releases as interactions or as a Gram matrix have the whole numbers nearest to `marginals_consistent_` here. Strategy
        "scores", which has none of the following nine: the counts of the levels of each ordinal column that is not nullable.
    marginals_consistent_ : dict of tuple of columns to ndarray
        The joint least squares estimates of the counts from all noisy tables: unbiased, and perhaps negative. Margins of pairs are the
        counts of their columns, and tables sum to the number of rows.
    marginals_errors_ : dict of tuple of columns to float
        The standard deviation of the noise of every cell of a table in `marginals_consistent_`.
    interactions_, interaction_scales_ : dict of tuple of columns to int64 ndarray, and to int
        Pairs that are released as interactions: their quotient is counts less the means over rows and columns of a table, with noise.
    gram_, gram_codes_ : int64 ndarray of shape (n_coordinates, n_coordinates), and dict of tuple of columns to ndarray; or None, and empty
        Columns and pairs that are released as one matrix: the sum over rows of ``v v'`` with noise, where v lists ``gram_codes_[()]``, and
        of each column the column of ``gram_codes_[(column,)]`` that its code names. With `stratify`, one matrix a class.
    parities_ : dict of tuple of columns to float or ndarray
        Sets of three to five columns that depend on each other beyond their pairs, as far as any were found: the mean product of their
        signs, with noise, from -1 to 1; with `stratify` that of each class. Columns have the sign 1 or -1 by halves of their codes.
    parity_splits_ : dict of column to int
        For each column of `parities_` the first code of sign -1.
    bins_ : dict of column to ndarray
        For each continuous column the edges of its bins: code k stands for numbers from ``bins_[column][k]`` up to, not with,
        ``bins_[column][k + 1]``; edges of dates and times are units since the lower bound. For each nominal column of more than 64 levels,
        the code of each level. Other codes are levels in the order of the schema. The last code of a nullable column is a missing cell.
    cells_ : dict of column to int64 ndarray
        For each continuous column the noisy counts of its cells, as released: the measured levels of its tree, the coarsest first, the last
        padded to a power of two. For each nominal column of more than 64 levels, the counts of its levels.
    population_ : float
        Only with `weights`: the estimate of their sum, as clipped.
    accountant_ : PrivacyAccountant
    n_samples_ : int
        Number of rows; an estimate from noisy counts (at least 1) under "add_or_remove_one"; with `weights`, ``population_`` over the
        midpoint of their bounds then, as if that were the mean weight.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only where the input had names.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of its domain, `schema` does not fit the columns or dtypes of `X` or of `prior`, or the levels are so many
        that a fit would take minutes: before any budget is spent. With a schema no cell raises.
    BudgetExceededError
        If a shared accountant has less than ``epsilon`` left; nothing is drawn then.

    Warns
    -----
    SmallSampleWarning
        If the noise of a count is more than a tenth of the rows.
    BudgetWarning
        If epsilon is above 20, delta above 1 / n, or delta 0 where a small one would make the noise at least three times smaller.

    See Also
    --------
    skdpsynth.domain.Schema : The public facts about the columns.
    skdpsynth.model_selection.plan : Expected errors, before anything is spent.
    skdpsynth.domain.MixedTypeEncoder : Mixed rows as numbers, for other tools.
    LowDimSynthesizer : For many columns of numbers near a few directions.

    Notes
    -----
    *Privacy.* `fit` is epsilon-differentially private under `neighboring`; (epsilon, delta) if delta > 0, by zero-concentrated
    differential privacy and its tight conversion. Every attribute is released under that guarantee, and fitting again spends it again.
    `sample` is free. `score` is not private. Timing is not protected. If people have several rows, `epsilon` protects one row.

    *Cells out of the domain* have a fixed place, because an error would reveal them. Numbers are clipped (whole ones rounded), and unknown
    levels count as missing. In a column that is not nullable a missing number becomes the midpoint, a missing level the first.

    *"marginals"* releases the cells of each continuous column in a tree, which cut it into bins; the counts of the codes of each column
    (bins, levels, and missing as one more); and the counts of pairs, or their interactions (``statistics/_interactions.py``). Columns of
    few levels have the last two in one, a Gram matrix of coded rows with matrix noise (``statistics/_coded_gram.py``). The form of least
    expected error is taken, by public numbers, and the ledger shows the shares of the budget. Steps are added where they pay: differences
    of columns near each other, a choice of pairs where noise would drown most of them, triples, a search for three to five columns that
    depend on each other beyond pairs, levels of nominal columns of more than 64, merged pairs of more than 40 columns. The rest is
    post-processing: least squares, and a model of normal factors. The guide on latent factors describes all this and "scores".

    *Rules* of the schema hold in every row of every sample, and cost nothing. The larger of two columns that an `Inequality` orders is
    counted, and shown, as its distance from the smaller one (-1: the smaller one is missing, and the larger one stands in its place).

    References
    ----------
    .. [1] Zhang, Xu, Tang, Qu (2024), "Differentially Private Data Release for Mixed-type Data via Latent Factor Models", eq. 3, 5-8.

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
    >>> model.marginals_[1, 0].shape == (2, len(model.bins_[0]) - 1)
    True
    """

    _counts_rows = False  # the tables tell how many there are
    _prior: Rows | None = None
    _counted: Any

    def __init__(
        self,
        schema: SchemaLike | None = None,
        *,
        stratify: Hashable = None,
        within: Hashable = None,
        weights: Hashable = None,
        n_factors: int | Literal["auto"] = "auto",
        strategy: str = "marginals",
        prior: Table = None,
        synthesizer: str | None = None,
        epsilon: float = 1.0,
        delta: float = 0.0,
        bounds: BoundsLike = None,
        neighboring: str = "replace_one",
        max_rows_per_unit: int = 1,
        accountant: AccountantLike = None,
        random_state: Seed = None,
        n_jobs: int | None = None,
    ) -> None:
        self.schema = schema
        self.stratify = stratify
        self.within = within
        self.weights = weights
        self.n_factors = n_factors
        self.strategy = strategy
        self.prior = prior
        self.synthesizer = synthesizer
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.neighboring = neighboring
        self.max_rows_per_unit = max_rows_per_unit
        self.accountant = accountant
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def _design(self) -> Design:
        """The design by which the fitted rows were drawn from their population."""
        return design_of(self.weights, self._container.schema).with_numbers_of(self)

    def _open_rows(self, X: Table, unit: Any, rng: Any, outer: Any) -> tuple[Rows, Facts]:
        rows, facts = super()._open_rows(X, unit, rng, outer)
        return design_of(self.weights, self._container.schema).weigh(rows), facts

    def _open_table(self, X: Table) -> tuple[Rows, dict[str, Any]]:
        if isinstance(X, Rows):  # of a stream, or of areas, which have read them
            if self._block is not None:
                reader, names = self._block.reader, ("_container", "n_features_in_", "feature_names_in_")
                self.__dict__.update({name: vars(reader)[name] for name in names if name in vars(reader)})
                schema = reader.schema_
            else:  # see `_for_read_rows`
                schema, self.n_features_in_ = self._container.schema, len(self._container.columns)
            self._open_prior(schema)
            return X, {"schema": schema.coded}
        if self.prior is not None:
            are_paths = isinstance(self.prior, str | os.PathLike) and isinstance(X, str | os.PathLike)
            if self.prior is X or (are_paths and os.path.realpath(self.prior) == os.path.realpath(X)):  # seen without reading rows
                raise ValueError("prior must be public rows, got the table that fit shall protect; leave prior out.")
        self._container, rows = start_table(self, X, self._least_rows)
        self._open_prior(self._container.schema)
        schema, missing = private_columns(self._container, rows, MAX_CODES + 1)  # no column has more codes, whatever is found
        self._check_missing(missing)
        return rows, {"schema": schema, "missing": missing}

    def _for_read_rows(self, table: TableFormat) -> "LatentFactorSynthesizer":
        """Return this, unfitted, for rows of a table of this format that another estimator has read."""
        self.schema, self._container, self._most_strata = table.schema, table, MAX_CODES
        return self

    def _open_prior(self, schema: Schema) -> None:
        if self.prior is not None and self.strategy == "marginals":
            self._prior = open_prior(self.prior, schema, buys=True)

    def _check_missing(self, missing: Sequence[MissingFact]) -> None:
        """Refuse to buy facts that the strategy or `stratify` needs to be public, or levels without delta."""
        if missing and self.strategy == "scores":
            raise ValueError("schema and bounds must be public for strategy='scores', got 'private'; use strategy='marginals'.")
        names = [name for fact in missing if isinstance(fact, PrivateLevels) for name in fact.columns.values()]
        for fact in missing:
            fact.check(self.epsilon, self.delta)
        for parameter in ("stratify", "within"):
            if is_name(column := getattr(self, parameter)) and column in names:
                raise ValueError(f"{parameter} must have public levels, but those of {list_names([column])} are private; list them.")

    def _close(self, bought: Mapping[int, Any], rows: Rows, facts: Facts) -> tuple[Rows, Facts]:
        schema, closing = close_schema(self._container.schema, self._container.dtypes, bought)
        self._container = self._container.with_schema(schema)
        self._prior = None if self._prior is None else self._prior.map(closing)
        return rows.map(closing).materialize(), replace(facts, schema=schema.coded)

    def _plan(self, facts: Facts) -> Any:
        if (schema := facts.schema) is None:  # of a plan within another estimator
            assert facts.box is not None
            bounds = zip(facts.box.low.tolist(), facts.box.high.tolist(), strict=True)
            schema = Schema({place: Continuous(low, high) for place, (low, high) in enumerate(bounds)})
        self._check_parameters(schema)
        return self._strategy.plan(self, design_of(self.weights, schema).facts(facts), schema)

    def _release(self, rows: Rows, plan: Any, budget: Budget) -> None:
        self.schema_ = self._container.schema
        design, public = design_of(self.weights, self.schema_), vars(self).get("n_samples_")
        found = self._strategy.release_model(self, rows, plan, design.budget(budget))
        self.__dict__.update(design.results(found, public))
        self.__dict__.pop("_prior", None)

    @property
    def _strategy(self) -> MarginalsStrategy | ScoresStrategy:
        return _STRATEGIES[self.strategy]

    @property
    def _n_factors(self) -> int:
        return self._strategy.n_factors if self.n_factors == "auto" else self.n_factors

    def _plan_blocks(self, facts: Facts) -> BlockPlan:
        if self.strategy != "marginals":
            return BlockPlan()
        if self.weights is not None:
            raise ValueError(f"weights must be None in a stream, got {short_repr(self.weights)}, as a survey is one sample; fit its table.")
        if self.within is not None:
            raise ValueError(f"within must be None in a stream, got {short_repr(self.within)}: its blocks count no triples; leave it out.")
        if self.prior is not None and self.schema is None:
            _check_table(self.prior)
            box, columns = facts.box, cast("Sequence[Any]", TableKind.of(open_source(self.prior, "prior").head).columns)
            if len(columns) != box.n_features:
                raise ValueError(f"prior must have the {box.n_features} columns of X, got {len(columns)}; select them.")
            open_prior(self.prior, schema_of_box(box, columns))  # whatever its columns are called
        elif self.prior is not None:
            open_prior(self.prior, Schema.of(self.schema))
        self._block = StreamBlock()
        # The noise of a block is the same however few rows it has: the model of all needs large ones. Just after a block the noise on
        # frequencies is sqrt((g + 1) / (g - 1)) times that of one fit to the rows so far, and g times that before the next. The mean of its
        # logarithm is least at g = 1 + sqrt(2), and from 2.1 to 2.8 within 1 % of that. Less lets fewer rows wait.
        return BlockPlan(True, 2.25, least_rows(self._plan(facts), facts.neighboring), is_fast=False)

    def _join_blocks(self, blocks: Sequence[Any], numbers: Sequence[float], reader: BaseEstimator) -> "LatentFactorSynthesizer":
        if blocks:
            union: Any = object.__new__(type(self))
            vars(union).update(vars(blocks[-1]))
            union._counted = pool_measurements([block._counted for block in blocks], numbers)
            union.n_samples_ = union._counted.n_samples
            vars(union).update(model_attributes(union._counted.model(self._n_factors)))
            return union
        public = clone(self)
        vars(public).update({name: value for name, value in vars(reader).items() if name in ("_container", "schema_")})
        whole = public.schema_
        schema = with_spans(whole.coded, public._spans)
        ties = ties_of(whole, schema.rules, dict(zip(whole, public._container.dtypes, strict=True)))
        public._model = uniform_model(schema, self.stratify, ties, MAX_CODES)
        return public

    @property
    def _model_of_counts(self) -> Any:
        """The model of what was released alone, without a prior; None for a strategy that has no tables."""
        if "_without_prior" not in vars(self):
            return self._model
        return self._without_prior.model(self._n_factors)

    def _check_loaded(self) -> None:
        super()._check_loaded()
        held = [vars(self)[name] for name in ("_model", "_counted") if name in vars(self)]
        require(all(each.schema == with_spans(self.schema_.coded, self._spans) for each in held))

    def _try_loaded(self) -> None:
        if "_model" in vars(self):  # else it would have to be fitted first
            super()._try_loaded()

    def __getattr__(self, name: str) -> Any:
        # A block of a stream is counted, and gets a model of its own only if somebody asks for it: a sample of the stream is drawn from
        # one model of all its blocks.
        if name in ("factors_", "_model") and "_counted" in vars(self):
            self.__dict__.update(model_attributes(self._counted.model(self._n_factors)))
            return vars(self)[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def score(self, X: Table, y: object = None) -> float:
        """Return minus the 1-Wasserstein distance (chebyshev) between encoded rows of `X` and of a sample of its size.

        Rows are encoded by `skdpsynth.domain.MixedTypeEncoder`, so a differing level costs 1, the whole range of a number.
        `skdpsynth.metrics.marginal_total_variation` often tells more. Reads `X` unprotected, so the score of the training rows is **not
        private**. Both are thinned to at most 2000 rows by a fixed public seed, so it repeats.

        Parameters
        ----------
        X : array-like, data frame or other table that `fit` takes, of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        score : float
        """
        return super().score(X, y)

    @np.errstate(all="ignore")  # a step beside 0 is below what floats are exact for
    def _sample_rows(self, n_samples: int, rng: np.random.Generator) -> Any:
        return self._design.fill(self._spans.decode(self._model.sample(n_samples, rng, self.n_jobs)))

    def _sample_blocks(self, n_samples: int, rng: np.random.Generator) -> Iterator[Any]:
        return self._design.fill_blocks(map(self._spans.decode, self._model.sample_blocks(n_samples, rng)))

    def _condition_on(self, conditions: Mapping[Hashable, Cell] | None) -> ConditionalSynthesizer:
        found = super()._condition_on(conditions)
        self._design.check_conditions(conditions or {})
        return found

    def sample_survey(self, n_samples: int | None = None, random_state: Seed = None) -> Any:
        """Draw synthetic rows as the survey drew its own, each with a weight of its own; this is post-processing and costs no privacy.

        Rows of `sample` stand for the population each alike, and their weight says so. These are drawn with probabilities in proportion to
        1 / weight: by themselves they are like the rows of the survey, and weighted they stand for the population.

        Parameters
        ----------
        n_samples : int, default=None
            None: as in `sample`.
        random_state : int, RandomState or None, default=None
            May be seeded freely. None: fresh entropy.

        Returns
        -------
        X : array or data frame of shape (n_samples, n_features)
            In the kind of table that `fit` got, with its columns and dtypes.

        Raises
        ------
        ValueError
            If the estimator has no `weights`.
        """
        check_is_fitted(self)
        if self.weights is None:
            raise ValueError("weights must name a column for sample_survey, got None; use sample.")
        return self._sample_as_data(n_samples, random_state)

    def _sample_as_data(self, n_samples: int | None, random_state: Seed) -> Any:
        return replace(self._drawing(n_samples, random_state), rows=self._rows_as_data).to(None)

    @np.errstate(all="ignore")
    def _rows_as_data(self, n_samples: int, rng: np.random.Generator) -> Any:
        design = self._design
        return design.select(self._spans.decode(self._model.sample(design.n_model_rows * n_samples, rng, self.n_jobs)), n_samples, rng)

    def _public_schema(self) -> Schema:
        return self.schema_

    def _points(self, X: Table) -> Rows:
        return continue_table(self, X).map(partial(encode, schema=self.schema_))

    def _sample_points(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        return encode(self._rows_as_data(n_samples, rng), self.schema_)

    def _check_parameters(self, schema: Schema) -> None:
        check_parameters(self, {"strategy": (*_STRATEGIES, ""), "n_factors": ("auto", Whole(1, _MAX_FACTORS), "use 'auto'")})
        if self.synthesizer is not None:
            check_parameters(self, {"synthesizer": ("pmm", "psmm", "")})
        self._strategy.check_parameters(self, schema)
        if self.weights is not None and (self.strategy != "marginals" or self.prior is not None):
            raise ValueError(f"weights must be None beside prior or strategy='scores', got {short_repr(self.weights)}; leave these out.")
        for parameter in ("stratify", "within"):
            if getattr(self, parameter) is not None:
                self._check_column(parameter, schema)
        if (column := self.within) is None:
            return
        if column == self.stratify:
            raise ValueError(f"within must be another column than stratify, got {short_repr(column)} twice; leave one out.")
        if any(column in tie.columns for tie in ties_of(schema.whole, schema.rules)):
            raise ValueError(f"within must be a column that no rule constrains, got {short_repr(column)}; leave it out, or the rule.")

    def _check_column(self, parameter: str, schema: Schema) -> None:
        column = getattr(self, parameter)
        if not is_name(column) or column not in schema:
            raise ValueError(f"{parameter} must be a column of schema, got {short_repr(column)}; give its name.")
        kind = schema[column]
        if not isinstance(kind, Nominal):
            raise ValueError(
                f"{parameter} must be a nominal column, but {short_repr(column)} is {type(kind).__name__.lower()}; give [levels] for it."
            )
        if kind.n_codes > (most := getattr(self, "_most_strata", MANY_CLASSES)):
            raise ValueError(
                f"{parameter} must have at most {most} levels (missing is one), but {short_repr(column)} has {kind.n_codes}; merge "
                f"some, or leave {parameter} out."
            )
        if len(schema) == 1:
            raise ValueError(f"{parameter} must leave other columns to synthesize, but {short_repr(column)} is the only one.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        has_schema = self.schema is not None
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = has_schema
        return tags


def open_prior(prior: Table, schema: Schema, buys: bool = False) -> Rows:
    """Open a public table by the public facts about the columns of the private one, or refuse it.

    Its columns are in any order by their names, or those of an array by their numbers. With `buys`, bounds and levels of the schema may be
    private. All of it is read once, so that no fault shows after budget was spent.
    """
    _check_table(prior)
    rows = open_columns(prior, schema, "prior", buys)
    if not rows.source.in_memory and not total(rows, RowCount.over()).n_samples:
        raise ValueError("prior must have at least one row, got none; pass a table with rows, or leave prior out.")
    if not rows.source.is_readable and any(kind.stand_in for kind in schema.values()):
        raise ValueError("prior must be a table that can be read where bounds or levels are private, got one that lies elsewhere; copy it.")
    return rows


def _check_table(prior: Table) -> None:
    if isinstance(prior, int | float | complex | dict | set) or callable(getattr(prior, "fit", None)):
        raise TypeError(f"prior must be None or a public table like X, got {short_repr(prior)}; pass a frame, an array or a path.")
