"""Matrix Laplace noise and its exact normals: laws against independent ones, privacy by integration, exactness in fractions."""

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from internals import Normals, fraction_bits
from internals import _matrix_laplace as matrix_laplace
from laws import ALARM, CERTAIN, chi_squared, kolmogorov, refuses, symmetric
from sampler_trees import scaled_exp_minus

from skdpsynth.privacy import (
    DiscreteLaplace,
    DiscreteMatrixLaplace,
    PrivacyAccountant,
    PrivacyLoss,
    SecureBits,
    SeededBits,
    loss_of_kind,
    mechanism,
    scale_of_kind,
)
from skdpsynth.statistics import Sensitivity


def draws(scale, m, size, seed=0):
    rng = SeededBits(seed, ("matrix", str(scale), str(m)))
    return DiscreteMatrixLaplace(scale).sample((size, m, m), rng)


def rounded_laplace(scale):
    """Return k -> P(|Z| >= k) of a Laplace variable that is rounded to the nearest."""
    return lambda k: math.exp(-(k - 0.5) / scale) if k else 1.0


@pytest.mark.parametrize("scale", [0.25, 1, 3, 1000])
def test_one_entry_is_a_rounded_laplace_variable(scale):
    values = draws(scale, 1, 3000).ravel()
    assert symmetric(values, rounded_laplace(scale)) > ALARM
    assert symmetric(values, rounded_laplace(scale * 2 / 3)) < CERTAIN
    assert symmetric(values, rounded_laplace(scale * 3 / 2)) < CERTAIN


leggauss = cache(np.polynomial.legendre.leggauss)


def nodes(*points, n):
    """Gauss-Legendre nodes and weights between each point and the next."""
    x, weight = leggauss(n)
    pieces = [((high - low) / 2, (high + low) / 2) for low, high in itertools.pairwise(points)]
    return np.concatenate([half * x + middle for half, middle in pieces]), np.concatenate([half * weight for half, _ in pieces])


def density(Z, scale=1.0, n=100):
    """Density of the real Z for m = 2, up to a constant, by quadrature: see the comment."""
    # p(Z) is the integral of exp(-tr V / scale) exp(-tr(V - Z) / scale) over V psd with V - Z psd. With
    # V = [[t + u, w], [w, t - u]], V is psd where t >= |(u, w)|. So t runs from max(|v|, tz + |v - vz|), v = (u, w). Turned so that vz
    # lies along u, the plane is even in w.
    tz, vz = (Z[0, 0] + Z[1, 1]) / 2, np.hypot((Z[0, 0] - Z[1, 1]) / 2, Z[0, 1])
    reach = 12 * scale + vz + abs(tz)
    u, du = nodes(-reach, 0, vz, reach, n=n)
    w, dw = nodes(0, reach / 20, reach, n=n)
    U, W = u[:, None], w[None, :]
    least = np.maximum(np.hypot(U, W), tz + np.hypot(U - vz, W))
    return float(np.exp(2 * (tz - 2 * least) / scale) @ dw @ du)


def a_change(rng, size=2):
    A = rng.standard_normal((size, size))
    return (A + A.T) / 2


def test_a_change_moves_the_density_by_at_most_its_nuclear_norm():
    """40 random places and changes of rank one and two, of either sign: privacy, by integration."""
    rng = np.random.default_rng(0)
    tightest = 0.0
    for _ in range(40):
        Z = a_change(rng) * rng.choice([0.2, 1, 4])
        v = rng.standard_normal(2)
        sensitivity = [np.outer(v, v), -np.outer(v, v), a_change(rng)][rng.integers(3)] * rng.choice([0.1, 1, 3])
        nuclear = np.abs(np.linalg.eigvalsh(sensitivity)).sum()
        moved = abs(math.log(density(Z + sensitivity) / density(Z)))
        assert moved <= nuclear + 2e-3  # the error of the quadrature
        tightest = max(tightest, moved / nuclear)
    assert tightest > 0.9


def test_two_by_two_draws_have_the_density_that_was_integrated():
    """3000 draws at scale 1000 in 6 x 5 cells of (trace, gap of the eigenvalues); 2/3 and 3/2 of the scale fail."""
    (half, half_weight), (gap, gap_weight) = nodes(0, 1, 2, 12, n=10), nodes(0, 0.5, 1, 1.5, 2.5, 12, n=10)
    # In the coordinates (trace / 2, v) the law depends on |v| alone: a ring of radius r has area proportional to r.
    mass = np.array([[density(np.diag([a + r, a - r]), n=60) * r for r in gap] for a in half]) * half_weight[:, None] * gap_weight
    upper = mass.reshape(3, 10, 5, 10).sum(axis=(1, 3))
    expected = np.concatenate([upper[::-1], upper]) / upper.sum() / 2

    def p_value(Z, scale):
        half = np.trace(Z, axis1=1, axis2=2) / 2 / scale
        gap = np.hypot((Z[:, 0, 0] - Z[:, 1, 1]) / 2, Z[:, 0, 1]) / scale
        observed = np.zeros((6, 5))
        np.add.at(observed, (np.digitize(half, [-2, -1, 0, 1, 2]), np.digitize(gap, [0.5, 1, 1.5, 2.5])), 1)
        return chi_squared(observed, expected)

    Z = draws(1000, 2, 3000).astype(float)
    assert p_value(Z, 1000) > ALARM
    assert p_value(Z, 1000 * 2 / 3) < CERTAIN
    assert p_value(Z, 1000 * 3 / 2) < CERTAIN


def test_the_variance_is_that_of_an_entry_off_the_diagonal():
    for m in (1, 2, 5, 30):
        for scale in (0, 1, Fraction(7, 3), 2**50):
            assert DiscreteMatrixLaplace(scale).variance(m * m) == pytest.approx(float(scale) ** 2 * (m + 1) / 2)


def test_the_edge_is_where_its_equation_says():
    """The least R(w) + 1/w of the R-transform 2 w / (1 - w**2), on a fine grid."""
    w = np.linspace(0.3, 0.7, 400_001)
    assert DiscreteMatrixLaplace(2).spectral_norm(10) == pytest.approx(10 * (2 * w / (1 - w**2) + 1 / w).min(), rel=1e-9)


@pytest.fixture
def kept(monkeypatch):
    """Keep the normals of every draw."""
    made = []
    monkeypatch.setattr(matrix_laplace, "Normals", lambda shape, rng: made.append(Normals(shape, rng)) or made[-1])
    return made


def in_fractions(normals, scale, m, which=0):
    """round(Z) from the normals, of which 192 more bits are revealed: plain sums of fractions, rounded once."""
    for _ in range(3):
        normals.reveal()
    places = range(which * m, which * m + m)
    columns = [[Fraction(-a if negative else a, 2**normals.bits) for negative, a in zip(*normals.column(j), strict=True)] for j in places]
    sides = [1] * (m + 1) + [-1] * (m + 1)
    Z = [[Fraction(scale) / 2 * sum(s * g * h for s, g, h in zip(sides, x, y, strict=True)) for x in columns] for y in columns]
    return [[(math.floor(z + Fraction(1, 2)) + 2**63) % 2**64 - 2**63 for z in row] for row in Z]


SCALES = [Fraction(1, 100), Fraction(1, 3), 10, 1000, Fraction(2**20 + 1, 7), 2**50, 2**58]


@pytest.mark.parametrize("n_limbs", [None, 1, 2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("scale", SCALES)
def test_entries_are_those_of_the_normals_in_fractions(kept, scale, n_limbs):
    """Few limbs leave entries undecided, at 10 and 1000 some and at large scales all: they are refined, and none is wrong."""
    rng, m = SeededBits(1), 4
    for _ in range(40 if n_limbs == 1 else 6):
        (drawn,) = matrix_laplace._sample(Fraction(scale), m, rng, n_limbs)
        assert drawn.tolist() == in_fractions(kept[-1], scale, m)


def test_an_enclosure_holds_whatever_the_bits_to_come_are(kept):
    """Entry (0, 1): each |g| between a and a + 1 units, so the sum is largest where what counts for it is at its largest."""
    matrix_laplace._sample(Fraction(3), 2, SeededBits(8))
    (negative, a), (reverse, b) = kept[0].column(0), kept[0].column(1)
    signs = [(-1) ** (n ^ r ^ (k > 2)) for k, (n, r) in enumerate(zip(negative.tolist(), reverse.tolist(), strict=True))]
    low, high = [x * y for x, y in zip(a, b, strict=True)], [(x + 1) * (y + 1) for x, y in zip(a, b, strict=True)]
    most = sum(h if sign > 0 else -e for sign, e, h in zip(signs, low, high, strict=True))
    least = sum(e if sign > 0 else -h for sign, e, h in zip(signs, low, high, strict=True))
    center, slack = matrix_laplace._entry_interval(kept[0], 0, 1)
    assert center - slack <= least < most <= center + slack
    assert slack < 2 * (most - least)


@pytest.mark.parametrize("far", [15, 16, 30_000])
def test_a_normal_beyond_the_first_limb_is_not_lost(monkeypatch, far):
    """Once in 1e57 draws: whole parts from 16 have no room, and all entries are decided in integers."""
    made = []

    def plant(shape, rng):
        made.append(Normals(shape, rng))
        made[-1]._whole[2, 1] = far
        return made[-1]

    monkeypatch.setattr(matrix_laplace, "Normals", plant)
    assert matrix_laplace._sample(Fraction(1000), 3, SeededBits(3)).tolist() == [in_fractions(made[0], 1000, 3)]


@pytest.mark.parametrize(("scale", "m"), [(2**58, 40), (2**50, 500), (Fraction(1, 100), 3), (10, 100), (2**58, 4096)])
def test_the_limbs_are_enough_to_decide_all_but_a_thousandth_of_draws(scale, m):
    n_limbs = matrix_laplace._enough_limbs(Fraction(scale), m)
    assert 3 <= n_limbs <= 6
    assert matrix_laplace._error(Fraction(scale), m, n_limbs) * m * m <= Fraction(1, 1024)
    # Sums stay exact in floats: products of two limbs, below 2**22 each, for each row of a block; blocks times pairs of limbs in 63 bits.
    assert matrix_laplace._ROWS * (2**22 - 1) ** 2 < 2**53
    assert -(-2 * (matrix_laplace._MAX_ROWS + 1) // matrix_laplace._ROWS) * 7 * 2**53 < 2**63


@pytest.mark.parametrize(("scale", "n_limbs"), [(10, 1), (Fraction(500, 3), 3), (2**58, 5)])
@pytest.mark.parametrize("at_a_time", [False, True])
def test_each_matrix_of_a_stack_is_that_of_normals_of_its_own(kept, monkeypatch, scale, n_limbs, at_a_time):
    """Also where limbs leave entries undecided, where 11 rows and 3 entries are multiplied at a time, and 100 normals are drawn."""
    if at_a_time:
        for name, value in (("_ROWS", 11), ("_ENTRIES", 3), ("_NORMALS", 100)):
            monkeypatch.setattr(matrix_laplace, name, value)
    drawn = matrix_laplace._sample(Fraction(scale), 3, SeededBits(9), n_limbs, count=5)
    assert drawn.tolist() == [in_fractions(kept[0], scale, 3, which) for which in range(5)]
    stack = DiscreteMatrixLaplace(scale).sample((9, 3, 3), SeededBits(9))
    assert [normals.shape for normals in kept[1:]] == ([(8, 12), (8, 12), (8, 3)] if at_a_time else [(8, 27)])
    of_each = [(kept[1 + k // 4], k % 4) if at_a_time else (kept[1], k) for k in range(9)]
    assert stack.tolist() == [in_fractions(normals, scale, 3, which) for normals, which in of_each]


@pytest.mark.parametrize("m", [1, 2, 7, 60])
@pytest.mark.parametrize("scale", [0, 1, 2**50, 2**58])
def test_draws_are_symmetric_integers_of_the_shape_asked_for(m, scale):
    drawn = DiscreteMatrixLaplace(scale).sample((m, m), SecureBits())
    assert (drawn.dtype, drawn.shape) == (np.int64, (m, m))
    assert scale == 1 or drawn.any() == (scale > 0)  # of which one entry is 0 half the time
    np.testing.assert_array_equal(drawn, drawn.T)
    for shape in ((0, 0), (0, 2, 2)):
        assert DiscreteMatrixLaplace(scale).sample(shape, SeededBits(0)).shape == shape


def test_what_is_no_square_matrix_or_no_scale_is_refused():
    noise, rng = DiscreteMatrixLaplace(3), SeededBits(0)
    for shape in (3, (3,), (2, 3), (2, 2, 3), ()):
        refuses(ValueError, r"matrix Laplace noise needs values of shape \(m, m\), got .*; list the whole", noise.sample, shape, rng)
    for n_values in (2, 8, 4097**2):
        refuses(ValueError, r"needs m \* m values with m at most 4096, got \d+; use Laplace", noise.check_size, n_values)
    for scale in (-1, math.nan, 2**59, Fraction(1, 101), [1, 2], "3"):
        refuses(ValueError, "scale must be", DiscreteMatrixLaplace, scale)
    refuses(TypeError, "rng must be a stream", noise.sample, (2, 2), np.random.default_rng(0))
    standing = PrivacyAccountant(1).standing(noise, SecureBits(), name="stack", loss=1)
    with pytest.raises(ValueError, match=r"needs values of shape \(m, m\), got \(2, 2, 2\)"):  # the loss of a stack is not that of one
        standing.release(np.zeros((2, 2, 2), dtype=np.int64), "first")


CHANGE = Sensitivity("replace_one", 40, 200, 12, nuclear=20)


@pytest.mark.parametrize("share", [PrivacyLoss(0.3), PrivacyLoss(0.3, 1e-6)])
def test_the_mechanism_has_the_least_scale_that_covers_the_change(share):
    """The nuclear norm over the loss; it is taken where it is less, and never for what is no matrix, a share of rho or an infinite one."""
    made = mechanism(CHANGE, share, ("matrix_laplace",), 25)
    assert made.noise == DiscreteMatrixLaplace(Fraction(200, 3))
    assert made.loss == PrivacyLoss(0.3) == made.noise.losses(CHANGE)[0]
    assert not made.spends_delta
    assert made.deviation == pytest.approx(200 / 3 * math.sqrt(3))
    assert scale_of_kind("matrix_laplace", CHANGE, PrivacyLoss(1e9)) == Fraction(1, 100)
    kinds = ("laplace", "sup_norm", "matrix_laplace")
    assert isinstance(mechanism(CHANGE, PrivacyLoss(0.3), kinds, 9).noise, DiscreteMatrixLaplace)
    assert isinstance(mechanism(CHANGE, PrivacyLoss(0.3), kinds, 10).noise, DiscreteLaplace)
    assert loss_of_kind("matrix_laplace", PrivacyLoss(rho=1)) is None
    assert mechanism(CHANGE, PrivacyLoss(math.inf), ("matrix_laplace",), 9).noise.scale == 0
    assert DiscreteMatrixLaplace(0).losses(CHANGE)[0] == PrivacyLoss(math.inf)
    assert not DiscreteMatrixLaplace(8).losses(Sensitivity("replace_one", 0, 0, 0, nuclear=0))
    with pytest.raises(ValueError, match="sensitivity must state its nuclear norm for matrix Laplace noise, got none; list"):
        mechanism(Sensitivity("replace_one", 40, 200, 12), share, ("laplace", "matrix_laplace"), 9)


def release(accountant, noise, loss, sensitivity=CHANGE, values=None):
    values = np.arange(9).reshape(3, 3) if values is None else values
    return accountant.release(values, noise, SeededBits(0), name="moments", loss=loss, sensitivity=sensitivity)


def test_the_door_takes_noise_that_just_covers_its_change():
    accountant = PrivacyAccountant(1)
    values = np.add.outer(np.arange(3), np.arange(3))
    noisy = release(accountant, DiscreteMatrixLaplace(40), 0.5, values=values)
    np.testing.assert_array_equal(noisy - values, DiscreteMatrixLaplace(40).sample((3, 3), SeededBits(0)))
    (entry,) = accountant.ledger
    assert (entry.noise, entry.scale, entry.loss, entry.n_values) == ("DiscreteMatrixLaplace", (Fraction(40),), PrivacyLoss(0.5), 9)
    assert entry.sensitivity.nuclear / entry.scale[0] == entry.loss.epsilon


@pytest.mark.parametrize(
    ("noise", "sensitivity", "values", "message"),
    [
        (DiscreteMatrixLaplace(Fraction(40 * 10**9 - 1, 10**9)), CHANGE, None, "more than the loss"),
        (DiscreteMatrixLaplace(0), CHANGE, None, "scale 0 has an infinite loss"),
        (DiscreteMatrixLaplace(40), Sensitivity("replace_one", 40, 200, 12), None, "sensitivity must state its nuclear norm"),
        (DiscreteMatrixLaplace(40), CHANGE, np.arange(9), r"values of shape \(m, m\), got \(9,\)"),
        (DiscreteMatrixLaplace(40), None, np.arange(6).reshape(2, 3), r"values of shape \(m, m\), got \(2, 3\)"),
        (DiscreteMatrixLaplace(40), None, np.zeros((2, 2, 2), dtype=np.int64), r"values of shape \(m, m\), got \(2, 2, 2\)"),
    ],
)
def test_the_door_refuses_before_anything_is_charged(noise, sensitivity, values, message):
    accountant = PrivacyAccountant(1)
    refuses(ValueError, message, release, accountant, noise, 0.5, sensitivity, values)
    assert accountant.ledger == ()


ALL = slice(None)


def floats(drawn):
    """The normals to 62 bits of their fractions, rounded."""
    return sum(np.ldexp(drawn.limb(i, ALL), -fraction_bits(i + 1)) for i in range(3))


class Fixed:
    """A table that always draws one whole part."""

    def __init__(self, whole):
        self.whole = whole

    def sample(self, size, rng):
        return np.full(size, self.whole)


def propose(monkeypatch, scripted, whole, x, coin, *later):
    """Judge one proposal of a whole part and the first words of x and of the coin: (accepted, later words of x)."""
    monkeypatch.setattr(matrix_laplace, "_whole_part_table", lambda: Fixed(whole))
    rng = scripted(np.uint64(x).tobytes(), np.uint64(coin).tobytes(), *(word.to_bytes(8) for word in later))
    _, _, accepted, ahead = matrix_laplace._propose(1, rng)
    return bool(accepted[0]), ahead.get(0, [])


def chance(whole, x):
    """floor(exp(-x (2 k + x) / 2) * 2**64) for x in 64 bits."""
    x = Fraction(x, 2**64)
    return int(scaled_exp_minus(x * (2 * whole + x) / 2))


@pytest.mark.parametrize("whole", [0, 1, 3, 8, 15, 16, 20])
@pytest.mark.parametrize("x", [1, 12345, 2**40 + 1, 2**62 + 3, 2**63, 2**64 - 1])
def test_a_proposal_is_accepted_with_the_exact_probability(monkeypatch, scripted, whole, x):
    # x is in [x, x + 1) / 2**64, so the coin is compared with two bounds, apart by at most k + 1 units.
    high, low = chance(whole, x), chance(whole, min(x + 1, 2**64))
    for step in (3, 2**11, 2**31, 2**32 - 2**12, 2**32, 2**32 + 2**12, 2**40):
        if step <= low:
            assert propose(monkeypatch, scripted, whole, x, low - step) == (True, [])
        if high + step < 2**64:
            assert propose(monkeypatch, scripted, whole, x, high + step) == (False, [])


@pytest.mark.parametrize("whole", [0, 2, 7])
def test_a_tie_is_decided_by_later_bits_of_both_and_those_of_the_normal_are_told(monkeypatch, scripted, whole):
    x = 3 * 2**62 + 12345
    coin = chance(whole, x)
    top = 2**64 - 1
    # The least x and coin that are left, or the largest.
    assert propose(monkeypatch, scripted, whole, x, coin - whole - 3, 0, 0) == (True, [])
    assert propose(monkeypatch, scripted, whole, x, coin, 7, 0) == (True, [7])
    assert propose(monkeypatch, scripted, whole, x, coin, top, top) == (False, [top])


@pytest.mark.parametrize("step", [1, 2])
def test_later_bits_of_the_normal_alone_may_decide(monkeypatch, scripted, step):
    # At k = 7 and x = 1/8 the chance falls by 2.9 units of 2**-64 while x rises by one.
    x = 2**61
    coin, top = chance(7, x) - step, 2**64 - 1
    assert propose(monkeypatch, scripted, 7, x, coin, 0, top) == (True, [0])
    assert propose(monkeypatch, scripted, 7, x, coin, top, 0) == (False, [top])


def test_the_law_is_normal():
    """200,000 draws, Kolmogorov-Smirnov; a scale 6 % off fails."""
    drawn = floats(Normals((1000, 200), SeededBits(1))).ravel()
    assert kolmogorov(drawn, "norm") > ALARM
    assert kolmogorov(drawn * 1.06, "norm") < CERTAIN


def test_later_bits_are_uniform():
    """100,000 normals, 8 bits of the second word, of limb 1 and of limb 3."""
    drawn = Normals((500, 200), SeededBits(4))
    drawn.reveal()
    for digits in (drawn._words[1] >> np.uint64(56), np.abs(drawn.limb(1, ALL)) // 2**14, np.abs(drawn.limb(3, ALL)) % 2**8):
        assert chi_squared(np.bincount(digits.astype(int).ravel(), minlength=256), np.ones(256)) > ALARM


def test_words_that_an_acceptance_had_to_know_are_those_revealed_later(monkeypatch):
    """With bounds too loose to decide at 64 or 128 bits, every normal is accepted by three words: they must not be drawn again."""
    true_bounds = matrix_laplace.exp_minus
    monkeypatch.setattr(matrix_laplace, "_MARGIN", 2.0)
    monkeypatch.setattr(matrix_laplace, "exp_minus", lambda x, bits: true_bounds(x, bits) if bits > 128 or x == 0 else (0, 1 << bits))
    told, decide = [], matrix_laplace._is_below

    def listen(coin, whole, x, rng):
        accepted, more = decide(coin, whole, x, rng)
        if accepted:
            told.append((whole, x, *more))
        return accepted, more

    monkeypatch.setattr(matrix_laplace, "_is_below", listen)
    drawn = Normals((20, 10), SeededBits(7))
    for _ in range(3):
        drawn.reveal()
    values = {int(a) >> 64 for j in range(10) for a in drawn.column(j)[1]}
    assert values == {(whole << 192) + (x << 128) + (second << 64) + third for whole, x, second, third in told}
    assert kolmogorov(floats(drawn), "norm") > ALARM
