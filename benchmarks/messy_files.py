"""Files as offices, laboratories and agencies send them, from `schema init` to `evaluate` on the command line.

python benchmarks/messy_files.py [--only bank survey] [--show]

There are twelve made-up tables of 8000 rows, each written in the usual form of its kind: a bank statement (semicolons, decimal commas, a
title, cp1252), a survey of SPSS with labels, a sheet of a clinic, readings of meters in an archive, stop times of a timetable, flights in
Parquet (DECIMAL, DURATION, hhmm), a register in SQLite, a file of an agency (tabs, ":" for missing), a laboratory's (pipes, comments,
"<5"), schools of Stata, orders with rules as text in UTF-16, and coded answers with a code book. `schema init` writes a schema, the script
edits lines of it as a person would (`--show` prints them), and `schema check`, `synthesize` at (1, 1e-6) and `evaluate` follow.

Targets: at most 10 edited lines; exit code 0 of all commands; means of numbers and times within .2 deviations of those of the rows, shares
of levels and of missing cells within .08; each cell in the form of the file; no broken rule.
"""

import argparse
import datetime
import difflib
import json
import os
import re
import sqlite3
import sys
import tempfile
import warnings
import zipfile
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
from click.testing import CliRunner

from skdpsynth.cli._program import program

N = 8000
FAILED = []


def check(what, met):
    if not met:
        print(f"    {what}: MISSED", flush=True)
        FAILED.append(what)


def edited(text, facts):
    """Return a schema with keys of its columns replaced or added ({column: {key: value}}), and lines at its end ("")."""
    lines, column, kinds = [], None, dict(facts)
    whole = kinds.pop("", [])
    for line in text.splitlines():
        found = re.match(r"- name: (.*)", line)
        if (found or re.match(r"\w", line)) and column in kinds:
            lines += [f"  {key}: {value}" for key, value in kinds[column].items() if value is not None]
        column = found[1].strip("'\"") if found else None if re.match(r"\w", line) else column
        key = re.match(r"  (\w+):", line)
        if column in kinds and key and key[1] in kinds[column]:
            value = kinds[column].pop(key[1])
            line = None if value is None else f"  {key[1]}: {value}"
        elif column is None and key and key[1] in kinds.get("read", {}):
            line = f"  {key[1]}: {kinds['read'].pop(key[1])}"
        lines += [] if line is None else [line]
    lines += [f"  {key}: {value}" for key, value in kinds.get(column, {}).items() if value is not None]
    return "\n".join([*lines, *whole]) + "\n"


def count_edits(before, after):
    return sum(
        max(i2 - i1, j2 - j1)
        for what, i1, i2, j1, j2 in difflib.SequenceMatcher(None, before, after, False).get_opcodes()
        if what != "equal"
    )


def run(*arguments):
    """Return (exit code, output) of a command."""
    done = CliRunner().invoke(program, [str(each) for each in arguments])
    return (done.exit_code, done.output) if done.exception is None or isinstance(done.exception, SystemExit) else (-1, repr(done.exception))


def days(rng, first, last):
    first, last = (datetime.date.fromisoformat(each) for each in (first, last))
    return [first + datetime.timedelta(days=int(each)) for each in rng.integers(0, (last - first).days + 1, N)]


def comma(x, decimals):
    return [f"{each:.{decimals}f}".replace(".", ",") for each in x]


# Each maker writes a file, and returns (file, options of init, facts, what cells look like, the rows as they are meant)


def bank(rng):
    booked, amount = days(rng, "2023-01-01", "2024-12-31"), np.round(rng.normal(-20, 150, N), 2)
    kind = rng.choice(["Gebühr", "Überweisung", "Lastschrift"], N, p=[0.1, 0.5, 0.4])
    rows = zip([f"{day:%d.%m.%Y}" for day in booked], comma(amount, 2), kind, strict=True)
    text = "Kontoauszug 2024\n\nBuchungstag;Betrag;Art;Währung\n" + "".join(f"{a};{b};{c};EUR\n" for a, b, c in rows)
    Path("bank.csv").write_bytes(text.encode("cp1252"))
    facts = {
        "Buchungstag": {"bounds": "[2023-01-01, 2024-12-31]", "format": "dd.mm.yyyy"},
        "Betrag": {"bounds": "[-5000, 5000]", "decimals": 2},
        "Art": {"levels": "[Gebühr, Überweisung, Lastschrift]"},
        "Währung": {"kind": "constant", "levels": None, "value": "EUR"},
        "read": {"decimal": '","'},
    }
    forms = {"Buchungstag": r"\d\d\.\d\d\.202[34]", "Betrag": r"-?\d+(\.\d\d?)?", "Währung": "EUR"}
    return "bank.csv", [], facts, forms, pd.DataFrame({"Buchungstag": pd.to_datetime(booked), "Betrag": amount, "Art": kind})


def survey(rng):
    import pyreadstat

    answers = pd.DataFrame({f"q{i}": rng.choice([1.0, 2.0, 3.0, 4.0, 9.0], N, p=[0.3, 0.3, 0.2, 0.1, 0.1]) for i in range(23)})
    labels = {name: {1.0: "never", 2.0: "rarely", 3.0: "often", 4.0: "always", 9.0: "no answer"} for name in answers}
    pyreadstat.write_sav(answers, "survey.sav", variable_value_labels=labels)
    return (
        "survey.sav",
        ["--labels-are-public"],
        {},
        {},
        answers.replace({1: "never", 2: "rarely", 3: "often", 4: "always", 9: "no answer"}),
    )


def clinic(rng):
    import openpyxl

    admitted, weight = days(rng, "2020-01-01", "2024-12-31"), np.round(rng.normal(75, 12, N), 1)
    gone, sex = rng.random(N) < 0.2, rng.choice(["f", "m", "x"], N, p=[0.5, 0.49, 0.01])
    book = openpyxl.Workbook()
    book.active.append(["Clinic of the north, export of 2025"])
    book.active.append(["case_id", "admitted", "weight", "sex", "smokes"])
    smokes = rng.random(N) < 0.3
    for i in range(N):
        book.active.append([f"C{i}", admitted[i], "n/a" if gone[i] else weight[i], sex[i], "yes" if smokes[i] else "no"])
    book.save("clinic.xlsx")
    facts = {
        "admitted": {"bounds": "[2020-01-01, 2024-12-31]"},
        "weight": {"bounds": "[2, 300]", "decimals": 1, "nullable": "true"},
        "sex": {"levels": "[f, m, other]", "other": "other"},
    }
    meant = pd.DataFrame({"admitted": pd.to_datetime(admitted), "weight": np.where(gone, np.nan, weight)})
    meant = meant.assign(sex=np.where(sex == "x", "other", sex), smokes=np.where(smokes, "yes", "no"))
    return "clinic.xlsx", ["--skip", 1], facts, {"admitted": r"\d{4}-\d\d-\d\d", "weight": r"\d+(\.\d)?"}, meant


def meters(rng):
    read = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 365 * 24, N) * 3600, unit="s")
    load, failed = np.round(rng.gamma(3, 0.4, N), 3), rng.random(N) < 0.1
    lines = [
        f"M{i % 40}\t{when:%Y-%m-%d %H:%M}\t{-9999 if bad else x}\n"
        for i, (when, x, bad) in enumerate(zip(read, load, failed, strict=True))
    ]
    with zipfile.ZipFile("meters.zip", "w") as archive:
        archive.writestr("readings.txt", "meter\tread at\tkW\n" + "".join(lines))
    facts = {
        "meter": {"kind": "identifier", "levels": None},
        "read at": {"bounds": "[2024-01-01T00:00:00, 2024-12-31T23:59:59]", "format": '"%Y-%m-%d %H:%M"'},
        "kW": {"bounds": "[0, 20]", "decimals": 3, "missing": "[-9999]"},
    }
    return (
        "meters.zip",
        [],
        facts,
        {"read at": r"2024-\d\d-\d\d \d\d:\d\d"},
        pd.DataFrame({"read at": read, "kW": np.where(failed, np.nan, load)}),
    )


def timetable(rng):
    seconds = np.sort(rng.normal(14, 5, N).clip(4.5, 27) * 60).astype(int) * 60
    stops = rng.choice(["Central", "Harbor", "Airport"], N)
    clock = [f"{s // 3600:02}:{s // 60 % 60:02}:{s % 60:02}" for s in seconds]
    lines = [f"T{i // 20},{time},{stop},{1 + i % 20}\n" for i, (time, stop) in enumerate(zip(clock, stops, strict=True))]
    Path("stop_times.txt").write_text("trip_id,arrival_time,stop,stop_sequence\n" + "".join(lines), encoding="utf-8")
    facts = {
        "arrival_time": {"bounds": '["04:00", "28:00"]'},
        "stop": {"levels": "[Central, Harbor, Airport]"},
        "stop_sequence": {"bounds": "[1, 20]"},
    }
    meant = pd.DataFrame({"arrival_time": pd.to_datetime("1970-01-01") + pd.to_timedelta(seconds, unit="s"), "stop": stops})
    return "stop_times.txt", [], facts, {"arrival_time": r"\d\d:\d\d:\d\d", "stop_sequence": r"\d\d?"}, meant


def flights(rng):
    import pyarrow as pa
    import pyarrow.parquet as pq

    minutes, delay = rng.integers(300, 1440, N), rng.gamma(2, 12, N).astype(int)
    fare = [Decimal(int(cents)).scaleb(-2) for cents in rng.gamma(4, 3000, N)]
    table = {"dep": pa.array(minutes // 60 * 100 + minutes % 60), "fare": pa.array(fare, pa.decimal128(9, 2))}
    table |= {
        "delay": pa.array([datetime.timedelta(minutes=int(each)) for each in delay]),
        "carrier": pa.array(rng.choice(["AA", "UA"], N)),
    }
    pq.write_table(pa.table(table), "flights.parquet")
    facts = {
        "dep": {"kind": "time", "bounds": None, "integer": None, "format": "hhmm"},
        "fare": {"bounds": "[0, 2000]"},
        "delay": {"bounds": "[0 min, 600 min]"},
        "carrier": {"levels": "[AA, UA]"},
    }
    meant = {"fare": np.array(fare, dtype=float), "carrier": table["carrier"].to_pylist()}
    return "flights.parquet", [], facts, {"dep": r"([01]?\d|2[0-3])?[0-5]?\d", "fare": r"\d+\.\d\d"}, pd.DataFrame(meant)


def register(rng):
    born, income = days(rng, "1930-01-01", "2005-12-31"), np.round(rng.lognormal(10, 0.5, N), 0)
    region = rng.choice(["N", "E", "S", "W"], N)
    frame = pd.DataFrame({"person_id": np.arange(N), "born": [f"{day:%Y%m%d}" for day in born], "income": income, "region": region})
    with closing(sqlite3.connect("register.db")) as base:
        frame.to_sql("people", base, index=False)
        frame.head(3).to_sql("log", base, index=False)
    facts = {
        "born": {"kind": "date", "bounds": "[1930-01-01, 2005-12-31]", "format": "yyyymmdd", "integer": None, "levels": None},
        "income": {"bounds": "[0, 500000]"},
        "region": {"levels": "[N, E, S, W]"},
    }
    meant = frame.drop(columns="person_id").assign(born=pd.to_datetime(born))
    return "register.db", ["--table", "people"], facts, {"born": r"\d{8}", "income": r"\d+(\.0)?"}, meant


def agency(rng):
    rate, gone = np.round(rng.normal(6, 2, N).clip(0.5, 20), 1), rng.random(N) < 0.15
    year, geo = rng.integers(2010, 2025, N), rng.choice(["DE", "FR", "IT"], N)
    lines = [f"{g}\t{y}\t{': ' if bad else x}\t\n" for g, y, x, bad in zip(geo, year, rate, gone, strict=True)]
    Path("agency.tsv").write_text("geo\tyear\trate\tflags\n" + "".join(lines), encoding="utf-8")
    facts = {
        "geo": {"levels": "[DE, FR, IT]"},
        "year": {"bounds": "[2010, 2024]"},
        "rate": {"bounds": "[0, 50]", "decimals": 1, "missing": '": "'},
        "flags": {"kind": "identifier", "levels": None, "bounds": None, "integer": None},
    }
    return "agency.tsv", [], facts, {"year": r"20\d\d"}, pd.DataFrame({"geo": geo, "year": year, "rate": np.where(gone, np.nan, rate)})


def laboratory(rng):
    value, low = np.round(rng.lognormal(2.5, 0.5, N), 1), rng.random(N) < 0.1
    taken = days(rng, "2023-01-01", "2023-12-31")
    lines = [
        f"{day:%m/%d/%Y}|{'<5' if below else x}|{'pos' if x > 15 else 'neg'}\n" for day, x, below in zip(taken, value, low, strict=True)
    ]
    Path("laboratory.dat").write_text("# analyzer 7\n# units: mg/l\ntaken|crp|result\n" + "".join(lines), encoding="utf-8")
    facts = {
        "taken": {"bounds": "[2023-01-01, 2023-12-31]", "format": "mm/dd/yyyy"},
        "crp": {"kind": "continuous", "levels": None, "bounds": "[0, 300]", "decimals": 1, "missing": '["<5"]'},
        "result": {"levels": "[neg, pos]"},
    }
    meant = pd.DataFrame(
        {"taken": pd.to_datetime(taken), "crp": np.where(low, np.nan, value), "result": np.where(value > 15, "pos", "neg")}
    )
    return "laboratory.dat", [], facts, {"taken": r"\d\d/\d\d/2023"}, meant


def schools(rng):
    import pyreadstat

    score, kind = np.round(rng.normal(500, 90, N), 0), rng.choice([1, 2], N, p=[0.7, 0.3])
    tested = days(rng, "2022-09-01", "2023-06-30")
    frame = pd.DataFrame({"school_id": np.arange(N), "score": score, "sector": kind, "tested": tested})
    pyreadstat.write_dta(frame, "schools.dta", variable_value_labels={"sector": {1: "public", 2: "private"}})
    facts = {"score": {"bounds": "[0, 1000]"}, "tested": {"bounds": "[2022-09-01, 2023-06-30]"}}
    meant = pd.DataFrame({"score": score, "sector": np.where(kind == 1, "public", "private"), "tested": pd.to_datetime(tested)})
    return "schools.dta", ["--labels-are-public"], facts, {"tested": r"\d{4}-\d\d-\d\d"}, meant


def orders(rng):
    net, shipping = np.round(rng.gamma(2, 20, N) / 0.05) * 0.05, rng.choice([0, 4.95], N)
    placed = np.array(days(rng, "2024-01-01", "2024-11-30"), dtype="M8[D]")
    sent, country = placed + rng.integers(0, 15, N), rng.choice(["AT", "DE", "LI", "LU"], N, p=[0.3, 0.65, 0.03, 0.02])
    rows = zip(placed, sent, net, shipping, net + shipping, country, strict=True)
    text = "placed\tsent\tnet\tshipping\ttotal\tcountry\n" + "".join(
        f"{a}\t{b}\t{c:.2f}\t{d:.2f}\t{e:.2f}\t{f}\n" for a, b, c, d, e, f in rows
    )
    Path("orders.txt").write_bytes(text.encode("utf-16"))
    facts = {
        "placed": {"bounds": "[2024-01-01, 2024-12-31]"},
        "sent": {"bounds": "[2024-01-01, 2024-12-31]"},
        "net": {"bounds": "[0, 500]"},
        "shipping": {"bounds": "[0, 10]"},
        "total": {"bounds": "[0, 510]"},
        "country": {"levels": "[AT, DE, other]", "other": "other"},
        "": ["rules:", "- placed <= sent", "- total = net + shipping"],
    }
    meant = pd.DataFrame({"placed": placed.astype("M8[s]"), "sent": sent.astype("M8[s]"), "net": net, "total": net + shipping})
    return (
        "orders.txt",
        [],
        facts,
        {"placed": r"2024-\d\d-\d\d"},
        meant.assign(country=np.where(np.isin(country, ["LI", "LU"]), "other", country)),
    )


def coded(rng):
    answers = pd.DataFrame({f"v{i}": rng.choice([1, 2, 3, 9], N, p=[0.5, 0.3, 0.1, 0.1]) for i in range(23)})
    answers.to_csv("coded.csv", index=False)
    book = "name,kind,levels,missing\n" + "".join(f"v{i},ordinal,1..5,9\n" for i in range(23))
    Path("book.csv").write_text(book, encoding="utf-8")
    return (
        "coded.csv",
        ["--codebook", "book.csv"],
        {},
        {"v0": "[1-5]?"},
        answers.astype(float).replace(9, np.nan).astype("Int64").astype("string"),
    )


MAKERS = [bank, survey, clinic, meters, timetable, flights, register, agency, laboratory, schools, orders, coded]


def as_meant(cells, meant):
    """Return cells of the result as what the rows are meant to be."""
    if meant.dtype.kind == "M":
        formats = {"[0-9]{2}\\.": "%d.%m.%Y", "[0-9]{2}/": "%m/%d/%Y", "[0-9]{8}$": "%Y%m%d"}
        if re.match(r"\d\d:", cells.dropna().iloc[0]):
            return pd.to_datetime("1970-01-01") + pd.to_timedelta(cells)
        return pd.to_datetime(
            cells, format=next((form for start, form in formats.items() if re.match(start, cells.dropna().iloc[0])), None)
        )
    return pd.to_numeric(cells) if meant.dtype.kind in "iuf" else cells


def compare(name, made, meant):
    for column, real in meant.items():
        cells = as_meant(made[column], real)
        check(
            f"{name}, {column}: missing cells {cells.isna().mean():.3f} ({real.isna().mean():.3f})",
            abs(cells.isna().mean() - real.isna().mean()) <= 0.08,
        )
        if real.dtype.kind in "iufM":
            off = (cells.mean() - real.mean()) / real.std()
            check(f"{name}, {column}: mean off by {off:.2f} deviations", abs(off) <= 0.2)
        else:
            shares = pd.concat([each.dropna().astype(str).value_counts(normalize=True) for each in (cells, real)], axis=1).fillna(0)
            check(f"{name}, {column}: shares off by {np.ptp(shares, axis=1).max():.3f}", np.ptp(shares, axis=1).max() <= 0.08)


def follow(maker, show):
    name, failed = maker.__name__, len(FAILED)
    file, options, facts, forms, meant = maker(np.random.default_rng(0))
    steps = {"init": run("schema", "init", file, "-o", "s.yaml", "--force", *options)}
    before = Path("s.yaml").read_text(encoding="utf-8")
    after = edited(before, {key: dict(value) if isinstance(value, dict) else value for key, value in facts.items()})
    Path("s.yaml").write_text(after, encoding="utf-8")
    n_edits = count_edits(before.splitlines(), after.splitlines())
    if show:
        print(
            "\n".join(line for line in difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0) if line[0] in "+-")
        )
    steps["check"] = run("schema", "check", file, "--schema", "s.yaml")
    steps["synthesize"] = run("synthesize", file, "--schema", "s.yaml", "--epsilon", 1, "--delta", 1e-6, "-o", "out.csv", "--force")
    steps["evaluate"] = run("evaluate", file, "out.csv", "--schema", "s.yaml", "--json")
    for step, (code, said) in steps.items():
        check(f"{name}, {step}: exit code {code}, {said[-300:]}", code == 0)
    if len(FAILED) == failed:
        made = pd.read_csv("out.csv", dtype=str, keep_default_na=False, na_values=[""])
        for column, form in forms.items():
            odd = made[column].dropna()[~made[column].dropna().str.fullmatch(form)]
            check(f"{name}, {column}: {len(odd)} cells in another form, {odd.head(2).tolist()}", odd.empty)
        compare(name, made, meant)
        told = json.loads(steps["evaluate"][1][steps["evaluate"][1].index("{") :])
        check(f"{name}: a rule is broken", "rule" not in str(told.get("broken", "")))
    check(f"{name}: {n_edits} edited lines", n_edits <= 10)
    print(
        f"{file:16} {n_edits:2} edited lines, {len(meant.columns):2} columns compared: {'met' if len(FAILED) == failed else 'MISSED'}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[each.__name__ for each in MAKERS])
    parser.add_argument("--show", action="store_true", help="print the edited lines")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for maker in MAKERS:
            if not args.only or maker.__name__ in args.only:
                follow(maker, args.show)
        os.chdir("/")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
