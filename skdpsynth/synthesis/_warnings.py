"""Warnings, by public numbers, of results that would show nothing."""

from skdpsynth.fitting import Facts

_LEAST_SIZE = 100  # rows times epsilon up to which uniform rows of two features or more may do as well


def warn_if_small(facts: Facts, n_cut: float) -> None:
    """Warn where the synthetic rows may be no closer to the data than uniform ones.

    A cell is halved along one feature after the other, so a plan of `n_cut` halvings tells apart the values of that many features, and all
    others come out uniform, whatever they hold. ``benchmarks/accuracy_measure.py --only columns`` measured W1 to the data over that of
    uniform rows, for four kinds of data each (the least and the largest of them):

    ================  ==========  ==========  ==========  ==========
    features          size 1e3    size 1e4    size 1e5    size 1e6
    ================  ==========  ==========  ==========  ==========
    halvings planned  12          19          26          32
    5                 0.15, 0.53  0.08, 0.23  0.07, 0.14  0.07, 0.10
    10                0.41, 0.85  0.28, 0.81  0.17, 0.47  0.14, 0.36
    15                0.81, 0.90  0.41, 0.80  0.33, 0.74  0.21, 0.66
    20                0.88, 0.99  0.63, 0.89  0.42, 0.78  0.36, 0.73
    30                0.94, 0.98  0.87, 0.94  0.78, 0.93  0.46, 0.92
    60                0.98, 1.00  0.97, 0.99  0.95, 0.99  0.92, 0.99
    ================  ==========  ==========  ==========  ==========
    """
    size, d = facts.size, facts.n_features
    what = "n_samples * epsilon" + (" / max_rows_per_unit" if facts.rows_per_unit > 1 else "")
    if d > 1 and size <= _LEAST_SIZE:
        facts.warn(
            f"{what} is {size:g}, and up to 100 the noise may leave synthetic rows of {d} features no closer "
            "to the data than uniform ones; use more rows, a larger epsilon or fewer features."
        )
    elif n_cut < d:
        facts.warn(
            f"{what} is {size:g}, for which cells are cut along {int(n_cut)} of {d} features: the others will be uniform, "
            "whatever they hold; use more rows or fewer features, LowDimSynthesizer if the rows lie near few directions, or "
            "LatentFactorSynthesizer for a table of columns."
        )
