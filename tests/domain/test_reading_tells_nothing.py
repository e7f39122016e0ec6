"""Reading tells nothing: one row more or another, and with the same answers everything is equal that anybody sees.

A fit that raises, warns, logs, names, types, shapes or writes otherwise on a neighbor would tell of a row without noise. Each case fits a
table, and its neighbor whose one row has an odd cell in every column, and gives both the same answers. Since a chain of neighbors must
look like its first, odd rows that give a column the same dtype come together, in one table, and so do all odd lines of a CSV file.
"""

import datetime
import decimal
import itertools
import logging
import math
import sqlite3
import warnings
from contextlib import ExitStack, closing
from unittest.mock import patch

import numpy as np
import pandas as pd
import polars as pl
import pytest
from internals import _csv, _latent_factors, full_state, released_state, serialized_bytes, watch_releases
from sources import cut, dask, duck

from skdpsynth import LatentFactorSynthesizer, LowDimSynthesizer, OnlineSynthesizer, PrivateMeasureMechanism, PrivatePCA
from skdpsynth.domain import (
    Boolean,
    Constant,
    Continuous,
    Date,
    DateTime,
    Derived,
    Duration,
    Identifier,
    Nominal,
    Ordinal,
    Schema,
    TimeOfDay,
)
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.tables import read_columns

N, PLACE = 120, 77
PUBLIC = {
    "whole": Continuous(0, 9),
    "real": Continuous(0.0, 1.0, nullable=True),
    "word": Nominal(["a", "b", "NA"]),
    "code": Nominal([1, 2, 3], nullable=True),
    "flag": Nominal([False, True], nullable=True),
    "grade": Ordinal(["low", "high"], nullable=True),
    "day": Date("2020-01-01", "2020-12-31", nullable=True),
    "id": Identifier(),
}
PRIVATE = PUBLIC | {"whole": Continuous(bounds="private"), "word": Nominal("private"), "code": Nominal("private", nullable=True)}
STATED = {
    "whole": Continuous(0, 9, missing=[9, "odd"], nullable=False),
    "real": Continuous(0.0, 1.0, missing=[-1], decimals=2),
    "word": Nominal(["a", "b"], other="else"),
    "code": Ordinal("1..3", missing=[7], other=4),
    "flag": Boolean(nullable=True),
    "grade": Ordinal(["low", "high"], missing=["odd", "?"], other="else"),
    "day": Date("2020-01-01", "2020-12-31", missing=["2020-05-05"]),
    "id": Constant(1),
}
FACTS = {"public": Schema(PUBLIC), "private": Schema(PRIVATE), "stated": Schema(STATED)}
ROWS = {
    "whole": [3, 4, 5],
    "real": [0.25, 0.5, 0.75],
    "word": ["a", "b", "a"],
    "code": [1, 2, 3],
    "flag": [True, False, True],
    "grade": ["low", "high", "low"],
    "day": [datetime.date(2020, 2, 1), datetime.date(2020, 3, 1), datetime.date(2020, 4, 1)],
    "id": [1, 2, 3],
}


def columns():
    return {name: list(itertools.islice(itertools.cycle(cells), N)) for name, cells in ROWS.items()}


def neighbor(odd, relation):
    """The columns with odd rows, one or a list of them, in place of others or more."""
    table, odd = columns(), odd if isinstance(odd, list) else [odd]
    for name, cells in table.items():
        some = [row[name] if isinstance(row, dict) else row for row in odd]
        cells[PLACE : PLACE + len(odd) * (relation == "replace_one")] = some
    return table


# Cells of objects, of which pandas and numpy make the dtype that suits them

OBJECTS = {
    "not whole": 2.5,
    "none": None,
    "missing": math.nan,
    "huge": 10.0**300,
    "infinite": math.inf,
    "beyond 64 bits": 2**70,
    "boolean": True,
    "texts": ["odd", "1,5", "2", "", "a\0", "a\rb", "x" * 5000],
    "surrogate": "\ud800",
    "objects": [b"\xff", decimal.Decimal("sNaN"), datetime.date(2020, 5, 5), "odd", None, 2.5, 2**70],
}
# Dtypes that hold no other cells: these are as odd as they get.
ODD = {
    "missing": [None] * 8,
    "beyond": [10**9, 1e300, "odd", 9, None, "", datetime.date(1800, 1, 1), 9],
    "other": [2, math.nan, "x" * 5000, -1, True, "a\0", None, None],
    "infinite": [0, -math.inf, "1,5", None, None, "\r\n", None, 0],
}
TYPED = {name: dict(zip(ROWS, cells, strict=True)) for name, cells in ODD.items()}


def typed(table):
    schema = {"whole": pl.Int64, "real": pl.Float64, "word": pl.String, "code": pl.Int64, "flag": pl.Boolean, "grade": pl.String}
    return pl.DataFrame(table, schema=schema | {"day": pl.Date, "id": pl.Int64}, strict=True)


def fixed(table):
    """A frame of pandas whose dtypes the caller has fixed; what they cannot hold is missing or an object."""
    frame = pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in table.items()})
    return frame.assign(real=np.array([cell if isinstance(cell, int | float) else math.nan for cell in table["real"]], dtype="float64"))


def parquet(table, folder):
    typed(table).write_parquet(folder / "rows.parquet")
    return folder / "rows.parquet"


def declared(table, folder, suffix):
    """A file of Stata or SPSS, whose types are declared; they hold no numbers beyond their floats."""
    pyreadstat = pytest.importorskip("pyreadstat")
    frame = pd.DataFrame(typed(table).to_dict(as_series=False)).drop(columns="flag").assign(flag=[float(c or 0) for c in table["flag"]])
    frame = frame.assign(**{name: frame[name].astype(float).clip(-1e9, 1e9) for name in ("whole", "real", "code", "id")})
    words = {name: [str(cell or "")[:200].replace("\0", "") for cell in table[name]] for name in ("word", "grade")}
    begin, unit = (datetime.date(1960, 1, 1), 1) if suffix == "dta" else (datetime.date(1582, 10, 14), 86_400)
    days = [(cell - begin).days * unit if isinstance(cell, datetime.date) else math.nan for cell in table["day"]]
    frame = frame.assign(**words, day=days)[list(ROWS)]
    write, form = (pyreadstat.write_dta, "%td") if suffix == "dta" else (pyreadstat.write_sav, "DATE11")
    write(frame, folder / f"rows.{suffix}", variable_format={"day": form})
    return folder / f"rows.{suffix}"


def plain(cell):
    """A cell that SQLite and sheets can hold."""
    if isinstance(cell, decimal.Decimal) or (isinstance(cell, int) and abs(cell) >= 2**63):
        return str(cell)
    if isinstance(cell, bytes):
        return None
    return cell.isoformat() if isinstance(cell, datetime.date) else None if isinstance(cell, float) and math.isnan(cell) else cell


def database(table, folder):
    (folder / "rows.db").unlink(missing_ok=True)
    with closing(sqlite3.connect(folder / "rows.db")) as base, base:
        base.execute(f"create table rows ({', '.join(ROWS)})")
        rows = zip(*([plain(cell) for cell in cells] for cells in table.values()), strict=True)
        base.executemany("insert into rows values (?,?,?,?,?,?,?,?)", rows)
    return folder / "rows.db"


def sheet(table, folder):
    book = pytest.importorskip("openpyxl").Workbook()
    book.active.append(list(ROWS))
    for row in zip(*table.values(), strict=True):
        row = [cell if isinstance(cell, datetime.date) else plain(cell) for cell in row]
        book.active.append([cell.encode("utf-8", "replace").decode().replace("\0", "") if isinstance(cell, str) else cell for cell in row])
        for cell in book.active[book.active.max_row] if 10.0**300 in row else ():
            cell.number_format = "yyyy-mm-dd"  # of which openpyxl warns, with the cell
    book.save(folder / "rows.xlsx")
    return folder / "rows.xlsx"


OF_OBJECTS = {
    "pandas": lambda table, folder: pd.DataFrame(table),
    "array": lambda table, folder: np.array(
        [*zip(*(np.array([*cells, None], dtype=object)[:-1] for cells in table.values()), strict=True)], dtype=object
    ),
    "pandas, dtypes fixed": lambda table, folder: fixed(table),
    "chunks of pandas": lambda table, folder: cut(pd.DataFrame(table), 7, 70),
    "chunks, each by itself": lambda table, folder: [
        pd.DataFrame({name: cells[start:stop] for name, cells in table.items()}) for start, stop in ((0, 7), (7, 70), (70, None))
    ],
    "iterator of pandas": lambda table, folder: iter(cut(pd.DataFrame(table), 7, 70)),
    "dask": lambda table, folder: dask(pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in table.items()}), 3),
}
OF_TYPES = {
    "polars": lambda table, folder: typed(table),
    "polars lazy": lambda table, folder: typed(table).lazy(),
    "arrow": lambda table, folder: typed(table).to_arrow(),
    "parquet": parquet,
    "duckdb": lambda table, folder: duck(typed(table)),
    "stata": lambda table, folder: declared(table, folder, "dta"),
    "spss": lambda table, folder: declared(table, folder, "sav"),
}
# Cells that have types of their own, each of which is read as text
OF_CELLS = {"sqlite": lambda table, folder: database(table, folder), "xlsx": lambda table, folder: sheet(table, folder)}

# Lines of a CSV file

LINES = {
    "word": b",".join([b"odd"] * 8),
    "number with a comma": b'"1,5","1,5","1,5","1,5","1,5","1,5","1,5","1,5"',
    "not whole": b"2.5,2.5,2.5,2.5,2.5,2.5,2.5,2.5",
    "empty": b",,,,,,,",
    "missing": b"NA,NaN,NA,null,NA,nan,NA,NA",
    "huge": b"1e300,1e400,1e300,99999999999999999999999,1e300,1e300,1e300,1e300",
    "infinite": b"inf,-inf,inf,inf,inf,inf,inf,inf",
    "surrogate": b"\xed\xa0\x80,\xed\xa0\x80,\xed\xa0\x80,\xed\xa0\x80,\xed\xa0\x80,\xed\xa0\x80,\xed\xa0\x80,\xed\xa0\x80",
    "no UTF-8": b"\xff,\xff,\xff,\xff,\xff,\xff,\xff,\xff",
    "NUL": b"1\0,\0,a\0,1\0,\0,low\0,\0,\0",
    "lone return": b"1\r,0.5\r,a\r,1\r,true\r,low\r,2020-01-01\r,1\r",
    "lone return within": b"1,0.5,a,1,true,low,2020-01-01\r2,1",
    "date": b"2020-05-05,2020-05-05,2020-05-05,2020-05-05,2020-05-05,2020-05-05,2020-05-05,1",
    "text of numbers": b'"2"," 0.5 ","b"," 2","TRUE","high","2020-05-05","x"',
    "quotes within": b'2",0.5",b",1",true",low",2020-01-01",1"',
    "text after a quote": b'"2"x,"0.5"x,"b"x,"1"x,"true"x,"low"x,"2020-01-01"x,"1"x',
    "one cell more": b"1,0.5,a,1,true,low,2020-01-01,1,9",
    "one cell": b"1",
    "no cell": b"",
    "open quote": b'1,0.5,"a,1,true,low,2020-01-01,1',
    "open quote at the end": b'1,0.5,a,1,true,low,2020-01-01,"1',
    "longer than a block": b"1,0.5," + b"x" * 3000 + b",1,true,low,2020-01-01,1",
    "longer than a line may be": b"1,0.5," + b"x" * 9000 + b",1,true,low,2020-01-01,1",
    "packed zeros": b"\x1f\x8b\x08",
    "mark of the encoding": b"\xef\xbb\xbf3,0.25,a,1,true,low,2020-02-01,1",
}
GOOD = [b"3,0.25,a,1,true,low,2020-02-01,1", b"4,0.5,b,2,false,high,2020-03-01,2", b"5,0.75,a,3,true,low,2020-04-01,3"]
ENDS = {"csv": b"\n", "csv with returns": b"\r\n", "csv without a last end": b"\n"}
AT_THE_END = ("word", "empty", "lone return within", "one cell", "open quote at the end", "longer than a line may be")


def csv_of(lines, folder, kind):
    text = ENDS[kind].join([b"whole,real,word,code,flag,grade,day,id", *lines, b""])
    (folder / "rows.csv").write_bytes(text if kind != "csv without a last end" else text.removesuffix(b"\n"))
    return folder / "rows.csv"


def lines(odd=(), relation="replace_one", n=N, place=PLACE, good=GOOD):
    some = list(itertools.islice(itertools.cycle(good), n))
    some[place : place + len(odd) * (relation == "replace_one")] = odd
    return some


# What anybody sees


class Answers:
    """The answers of one fit, noise, choices and discoveries, which come out again for its neighbors."""

    def __init__(self):
        self.draws, self.found = None, []

    def seen(self, make, table, with_files):
        """Return all that is seen of a fit: an error, or state, sample, files, warnings and log lines."""
        discover, found = PrivacyAccountant.release_discovered, iter(list(self.found))

        def again(account, tables, chosen, rng, *, name):
            answer = discover(account, tables, chosen, rng, name=name)
            if self.draws is not None:
                return next(found)
            self.found.append(answer)
            return answer

        records = []
        handler = logging.Handler()
        handler.emit = lambda record: records.append(record.getMessage())
        logging.getLogger().addHandler(handler)
        with ExitStack() as stack:
            stack.callback(logging.getLogger().removeHandler, handler)
            told = stack.enter_context(warnings.catch_warnings(record=True))
            warnings.simplefilter("always")
            stack.enter_context(patch.object(PrivacyAccountant, "release_discovered", again))
            door = stack.enter_context(watch_releases(self.draws))
            try:
                model = make(table)
                is_open = isinstance(model, OnlineSynthesizer)  # which holds the rows of its open block
                state = released_state(model) if is_open else full_state(model)
                shown = {"state": state, "sample": of_table(model.sample(5, random_state=0))}
                if with_files and not is_open:
                    shown["files"] = serialized_bytes(model)
            except (TypeError, ValueError, OSError, ArithmeticError, UnicodeError) as error:
                shown = {"error": (type(error), str(error))}
            draws = door.take()
        if self.draws is None:
            self.draws = draws
        shown["releases"] = [(draw.name, draw.values.shape, repr(draw.noise)) for draw in draws]
        return shown | {"warnings": sorted({str(each.message) for each in told}), "log": records}


def of_table(table):
    """Columns, dtypes and cells of a sample."""
    if isinstance(table, np.ndarray):
        return "array", str(table.dtype), repr(table.tolist())
    columns = table.column_names if hasattr(table, "column_names") else list(table.columns)
    types = table.schema.types if hasattr(table, "column_names") else table.dtypes
    return type(table).__module__, columns, list(map(str, types)), repr([list(table[name]) for name in columns])


def check_equal(make, base, others):
    """Fit a table and its neighbors, which are made when they are needed, with the same answers; none may look otherwise."""
    answers = Answers()
    expected = answers.seen(make, base(), True)
    assert "error" not in expected, expected
    for name, other in others.items():
        try:
            table = other()
        except (UnicodeError, TypeError, ValueError, ArithmeticError):  # which that library cannot even hold
            continue
        found = answers.seen(make, table, name == "missing")  # what is held is what files are made of
        for what in expected.keys() & found.keys() | {"error", "state"}:
            assert str(found.get(what)) == str(expected.get(what)), (name, what)


def synthesizer(facts, relation, **more):
    delta = 1e-3 if facts == "private" else 0.0
    return LatentFactorSynthesizer(FACTS[facts], n_factors=1, epsilon=1.0, delta=delta, neighboring=relation, random_state=3, **more)


relations = pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])


def cases(kinds):
    """Each kind of table by each kind of facts under one relation, and the first kind by all."""
    some = [("private", "add_or_remove_one"), ("public", "replace_one"), ("stated", "replace_one"), ("stated", "add_or_remove_one")]
    some += [("public", "add_or_remove_one"), ("private", "replace_one")]
    listed = [pytest.param(kind, *case) for place, kind in enumerate(kinds) for case in some[: 3 if place else 6]]
    listed[0] = pytest.param(*listed[0].values, marks=pytest.mark.must)
    return pytest.mark.parametrize(("kind", "facts", "relation"), listed)


pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Blocks are so small that a file has several."""
    monkeypatch.setattr(_latent_factors, "_STEPS", 1)
    monkeypatch.setattr(_csv, "_BLOCK", 1000)
    monkeypatch.setattr(_csv, "_LONGEST", 8000)


@cases(OF_OBJECTS)
def test_objects_tell_nothing(kind, facts, relation, tmp_path):
    def made(table):
        return OF_OBJECTS[kind](table, tmp_path)

    schema = FACTS[facts]
    if kind == "array":
        schema = Schema({place: schema[name] for place, name in enumerate(schema)})
    model = synthesizer(facts, relation).set_params(schema=schema)
    odd = {name: lambda cell=cell: made(neighbor(cell, relation)) for name, cell in OBJECTS.items()}
    check_equal(lambda table: type(model)(**model.get_params()).fit(table), lambda: made(columns()), odd)


@cases(OF_TYPES)
def test_columns_of_a_type_tell_nothing(kind, facts, relation, tmp_path):
    if kind == "polars lazy" and not hasattr(pl.LazyFrame, "collect_batches"):
        pytest.skip("needs polars 1.34")
    pytest.importorskip("pyarrow")
    odd = {name: lambda cells=cells: OF_TYPES[kind](neighbor(cells, relation), tmp_path) for name, cells in TYPED.items()}
    check_equal(lambda table: synthesizer(facts, relation).fit(table), lambda: OF_TYPES[kind](columns(), tmp_path), odd)


@cases(OF_CELLS)
def test_cells_with_types_of_their_own_tell_nothing(kind, facts, relation, tmp_path):
    pytest.importorskip("pyarrow")
    odd = {name: lambda cell=cell: OF_CELLS[kind](neighbor(cell, relation), tmp_path) for name, cell in OBJECTS.items()}
    check_equal(lambda table: synthesizer(facts, relation).fit(table), lambda: OF_CELLS[kind](columns(), tmp_path), odd)


DAYS = [datetime.date(2020, 2, 1), datetime.date(2020, 3, 1)]
USUAL = [["a", "b"], [0, 1], [0.5, 1.5], [True, False], [np.True_, "no"], [1, None], ["yes", None], DAYS]
STRANGE = [[1], {}, object(), decimal.Decimal("sNaN"), 1j, np.array([1, 2]), type("Mine", (), {})(), "x", None, True, 2.5, 10**400]
READ = [
    kind(**facts, nullable=nullable)
    for nullable in (False, True)
    for kind, facts in (
        (Boolean, {}),
        (Boolean, {"words": ("no", "yes")}),
        (Nominal, {"levels": ["a", "b"]}),
        (Nominal, {"levels": [False, True]}),
        (Nominal, {"levels": "private"}),
        (Ordinal, {"levels": [0, 1, 2]}),
        (Continuous, {"low": 0, "high": 9}),
        (Continuous, {"bounds": "private"}),
        (Date, {"low": "2020-01-01", "high": "2020-12-31"}),
    )
]


@pytest.mark.must
@pytest.mark.parametrize("kind", READ, ids=repr)
def test_no_cell_of_objects_decides_how_another_is_read(kind):
    for usual, strange in itertools.product(USUAL, STRANGE):
        alone, beside = (pd.Series([*usual, cell, *usual], dtype=object) for cell in (usual[0], strange))
        first, second = (read_columns([column], Schema({"a": kind}), ["object"])[0] for column in (alone, beside))
        others = [0, 1, 3, 4]
        np.testing.assert_array_equal(first[others], second[others], err_msg=f"{usual} {strange!r}")


FORMS = {
    "semicolons, in Latin": ({"separator": ";", "decimal": ",", "encoding": "cp1252", "comment": "#", "skip": 1}, b"Report\n# made\n"),
    "tabs, in UTF-16": ({"separator": "\t", "encoding": "utf-16"}, b""),
}


@pytest.mark.parametrize("form", FORMS)
@relations
def test_text_in_other_forms_tells_nothing(form, relation, tmp_path):
    pytest.importorskip("pyarrow")
    read, start = FORMS[form]

    def path_of(some):
        text = csv_of(some, tmp_path, "csv").read_bytes().replace(b",", read["separator"].encode())
        coded = text.decode("utf-8", "replace").encode("utf-16") if "16" in read["encoding"] else text
        (tmp_path / "rows.txt").write_bytes(start + coded)
        return tmp_path / "rows.txt"

    odd = {"all": lambda: path_of(lines(list(LINES.values()), relation))}
    model = synthesizer("public", relation)
    schema = Schema(PUBLIC, read=read)
    check_equal(lambda path: type(model)(**model.get_params() | {"schema": schema}).fit(path), lambda: path_of(lines()), odd)


@cases(ENDS)
def test_a_csv_file_tells_nothing(kind, facts, relation, tmp_path):
    pytest.importorskip("pyarrow")
    last = N - (relation == "replace_one")
    odd = {"all": lambda: csv_of(lines(list(LINES.values()), relation), tmp_path, kind)}
    odd |= {name: lambda name=name: csv_of(lines([LINES[name]], relation, place=last), tmp_path, kind) for name in AT_THE_END}
    check_equal(lambda path: synthesizer(facts, relation).fit(path), lambda: csv_of(lines(), tmp_path, kind), odd)


@pytest.mark.nightly
@pytest.mark.parametrize("name", LINES)
def test_each_odd_line_tells_nothing_by_itself(name, tmp_path):
    pytest.importorskip("pyarrow")
    odd = {name: lambda: csv_of(lines([LINES[name]]), tmp_path, "csv")}
    check_equal(lambda path: synthesizer("public", "replace_one").fit(path), lambda: csv_of(lines(), tmp_path, "csv"), odd)


ESTIMATORS = {
    "PMM": lambda bounds, relation: PrivateMeasureMechanism(depth=3, bounds=bounds, neighboring=relation, random_state=3),
    "LowDim": lambda bounds, relation: LowDimSynthesizer(1, bounds=bounds, neighboring=relation, random_state=3),
    "LatentFactor": lambda bounds, relation: LatentFactorSynthesizer(n_factors=1, bounds=bounds, neighboring=relation, random_state=3),
    "Online": lambda bounds, relation: OnlineSynthesizer(bounds=bounds, neighboring=relation, random_state=3),
}
NUMBERS = [line.split(b",")[0] + b"," + line.split(b",")[1] for line in GOOD]
NO_NUMBERS = {name: b",".join(line.split(b",")[:2]) if name != "one cell more" else b"1,2,3" for name, line in LINES.items()}


@relations
@pytest.mark.parametrize(("name", "bounds"), [(name, bounds) for name in ESTIMATORS for bounds in ((0, 9), "private")][:-1])
def test_a_csv_file_without_a_schema_tells_nothing(name, bounds, relation, tmp_path):
    pytest.importorskip("pyarrow")

    def path_of(*odd):
        (tmp_path / "rows.csv").write_bytes(b"\n".join([b"a,b", *lines(odd, relation, good=NUMBERS), b""]))
        return tmp_path / "rows.csv"

    odd = {"all": lambda: path_of(*NO_NUMBERS.values()), "one": lambda: path_of(NO_NUMBERS["missing"])}
    check_equal(lambda path: ESTIMATORS[name](bounds, relation).fit(path), path_of, odd)


@relations
def test_the_components_of_a_csv_file_tell_nothing(relation, tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "rows.csv"
    path.write_bytes(b"\n".join([b"a,b", *NUMBERS * 20, *NO_NUMBERS.values(), b""]))
    fitted = PrivatePCA(1, bounds=(0, 9), neighboring=relation, epsilon=1e6, random_state=3).fit(path)
    assert np.isfinite(fitted.transform(path)).all()


@pytest.mark.parametrize("source", ["pandas", pytest.param("csv", marks=pytest.mark.must)])
def test_a_tick_of_a_stream_tells_nothing(source, tmp_path):
    # Under "replace_one" alone: one row more moves those after it to other places, as the docs of streams say.
    def ticks(**odd):
        for number in range(3):
            some = odd if number == 1 else {}
            if source == "csv":
                (tmp_path / str(number)).mkdir(exist_ok=True)
                yield csv_of(lines(*some.values()), tmp_path / str(number), "csv")
            else:
                yield pd.DataFrame(neighbor(some["cell"], "replace_one") if some else columns())

    def along(tables):
        stream = OnlineSynthesizer(synthesizer=synthesizer("public", "replace_one"), epsilon=1.0, random_state=3)
        for table in tables:
            stream.partial_fit(table)
        return stream

    if source == "csv":
        pytest.importorskip("pyarrow")
    odd = {"all": list(LINES.values())} if source == "csv" else OBJECTS
    check_equal(along, lambda: list(ticks()), {name: lambda cell=cell: list(ticks(cell=cell)) for name, cell in odd.items()})


def test_no_row_of_a_csv_file_and_only_missing_cells_fit_too(tmp_path):
    pytest.importorskip("pyarrow")
    for some in ([], [b",,,,,,,"], [b",,,,,,,"] * 9, [b"odd"] * 9):
        model = synthesizer("public", "add_or_remove_one").fit(csv_of(some, tmp_path, "csv"))
        assert len(model.sample(3)) == 3
        model = synthesizer("private", "add_or_remove_one").fit(csv_of(some, tmp_path, "csv"))
        assert len(model.sample(3)) == 3


def test_what_stands_far_behind_the_first_rows_tells_nothing(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.undo()
    good = [line.replace(b",a,", b"," + b"a" * 2000 + b",") for line in GOOD]
    n = 3 * 2**24 // sum(map(len, good)) + 100  # more than 16 MiB
    some = [LINES[name] for name in ("word", "open quote", "no UTF-8")]
    odd = {"all": lambda: csv_of(lines(some, n=n, place=n - 5, good=good), tmp_path, "csv")}
    check_equal(lambda path: synthesizer("public", "replace_one").fit(path), lambda: csv_of(lines(n=n, good=good), tmp_path, "csv"), odd)


TIMES = {
    "day": Date("2019-01-01", "2021-12-31", format="dd/mm/yyyy", missing=["01/02/2020"]),
    "month": Date("2019-01", "2021-12", format="yyyy-mm"),
    "number": Date("2019-01-01", "2021-12-31", format="%Y%m%d"),
    "time": DateTime("2019-01-01", "2021-12-31"),
    "clock": TimeOfDay(missing=["01:00"]),
    "hour": TimeOfDay("00:00", "29:59", format="%H%M", missing=[2500, 3]),
    "wait": Duration(0, "1 day", missing=[-1, "1 h"]),
    "end": Derived("time + wait", gives="datetime"),
}
SOON = datetime.datetime(2020, 5, 5, 1)
ROW = ("31/12/2020", "2020-03", 20200401, SOON, datetime.time(9, 51), 951, datetime.timedelta(minutes=15), SOON)
TEXTS = [b"01/02/2020,2020-03,20200401,2020-05-05 10:00:00,09:51,951,0:15:00,2020-05-05", b"1/2/20,x,2020.0,,,2500,PT1H,"]
TEXTS += [b"3,3,3,3,3,3,3,3", b",,,,,,,", b"\xff,\xff,\xff,\xff,\xff,\xff,\xff,\xff"]
LATE = [datetime.time(1), datetime.timedelta(10**6), datetime.datetime(9999, 1, 1), 1275, -1, "9" * 400, "25:99", "P1M", True]
LATE += [np.datetime64("NaT"), np.timedelta64("NaT"), np.timedelta64(2**62, "D")]
OBJECT = dict.fromkeys(("time", "wait", "end"), object)  # columns of times would become objects by one word


@relations
def test_times_in_any_form_tell_nothing(relation, tmp_path):
    def made(odd):
        table = {name: [cell] * N for name, cell in zip(TIMES, ROW, strict=True)}
        for cells in table.values():
            cells[PLACE : PLACE + len(odd) * (relation == "replace_one")] = odd
        return pd.DataFrame({name: pd.Series(cells, dtype=OBJECT.get(name)) for name, cells in table.items()})

    def text(odd):
        pytest.importorskip("pyarrow")
        rows = lines(odd, relation, good=TEXTS[:1])
        (tmp_path / "rows.csv").write_bytes(b"\n".join([",".join(TIMES).encode(), *rows, b""]))
        return tmp_path / "rows.csv"

    def fit(table):
        return LatentFactorSynthesizer(TIMES, n_factors=1, neighboring=relation, random_state=3).fit(table)

    odd = {"objects": lambda: made(OBJECTS["objects"] + LATE)} | {str(cell): lambda cell=cell: made([cell]) for cell in ("odd", None, 2.5)}
    check_equal(fit, lambda: made([]), odd)
    check_equal(fit, lambda: text([]), {"all": lambda: text([*TEXTS, *LINES.values()])})
