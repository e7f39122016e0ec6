"""
The code book of a survey as rules
==================================

A child of six has no income, and nobody owns a dormitory: the code book of a survey says which answers never go together. What does it
bring to tell a synthesizer? `examples/ma2019.yaml` is NIST's dictionary of an excerpt of the American Community Survey as a schema. It
states 21 such facts as rules, each with the place where NIST states it. Here it describes made-up persons.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Schema
from skdpsynth.metrics import marginal_total_variation, rule_violations

HERE = Path(__file__).parent if "__file__" in globals() else Path()
survey = Schema.from_yaml(HERE / "ma2019.yaml")
names = ["AGEP", "SEX", "MSP", "EDU", "PINCP_DECILE", "DREM", "HOUSING_TYPE", "OWN_RENT", "NOC"]
rules = [rule for rule in survey.rules if set(rule.columns_named) <= set(names)]
plain = Schema({name: survey[name] for name in names})
known = Schema(plain, rules=rules)

# %%
# Made-up persons
# ---------------
# They keep the rules, as those of the survey do. None is a missing cell: "N" in NIST's files.

rng = np.random.default_rng(0)
n = 6000
age, in_quarters = rng.integers(0, 95, n), rng.random(n) < 0.06
school = np.clip(rng.normal(np.minimum(age / 2.2, 8), 2), 1, np.select([age < 5, age < 15], [2, 4], 12)).astype(int)
income = np.clip(rng.normal(school / 2 + (age > 25), 2), 0, 9).astype(int)


def cells(values, asked):
    return pd.Series(np.where(asked, values, None), dtype=object)


persons = pd.DataFrame(
    {
        "AGEP": age,
        "SEX": rng.integers(1, 3, n),
        "MSP": cells(np.where(rng.random(n) < age / 70, 1, 6), age >= 15),
        "EDU": cells(school, age >= 3),
        "PINCP_DECILE": cells(income, age >= 15),
        "DREM": cells(2 - (rng.random(n) < 0.04), age >= 5),
        "HOUSING_TYPE": np.where(in_quarters, rng.integers(2, 4, n), 1),
        "OWN_RENT": np.where(in_quarters, 0, 1 + (rng.random(n) < 0.3)),
        "NOC": cells(rng.poisson(0.7, n).clip(0, 5), ~in_quarters),
    }
)
print(f"{len(rules)} rules about these columns; rows that break one: {sum(each.rows for each in rule_violations(persons, known).values())}")

# %%
# With and without
# ----------------
# Rules cost no budget. No synthetic person breaks one, and the noise has fewer cells to fall into: all pairs of columns come nearer.

epsilons, errors, broken = [1, 3, 10], {}, {}
for title, schema in (("without rules", plain), ("with rules", known)):
    errors[title], broken[title] = [], []
    for epsilon in epsilons:
        tables = [LatentFactorSynthesizer(schema, epsilon=epsilon, delta=1e-9).fit(persons).sample() for _ in range(2)]
        errors[title].append(np.mean([marginal_total_variation(persons, table, plain) for table in tables]))
        broken[title].append(np.mean([sum(each.rows for each in rule_violations(table, known).values()) for table in tables]))
        print(f"{title:14} epsilon {epsilon:<4} pairs {errors[title][-1]:.3f}   broken rules in {n} rows {broken[title][-1]:.0f}")

fig, axes = plt.subplots(1, 2, figsize=(8.5, 3.4), layout="constrained")
for title, color in (("without rules", "0.6"), ("with rules", "#1f5fa8")):
    axes[0].plot(epsilons, errors[title], "o-", color=color, label=title)
    axes[1].plot(epsilons, broken[title], "o-", color=color, label=title)
axes[0].set(title="Total variation of pairs of columns", ylim=0)
axes[1].set(title=f"Broken rules in {n} synthetic persons")
for ax in axes:
    ax.set(xscale="log", xlabel="epsilon")
    ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    ax.minorticks_off()
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=9)
