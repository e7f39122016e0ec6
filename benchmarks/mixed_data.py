"""Tables of mixed type: training and held-out rows, the public schema, the target, and the score of classifiers from synthetic rows.

python benchmarks/mixed_data.py FOLDER    writes TABLE.csv (training rows) and TABLE.schema.json, for peers/fit_peer.py

The environment variable SKDPSYNTH_DATA names the folder of adult.csv, acs_ma2019.csv and their *.schema.json: columns with name, kind
(continuous: bounds, integer; ordinal, nominal: levels) and nullable. An empty cell is missing.
"""

import csv
import json
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd


def adult(split=None):
    """Census Income (UCI Adult): 13 columns, the published split of 32561 and 16281 rows (whatever `split` is), target income."""
    rows, schema = load("adult")
    is_train = rows["split"] == "train"
    # fnlwgt is a sampling weight, education_num another spelling of education.
    schema = without(schema, "split", "fnlwgt", "education_num")
    return (*parts(rows, schema, is_train.to_numpy()), schema, "income")


def acs(split=None):
    """American Community Survey (NIST excerpt of Massachusetts, 2019): 19 columns, 5725 and 1909 rows, target high_income.

    `split` is the seed of a random split; None: the one that the targets were set on. high_income is 1 where PINCP_DECILE >= 7, and 0
    elsewhere, also where it is missing: those rows are younger than 15.
    """
    rows, schema = load("acs_ma2019")
    # The target is made of PINCP_DECILE, and that of PINCP; PWGTP and WGTP are sampling weights; DENSITY is a function of PUMA.
    schema = without(schema, "PINCP", "PINCP_DECILE", "PWGTP", "WGTP", "DENSITY")
    rows["high_income"] = pd.to_numeric(rows["PINCP_DECILE"]).ge(7).astype(int)
    schema["columns"].append({"name": "high_income", "kind": "nominal", "levels": [0, 1], "nullable": False})
    n_train = int(0.75 * len(rows))
    if split is None:
        is_train = np.isin(np.arange(len(rows)), np.random.default_rng(0).permutation(len(rows))[:n_train])
    else:
        is_train = np.random.default_rng(split).permutation(len(rows)) < n_train
    return (*parts(rows, schema, is_train), schema, "high_income")


TABLES = {"adult": adult, "acs": acs}


def load(name):
    """Return the rows of a table, every cell as it is written, and its schema."""
    folder = Path(os.environ["SKDPSYNTH_DATA"])
    schema = json.loads((folder / f"{name}.schema.json").read_text())
    with open(folder / f"{name}.csv", newline="") as file:
        rows = pd.DataFrame(list(csv.DictReader(file)), dtype=object).replace("", None)
    return rows, {"dataset": name, "columns": schema["columns"]}


def without(schema, *names):
    return {**schema, "columns": [column for column in schema["columns"] if column["name"] not in names]}


def parts(rows, schema, is_train):
    """Return the training and the held-out rows, cells in the types of the schema."""
    rows = typed(rows, schema)
    return rows[is_train].reset_index(drop=True), rows[~is_train].reset_index(drop=True)


def typed(rows, schema):
    """Return the schema's columns of rows: numbers where continuous, else the levels themselves; None or nan is missing."""
    table = {}
    for column in schema["columns"]:
        cells = rows[column["name"]]
        if column["kind"] == "continuous":
            whole = column["integer"] and not column["nullable"]
            table[column["name"]] = pd.to_numeric(cells).astype("int64" if whole else "float64")
        else:
            level_of = {str(level): level for level in column["levels"]} | {"": None}
            spelled = ["" if missing else str(cell) for cell, missing in zip(cells, cells.isna(), strict=True)]
            table[column["name"]] = pd.Series([level_of[cell] for cell in spelled], dtype=object)
    return pd.DataFrame(table)


def read_rows(path, schema):
    """Read a CSV file whose columns are those of the schema, as typed rows."""
    return typed(pd.read_csv(path, dtype=str, keep_default_na=False, na_values=[""]), schema)


def features(rows, target, schema):
    """Columns but the target as numbers: continuous ones scaled by their public bounds, levels one-hot, missing a level of its own."""
    blocks = []
    for column in schema["columns"]:
        cells = rows[column["name"]]
        if column["name"] == target:
            continue
        if column["kind"] == "continuous":
            low, high = column["bounds"]
            blocks.append((cells.to_numpy(float, na_value=low)[:, None] - low) / (high - low))
        else:
            blocks.append(cells.to_numpy()[:, None] == np.array(column["levels"], dtype=object))
        if column["nullable"]:
            blocks.append(cells.isna().to_numpy()[:, None])
    return np.hstack(blocks).astype(float)


def downstream_auc(synthetic, test, target, schema, n_train=8000, seed=0):
    """Mean AUC on held-out real rows of three classifiers trained on at most n_train synthetic ones; the last level is positive."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    (positive,) = (column["levels"][-1] for column in schema["columns"] if column["name"] == target)
    chosen = synthetic.sample(min(n_train, len(synthetic)), random_state=seed)
    X, X_test = (features(rows, target, schema) for rows in (chosen, test))
    y, y_test = ((rows[target] == positive).to_numpy(bool) for rows in (chosen, test))
    if y.all() or not y.any():
        return 0.5
    models = (
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        RandomForestClassifier(200, min_samples_leaf=5, random_state=seed),
        HistGradientBoostingClassifier(max_iter=100, random_state=seed),
    )
    return float(np.mean([roc_auc_score(y_test, model.fit(X, y).predict_proba(X_test)[:, 1]) for model in models]))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in TABLES.items():
        train, _, schema, _ = table(0)
        train.to_csv(folder / f"{name}.csv", index=False)
        (folder / f"{name}.schema.json").write_text(json.dumps(schema, indent=1))
