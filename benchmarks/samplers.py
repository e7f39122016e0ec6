"""How close the probabilities of the samplers are to those of their distributions, from the decision trees without drawing.

    python benchmarks/samplers.py [--scales 400]

For each distribution it takes the given number of scales, from 1/100 to 2^58. It prints how far the largest error lies below 1, in bits:
for all probabilities of all tables (absolute), and for single ones of wide scales, up to eight scales from 0 (relative to the probability).
``tests/privacy/sampler_trees.py``, which the tests use too, explains how.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "privacy"))

from sampler_trees import bits, error_of_gaussian, error_of_laplace, scales


def main():
    """Print a line for each law."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scales", type=int, default=400)
    count = parser.parse_args().scales
    for name, error_of in (("discrete Laplace", error_of_laplace), ("discrete Gaussian", error_of_gaussian)):
        start = time.perf_counter()
        errors = [error_of(scale) for scale in scales(count)]
        absolute, relative = (max(each[i] for each in errors) for i in (0, 1))
        print(
            f"{name}: {count} scales, all tables within 2^-{bits(absolute):.0f}, "
            f"wide probabilities within 2^-{bits(relative):.0f} of themselves, {time.perf_counter() - start:.0f} s"
        )


if __name__ == "__main__":
    main()
