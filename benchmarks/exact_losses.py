"""How much of its promise a Gram matrix of codes, or a search for parities, loses between its worst neighbors, by exact laws.

    python benchmarks/exact_losses.py [--copies 60] [--only gram parities]

Nothing is drawn. *gram*: over all pairs of rows, the largest nuclear norm of a change over the stated one, with the codes that a fit
takes. The loss is that part of epsilon, and no more. Where a row comes or goes, it is attained wherever all eigenvalues of the noise have
the sign of the change; where it goes to another class, wherever those of two matrices have. That has a probability of 2**(-m (m + 1) / 2)
for each matrix of m rows: there the density is that of a Wishart matrix, times the integral of exp(-2 tr U) over that of exp(-tr U). If a
row is replaced in its class, the loss is a limit: for m = 2 the last lines say how near it is if the noise is diag(t, -t).

*parities*: the five sets of three and four of four columns of bits. Tables are up to three of the 16 rows, each `copies` times, and for
each choice of sets all rows whose parity is 1 (or -1) in each of these, as often; with all their neighbors. What is expected is 0, but
for up to 2 in one set. For pure budgets it prints the largest logarithm of a ratio of probabilities, over epsilon: of a choice, a parity,
and a search of some rounds, each of a choice and a parity. For Gaussian budgets it prints the largest mu of any threshold on the
likelihood ratio, over the stated one; a search is tried at the 200 pairs of tables whose choices lose most. The model stays as it is,
because it is made of what was released.
"""

import argparse
import math
from itertools import combinations, combinations_with_replacement, permutations, product

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from skdpsynth.auditing._outputs import minus_log_density
from skdpsynth.privacy import DiscreteGaussian, PrivacyAccountant, PrivacyLoss, SeededBits, mechanism
from skdpsynth.statistics import Parities, SumParities
from skdpsynth.synthesis._latent_high import ParitySearch
from skdpsynth.synthesis._latent_releases import GramRelease

AR, RO = "add_or_remove_one", "replace_one"
SHAPES = [((2, 1), 1), ((2, 2), 1), ((2, 2, 2, 2), 1), ((3, 2), 1), ((4, 2), 1), ((2, 1), 2), ((2, 2), 2)]  # levels of columns, classes
EPSILONS, MUS = (0.5, 1.0, 3.0), (0.1, 0.3)
ROUNDS = (1, 3)
COLUMNS, ORDERS = 4, (3, 4)
CELLS = np.array(list(product((0, 1), repeat=COLUMNS)))
THRESHOLDS = np.linspace(-8, 8, 801)


def gram():
    print(f"{'levels, classes':24}{'relation':20}{'loss / epsilon':>16}{'with probability':>18}")
    for (sizes, n_classes), relation in product(SHAPES, (AR, RO)):
        over = GramRelease.choose([*sizes, n_classes], PrivacyLoss(epsilon=1), relation, 20).over
        ratio, m = worst_rows(over, relation)[0], over.n_rows
        signs_agree = relation == AR or n_classes > 1
        chance = f"{2.0 ** (-m * (m + 1) / 2 * (1 if relation == AR else 2)):18.2g}" if signs_agree else f"{'in the limit':>18}"
        print(f"{sizes!s:15}{n_classes:9}{relation:>20}{ratio:16.6f}{chance}", flush=True)
    for epsilon in EPSILONS:
        far = np.diag([1.0, -1.0]) * np.array([2, 5, 20, 100])[:, None, None]
        lost = minus_log_density(far + epsilon / 2 * np.diag([1, -1])) - minus_log_density(far)
        print(f"m = 2, epsilon {epsilon:g}, diag(t, -t) for t = 2, 5, 20, 100: loss / epsilon", np.round(lost / epsilon, 3))


def worst_rows(over, relation):
    """The largest nuclear norm over the stated one, and the rows (of which the last number is the class) between which it is."""
    rows = np.array(list(product(*map(range, over.sizes), range(over.n_classes))))
    v = np.hstack([np.full((len(rows), 1), over.coordinate), *(V[:, rows[:, j]].T for j, V in enumerate(over.codes))])
    each = np.einsum("nk,nl,nc->nckl", v, v, np.eye(over.n_classes, dtype=np.int64)[rows[:, -1]])
    moves = each[:, None] - (each if relation == RO else np.zeros_like(each[:1]))
    norms = np.abs(np.linalg.eigvalsh(moves.astype(float))).sum(axis=(2, 3)) / float(over.sensitivity(relation).nuclear)
    first, other = np.unravel_index(np.argmax(norms), norms.shape)
    return norms.max(), rows[first], rows[other] if relation == RO else None


# Laws of choices: arrays of logarithms, the last axis counts candidates.


def permute_and_flip(utilities, scale):
    """The integral of a polynomial over (0, 1), which so many nodes of Gauss have exactly."""
    nodes, weights = (each / 2 for each in np.polynomial.legendre.leggauss(utilities.shape[-1] // 2 + 1))
    log_flips = (utilities - utilities.max(axis=-1, keepdims=True)) / scale
    refused = 1 - (nodes + 0.5)[:, None, None] * np.exp(log_flips)
    others = np.prod(refused, axis=-1, keepdims=True) / refused
    return log_flips + np.log(np.tensordot(weights, others, 1))


def exponential(utilities, scale):
    return utilities / scale - logsumexp(utilities / scale, axis=-1, keepdims=True)


def sums_of(X):
    """Sums of all sets over rows of four bits and their class."""
    return SumParities(tuple(range(COLUMNS)), (np.array([False, True]),) * COLUMNS, ORDERS, 1).of(list(np.array(X).T)).counts[0]


def all_neighbors(copies, relation):
    """Sums of all sets in many tables and all their neighbors: two arrays of shape (n_pairs, n_sets)."""
    single = np.array([sums_of([[*row, 0]]) for row in CELLS])
    tables, first, other = [some for k in (1, 2, 3) for some in combinations_with_replacement(range(len(CELLS)), k)], [], []
    for k, side in product(range(1, single.shape[1] + 1), (1, -1)):
        tables += [np.nonzero(single[:, list(sets)] == side)[0] for sets in combinations(range(single.shape[1]), k)]
    for some in tables:
        sums = copies * single[list(some)].sum(axis=0)
        gone = {tuple(single[row]) for row in some} if relation == RO else {(0,) * single.shape[1]}
        moved = np.unique([come - np.array(row) for row in gone for come in single], axis=0)
        first.append(np.broadcast_to(sums, moved.shape))
        other.append(sums + moved)
    return np.concatenate(first), np.concatenate(other)


def worst_gaps(copies, relation):
    """Gaps of pairs of tables, without repetition, and which of the sums of each pair differ."""
    found, n_sets = [], sum(math.comb(COLUMNS, k) for k in ORDERS)
    first, other = all_neighbors(copies, relation)
    for expected in [np.zeros(n_sets, dtype=int), *(shift * unit for shift in (1, 2) for unit in np.eye(n_sets, dtype=int))]:
        found.append(np.hstack([abs(first - expected), abs(other - expected), first != other]))
    pairs = np.unique(np.concatenate(found), axis=0)
    return pairs[:, :n_sets], pairs[:, n_sets : 2 * n_sets], pairs[:, 2 * n_sets :].astype(bool)


def plan(share, relation, n_rounds):
    """The scale of a choice in a search, the noise of its parities, and their losses."""
    search = ParitySearch(tuple(range(COLUMNS)), ORDERS, 1, share)
    rounds = next(found for n in np.geomspace(1, 1e6, 200) if len(found := search.rounds(n, relation)[0]) == n_rounds)
    accountant = PrivacyAccountant(1000, 0.1 if share.rho is not None else 0.0, neighboring=relation)
    sensitivity = Parities.sensitivity_of_gaps(relation, 5)
    for choice, _ in rounds:
        accountant.release_choice(np.arange(5), sensitivity, SeededBits(0), name="choice", loss=choice)
    noise = mechanism(Parities.sensitivity(relation, 1), rounds[0][1], ("laplace", "gaussian"), 1).noise
    return float(accountant.ledger[0].scale[0]), noise, rounds


def sequences(law, first, other, moved, scale, n_rounds):
    """Of each sequence of choices: logarithms of its probabilities on both tables, and how many of its parities differ."""
    n_sets, out = first.shape[1], []
    for chosen in permutations(range(n_sets), n_rounds):
        logs, left = np.zeros((2, len(first))), list(range(n_sets))
        for place in chosen:
            logs += [law(gaps[:, left], scale)[:, left.index(place)] for gaps in (first, other)]
            left.remove(place)
        out.append((*logs, moved[:, list(chosen)].sum(axis=1)))
    return [np.array(each) for each in zip(*out, strict=True)]


def largest_mu(log_p, log_q, n_moved, mu):
    """The largest mu between thresholds on the likelihood ratio; a parity that differs tells mu by itself, and others nothing."""
    ratios, most = log_p - log_q, np.zeros(log_p.shape[1])
    spread = np.maximum(mu * np.sqrt(n_moved), 1e-9)
    for threshold in THRESHOLDS:
        p, q = (
            np.minimum((np.exp(logs) * ndtr((ratios + side * spread**2 / 2 - threshold) / spread)).sum(axis=0), 1)
            for logs, side in ((log_p, 1), (log_q, -1))
        )
        is_sure = (np.minimum(p, q) > 1e-9) & (np.maximum(p, q) < 1 - 1e-9)
        most = np.maximum(most, np.where(is_sure, ndtri(p.clip(1e-9, 1 - 1e-9)) - ndtri(q.clip(1e-9, 1 - 1e-9)), 0))
    return most


def parities(copies):
    print(f"\n{'a search by':30}{'relation':20}{'rounds':>7}{'choice':>9}{'parity':>9}{'search':>9}")
    for relation in (AR, RO):
        first, other, moved = worst_gaps(copies, relation)
        sup = float(Parities.sensitivity(relation, 1).sup)
        for n_rounds, epsilon in product(ROUNDS, EPSILONS):
            scale, noise, rounds = plan(PrivacyLoss(epsilon=epsilon), relation, n_rounds)
            choice = np.abs(permute_and_flip(first, scale) - permute_and_flip(other, scale)).max() / float(rounds[0][0].epsilon)
            parity = sup / float(noise.scale) / float(rounds[0][1].epsilon)
            log_p, log_q, n_moved = sequences(permute_and_flip, first, other, moved, scale, n_rounds)
            whole = (np.abs(log_p - log_q) + n_moved * sup / float(noise.scale)).max() / epsilon
            print(f"{f'epsilon {epsilon:g}':30}{relation:20}{n_rounds:7}{choice:9.5f}{parity:9.5f}{whole:9.5f}", flush=True)
        for n_rounds, mu in product(ROUNDS, MUS):
            scale, noise, rounds = plan(PrivacyLoss(rho=mu**2 / 2, gaussian=True), relation, n_rounds)
            assert isinstance(noise, DiscreteGaussian)
            stated = [math.sqrt(2 * float(loss.rho)) for loss in rounds[0]]
            told = largest_mu(*sequences(exponential, first, other, moved & False, scale, 1), 0)
            near = np.argsort(-told)[:200]
            joint = sequences(exponential, first[near], other[near], moved[near], scale, n_rounds)
            of_parity = sup / float(noise.scale)
            whole = largest_mu(*joint, of_parity).max() / mu
            parts = told.max() / stated[0], of_parity / stated[1], whole
            print(f"{f'mu {mu:g}':30}{relation:20}{n_rounds:7}", *(f"{part:8.5f}" for part in parts), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--copies", type=int, default=60)
    parser.add_argument("--only", nargs="*", default=["gram", "parities"])
    arguments = parser.parse_args()
    if "gram" in arguments.only:
        gram()
    if "parities" in arguments.only:
        parities(arguments.copies)
