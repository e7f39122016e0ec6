"""
Five hospitals, one model
=========================

May hospitals that must not share rows learn together? Each has a few hundred patients, too few to learn from alone under privacy. Here
they answer questions by masked sums; whoever fits adds noise once, to the sum. The model is the same, to the last bit, as that of all
rows in one table. What a single hospital sends is hidden by its masks, which cancel in the sum alone.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Ordinal
from skdpsynth.exceptions import InsecureRandomnessWarning
from skdpsynth.federated import Masks, Site, Sites
from skdpsynth.metrics import marginal_total_variation

warnings.simplefilter("ignore", InsecureRandomnessWarning)  # seeds show here that two fits are one; never set one on real rows

schema = {"age": (18, 99), "pressure": (60.0, 220.0), "stage": Ordinal(["none", "early", "late"]), "returned": ["no", "yes"]}
rng = np.random.default_rng(0)


def hospital(n, mean_age):
    """Patients of one hospital; those of another are of another age."""
    age = np.clip(rng.normal(mean_age, 15, n), 18, 99).astype(int)
    stage = np.digitize(age + rng.normal(0, 15, n), [50, 75])
    returned = rng.random(n) < 0.1 + 0.3 * (stage == 2)
    pressure = 90 + 0.6 * age + rng.normal(0, 12, n)
    labels = {"stage": np.array(["none", "early", "late"])[stage], "returned": np.where(returned, "yes", "no")}
    return pd.DataFrame({"age": age, "pressure": pressure, **labels})


names = ["north", "south", "east", "west", "center"]
patients = {name: hospital(400, mean_age) for name, mean_age in zip(names, (40, 48, 55, 62, 70), strict=True)}
everybody = pd.concat(patients.values(), ignore_index=True)

# %%
# Each hospital holds its rows, and answers
# -----------------------------------------
# Keys are agreed on by each pair of hospitals; here, in one process, they are handed out. Elsewhere a question and its answer go over a
# network.

masks = Masks.for_all(names)
held = {name: Site(table, schema=schema, masks=masks[name]) for name, table in patients.items()}
calls = {name: site.answer for name, site in held.items()}
model = LatentFactorSynthesizer(schema, epsilon=1.0, delta=1e-6, random_state=0)
together = model.fit(Sites(calls, head=everybody[:0])).sample(20_000, random_state=0)
print("What north was asked:", *held["north"].log, sep="\n    ")

# %%
# The same model as of all rows in one table
# ------------------------------------------

one_table = model.fit(everybody).sample(20_000, random_state=0)
print("The same rows:", together.equals(one_table))

# %%
# Alone, and together
# -------------------
# How far tables of one and two columns are from those of all patients, each at epsilon 1.

alone = {name: model.fit(table).sample(20_000, random_state=0) for name, table in patients.items()}
errors = {name: [marginal_total_variation(everybody, rows, schema, order=order) for order in (1, 2)] for name, rows in alone.items()}
errors["all five"] = [marginal_total_variation(everybody, together, schema, order=order) for order in (1, 2)]

figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
for place, (name, (first, second)) in enumerate(errors.items()):
    print(f"{name:>10}: one column {first:.3f}, two columns {second:.3f}")
    ax.plot([place, place], [first, second], color="0.8", zorder=0)
    ax.scatter([place], [first], color="#1f5fa8", label="one column" if not place else None)
    ax.scatter([place], [second], color="#b0782b", label="two columns" if not place else None)
ax.set_xticks(range(len(errors)), errors)
ax.set(title="Distance from all patients, one fit each", ylabel="total variation", ylim=(0, None))
ax.legend()
plt.show()
