"""Lower bounds on epsilon from one fit of a table with random canaries."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from skdpsynth._progress import task
from skdpsynth._sklearn import check_seed
from skdpsynth._validation import as_array, check_integer, short_repr
from skdpsynth.auditing._audit import check_confidence, claimed_privacy, clone_for_audit, ledger_mu
from skdpsynth.auditing._neighbors import Corners, rows_of, table_of
from skdpsynth.auditing._outputs import minus_log_likelihood_by_value, run, visible_draws
from skdpsynth.auditing._result import EPSILON_SHARE, AuditResult, lower_epsilon_of_one_run, lower_mu_of_one_run
from skdpsynth.fitting import PrivateEstimator
from skdpsynth.frames import column_names
from skdpsynth.metrics import Table
from skdpsynth.privacy import SecureBits, Seed
from skdpsynth.testing import Draw, Estimator

_MOST = 10**6
_GRID = 16  # places of a column of numbers beside columns of levels
_PATIENCE = 50  # tries for each row
_MOST_FITS = 10**6
_ASKED, _SLOWER = 13, 0.4  # of n coins 13 n**0.4 are guessed for mu: about the best for n from 100 to 10,000 and mu from 1/2 to 2


@dataclass(frozen=True, eq=False)
class CanarySlots:
    """Fixed rows, and slots that each hold a canary or else another row, or none."""

    rest: list[tuple]
    canaries: list[tuple]
    others: list[tuple] | None
    names: Any  # of the columns, if the tables are data frames
    dtype: Any  # of the tables, if they are arrays

    @classmethod
    def of(cls, X: Table, canaries: Table, others: Table, relation: str | None) -> "CanarySlots":
        """Build the slots, or raise if the tables do not fit together or do not fit the relation."""
        if canaries is None:
            raise ValueError("canaries must be a table of at least 2 rows, got None; see isolated_canaries.")
        if relation == "replace_one" and others is None:
            raise ValueError("others must be given under neighboring='replace_one': rows that take the place of canaries, got None.")
        if relation == "add_or_remove_one" and others is not None:
            raise ValueError("others must be None under neighboring='add_or_remove_one': a canary that is out has no row in its place.")
        names = column_names(canaries)
        tables = [rows_of(table, name) for table, name in ((X, "X"), (canaries, "canaries"), (others, "others")) if table is not None]
        if len({len(row) for rows in tables for row in rows}) > 1 or (others is not None and len(tables[-1]) != len(tables[-2])):
            raise ValueError(
                "X, canaries and others must have the same columns, and others as many rows as canaries; see isolated_canaries."
            )
        rest = [] if X is None else tables.pop(0)
        if len(tables[0]) < 2:
            raise ValueError(f"canaries must be at least 2 rows, got {len(tables[0])}; some hundreds show something.")
        dtype: Any = object
        with suppress(TypeError):  # such as dates among numbers
            dtype = None if names is not None else np.result_type(*(as_array(each) for each in (X, canaries, others) if each is not None))
        return cls(rest, tables[0], tables[1] if others is not None else None, names, dtype)

    @property
    def n(self) -> int:
        return len(self.canaries)

    def table(self, bits: np.ndarray) -> Any:
        if self.others is None:
            rows = [row for row, bit in zip(self.canaries, bits.tolist(), strict=True) if bit]
        else:
            rows = [row if bit else other for row, other, bit in zip(self.canaries, self.others, bits.tolist(), strict=True)]
        return table_of([*self.rest, *rows], self.names, len(self.canaries[0]), self.dtype)


def audit_one_run(
    estimator: Estimator,
    X: Table,
    canaries: Table,
    others: Table = None,
    *,
    score: Callable[[Any], Any] | None = None,
    n_fits: int = 1,
    confidence: float = 0.99,
    epsilon: float | None = None,
    delta: float | None = None,
    random_state: Seed = None,
) -> AuditResult:
    """Bound epsilon from below by one fit: many rows are in its table, or not, by coins that are then guessed.

    For models whose fit takes too long for the many fits of `audit_epsilon`. It reads all tables unprotected, and no accountant is
    charged: **never give a table of people**, but rows made up for the test, such as those of `isolated_canaries`.

    Parameters
    ----------
    estimator : estimator or callable
        As for `audit_epsilon`, but for counters.
    X : array-like, data frame or None
        Rows that are always in the table. None: no other rows.
    canaries : array-like or data frame of shape (n_canaries, n_features)
        Rows that are in the table where their coin says so.
    others : array-like or data frame of shape (n_canaries, n_features), default=None
        Rows that replace the canaries whose coin leaves them out, under "replace_one". None: no row does, under "add_or_remove_one".
    score : callable, default=None
        Maps a fitted estimator, or the result of the function, to an array of shape (n_canaries,): the larger, the likelier is the canary
        in the table. The half of the canaries with the most extreme scores is guessed. None: the likelihood ratio of each canary in the
        releases of this package; those are guessed that promise the largest bound.
    n_fits : int, default=1
        Fits, each with coins of its own, from 1 to 1,000,000. More of them show more.
    confidence : float, default=0.99
        The least probability that both lower bounds of the result hold.
    epsilon, delta : float, default=None
        The promise. None: the estimator's parameters. For a function `epsilon` must be given; its delta is 0 by default.
    random_state : int, RandomState or None, default=None
        For the coins, never for noise.

    Returns
    -------
    result : AuditResult

    See Also
    --------
    isolated_canaries : Rows that nothing but their own coin moves.
    audit_epsilon : Tighter, by many fits of two tables.

    Notes
    -----
    *The coins.* n of them, fair and independent, say which canaries are in. Two tables that differ in one coin are neighbors: a row
    comes or goes, or is replaced. Each coin is guessed from the outputs, or not guessed.

    *Pure.* Given what came out and the coins before it, a coin has a posterior: by Bayes its odds are the ratio of the likelihoods on
    neighbors, averaged over the coins after it alike. So each guess is right with probability at most s = e^epsilon / (1 + e^epsilon),
    whatever the guesses before it were, and the number of right guesses is at most Binomial(r, s) in the stochastic order, for r guesses,
    even if r and the choice of what is guessed follow from what came out. The lower Clopper-Pearson limit of s, in log-odds, is
    `epsilon_lower`.

    *With delta.* Let p and q be the densities of what comes out where the coin is as guessed and where it is not, given the coins before,
    and d = max(0, p - e^epsilon q), whose integral is at most delta. Then p / (p + q) <= s + (1 - s) d / (p + q): so a guess is right with
    probability at most s + h, and the expected h, over both guesses, is at most (1 - s) delta <= delta / 2. With one uniform number for
    each guess, right guesses are at most B + L, with B Binomial(r, s) and L of expectation at most n delta / 2. For the least k with
    n delta / (2 (k + 1)) <= alpha / 2, by Markov L > k has probability at most n delta / (2 (k + 1)); k is struck out of the right guesses,
    and the limit is taken at what is left of alpha. This costs little where delta is far below alpha / n, and finds nothing far above.

    *In Gaussian terms* r of the n coins are guessed, a number that is fixed before; to pass over most of them makes the bound larger. Let f
    be the trade-off function of mu-GDP, g(x) = 1 - f(x) = Phi(Phi^-1(x) + mu), and W the number of right guesses. Turning coin i over
    turns "guess i is right and W >= c" into "guess i is wrong and W >= c - 1", so the probability of the first is at most g of that of the
    second; averaged over i, as g is concave, E[W; W >= c] / n <= g(E[r - W; W >= c - 1] / n) for each c. Were W >= v with
    probability alpha or more, these inequalities for c = v, v - 1, ... 1 would ask for mass at v - 1, v - 2, ... 0. The least is asked for
    if all mass above v lies at v, with alpha in all, and each level holds no more than it must: moving mass one level down only lowers left
    sides and raises right ones. If that least is more than 1, mu is refuted by W = v. `mu_lower` is the largest mu that is.

    References
    ----------
    .. [1] Steinke, Nasr, Jagielski (2023), "Privacy Auditing with One (1) Training Run".
    .. [2] Mahloujifar, Melis, Chaudhuri (2025), "Auditing f-Differential Privacy in One Run".

    Examples
    --------
    >>> from skdpsynth import SignedMeasureMechanism
    >>> from skdpsynth.auditing import audit_one_run, isolated_canaries
    >>> psmm = SignedMeasureMechanism(1024, epsilon=2.0, bounds=(0, 1))
    >>> result = audit_one_run(psmm, None, *isolated_canaries(psmm, 512), confidence=1 - 1e-9)
    >>> result.is_broken
    False
    """
    n_fits = check_integer("n_fits", n_fits, 1, _MOST_FITS, "1 is the default")
    check_confidence(confidence)
    if score is not None and not callable(score):
        raise TypeError(f"score must be None or a function of what came out, got {short_repr(score)}; leave it out.")
    epsilon, delta = claimed_privacy(estimator, epsilon, delta)
    mechanism = clone_for_audit(estimator)
    slots = CanarySlots.of(X, canaries, others, getattr(mechanism, "neighboring", None))
    coins = SecureBits().generator() if random_state is None else check_seed(random_state)
    n_coins, counts, mu = slots.n * n_fits, np.zeros(3, dtype=int), None
    alpha, n_asked = 1 - confidence, max(1, min(slots.n, round(_ASKED * n_coins**_SLOWER / n_fits)))
    with task("audit", total=n_fits) as progress:
        for _ in range(n_fits):
            bits = np.asarray(coins.choice(2, size=slots.n), dtype=bool)
            outcome, draws = run(mechanism, slots.table(bits))
            mu = ledger_mu(outcome, delta)
            scores = _ratios(draws, mechanism, slots) if score is None else _scores(score, outcome, slots.n)
            if score is None:  # the guesses that promise the largest bound, if each ratio is correct
                expected = np.cumsum(expit(np.sort(np.abs(scores))[::-1]))
                numbers = np.unique(np.geomspace(1, slots.n, 60).astype(int))
                bounds = [lower_epsilon_of_one_run(int(expected[number - 1]), int(number), 0, 0.0, alpha) for number in numbers]
                made = _largest(np.abs(scores), int(numbers[int(np.argmax(bounds))])) & (scores != 0)
            else:
                made = _largest(np.abs(scores), slots.n // 2)
            right = (scores > 0) == bits
            counts += [made.sum(), (made & right).sum(), (_largest(np.abs(scores), n_asked) & right).sum()]
            progress.step()
    n_guesses, n_right, n_right_of_all = counts.tolist()
    for_epsilon = EPSILON_SHARE[mu is not None] * alpha
    epsilon_lower = lower_epsilon_of_one_run(n_right, n_guesses, n_coins, delta, for_epsilon)
    mu_lower = lower_mu_of_one_run(n_right_of_all, n_asked * n_fits, n_coins, alpha - for_epsilon)
    words = "by the likelihood ratio of each canary" if score is None else "by score, half of the canaries"
    tally = (n_fits, n_coins, n_guesses, n_right, n_right_of_all)
    promise = (epsilon, delta, mu, float(confidence))
    return AuditResult(epsilon_lower, mu_lower, *promise, words, *tally, n_asked=n_asked * n_fits, is_one_run=True)


def _scores(score: Callable, outcome: object, n: int) -> np.ndarray:
    """Turn the caller's scores into centered ranks; ties are broken by the number of the canary, not by its coin."""
    scores = np.asarray(score(outcome), dtype=float)
    if scores.shape != (n,) or np.isnan(scores).any():
        raise ValueError(f"score must return a number for each of {n} canaries, got {short_repr(scores)}; see isolated_canaries.")
    return np.argsort(np.argsort(scores, kind="stable"), kind="stable") - (n - 1) / 2


def _largest(sizes: np.ndarray, number: int) -> np.ndarray:
    chosen = np.zeros(len(sizes), dtype=bool)
    chosen[np.argsort(-sizes, kind="stable")[:number]] = True
    return chosen


def _ratios(draws: list[Draw], mechanism: Estimator, slots: CanarySlots) -> np.ndarray:
    """Return the log-likelihood ratio of each canary from the released numbers that it alone moves.

    The owners of numbers are found by replaying the same answers on other tables: with all canaries, with none, and for each binary digit
    with those whose number has it. A number that one canary alone moves then equals its value with all or with none, and these digits spell
    the number of the canary. All of this is public: answers, and rows that are made up.
    """
    if not draws:
        raise ValueError("score must be given where nothing passes the door of this package, got None; give a function of what came out.")
    numbers = np.arange(slots.n)
    n_digits = max(1, (slots.n - 1).bit_length())
    patterns = [numbers >= 0, numbers < 0, *((numbers >> digit & 1).astype(bool) for digit in range(n_digits))]
    try:
        inside, outside, *digits = (run(mechanism, slots.table(bits), draws, len(draws))[1] for bits in patterns)
    except AssertionError as error:
        raise ValueError("score must be given where what is released, and how often, depends on the rows, got None.") from error
    ratios = np.zeros(slots.n)
    for place, draw in enumerate(draws):
        if not visible_draws([draw]):
            continue
        low, high = (values[place].values.ravel() for values in (outside, inside))
        moved = np.flatnonzero(low != high)
        parts = [(values[place].values.ravel()[moved] - low[moved]) / (high - low)[moved] for values in digits]
        alone = np.all([(part == 0) | (part == 1) for part in parts], axis=0)
        owners = sum(part[alone].astype(int) << digit for digit, part in enumerate(parts))
        known = np.asarray(owners) < slots.n
        cells, shape = moved[alone][known], draw.answer.shape
        low_loss, high_loss = (minus_log_likelihood_by_value(draw.answer, exact.reshape(shape), draw) for exact in (low, high))
        gain = low_loss - high_loss
        np.add.at(ratios, np.asarray(owners)[known], gain.ravel()[cells])
    return ratios


def isolated_canaries(estimator: Estimator, n: int, *, n_features: int | None = None) -> tuple[Any, Any]:
    """Return rows for `audit_one_run` that share no cell, so that each moves counts that no other one moves.

    In a box they lie in the middle of cells of a fine binary grid; the row that takes the place of a canary is in the cell beside it. In a
    schema no two of them share a cell in any pair of columns, where there are enough levels; columns of numbers have 16 places.

    Parameters
    ----------
    estimator : private estimator
        An estimator of this package, or derived from its bases, with public bounds and levels.
    n : int
        Number of canaries, from 2 to 1,000,000; more of them can show more. Several canaries move the counts of cells that are wider
        than those of the grid, which then show nothing: take at most half as many as the cells that the estimator counts.
    n_features : int, default=None
        As in `worst_case_neighbors`.

    Returns
    -------
    canaries : ndarray of shape (n, n_features), or a data frame
    others : ndarray of shape (n, n_features), a data frame or None
        Rows that take their place; None under "add_or_remove_one".

    See Also
    --------
    audit_one_run : Puts them into a table, or not.

    Examples
    --------
    >>> from skdpsynth import SignedMeasureMechanism
    >>> from skdpsynth.auditing import isolated_canaries
    >>> canaries, others = isolated_canaries(SignedMeasureMechanism(8), 4)
    >>> canaries.ravel(), others.ravel()
    (array([0.0625, 0.3125, 0.5625, 0.8125]), array([0.1875, 0.4375, 0.6875, 0.9375]))
    """
    if isinstance(estimator, type) or not isinstance(estimator, PrivateEstimator):
        raise TypeError(f"estimator must be a private estimator of this package, got {short_repr(estimator)}; make such rows by hand.")
    n = check_integer("n", n, 2, _MOST, "some hundreds show something")
    domain, drops = Corners(estimator, n_features), estimator.neighboring == "add_or_remove_one"
    n_rows = n if drops else 2 * n
    if domain.is_mixed:
        values = domain.values(_GRID)
        numbers = _separated_rows([len(column) for column in values], n_rows)
        rows = [[column[number] for column, number in zip(values, row, strict=True)] for row in numbers]
    else:
        rows = [domain.row(place) for place in _grid(domain.n_features, n_rows)]
    # Side by side: a canary and its replacement are as near as possible, so coarse counts do not tell them apart.
    return (domain.table(rows), None) if drops else (domain.table(rows[::2]), domain.table(rows[1::2]))


def _grid(d: int, n: int) -> np.ndarray:
    """Return midpoints, in [0, 1], of the first `n` cells of a binary grid whose levels halve the columns in turn."""
    depth = (n - 1).bit_length()
    numbers, places = np.arange(n), np.zeros((n, d))
    for level in range(depth):
        places[:, level % d] += (numbers >> (depth - 1 - level) & 1) * 0.5 ** (level // d + 1)
    return places + 0.5 ** (np.array([len(range(column, depth, d)) for column in range(d)]) + 1)


def _separated_rows(sizes: list[int], n: int) -> list[list[int]]:
    """Try random level numbers from a fixed seed until no two rows agree in two columns."""
    rng, rows = np.random.default_rng(0), list[list[int]]()
    pairs = [(i, j) for j in range(len(sizes)) for i in range(j) if sizes[i] * sizes[j] >= n] or [(0, 0)]
    taken: list[set] = [set() for _ in pairs]
    for row in rng.integers(0, sizes, size=(_PATIENCE * n, len(sizes))).tolist():
        cells = [(row[i], row[j]) for i, j in pairs]
        if any(cell in seen for cell, seen in zip(cells, taken, strict=True)):
            continue
        rows.append(row)
        for cell, seen in zip(cells, taken, strict=True):
            seen.add(cell)
        if len(rows) == n:
            return rows
    raise ValueError(f"n must be at most {len(rows) // 2} for this schema, got more; take fewer canaries, or give columns more levels.")
