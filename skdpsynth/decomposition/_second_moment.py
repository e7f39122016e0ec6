"""Private center, radius and second moments of rows."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from scipy.sparse import issparse

from skdpsynth._sensitivity import count_sensitivity
from skdpsynth.domain import Ball
from skdpsynth.fitting import Budget, Facts, Plan
from skdpsynth.frames import Rows
from skdpsynth.privacy import Mechanism, PrivacyLoss, loss_of_kind, mechanism, scale_of_kind
from skdpsynth.statistics import CountLengths, Gram, Moments, Packing, total, total_and_kept

_CENTER_SHARE = Fraction(1, 10)  # of the budget; measured, and little depends on it
_RADIUS_SHARES = (0.02, 0.2)  # a tenth at 1000 for rows times epsilon; few rows need more to be seen
_BORDER = 10  # the squared radius is so many times the square of the coordinate that carries the mean
_LARGEST_SCALE = 2**57
_LARGEST_SUM = 2**62
_MOST_RADII = 60
_CERTAIN = 3  # deviations of the noise, within which a count is known
_LONG = 3.3  # deviations by which noise may be longer than is expected
_SEEN = 4.5  # deviations beyond which rows are seen: noise alone passes it at some radius in 1 of 700 fits (3 deviations: 1 of 50)
_MOST_STRETCH = 4
_SPREAD = 1 / 128  # what shrinking takes, against noise: it turns no direction, and its sum is given back


@dataclass(frozen=True, kw_only=True)
class SecondMomentPlan(Plan):
    """How the moments are released, by public numbers alone."""

    ball: Ball  # all rows within the bounds, or a public radius, about the public center
    kind: str  # of the noise on the moments
    has_mean: bool  # whether the mean is released with the moments
    center: Mechanism | None  # noise for the sum of the rows; None leaves the step out
    radius: Mechanism | None  # noise for the counts of their lengths; None leaves the step out
    moments: PrivacyLoss  # the most that the moments may cost
    relation: str

    def layout(self, ball: Ball) -> Packing | Gram:
        d = ball.box.n_features
        if self.kind == "laplace":
            return Packing.of(d, int(ball.largest.max()), self.has_mean)
        return Gram(d, ball.reach, max(1, math.isqrt(ball.reach // _BORDER)) if self.has_mean else 0)

    def noise(self, layout: Packing | Gram) -> Mechanism:
        return mechanism(layout.sensitivity(self.relation), self.moments, (self.kind,), layout.n_values)

    def edge(self, ball: Ball) -> float:
        """Return the largest eigenvalue that noise is likely to show in a sum of rows in a ball, in its units: 99 of 100 draws show less.

        Gaussian noise on all m^2 entries, averaged with their mirrors, makes a symmetric matrix with entries of half the variance, whose
        eigenvalues end at 2 sqrt(m / 2) deviations; of Laplace noise on one triangle they end at 2 sqrt(m). Beyond that end reach
        fluctuations of relative order m^(-2/3): 1.9 of it for matrix Laplace noise (simulated), 1.01 for the others (Tracy, Widom).
        """
        layout = self.layout(ball)
        chosen, m = self.noise(layout), ball.box.n_features
        if self.moments.is_infinite:
            return 0.0
        if self.kind == "matrix_laplace":
            return float(chosen.noise.spectral_norm(m)) * (1 + 1.9 * m ** (-2 / 3))  # type: ignore[attr-defined]
        half = 2 if self.kind == "gaussian" else 1
        return 2 * chosen.deviation * math.sqrt(m / half) * (1 + 1.01 * m ** (-2 / 3))

    def mean_deviation(self, ball: Ball) -> float:
        """Return the deviation of the noise on a sum of rows in a ball: on an entry of its border, or of its weighted list."""
        layout = self.layout(ball)
        if self.moments.is_infinite:
            return 0.0
        weight = layout.mean_weight if isinstance(layout, Packing) else layout.coordinate * (math.sqrt(2) if self.kind == "gaussian" else 1)
        return self.noise(layout).deviation / weight

    @property
    def relative_edge(self) -> float:
        """The edge over the squared reach of the rows: noise of a sum in units of the most that one row can add."""
        return self.edge(self.ball) / self.ball.reach

    def fits(self, n_samples: int) -> bool:
        """Whether sums and noise stay within 62 bits, wherever the center comes to lie."""
        ball = self.ball if self.center is None else self.ball.about(2 * self.ball.most)
        layout = self.layout(ball)
        scale = scale_of_kind(self.kind, layout.sensitivity(self.relation), self.moments)
        return n_samples * layout.largest_term < _LARGEST_SUM and scale * ball.box.n_features <= _LARGEST_SCALE

    @property
    def start(self) -> Ball:
        """The ball in which rows are summed first; a public radius is about the center, which may still have to be bought."""
        return self.ball if self.center is None else replace(self.ball, squared_radius=None)

    def summed(self, rows: Rows) -> tuple[Moments, Rows, "SecondMomentPlan"]:
        """Return the exact moments of rows in the first ball, and the rows and the plan for the steps that follow.

        Rows that would be read again from a slow source, and take little memory as grid coordinates, are kept as such from the same
        reading.
        """
        read_once = self.center is None and self.radius is None
        if read_once or _is_plain_array(rows) or issparse(rows.table) or not rows.may_be_kept(2 * rows.n_features):
            return total(rows, Moments.over(self.start)), rows, self
        kept = np.empty((rows.n_samples or 0, rows.n_features), dtype=np.uint16)
        return *total_and_kept(rows, Moments.over(self.start), kept), replace(self, ball=self.ball.of_coordinates())

    def located(self, exact: Moments, rows: Rows, n_samples: int, budget: Budget) -> tuple[Ball, float, Moments]:
        """Return the ball where the rows lie, about a private center and with a private radius as far as these are bought.

        With it come the factor by which shrinking rows to the ball reduces their squares, and the exact moments in the ball.
        """
        ball = self.ball
        if self.center is not None:
            noisy = budget.answer(exact.query_of_sum(self.relation, self.start), self.center, "center")
            ball = ball.about(shrunken_center(noisy / n_samples, self.center.deviation / n_samples))
            exact = exact.about(ball.center - self.start.center)
        if self.radius is not None:
            return self._shrink_ball(exact, rows, n_samples, ball, self.radius, budget)
        shrinks = ball.shrinks and ball is not self.start
        return ball, 1.0, exact + total(rows, Moments.moved_by_shrinking(ball)) if shrinks else exact

    def _shrink_ball(
        self, exact: Moments, rows: Rows, n_samples: int, ball: Ball, noise: Mechanism, budget: Budget
    ) -> tuple[Ball, float, Moments]:
        """Return what `located` does, with the radius beyond which rows add more noise than information."""
        radii = candidate_radii(ball.reach)
        rule, n_beyond = CountLengths(ball, radii), None
        keeps_cells = ball.takes_coordinates or _is_plain_array(rows)
        if keeps_cells:
            lengths, cells = total_and_kept(rows, rule, np.empty(rows.n_samples or 0, dtype=np.uint8))
            rows = Rows.held([rows.collected(), cells.collected()], n_jobs=rows.n_jobs)
        else:
            lengths = total(rows, rule)
        counts = budget.answer(lengths.query(self.relation), noise, "radius")
        place, stretch = choose_radius(counts, radii, noise.deviation, self.edge(ball) / ball.reach, n_samples)
        if keeps_cells:
            n_beyond = place
        ball = ball.within(int(radii[place]))
        return ball, stretch, exact + total(rows, Moments.moved_by_shrinking(ball, n_beyond)) if ball.shrinks else exact

    def answered(self, exact: Moments, ball: Ball, budget: Budget) -> tuple[np.ndarray | None, np.ndarray]:
        """Release moments of rows in a ball: their sum, or None, and their second moment, both with noise."""
        layout = self.layout(ball)
        return layout.unpacked(budget.answer(exact.query(self.relation, layout), self.noise(layout), "moments"))


def _is_plain_array(rows: Rows) -> bool:
    """Whether the rows are an array, read again faster than copied to new memory."""
    return rows.source.in_memory and not rows.maps and not issparse(rows.table) and isinstance(rows.table, np.ndarray)


def plan_second_moment(
    kind: str, facts: Facts, point: np.ndarray | None, max_norm: float | None, has_mean: bool
) -> SecondMomentPlan | None:
    """Return the plan for a kind of noise on the finest grid that fits; None if no grid does.

    `point` is a public center (None: the midpoint of the bounds), and `max_norm` a public radius in the units of the data (None: a private
    one). `has_mean` says whether the mean is private.
    """
    share = loss_of_kind(kind, facts.share)
    assert share is not None
    for bits in range(16, 1, -1):
        ball = _public_ball(kind, facts, bits, point, max_norm)
        steps = _share_budget(kind, facts, ball, share, has_mean, locates=kind != "laplace")
        if steps.fits(facts.n_samples or 1):
            return steps
    return None


def _public_ball(kind: str, facts: Facts, bits: int, point: np.ndarray | None, max_norm: float | None) -> Ball:
    """Return a ball of all rows within bounds. A radius in units of the data needs equal units; without noise the finest grid stays."""
    equal_units = max_norm is not None or (kind != "laplace" and facts.epsilon != math.inf)
    ball = Ball.of(facts.box, bits, equal_units)
    if point is not None:
        ball = ball.about(np.rint((point - facts.box.midpoint) / ball.unit))
    return ball if max_norm is None else ball.within(int(min(float(min(max_norm, 1e300)) / ball.unit[0], 2.0**40)) ** 2)


def _share_budget(kind: str, facts: Facts, ball: Ball, share: PrivacyLoss, has_mean: bool, locates: bool) -> SecondMomentPlan:
    """Share the budget between the steps that are worth their cost."""
    relation, n_samples, d = facts.neighboring, facts.n_samples or 1, ball.box.n_features
    in_rho = None if kind != "gaussian" or share.is_infinite else "gaussian" if share.gaussian else "zcdp"
    bare = SecondMomentPlan(
        kind == "gaussian", rho=in_rho, ball=ball, kind=kind, has_mean=has_mean, center=None, radius=None, moments=share, relation=relation
    )
    # Without noise only a public radius needs a center. Where the grid is too fine for the moments, the noise of the sums may have a
    # scale that cannot be drawn either.
    if not locates or (share.is_infinite and ball.squared_radius is None) or not bare.fits(n_samples):
        return bare
    radius_share = Fraction(round(1000 * float(np.clip(0.1 * (1000 / facts.size) ** 0.6, *_RADIUS_SHARES))), 1000)
    for_center, for_radius, _ = share.split([_CENTER_SHARE, radius_share, 1 - _CENTER_SHARE - radius_share])
    center = mechanism(Moments.sensitivity_of_sum(relation, ball), for_center, ("laplace", "sup_norm", "gaussian"), d)
    radius = mechanism(count_sensitivity(relation), for_radius, n_values=len(candidate_radii(ball.reach)))
    # A noisy mean within a quarter of the squared reach may move the center; lengths show once the rows pass the noise of a count.
    has_center = has_mean and d * center.deviation**2 < n_samples**2 * ball.reach / 4
    has_radius = n_samples > 6 * radius.deviation and ball.squared_radius is None
    if has_mean and not has_center:  # a public radius about a center that nobody knows says nothing
        bare = replace(bare, ball=replace(ball, squared_radius=None))
    bought = [_CENTER_SHARE] * has_center + [radius_share] * has_radius
    *_, moments = share.split([*bought, 1 - sum(bought)])
    return replace(bare, center=center if has_center else None, radius=radius if has_radius else None, moments=moments)


def shrunken_center(mean: np.ndarray, deviation: float) -> np.ndarray:
    """Return a noisy mean shrunk toward 0, rounded; 0 where all of it may be noise, as a noisy center makes rows longer.

    Noise alone is longer than sqrt(d) + 3.3 deviations at one in 230 draws or fewer, for any d and any noise that a center gets.
    """
    d = len(mean)
    return np.rint(shrink_mean(mean, deviation)) if float(mean @ mean) > ((math.sqrt(d) + _LONG) * deviation) ** 2 else np.zeros(d)


def shrink_mean(mean: np.ndarray, deviation: float) -> np.ndarray:
    """Return a noisy mean shrunk toward 0 by the share of its square that is noise (James, Stein)."""
    noise, square = len(mean) * deviation**2, float(mean @ mean)
    return mean * max(0.0, 1 - noise / square) if square else mean


def candidate_radii(squared: int) -> np.ndarray:
    """Return squared radii from the largest down by factors of sqrt(2), whole numbers as floats."""
    radii = [squared >> j // 2 if j % 2 == 0 else math.isqrt(squared**2 >> j) for j in range(_MOST_RADII)]
    return np.array(sorted({float(radius) for radius in radii if radius}, reverse=True))


def choose_radius(counts: np.ndarray, radii: np.ndarray, deviation: float, noise_rate: float, n_samples: int) -> tuple[int, float]:
    """Choose the radius that balances noise with the bias of shrinking; return its place, and squared lengths over those after shrinking.

    `counts` are noisy numbers of rows between one of the squared, falling `radii` and the next, with noise of this `deviation`;
    `noise_rate` is the spectral norm of the noise of a squared radius, over that. The ratio is at most 4, beyond which it is mostly noise.
    """
    places = np.arange(len(counts))
    noise = deviation * np.sqrt(1 + places)  # of the number of rows beyond the next radius
    doubt, unseen = _CERTAIN * noise, _SEEN * noise
    outside = np.cumsum(counts)
    # The largest radius where rows are seen, or the least of which it is known that half of the rows are within.
    found = (outside > unseen) | (doubt > n_samples / 2)
    first = int(np.argmax(found)) if found.any() else len(counts) - 1
    if doubt[first] > n_samples / 2:
        return max(first - 1, 0), 1.0
    rows = np.where(places >= first, counts, 0)
    squares = rows * np.sqrt(radii * np.append(radii[1:], 0))  # of rows between one radius and the next, about
    beyond = np.cumsum(rows) - rows  # rows outside each radius
    taken = np.maximum(np.cumsum(squares) - squares - radii * beyond, 0)
    # Within the radius of half of the rows, less noise is less of what they tell in proportion.
    serves = (places >= first) & (np.maximum.accumulate(beyond) + noise <= n_samples / 2)
    serves[first] = True
    place = int(np.argmin(np.where(serves, noise_rate * radii + _SPREAD * taken, math.inf)))
    # What lies farther than is seen for sure counts too: without it the squares would come out too small wherever rows are shrunk.
    far = float(np.clip(outside[first - 1], 0, unseen[first - 1])) if first else 0.0
    whole = float(squares.sum()) + far * float(radii[first])
    lost = float(taken[place]) + far * float(radii[first] - radii[place])
    return place, whole / max(whole - lost, whole / _MOST_STRETCH) if whole > 0 else 1.0
