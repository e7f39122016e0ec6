"""Draw docs/images/epsilon.png: what a count looks like with one person in it, and with another in their place.

    python docs/images/epsilon.py

The curves are the exact law of discrete Laplace noise, P(z) proportional to exp(-epsilon |z|). No rows are needed.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np


def noisy_count(truth, shown, epsilon):
    """Return the probability of each shown count, where one person more or less moves the true one by 1."""
    decay = np.exp(-epsilon)
    return (1 - decay) / (1 + decay) * decay ** np.abs(shown - truth)


def main():
    shown = np.arange(328, 355)
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharex=True, sharey=True, layout="constrained")
    for ax, epsilon in zip(axes, (0.3, 1.0), strict=True):
        for truth, name, marker, color in ((341, "you smoke", "o", "#0072B2"), (340, "you do not", "s", "#D55E00")):
            ax.plot(shown, noisy_count(truth, shown, epsilon), marker=marker, ms=4, color=color, label=name)
        ax.set_title(f"epsilon {epsilon:g}: nowhere more than {np.exp(epsilon):.2f} times apart")
        ax.set_xlabel("number of smokers that is shown (the truth is 340 or 341)")
    axes[0].set_ylabel("probability")
    axes[0].legend(title="the row in the table")
    figure.savefig(Path(__file__).with_name("epsilon.png"), dpi=110)


if __name__ == "__main__":
    main()
