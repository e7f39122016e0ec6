"""Rows on conditions and imputation, for synthesizers whose models have closed forms."""

from collections.abc import Hashable, Iterator, Mapping
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdpsynth._validation import check_bool, check_memory
from skdpsynth.domain import AllowedCells, Spans, keys_of, list_names, spans_of
from skdpsynth.frames import Cell, Table
from skdpsynth.models import JointDistribution, RejectionSampler, impute_table
from skdpsynth.privacy import Seed
from skdpsynth.synthesis._base import BATCH, PrivateSynthesizer, check_generator, check_n_samples, default_n_samples
from skdpsynth.synthesis._intervals import BootstrapSynthesizer, ParametricBootstrap, TableWorld, population_size
from skdpsynth.tables import IncompleteRows, allowed_cells


class ConditionalSynthesizer(BootstrapSynthesizer, PrivateSynthesizer):
    """Base of synthesizers whose model can be conditioned, and whose mechanism can be run again on rows of the model."""

    _model: Any

    @property
    def _spans(self) -> Spans:
        """The columns of spans that the model has in place of ordered columns."""
        schema = self._container.schema
        return spans_of(schema, dict(zip(schema, self._container.dtypes, strict=True)))

    def sample(
        self,
        n_samples: int | None = None,
        random_state: Seed = None,
        *,
        out: str | PathLike[str] | None = None,
        conditions: Mapping[Hashable, Cell] | None = None,
    ) -> Any:
        """Draw synthetic rows, all of them or only those that meet conditions; this is post-processing and costs no privacy.

        Parameters
        ----------
        n_samples : int, default=None
            None: as many as the data had (under "add_or_remove_one": the noisy count. Where epsilon is so small that this may be nothing
            but noise, being less than ten times its expected error, at most 2**24 cells: rows times columns).
        random_state : int, RandomState or None, default=None
            May be seeded freely. None: fresh entropy, never the seed of `fit`.
        out : str or path-like, default=None
            A file that ends in ".parquet" (which needs pyarrow), ".csv" or ".tsv", or packed in ".csv.gz" or ".tsv.gz". The same rows are
            written there, a batch at a time, so memory does not grow with their number. Columns of an array are named x0, x1, ... The file
            is complete or not there: after an error or an interrupt an earlier file stays.
        conditions : dict, default=None
            For some columns, the cells that are allowed: a value; a list of values (levels, whole numbers or dates; None among them is a
            missing cell); a tuple ``(low, high)`` for a range of numbers, dates or ordinal levels, both ends included, where None leaves an
            end open; or None for a missing cell. Dates may be text in ISO format. All must hold, in each row. Rows have the law of the
            model given the conditions, as if rows that fail had been thrown away, but none is, however rare the condition. Strategy
            "marginals" only.

        Returns
        -------
        X : array or data frame of shape (n_samples, n_features)
            In the kind of table that `fit` got, with its columns and dtypes; or `out`, where it was given.

        Raises
        ------
        ValueError
            If no row can meet `conditions`: an unknown column or level, a range that is empty or outside the bounds, or conditions that
            have probability 0 in the model. Nothing is drawn then.
        """
        check_is_fitted(self)
        return PrivateSynthesizer.sample(self._condition_on(conditions), n_samples, random_state, out=out)

    def sample_batches(
        self,
        n_samples: int | None = None,
        batch_size: int = BATCH,
        random_state: Seed = None,
        *,
        conditions: Mapping[Hashable, Cell] | None = None,
    ) -> Iterator[Any]:
        """Draw synthetic rows in batches, in memory that does not grow with their number; it costs no privacy.

        The batches together are the rows of `sample` with the same `n_samples`, `random_state` and `conditions`, in the same order, for any
        `batch_size`. So they are as accurate together as one sample, not as many independent ones.

        Parameters
        ----------
        n_samples : int, default=None
            Rows of all batches together. None: as in `sample`.
        batch_size : int, default=65536
            Rows of a batch; the last one has the rest.
        random_state : int, RandomState or None, default=None
            May be seeded freely. None: fresh entropy, never the seed of `fit`.
        conditions : dict, default=None
            Allowed cells of some columns, as in `sample`.

        Returns
        -------
        batches : iterator of arrays or data frames
            In the kind of table that `fit` got, with its columns and dtypes. It is unchanged if the estimator is fitted again.
        """
        check_is_fitted(self)
        return PrivateSynthesizer.sample_batches(self._condition_on(conditions), n_samples, batch_size, random_state)

    def impute(self, X: Table, random_state: Seed = None, *, complete: bool = False) -> Any:
        """Impute the missing cells of your own rows by draws from the model, given the other cells; it costs no privacy.

        The fitted model is public, and `X` is yours: so this is post-processing of the model, and the result is **as private as your
        rows**. It is no synthetic data: show it only to people who may see `X`. Strategy "marginals" only.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows with the columns of `fit`. A frame may lack some: they come at its end, drawn throughout.
        random_state : int, RandomState or None, default=None
            May be seeded freely. None: fresh entropy.
        complete : bool, default=False
            Whether cells to which rules leave no value get one all the same, drawn from their column alone, so that none of a column of
            the model is missing. These cells break rules.

        Returns
        -------
        X_filled : array or data frame of shape (n_rows, n_features)
            A copy with the columns, their order and dtypes as given (a column without any cell comes in the dtype of `fit`). Known cells
            never change, and no cell of a column of the model stays missing, unless rules leave it no value (see `complete`): where the
            schema allows missing cells, a missing one counts as unknown, and a value is drawn.

        Notes
        -----
        The cells of a row are drawn together from P(missing cells | known cells), exactly, by Bayes' rule: weights of strata and of nodes
        given the known cells, then codes given the node, then values within their bins. A known number counts through its bin. Cells out of
        the domain count as in `fit`: numbers beyond the bounds as the bounds, an unknown level as a missing cell (where the column is not
        nullable: as the first level); they stay as they are. To draw several completions, as multiple imputation does, call it with several
        seeds.

        Rules of the schema hold wherever the known cells allow it; cells that break a rule stay. Computed columns are computed where they
        are missing. Where they are known, a value of `Determines` restricts the levels that it follows from, and a total gives the missing
        part; a `Derived` column gives no information.
        """
        check_is_fitted(self)
        check_bool("complete", complete)
        law = self._law("impute", "fill the cells by another tool")
        rng = check_generator(random_state)
        with np.errstate(all="ignore"):
            rows = IncompleteRows.of(X, self._container)
            law, _ = law.condition(self._spans.starts_present())
            filled = impute_table(law, self._container.schema, rows.dtypes, rows.values, rows.missing, self._spans, rng, complete)
            return rows.with_cells(filled)

    def _bootstrap_world(self, what: str, n_samples: int | None, random_state: Seed) -> TableWorld:
        if not hasattr(self._model, "law"):
            raise ValueError(
                f"{what} needs strategy='marginals', whose mechanism can be run again on its model, got strategy={self.strategy!r}; fit "
                "with that."
            )
        if "_counted" in vars(self):
            raise ValueError(f"{what} needs a model that was fitted to one table, got one of a stream; fit a table of these rows.")
        if len(self._model.blocks) > 1:
            raise ValueError(
                f"{what} needs a model of one block, which up to 40 columns have, got {len(self._model.blocks)} blocks; leave columns out."
            )
        n_rows = default_n_samples(self.n_samples_, self._size_error, self.n_features_in_)
        has_keys = bool(keys_of(self._model.schema.rules, self._model.schema.whole))  # of which there may be no more than rows
        size = population_size(n_rows, self.n_features_in_, has_keys)
        rng, drawn = check_generator(random_state), size if n_samples is None else check_n_samples(n_samples)
        check_memory("n_samples", drawn, 8 * drawn * self.n_features_in_)
        with np.errstate(all="ignore"):
            replay = ParametricBootstrap.of(self, n_rows)
        return TableWorld(replay, self._container, self._spans, size, drawn, rng)

    def _condition_on(self, conditions: Mapping[Hashable, Cell] | None) -> "ConditionalSynthesizer":
        """Return this, or a copy whose model is conditioned; refuse conditions that no row meets."""
        if conditions is None:
            return self
        law = self._law("conditions", "draw more rows and keep those that you want, which costs no privacy")
        with np.errstate(all="ignore"):
            wanted, spans = allowed_cells(conditions, self._container), self._spans
            on_codes = spans.hull(wanted)
            conditional: Any = condition_law(law, on_codes)
            if of_spans := {name: want for name, want in wanted.items() if name in spans.linked_columns}:
                conditional = RejectionSampler(conditional, partial(spans.meets, wanted=of_spans))
        copy: Any = object.__new__(type(self))
        vars(copy).update({**vars(self), "_model": conditional})
        return copy

    def _law(self, what: str, way: str) -> Any:
        if not hasattr(self._model, "law"):
            raise ValueError(
                f"{what} needs strategy='marginals', whose model has closed forms, got strategy={self.strategy!r}; fit with that, or {way}."
            )
        with np.errstate(all="ignore"):
            return self._model.law()


def condition_law(law: JointDistribution, wanted: Mapping[Any, AllowedCells]) -> JointDistribution:
    """Return a law on conditions, or refuse what has the probability 0 in it."""
    conditional, probability = law.condition(wanted)
    if not probability:
        alone = [name for name, want in wanted.items() if not law.condition({name: want})[1]]
        what = f"that on {list_names(alone[:1])} has" if alone else f"those on {list_names(list(wanted))} together have"
        raise ValueError(f"conditions must have a probability above 0 in the model, but {what} none; widen a range, or leave one out.")
    return conditional
