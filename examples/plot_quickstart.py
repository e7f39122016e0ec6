"""
Synthetic patients
==================

Can others work with a table about people, without learning about anybody in it? A clinic's table of 20,000 patients (they are made up)
is learned once, at epsilon 1. What is sampled from the model has the same columns and rules, and every number below compares it with the
patients.

The script prints what it finds, and writes ``synthetic_patients.csv`` and ``quickstart.png``.
"""

import argparse
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Continuous, Date, Impossible, Ordinal, Schema
from skdpsynth.metrics import marginal_total_variation, rule_violations, train_synthetic_test_real

parser = argparse.ArgumentParser(description="Learn from a made-up table of patients, and write synthetic ones.")
parser.add_argument("--output", type=Path, default=Path("output"), help="folder for the picture and the rows")
output = parser.parse_known_args()[0].output
output.mkdir(parents=True, exist_ok=True)
started = time.perf_counter()
rng = np.random.default_rng(0)


def say(text):
    """A line of progress, with the seconds so far."""
    print(f"[{time.perf_counter() - started:4.0f} s] {text}", flush=True)


def clinic(n):
    """Made-up patients: age and smoking drive the stage of a disease, and the stage most of the rest."""
    age = np.clip(rng.normal(58, 17, n), 18, 99).astype(int)
    sex = rng.choice(["female", "male"], n)
    smokes = rng.choice(["never", "former", "current"], n, p=[0.5, 0.3, 0.2])
    risk = (age - 58) / 17 + 0.9 * (smokes == "current") + 0.4 * (smokes == "former") + rng.normal(0, 1, n)
    pressure = (118 + 9 * risk + rng.normal(0, 9, n)).round()
    pressure[rng.random(n) < 0.12] = np.nan  # not measured
    admitted = pd.Timestamp("2025-01-01") + pd.to_timedelta(rng.integers(0, 330, n), unit="D")
    days = np.minimum(np.where(risk > 0, rng.poisson(2 + 2 * np.maximum(risk, 0)), 0), 30)  # most go home the same day
    return pd.DataFrame(
        {
            "age": age,
            "sex": sex,
            "pregnant": (sex == "female") & (age < 50) & (rng.random(n) < 0.08),
            "smokes": smokes,
            "stage": np.array(["none", "mild", "moderate", "severe"])[np.digitize(risk, [0, 1, 2])],
            "pressure": pressure,
            "admitted": admitted,
            "discharged": admitted + pd.to_timedelta(days, unit="D"),
            "returned": rng.random(n) < 1 / (1 + np.exp(2.2 - 1.1 * risk)),
        }
    )


# %%
# What is public
# --------------
# The schema states what everybody may know: ranges, words, and three rules. Nothing of it is read from the patients.

columns = {
    "age": (18, 99),
    "sex": ["female", "male"],
    "pregnant": [False, True],
    "smokes": ["never", "former", "current"],
    "stage": Ordinal(["none", "mild", "moderate", "severe"]),
    "pressure": Continuous(60, 220, integer=True, nullable=True),
    "admitted": Date("2025-01-01", "2025-12-31"),
    "discharged": Date("2025-01-01", "2026-01-31"),
    "returned": [False, True],
}
rules = [
    "admitted <= discharged",
    Impossible({"sex": "male", "pregnant": True}),
    Impossible({"age": (51, 99), "pregnant": True}),
]
schema = Schema(columns, rules=rules)
patients, later = clinic(20_000), clinic(10_000)

# %%
# One fit
# -------
# The noise is the operating system's, so every run draws other patients.

say("learning from 20,000 patients, once (epsilon 1, delta 1e-6)")
model = LatentFactorSynthesizer(schema, stratify="returned", epsilon=1.0, delta=1e-6).fit(patients)
say("drawing 20,000 synthetic patients")
synthetic = model.sample()
synthetic.to_csv(output / "synthetic_patients.csv", index=False)
print(f"\nFive of them:\n{synthetic.head().to_string(index=False)}\n")

# %%
# How good are they?
# ------------------
# The comparison reads the patients unprotected: it is for those who may see them. "Columns alone" shuffles each column of the patients by
# itself: what is left when no column knows of another.

say("comparing them with the patients")
threadpool_limits(1)  # so small a table is learned faster by one thread than by many that wait for each other
classifier = HistGradientBoostingClassifier(max_iter=60, random_state=0)
alone = pd.DataFrame({name: rng.permutation(patients[name]) for name in patients})
tables = {"patients": patients, "synthetic": synthetic, "columns alone": alone}


def stay(table):
    return (table["discharged"] - table["admitted"]).dt.days


def auc(table):
    """How well a classifier that is trained on a table tells which of 10,000 later patients come back."""
    return train_synthetic_test_real(classifier, table, later, "returned", schema)


measures = {
    "mean age": lambda table: f"{table['age'].mean():.1f}",
    "mean blood pressure, where it was measured": lambda table: f"{table['pressure'].mean():.1f}",
    "not measured": lambda table: f"{table['pressure'].isna().mean():.1%}",
    "mean stay in days": lambda table: f"{stay(table).mean():.2f}",
    "correlation of age and blood pressure": lambda table: f"{table['age'].corr(table['pressure']):.2f}",
    "came back, of severe cases": lambda table: f"{table.loc[table['stage'] == 'severe', 'returned'].mean():.1%}",
    "error of all pairs of columns (0: none, 1: all)": lambda table: f"{marginal_total_variation(patients, table, schema):.3f}",
    "who comes back? AUC of a classifier (.5: a coin)": lambda table: f"{auc(table):.3f}",
    "rows that break a rule": lambda table: f"{sum(broken.rows for broken in rule_violations(table, schema).values()):,}",
}
figures = pd.DataFrame({name: {measure: of(table) for measure, of in measures.items()} for name, table in tables.items()})
figures.loc["error of all pairs of columns (0: none, 1: all)", "patients"] = ""
print(f"\n{figures.to_string()}\n")

# %%
# What it cost
# ------------
# One line for each release: all of them together cost no more than epsilon and delta.

accountant = model.accountant_
print("The ledger: one patient is protected, whose row may be replaced by any other")
for entry, part in accountant.lines():
    print(f"    {entry.name if part is None else '  ' + part.name:<34}{entry.loss if part is None else part.loss}")
print(f"    together: epsilon {float(accountant.spent):.4g} of {float(accountant.epsilon):g}, delta {float(accountant.delta):g}")

# %%
# The picture
# -----------

figure, axes = plt.subplots(2, 2, figsize=(5.8, 5.6), layout="constrained")  # letters that a phone shows large enough
real, made = "#8a8f98", "#1f5fa8"
for ax, (table, color, title) in zip(
    axes[0], ((patients, real, "Patients (private)"), (synthetic, made, "Synthetic, epsilon 1")), strict=True
):
    shown = table.dropna(subset="pressure").sample(2500, random_state=0)
    shift = rng.uniform(-0.5, 0.5, (2, len(shown)))
    ax.scatter(shown["age"] + shift[0], shown["pressure"] + shift[1], s=4, alpha=0.45, color=color, linewidths=0)
    ax.set_title(title, fontsize=11)
    ax.set(xlabel="age", ylabel="blood pressure (mmHg)", xlim=(15, 102), ylim=(75, 185))
stages = columns["stage"].levels
for i, (table, color, label) in enumerate(((patients, real, "patients"), (synthetic, made, "synthetic"))):
    share = [100 * table.loc[table["stage"] == stage, "returned"].mean() for stage in stages]
    axes[1, 0].bar(np.arange(4) + 0.4 * i - 0.2, share, width=0.38, color=color, label=label)
    days = np.bincount(np.minimum(stay(table), 10), minlength=11) / len(table) * 100
    axes[1, 1].bar(np.arange(11) + 0.4 * i - 0.2, days, width=0.38, color=color, label=label)
for ax, title in zip(axes[1], ("Came back, by stage (%)", "Days in hospital (%)"), strict=True):
    ax.set_title(title, fontsize=11)
    ax.legend(frameon=False)
axes[1, 0].set_xticks(range(4), stages, fontsize=8.5)
axes[1, 1].set_xticks(range(0, 11, 2), [*range(0, 10, 2), "10+"])
for ax in axes.flat:
    ax.spines[["top", "right"]].set_visible(False)
figure.savefig(output / "quickstart.png", dpi=160)
say(f"wrote {output / 'synthetic_patients.csv'} and {output / 'quickstart.png'}")
