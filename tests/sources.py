"""One table as every source that a fit takes, for all tests that compare what is read of them, and what comes back of it."""

import contextlib
import functools
import itertools
import pickle
import sqlite3
import sys
import types

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdpsynth.domain import Schema
from skdpsynth.frames import split_columns
from skdpsynth.tables import TableFormat, read_columns

_OPEN = []


def cut(table, *at):
    """The table in pieces, cut before these rows."""
    return [table[start:stop] for start, stop in itertools.pairwise((0, *at, len(table)))]


def arrow(table):
    if isinstance(table, pl.DataFrame):
        return table.to_arrow()
    return pytest.importorskip("pyarrow").Table.from_pandas(table, preserve_index=False)


def polars(table):
    return pl.DataFrame(table.to_dict("list"))


def lazy(table):
    if not hasattr(pl.LazyFrame, "collect_batches"):
        pytest.skip("needs polars 1.34")
    return polars(table).lazy()


def files(table, folder, suffix="parquet", n_files=1, **options):
    """Write files, and return a pattern of their names; floats in CSV have the shortest form that reads back as they are."""
    pytest.importorskip("pyarrow")
    for i, part in enumerate(np.array_split(np.arange(len(table)), n_files)):
        write = table.iloc[part].to_parquet if suffix == "parquet" else table.iloc[part].to_csv
        write(folder / f"part-{i}.{suffix}", index=False, **options)
    return str(folder / f"*.{suffix}")


def dataset(table, folder):
    files(table, folder, n_files=3)
    return pytest.importorskip("pyarrow.dataset").dataset(folder)


def duck(table):
    connection = pytest.importorskip("duckdb").connect()
    _OPEN.append(connection)  # the oldest close it with the last name for it, under their relations
    connection.register("rows_of_arrow", arrow(table))
    connection.execute("create table people as from rows_of_arrow")
    return connection.table("people")


def ibis(table, folder):
    pytest.importorskip("duckdb")
    return pytest.importorskip("ibis").duckdb.connect().read_parquet(files(table, folder))


def dask(table, n_parts):
    return pytest.importorskip("dask.dataframe").from_pandas(table, npartitions=n_parts, sort=False)


def ibis_of_sqlite(table, folder):
    pytest.importorskip("pyarrow_hotfix")
    with contextlib.closing(sqlite3.connect(folder / "people.db")) as connection:
        table.to_sql("people", connection, index=False)
    return pytest.importorskip("ibis").sqlite.connect(folder / "people.db").table("people")


class Spark:
    """A data frame of Spark as far as a source asks one: tasks go to its partitions as bytes, and nothing else leaves the driver."""

    __module__ = "pyspark"

    def __init__(self, partitions, schema=None):
        self._partitions, self._schema = partitions, schema

    @classmethod
    def of(cls, table, n_parts):
        parts = [arrow(table.iloc[rows]) for rows in np.array_split(np.arange(len(table)), n_parts)]
        return cls([lambda part=part: iter(part.to_batches(70)) for part in parts], parts[0].schema)

    def __reduce__(self):
        raise TypeError("a frame stays with its driver")

    def limit(self, n_rows):
        return Spark([], self._schema)

    def toArrow(self):
        return self._schema.empty_table()

    def mapInArrow(self, task, schema):
        sent = pytest.importorskip("cloudpickle").dumps(task)
        return Spark([functools.partial(self._run, sent, number, part) for number, part in enumerate(self._partitions)])

    def repartition(self, n_parts, column):
        @functools.cache
        def batches():
            return [batch for part in self._partitions for batch in part()]

        def among(number):
            for batch in batches():
                yield batch.filter(pa.array([key % n_parts == number for key in batch.column(column).to_pylist()]))

        pa = pytest.importorskip("pyarrow")
        return Spark([functools.partial(among, number) for number in range(n_parts)])

    def collect(self):
        return list(self.toLocalIterator())

    def toLocalIterator(self):
        return (types.SimpleNamespace(**row) for part in self._partitions for batch in part() for row in batch.to_pylist())

    @staticmethod
    def _run(sent, number, part):
        """Run a task as an executor does, which knows the number of its partition."""
        context = types.SimpleNamespace(get=lambda: types.SimpleNamespace(partitionId=lambda: number))
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "pyspark", types.SimpleNamespace(TaskContext=context))
            yield from list(pickle.loads(sent)(part()))


def flags_as_words(table):
    """The table for files that have no truth values."""
    return table.assign(**{name: table[name].astype(str) for name in table.select_dtypes("bool")})


def sqlite(table, folder):
    pytest.importorskip("pyarrow")
    with contextlib.closing(sqlite3.connect(folder / "people.db")) as base:
        flags_as_words(table).to_sql("people", base, index=False, if_exists="replace")
    return folder / "people.db"


def stata(table, folder):
    pytest.importorskip("pyreadstat")
    flags_as_words(table).to_stata(folder / "people.dta", write_index=False)
    return folder / "people.dta"


class Anew:
    """An iterable that starts anew at each iteration."""

    def __init__(self, chunks):
        self.chunks = chunks

    def __iter__(self):
        return iter(self.chunks)


def chunks_of_pandas(table, folder):
    table.to_csv(folder / "f.csv", index=False)
    return pd.read_csv(folder / "f.csv", chunksize=99, float_precision="round_trip")


class Evil:
    """A cell that answers every question with an error that tells a secret."""

    def refuse(self, *args, **kwargs):
        raise RuntimeError("secret")

    __float__ = __int__ = __index__ = __hash__ = __eq__ = __len__ = __bool__ = __iter__ = __array__ = __gt__ = __lt__ = refuse
    __repr__ = __str__ = refuse


def matched(X, schema):
    """What is known of a table, and its columns as they stand, by a dict of kinds, or by one kind for the first of its columns."""
    table, raw = split_columns(X)
    return TableFormat(table).match(Schema(schema if isinstance(schema, dict) else {table.columns[0]: schema})), raw


def values_of(X, schema):
    table, raw = matched(X, schema)
    return read_columns(raw, table.schema, table.dtypes)


def again(X, schema):
    """What is read, written."""
    table, raw = matched(X, schema)
    return table.fill(read_columns(raw, table.schema, table.dtypes))


SOURCES = {
    "parquet": files,
    "parquet of row groups": lambda table, folder: files(table, folder, row_group_size=70),
    "parquet of 4 files": lambda table, folder: files(table, folder, n_files=4, row_group_size=33),
    "folder": lambda table, folder: (files(table, folder, n_files=2), folder)[1],
    "list of paths": lambda table, folder: (files(table, folder, n_files=2), [folder / "part-0.parquet", str(folder / "part-1.parquet")])[
        1
    ],
    "csv": lambda table, folder: files(table, folder, "csv"),
    "csv of 3 files": lambda table, folder: files(table, folder, "csv", 3),
    "tsv, packed": lambda table, folder: files(table, folder, "tsv.gz", sep="\t"),
    "zip": lambda table, folder: (pytest.importorskip("pyarrow"), table.to_csv(folder / "a.csv.zip", index=False), folder / "a.csv.zip")[2],
    "sqlite": sqlite,
    "stata": stata,
    "reader": lambda table, folder: arrow(table).to_reader(77),
    "dataset": dataset,
    "dataset in memory": lambda table, folder: pytest.importorskip("pyarrow.dataset").dataset(arrow(table)),
    "scanner": lambda table, folder: pytest.importorskip("pyarrow.dataset").dataset(arrow(table)).scanner(),
    "ParquetFile": lambda table, folder: (files(table, folder), pytest.importorskip("pyarrow.parquet"))[1].ParquetFile(
        folder / "part-0.parquet"
    ),
    "polars lazy": lambda table, folder: lazy(table),
    "narwhals lazy": lambda table, folder: __import__("narwhals").from_native(lazy(table)),
    "duckdb": lambda table, folder: duck(table),
    "ibis": ibis,
    "ibis in memory": lambda table, folder: pytest.importorskip("ibis").memtable(table),
    "dask": lambda table, folder: dask(table, 1),
    "dask of 4 partitions": lambda table, folder: dask(table, 4),
    "spark of 3 partitions": lambda table, folder: Spark.of(table, 3),
    "list": lambda table, folder: cut(table, 1, 600),
    "list of polars": lambda table, folder: cut(polars(table), 1, 600),
    "list of batches": lambda table, folder: arrow(table).to_batches(300),
    "function": lambda table, folder: lambda: iter(cut(table, 450)),
    "iterable": lambda table, folder: Anew(cut(table, 10)),
    "generator": lambda table, folder: (chunk for chunk in cut(table, 450)),
    "reader of pandas": chunks_of_pandas,
}
