"""Release of pairs of columns, as tables or as interactions."""

from collections.abc import Sequence
from dataclasses import dataclass

from skdpsynth.fitting import Budget
from skdpsynth.frames import Rows
from skdpsynth.models import NoisyInteractions, NoisyTables, expected_error
from skdpsynth.privacy import Mechanism, PrivacyLoss, mechanism
from skdpsynth.statistics import Interactions, Marginals, total

Pair = tuple[int, int]
_COARSER = range(9, -1, -1)  # bits of multipliers


@dataclass(frozen=True, eq=False)
class PairRelease:
    """The noise of a release of pairs of columns, as tables or as interactions."""

    sizes: tuple[int, ...]  # number of codes of each column, and last of classes
    pairs: tuple[Pair, ...]
    noise: Mechanism
    over: Interactions | None = None  # None: tables

    @classmethod
    def chosen(
        cls, sizes: Sequence[int], pairs: Sequence[Pair], of_columns: float, share: PrivacyLoss, relation: str, n_samples: int | None
    ) -> "PairRelease":
        """Choose by public numbers the release that leaves the counts of pairs with less error, once all releases are joined.

        Interactions take Gaussian noise: their L1 sensitivity is much larger than that of tables. Tables tell of the columns too, which
        matters where those have much noise, of variance `of_columns`.
        """
        n_cells = sum(sizes[i] * sizes[j] for i, j in pairs) * sizes[-1]
        tables = cls(tuple(sizes), tuple(pairs), mechanism(Marginals.sensitivity(relation, len(pairs)), share, n_values=n_cells))
        if share.rho is None or share.is_infinite:
            return tables
        for bits in _COARSER:
            over = Interactions.over(sizes[:-1], pairs, sizes[-1], n_samples, bits)
            if over is None:
                break
            try:
                noise = mechanism(over.sensitivity(relation), share, ("gaussian",), over.n_values)
            except ValueError:  # its scale is too large to be sampled
                continue
            other = cls(tuple(sizes), tuple(pairs), noise, over)
            return min(tables, other, key=lambda each: each.error(of_columns))
        return tables

    @property
    def _scales(self) -> dict[tuple[int, ...], int]:
        return {} if self.over is None else dict(zip(self.over.pairs, self.over.scales, strict=True))

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on a count of a pair, or on an interaction in counts."""
        return self.noise.deviation / min(self._scales.values(), default=1)

    def error(self, of_columns: float) -> float:
        """Return the expected error of estimates, as `expected_error` measures it."""
        variance, scales = self.noise.variance, self._scales
        own: dict[tuple[int, ...], float] = {pair: variance / scales.get(pair, 1) ** 2 for pair in self.pairs}
        return expected_error(self.sizes[:-1], own, of_columns, are_tables=self.over is None)

    def ask(self, rows: Rows, budget: Budget, name: str) -> NoisyTables | NoisyInteractions:
        """Release the pairs of rows of codes, of which the last is the class."""
        places = self.pairs if self.over is None else self.over.pairs
        exact = total(rows, Marginals.over(self.sizes, [(len(self.sizes) - 1, *place) for place in places]))
        if self.over is None:
            noisy = budget.answer(exact.query(budget.relation), self.noise, name)
            return NoisyTables(dict(zip(places, exact.tables(noisy), strict=True)), self.noise.variance)
        noisy = budget.answer(self.over.query(exact, budget.relation), self.noise, name)
        return NoisyInteractions(self.over.tables(noisy), self._scales, self.noise.variance)
