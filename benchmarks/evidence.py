"""How often `privacy_evidence` suspects an innocent model, which copies it finds, and how near guesses come to what epsilon allows.

    python benchmarks/evidence.py [--repeats 400] [--rows 1000] [--only innocent|guilty|adult]

Each run draws new tables of people: two of numbers, one with missing cells, one of dates, two of levels. *Innocent*: fresh rows of the same
distribution (the exact null), a model of independent columns, and `LatentFactorSynthesizer` at epsilon 1 (a tenth of the runs: each is a
fit). At the stated 99 % confidence, each interval holds 0 in 99 % of runs, and each measure suspects in 0.5 %. *Guilty*: rows drawn from
the training rows with replacement, the same with noise of 1 % of the usual range on every number, fresh rows with some copies among them,
and independent columns with one column of days drawn from the training rows. All guesses are compared with a ledger of epsilon 1.

*adult*: the table of $SKDPSYNTH_DATA, halves of 10,000 of its rows drawn anew in each of five runs. The attacker knows age, sex, race,
marital status and education, and guesses all other columns, of rows of the fit and of rows set aside.
"""

import argparse
import os
import warnings

import numpy as np
import pandas as pd
from mixed_data import adult

from skdpsynth import LatentFactorSynthesizer, PrivacyAccountant
from skdpsynth.auditing import privacy_evidence
from skdpsynth.domain import Continuous, Date, Schema

FIRST = pd.Timestamp("2024-01-01")
SCHEMA = {
    "age": Continuous(18, 99, integer=True),
    "income": Continuous(0, 1_000_000, nullable=True),
    "visit": Date("2024-01-01", "2024-12-31"),
    "job": list("abcd"),
    "sick": [False, True],
}
MEASURES = ("exact_copies", "near_copies", "closest_record", "membership", "attributes")


KNOWN = ["age", "sex", "race", "marital_status", "education"]
LEDGER = PrivacyAccountant(1)
LEDGER.spend(1, name="a release")


def people(n_rows, rng):
    """Made-up people, whose columns depend on each other."""
    age = rng.integers(18, 99, n_rows)
    income = np.exp(9 + age / 60 + 0.7 * rng.normal(size=n_rows))
    income[rng.random(n_rows) < 0.1] = np.nan
    visit = FIRST + pd.to_timedelta(rng.integers(0, 366, n_rows), unit="D")
    job, sick = np.array(list("abcd"))[rng.integers(0, 4, n_rows)], rng.random(n_rows) < age / 200
    return pd.DataFrame({"age": age, "income": income, "visit": visit, "job": job, "sick": sick})


def independent(train, rng):
    """Each column by itself, by few numbers: frequencies of levels, mean and deviation of numbers, days even over the year."""
    n_rows = len(train)
    age = rng.normal(train["age"].mean(), train["age"].std(), n_rows).round().clip(18, 99).astype(int)
    logs = np.log(train["income"].dropna())
    income = np.exp(rng.normal(logs.mean(), logs.std(), n_rows))
    income[rng.random(n_rows) < train["income"].isna().mean()] = np.nan
    visit = FIRST + pd.to_timedelta(rng.integers(0, 366, n_rows), unit="D")
    job, sick = (train[name].to_numpy()[rng.integers(0, n_rows, n_rows)] for name in ("job", "sick"))
    return pd.DataFrame({"age": age, "income": income, "visit": visit, "job": job, "sick": sick})


def days_drawn(train, rng):
    """The same, but for the days, which are drawn from the training rows: the frequencies of 366 days are learned by heart."""
    rows = independent(train, rng)
    rows["visit"] = train["visit"].to_numpy()[rng.integers(0, len(train), len(train))]
    return rows


def jittered(train, rng):
    """Rows drawn with replacement, whose numbers have noise of 1 % of their usual range."""
    rows = train.iloc[rng.integers(0, len(train), len(train))].reset_index(drop=True)
    for name in ("age", "income"):
        reach = 0.01 * (train[name].quantile(0.95) - train[name].quantile(0.05))
        noisy = rows[name] + reach * rng.normal(size=len(rows))
        rows[name] = noisy.round().clip(18, 99).astype(int) if name == "age" else noisy.clip(0)
    return rows


def partly(share):
    """Return a synthesizer of fresh rows, of which a share are copies."""

    def made(train, rng):
        rows, copies = people(len(train), rng), int(share * len(train))
        return pd.concat([rows.iloc[copies:], train.iloc[rng.integers(0, len(train), copies)]], ignore_index=True)

    return made


def private(train, rng):
    """A fit at epsilon 1."""
    return LatentFactorSynthesizer(SCHEMA, epsilon=1.0).fit(train).sample()


INNOCENT = {"fresh rows": (partly(0.0), 1), "independent columns": (independent, 1), "epsilon 1": (private, 10)}
GUILTY = {
    "days learned by heart": (days_drawn, 1),
    "drawn from the rows": (partly(1.0), 10),
    "with noise of 1 %": (jittered, 10),
    "a tenth copied": (partly(0.1), 10),
    "1 % copied": (partly(0.01), 10),
}


def found(synthesizer, n_repeats, n_rows, seed):
    """Return, for each run and measure, whether the interval holds 0 and whether rows stand out, its guesses and whether they refute."""
    holds, suspected, refuted, gained = (np.zeros((n_repeats, len(MEASURES))) for _ in range(4))
    for run in range(n_repeats):
        rng = np.random.default_rng([seed, run])
        train, holdout = people(n_rows, rng), people(n_rows, rng)
        evidence = privacy_evidence(synthesizer(train, rng), train, holdout, SCHEMA, random_state=run, accountant=LEDGER)
        gaps = [evidence.gaps[name] for name in MEASURES]
        holds[run] = [gap.low <= 0 <= gap.high for gap in gaps]
        suspected[run] = [gap.is_found for gap in gaps]
        refuted[run] = [gap.guesses.is_refuted for gap in gaps]
        gained[run] = [gap.guesses.advantage_low for gap in gaps]
    return holds, suspected, refuted, gained


def count(title, makers, repeats, n_rows):
    print(title)
    for seed, (name, (synthesizer, fewer)) in enumerate(makers.items()):
        n_repeats = max(repeats // fewer, 1)
        holds, suspected, refuted, gained = found(synthesizer, n_repeats, n_rows, seed)
        cells = zip(MEASURES, suspected.sum(axis=0), holds.sum(axis=0), strict=True)
        told = "  ".join(f"{f'{suspects:.0f} ({held:.0f})':>{len(measure)}}" for measure, suspects, held in cells)
        print(
            f"{name:24}{n_repeats:4}  {told}  {suspected.any(axis=1).sum():3}  {refuted.any(axis=1).sum():7}  {gained.max():.2f}",
            flush=True,
        )


def real_people():
    """Attack fits of adult with quasi-identifiers, and rows drawn from the rows of the fit."""
    table, _, facts, _ = adult()
    schema = Schema.from_json(facts)
    lines = {}
    for run in range(5):
        rng = np.random.default_rng(run)
        rows = table.iloc[rng.choice(len(table), 10_000, replace=False)].reset_index(drop=True)
        train, holdout = rows[:5000], rows[5000:]
        made = {f"epsilon {epsilon:g}": LatentFactorSynthesizer(schema, epsilon=epsilon, delta=1e-6).fit(train) for epsilon in (1.0, 10.0)}
        for name, model in {**made, "drawn from the rows": train.sample(5000, replace=True, random_state=run)}.items():
            ledger = None if hasattr(model, "accountant_") else LEDGER
            evidence = privacy_evidence(model, train, holdout, schema, known=KNOWN, random_state=run, accountant=ledger)
            for measure in MEASURES:
                lines.setdefault((name, measure), []).append(evidence.gaps[measure])
    print("adult, of five runs: rows of the fit, set aside, difference; advantage of guesses, its exact interval, what epsilon allows")
    for (name, measure), gaps in lines.items():
        means = [np.mean([getattr(gap, part) for gap in gaps]) for part in ("train", "holdout", "difference")]
        parts = ("advantage", "advantage_low", "advantage_high", "allowed")
        gain, low, high, allowed = (np.mean([getattr(gap.guesses, part) for gap in gaps]) for part in parts)
        found, refuted = sum(gap.is_found for gap in gaps), sum(gap.guesses.is_refuted for gap in gaps)
        told = f"{means[0]:16.4f}{means[1]:12.4f}{means[2]:+12.4f}{gain:+12.3f}{f'{low:+.3f} to {high:+.3f}':>18}{allowed:9.4f}"
        print(f"{name:20}{measure:24}{told}  found {found}, refuted {refuted}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--only", choices=("innocent", "guilty", "adult"))
    arguments = parser.parse_args()
    if arguments.only != "adult":
        print(f"{'':24}runs  {'  '.join(MEASURES)}  any  refuted  largest lower end of an advantage ({np.tanh(0.5):.2f} is allowed)")
    for title, makers in (("innocent", INNOCENT), ("guilty", GUILTY)):
        if arguments.only in (None, title):
            count(title, makers, arguments.repeats, arguments.rows)
    print("suspected in so many runs (interval holds 0 in so many)")
    if arguments.only in (None, "adult"):
        real_people() if "SKDPSYNTH_DATA" in os.environ else print("adult: left out, because SKDPSYNTH_DATA names no folder")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
