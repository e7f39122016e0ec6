"""What a stream asks of a synthesizer whose blocks have one model."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from skdpsynth.fitting import Facts


@runtime_checkable
class JoinableSynthesizer(Protocol):
    """A `PrivateSynthesizer` whose fitted blocks can be joined; if it has a schema, it reads mixed tables of a stream too.

    Others need none of this: their blocks are mixed by rows. All that is handed from block to block was released, so it is
    post-processing, and blocks cost together what one of them does.
    """

    @property
    def _can_join(self) -> bool:
        """Whether these parameters allow it; else blocks are mixed by rows."""

    @property
    def _growth_of_blocks(self) -> float:
        """How far time grows over a block where the caller has not said so."""

    @property
    def _joins_fast(self) -> bool:
        """Whether blocks may be joined for each sample: then each stands for just its rows, else for them to a quarter of a block."""

    def _least_rows_of_block(self, facts: Facts) -> int:
        """Return how many rows a block must have to be more than noise: a function of public facts."""

    def _next_block(self, reader: Any, past: Sequence[Any], n_samples: float) -> Any:
        """Return an unfitted synthesizer for the next block.

        Parameters
        ----------
        reader : unfitted synthesizer or None
            Of mixed tables: it has ``_container``, ``schema_``, ``n_features_in_`` and perhaps ``feature_names_in_`` of the first rows.
            The block is then fitted to `Rows` whose chunks are lists of columns, as `skdpsynth.domain.read` gives them.
        past : sequence of fitted synthesizers
            Of the blocks before.
        n_samples : float
            How many rows the block has, as far as is known.
        """

    def _model_of_public_facts(self, reader: Any) -> Any:
        """Return a synthesizer that has a model of public facts alone, for samples before the first block of a mixed table is full."""

    def _joined(self, blocks: Sequence[Any], numbers: Sequence[float]) -> Any:
        """Return a fitted synthesizer of the union of blocks, each of which stands for so many rows.

        It must follow from its arguments alone: a stream makes it when a sample needs it, and again after loading.
        """
