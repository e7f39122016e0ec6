"""How much smaller Gaussian noise is when it is accounted exactly, at equal epsilon and delta, than by way of zCDP.

python benchmarks/gaussian_accounting.py

"ours": the scale of discrete Gaussian noise that `skdpsynth.privacy.mechanism` makes for whole numbers that one row moves by 2^20 in L2
norm. "zCDP": the scale by the tight conversion of zCDP to (epsilon, delta), of Canonne, Kamath and Steinke (2020), Proposition 7, by which
noise was scaled before. "least": that of continuous Gaussian noise, by the exact formula of Balle and Wang (2018), below which none can be.
Target: ours at most 1e-6 above the least, in parts of it.
"""

import math
import sys

from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm

from skdpsynth.privacy import PrivacyLoss, mechanism
from skdpsynth.statistics import Change

BUDGETS = ((0.1, 1e-6), (1, 1e-6), (5, 1e-6), (10, 1e-6), (1, 1e-9), (1, 1e-5))
MOVE = 2**20


def zcdp_scale(epsilon, delta):
    """Deviation over sensitivity such that the zCDP of Gaussian noise converts to (epsilon, delta)."""

    def converted(rho):
        def at(log_order):  # of alpha - 1
            above = math.exp(log_order)
            return (1 + above) * rho - math.log(delta * (1 + above)) / above + math.log(above / (1 + above))

        return minimize_scalar(at, bounds=(-10, 20), method="bounded", options={"xatol": 1e-10}).fun

    log_rho = brentq(lambda log_rho: converted(math.exp(log_rho)) - epsilon, -30, 5, xtol=1e-12)
    return 1 / math.sqrt(2 * math.exp(log_rho))


def least_scale(epsilon, delta):
    """Deviation over sensitivity of the least continuous Gaussian noise that is (epsilon, delta)-differentially private."""

    def excess(scale):
        left, right = 1 / (2 * scale) - epsilon * scale, -1 / (2 * scale) - epsilon * scale
        return norm.cdf(left) - math.exp(epsilon + norm.logcdf(right)) - delta

    return brentq(excess, 1e-2, 1e3, xtol=1e-12)


def our_scale(epsilon, delta):
    change = Change("replace_one", MOVE, MOVE**2, MOVE)
    return float(mechanism(change, PrivacyLoss(epsilon, delta), ("gaussian",)).noise.scale) / MOVE


if __name__ == "__main__":
    all_met = True
    print("| epsilon | delta | zCDP | ours | ours over zCDP | ours over the least, less 1 | target |\n" + "|---" * 7 + "|")
    for epsilon, delta in BUDGETS:
        zcdp, ours, least = (scale(epsilon, delta) for scale in (zcdp_scale, our_scale, least_scale))
        met = -1e-9 < ours / least - 1 <= 1e-6
        all_met &= met
        verdict = "met" if met else "MISSED"
        print(f"| {epsilon:g} | {delta:g} | {zcdp:.5g} | {ours:.5g} | {ours / zcdp:.4f} | {ours / least - 1:.1e} | {verdict} |")
    print("all targets met" if all_met else "targets MISSED")
    sys.exit(not all_met)
