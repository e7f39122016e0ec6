"""
Synthetic patients: a table of mixed types
==========================================

How good are synthetic rows for the questions that real ones are asked? A generated clinic's table has whole numbers, measurements with
missing cells, an ordered stage and categories. Its schema states public facts only. The synthetic table has the same columns and dtypes;
its marginals, and classifiers trained on it and tested on real patients, show what is lost at each epsilon.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Continuous, Ordinal
from skdpsynth.metrics import marginal_total_variation, train_synthetic_test_real

rng = np.random.default_rng(0)


def clinic(n):
    """Made-up patients: age and smoking drive the stage, and these the rest."""
    age = np.clip(rng.normal(58, 17, n), 18, 99).astype(int)
    smokes = rng.choice(["never", "former", "current"], n, p=[0.5, 0.3, 0.2])
    risk = (age - 58) / 17 + 0.9 * (smokes == "current") + 0.4 * (smokes == "former") + rng.normal(0, 1, n)
    stage = np.array(["none", "mild", "moderate", "severe"])[np.digitize(risk, [0, 1, 2])]
    pressure = 118 + 9 * risk + rng.normal(0, 9, n)
    pressure[rng.random(n) < 0.12] = np.nan  # not measured
    ward = np.where(risk + rng.normal(0, 1, n) > 1.5, "cardiology", rng.choice(["surgery", "internal", "other"], n))
    days = np.where(risk > 0, rng.poisson(2 + 2 * np.maximum(risk, 0)), 0)  # most patients go home the same day
    back = rng.random(n) < 1 / (1 + np.exp(2.2 - 1.1 * risk))
    return pd.DataFrame(
        {"age": age, "smokes": smokes, "stage": stage, "pressure": pressure, "ward": ward, "days": days, "readmitted": back}
    )


schema = {
    "age": (18, 99),  # two ints: whole numbers
    "smokes": ["never", "former", "current"],  # a list: categories
    "stage": Ordinal(["none", "mild", "moderate", "severe"]),
    "pressure": Continuous(60.0, 220.0, nullable=True),
    "ward": ["cardiology", "surgery", "internal", "other"],
    "days": (0, 60),
    "readmitted": [False, True],
}
patients, later = clinic(20_000), clinic(5_000)

model = LatentFactorSynthesizer(schema, stratify="readmitted", epsilon=1.0, delta=1e-6).fit(patients)
synthetic = model.sample()
print(synthetic.head())
print(synthetic.dtypes)
print(model.accountant_)

# %%
# Train on synthetic rows, test on real ones
# ------------------------------------------
# Will a patient come back? A classifier is trained on synthetic patients, and asked about real ones who came later. Noise differs from
# fit to fit, so each epsilon is fitted three times: the curve shows the mean of the three, with their standard deviation. The other two
# pictures show the one fit of above.

threadpool_limits(1)  # so small a table is learned faster by one thread than by many that wait for each other
classifier = HistGradientBoostingClassifier(max_iter=60, random_state=0)
epsilons = [0.1, 0.3, 1, 3, 10]
auc, variation = [], []
for epsilon in epsilons:
    tables = [LatentFactorSynthesizer(schema, stratify="readmitted", epsilon=epsilon, delta=1e-6).fit(patients).sample() for _ in range(3)]
    auc.append([train_synthetic_test_real(classifier, table, later, "readmitted", schema) for table in tables])
    variation.append([marginal_total_variation(patients, table, schema) for table in tables])
    print(f"epsilon {epsilon:<4} AUC {np.mean(auc[-1]):.3f}   total variation of pairs {np.mean(variation[-1]):.3f}")
best = train_synthetic_test_real(classifier, patients, later, "readmitted", schema)
print(f"real rows   AUC {best:.3f}")

figure, axes = plt.subplots(1, 3, figsize=(12.5, 3.9), layout="constrained")
real, made = "0.65", "#1f5fa8"
stages = schema["stage"].levels
for i, (table, color, label) in enumerate(((patients, real, "patients (private)"), (synthetic, made, "synthetic, epsilon 1"))):
    values = [table.loc[table["stage"] == stage, "pressure"].dropna() for stage in stages]
    boxes = axes[0].boxplot(
        values, positions=np.arange(4) + 0.36 * i - 0.18, widths=0.3, showfliers=False, patch_artist=True, medianprops={"color": "black"}
    )
    for box in boxes["boxes"]:
        box.set(facecolor=color, alpha=0.8, label=label if box is boxes["boxes"][0] else None)
    days = np.bincount(table["days"], minlength=13)[:13] / len(table)
    axes[1].bar(np.arange(13) + 0.4 * i - 0.2, days, width=0.4, color=color, alpha=0.9, label=label)
axes[0].set(xticks=range(4), xticklabels=stages, ylabel="blood pressure (mmHg)", title="Pressure by stage, one fit")
axes[1].set(xlabel="days in hospital", ylabel="share of patients", title="Days: many stay for none")
axes[2].axhline(best, color="0.4", linestyle=":", label="trained on patients")
axes[2].errorbar(
    epsilons, np.mean(auc, axis=1), np.std(auc, axis=1, ddof=1), marker="o", color=made, capsize=3, label="trained on synthetic rows"
)
axes[2].set(xscale="log", xlabel="epsilon", ylabel="AUC on later patients", title="Who comes back? Mean of three fits")
axes[2].set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
axes[2].minorticks_off()
for ax in axes:
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=9)
