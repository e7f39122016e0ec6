"""Sums inside a database: the same as those over its rows, of which none leaves it."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from internals import Cuts, EvenCuts, WholeCuts, _latent_high, _source, _sql, choose_joint_tables, codes_of_cells

from skdpsynth import LatentFactorSynthesizer, PrivacyAccountant
from skdpsynth.domain import Continuous, Date, DateTime, Grid, Identifier, Nominal, Ordinal

duckdb = pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

pytestmark = [
    pytest.mark.usefixtures("hasty"),
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning"),
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.BudgetWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ibis"),
]
BOTH = ("replace_one", "add_or_remove_one")
NAMES = ['x "quoted" é', "select"]
# Of each column: SQL that makes junk of all kinds, and what the schema says.
JUNK = {
    NAMES[0]: (
        "case when random() < .1 then null when random() < .1 then 'nan'::double when random() < .05 then 'inf'::double "
        "when random() < .05 then '-inf'::double when random() < .1 then 0 when random() < .1 then -0.0::double else random() * 12 - 3 end",
        Continuous(-1.0, 7.0, nullable=True),
    ),
    NAMES[1]: ("case when random() < .1 then null else round(random() * 40) / 4 end", Continuous(0, 10)),
    "big": ("case when random() < .1 then null else (random() * 9e18 - 4e18)::bigint end", Continuous(-(2**52), 2**52, nullable=True)),
    "wide": ("(random() * 300000 - 20000)::integer", Continuous(0, 250_000)),
    "short": ("(random() * 20)::float", Continuous(0.0, 20.0)),
    "flag": ("random() < .3", Nominal([False, True])),
    "flag as number": ("case when random() < .1 then null else random() < .3 end", Continuous(0, 1, nullable=True)),
    "byte": ("(random() * 5)::utinyint", Nominal([0, 1, 2.0, 300, -1, 4.5], nullable=True)),
    "text": (
        "(['a''b', 'yes', 'Yes', 'no', '', ' x', '日本', null])[1 + floor(random() * 8)::int]",
        Nominal(["a'b", "yes", "no", "日本", ""]),
    ),
    "enum": ("(['a', 'b', 'c', null])[1 + floor(random() * 4)::int]::enum('a', 'b', 'c', 'd')", Ordinal(["a", "c", "zz"], nullable=True)),
    "real": ("case when random() < .2 then 'nan'::double else round(random() * 3) / 10 end", Nominal([0.1, 0, 0.3, 2**60 + 1])),
    "short levels": ("(round(random() * 3) / 10)::float", Nominal([0.1, 0.2, 0.3, 1e300], nullable=True)),
    "many texts": (
        "(random() * 90)::int || case when random() < .5 then 'é' else 'E' end",
        Nominal([f"{i}{letter}" for i in range(0, 80, 2) for letter in "éE"], nullable=True),
    ),
    "many": ("(random() * 90)::smallint", Nominal(list(range(0, 180, 2)), nullable=True)),
    "many reals": ("round(random() * 90) / 8", Nominal([i / 8 for i in range(0, 160, 2)], nullable=True)),
    "date": (
        "case when random() < .1 then null when random() < .05 then 'infinity'::date when random() < .05 then '-infinity'::date "
        "else date '1968-01-01' + (random() * 1500)::int end",
        Date("1969-06-01", "1971-06-01", nullable=True),
    ),
    "date as time": ("date '1968-01-01' + (random() * 1500)::int", DateTime("1969-06-01", "1971-06-01", resolution="hour")),
    "time": (
        "case when random() < .1 then null when random() < .05 then 'infinity'::timestamp when random() < .05 then '-infinity'::timestamp "
        "else timestamp '1969-12-31 23:00:00' + to_microseconds((random() * 10800e6)::bigint) end",
        DateTime("1969-12-31 23:30:00", "1970-01-01 00:30:00", resolution="second"),
    ),
    "time as date": ("timestamp '1968-01-01' + to_seconds((random() * 126e6)::bigint)", Date("1969-06-01", "1971-06-01")),
    "short time": (
        "timestamp '1969-12-31 23:59:59' + to_microseconds((random() * 2e6)::bigint)",
        DateTime("1969-12-31 23:59:59.9", "1970-01-01 00:00:00.5", resolution="millisecond"),
    ),
    "id": ("'person ' || random()", Identifier()),
}
FEW = {name: JUNK[name] for name in (NAMES[0], "short", "flag", "text")}
GROUPS = [tuple(JUNK)[start::6] for start in range(6)]


def schema_of(columns):
    return {name: kind for name, (_, kind) in columns.items()}


def database(n_rows=3000, columns=FEW, path=":memory:"):
    connection = duckdb.connect(path)
    connection.execute("set threads = 1")
    connection.execute("select setseed(0.25)").fetchall()
    items = ", ".join(f'{sql} as "{name.replace(chr(34), chr(34) * 2)}"' for name, (sql, _) in columns.items())
    connection.execute(f"create table people as select {items} from range({n_rows})")
    return connection


def table_of(connection):
    return connection.table("people").to_arrow_table()


def relation(connection):
    return connection.table("people")


def of_ibis(connection):
    return pytest.importorskip("ibis").duckdb.from_connection(connection).table("people")


def model(columns=FEW, **parameters):
    return LatentFactorSynthesizer(schema_of(columns), **{"epsilon": 5.0, "delta": 1e-6, "random_state": 1, "n_factors": 2, **parameters})


def same(ours, theirs):
    for name in ("marginals_", "cells_"):
        left, right = getattr(ours, name), getattr(theirs, name)
        assert list(left) == list(right)
        assert all(np.array_equal(left[key], right[key]) for key in left)
    left, right = (each.sample(50, random_state=0).to_pandas() for each in (ours, theirs))
    return left.astype(str).equals(right.astype(str))


@pytest.fixture
def never_read(monkeypatch):
    """No chunk of rows may be read."""

    def refuse(self, n_rows=None):
        raise AssertionError("rows were read")

    monkeypatch.setattr(_source.ChunkedSource, "chunks", refuse)


@pytest.mark.parametrize("names", GROUPS, ids=", ".join)
def test_junk_of_all_kinds_is_found_inside_a_database_where_a_reader_finds_it(never_read, names):
    columns = {name: JUNK[name] for name in names}
    connection = database(columns=columns)
    assert same(model(columns).fit(relation(connection)), model(columns).fit(table_of(connection)))


@pytest.fixture(autouse=True)
def within_pairs(monkeypatch):
    """Tables in memory are not searched for more than pairs either."""
    monkeypatch.setattr(_latent_high, "_MOST_SETS", 0)


def test_rows_in_a_database_are_not_searched_for_dependence_beyond_pairs(never_read, monkeypatch):
    monkeypatch.setattr(_latent_high, "_MOST_SETS", 1 << 16)
    columns = {f"n{i}": ("(random() * 2)::int % 2", Nominal([0, 1])) for i in range(6)}
    fits = [model(columns).fit(make(database(3000, columns))) for make in (relation, table_of)]
    assert [any("parity" in entry.name for entry in fit.accountant_.ledger) for fit in fits] == [False, True]


@pytest.mark.parametrize("relation_of", [relation, of_ibis], ids=["duckdb", "ibis"])
@pytest.mark.parametrize("neighboring", BOTH)
def test_a_fit_inside_a_database_is_that_of_the_table_in_memory(never_read, relation_of, neighboring):
    connection = database()
    inside = model(neighboring=neighboring).fit(relation_of(connection))
    assert same(inside, model(neighboring=neighboring).fit(table_of(connection)))


@pytest.mark.parametrize("stratify", ["text", "flag"])
def test_classes_are_counted_inside_a_database(never_read, stratify):
    connection = database()
    assert same(model(stratify=stratify).fit(relation(connection)), model(stratify=stratify).fit(table_of(connection)))


def test_blocks_of_many_columns_and_tables_of_hardly_any_rows_are_counted_inside_a_database(never_read):
    columns = {f"n{i}": (f"(random() * random() * {2 + i % 4})::int", Nominal(list(range(2 + i % 4)), nullable=True)) for i in range(41)}
    columns["x"] = ("random()", Continuous(0.0, 1.0))
    for n_rows, some, neighboring in [(500, columns, BOTH[0]), *((n, FEW, BOTH[1]) for n in (0, 1, 2))]:
        connection = database(n_rows, some)
        first, second = (model(some, neighboring=neighboring).fit(make(connection)) for make in (relation, table_of))
        assert same(first, second)


def test_what_leaves_the_database_are_at_most_as_many_numbers_as_there_are_cells(never_read, monkeypatch):
    fetched = []
    ask = _sql.Database._fetch

    def watched(self, sql):
        answer = ask(self, sql)
        assert all(column.dtype.kind in "iu" for column in answer.values())
        fetched.append(len(answer["n"]))
        return answer

    monkeypatch.setattr(_sql.Database, "_fetch", watched)
    columns = {name: JUNK[name] for name in ("flag", "byte", "short")}
    counts = []
    for n_rows in (20_000, 40_000):
        fetched.clear()
        fitted = model(columns).fit(relation(database(n_rows, columns)))
        counts.append(list(fetched))
        n_cells = sum(map(len, fitted.cells_.values())) + sum(table.size for table in fitted.marginals_.values())
        assert sum(fetched) <= n_cells + 2  # counts of all rows
    # Twice the rows give no more than the cells that were empty.
    assert sum(counts[1]) <= sum(counts[0]) * 1.2


BOUNDS = [(0.0, 1.0), (-1.0, 1.0), (-3.3, 7.77), (1e-300, 2e-300), (0.0, 5e-320), (-1e300, 1e299), (-1e-5, 123456.789)]
BOUNDS += [(1e16, 1.0000000001e16), (1.0, 1.0 + 1e-12), (0, 90), (-5, 2000), (0, 10**6), (-(2**52), 2**52), (5, 10**15), (-7, 10**5)]


def located(x, bounds, **kind):
    """The cells in which a database finds numbers."""
    cuts = Grid.of(Continuous(*bounds)).cuts
    connection = duckdb.connect()
    connection.register("numbers", {"x": x})
    query = codes_of_cells("numbers", ["x"], [Cuts(cuts, *map(float, bounds), **kind)], [np.arange(len(cuts) + 2)])
    return connection.sql(query.select("k")).fetchnumpy()["k0"].astype(np.int64) - 1


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_the_database_finds_the_cell_of_every_float_that_is_beside_a_cut(bounds):
    kind = Continuous(*bounds)
    grid, width = Grid.of(kind), float(kind.high) - float(kind.low)
    inner = np.random.default_rng(0).random(2000) * 1.2 * width + kind.low - 0.1 * width
    ends = [np.inf, -np.inf, np.nan, 0.0, -0.0, kind.low, kind.high, 1e308, -1e308]
    x = np.concatenate([grid.cuts, np.nextafter(grid.cuts, -np.inf), np.nextafter(grid.cuts, np.inf), grid.edges, inner, ends])
    wanted = grid.locate(np.clip(np.rint(x) if kind.integer else x, kind.low, kind.high))
    assert np.array_equal(located(x, bounds), wanted)


@pytest.mark.parametrize("bounds", [(0, 90), (-5, 2000), (0, 10**6), (1970, 10**12)], ids=str)
def test_the_database_finds_the_cell_of_every_whole_number_of_a_whole_column(bounds):
    grid = Grid.of(Continuous(*bounds))
    beside = np.ceil(grid.cuts).astype(np.int64)
    x = np.concatenate([beside - 1, beside, beside + 1, [*bounds, 0, -1, -(2**63), 2**63 - 1, 2**53 + 1]])
    assert np.array_equal(located(x, bounds, is_whole=True), grid.locate(np.clip(x.astype(float), *bounds)))


def test_cuts_of_real_and_of_whole_numbers_have_a_rule():
    for bounds in [(0.0, 1.0), (-3.3, 7.77), (-1e300, 1e299), (17.0, 90.5)]:
        assert EvenCuts.of(Cuts(Grid.of(Continuous(*bounds)).cuts, *bounds)) is not None
    for bounds in [(0, 90), (-5, 2000), (0, 10**6), (-(2**52), 2**52), (1970, 10**12)]:
        assert WholeCuts.of(Cuts(Grid.of(Continuous(*bounds)).cuts, *map(float, bounds))) is not None


def held(connection):
    """What a connection holds: its settings, tables and views."""
    settings = connection.execute("select name, value from duckdb_settings() order by name").fetchall()
    tables = connection.execute("select database_name, table_name from duckdb_tables() order by all").fetchall()
    return settings, tables, connection.execute("select view_name from duckdb_views() where not internal").fetchall()


@pytest.mark.parametrize("relation_of", [relation, of_ibis], ids=["duckdb", "ibis"])
def test_a_fit_leaves_the_connection_as_it_was_also_where_it_fails(relation_of, monkeypatch):
    connection = database()
    frame = relation_of(connection)
    before = held(connection)
    model().fit(frame)
    assert held(connection) == before
    monkeypatch.setattr("skdpsynth.models.Measurements.model", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model().fit(frame)
    assert held(connection) == before


def test_a_database_that_may_only_be_read_is_enough(tmp_path):
    path = str(tmp_path / "people.db")
    database(path=path).close()
    connection = duckdb.connect(path, read_only=True)
    assert same(model().fit(relation(connection)), model().fit(table_of(connection)))


@pytest.mark.parametrize("neighboring", BOTH)
@pytest.mark.parametrize("first", ["count(*) AS n FROM _", "GROUP BY"])
def test_a_database_that_fails_is_said_in_one_sentence_before_anything_is_spent(monkeypatch, neighboring, first):
    accountant, connection = PrivacyAccountant(5.0, 1e-6, neighboring=neighboring), database()
    ask = _sql.Database._run

    def failing(self, sql, read=lambda answer: None):
        return ask(self, "select error('secret')", lambda answer: answer.fetchall()) if first in sql else ask(self, sql, read)

    monkeypatch.setattr(_sql.Database, "_run", failing)
    with pytest.raises(OSError, match="must answer queries over X until fit is done, got InvalidInputException") as raised:
        model(neighboring=neighboring, accountant=accountant).fit(relation(connection))
    assert "secret" not in str(raised.value)
    assert raised.value.__context__ is None
    assert accountant.spent == 0


MORE = "insert into people select * from people limit 1"


@pytest.mark.parametrize(
    ("before", "after", "error", "words"),
    [
        (lambda c: None, lambda c: c.close(), OSError, "keep its connection open"),
        (lambda c: c.execute(MORE), lambda c: None, ValueError, "X must give the same rows until fit is done"),
    ],
)
def test_a_connection_that_is_closed_or_written_to_meanwhile_is_said_in_one_sentence(before, after, error, words, monkeypatch):
    connection, make = database(), _sql.Database.make_table
    monkeypatch.setattr(_sql.Database, "make_table", lambda *args: (before(connection), make(*args), after(connection))[1])
    with pytest.raises(error, match=words):
        model().fit(relation(connection))


def test_levels_are_told_apart_byte_by_byte_whatever_the_collation(never_read):
    columns = {
        "text": ("(['yes', 'Yes', 'no'])[1 + floor(random() * 3)::int]", Nominal(["yes", "no"], nullable=True)),
        "flag": JUNK["flag"],
    }
    connection = database(columns=columns)
    table = table_of(connection)
    connection.execute("set default_collation = 'nocase'")
    assert same(model(columns).fit(relation(connection)), model(columns).fit(table))


@pytest.mark.parametrize(
    ("sql", "kind"),
    [("'a' || chr(0)", Nominal(["a\0", "b"])), ("random() * 4e15 - 2e15", Continuous(-(2**53), 2**53, integer=True))],
    ids=["null character", "no rule of cuts"],
)
def test_what_no_query_can_tell_is_read_in_chunks(sql, kind):
    columns = {"text": (sql, kind), "flag": JUNK["flag"]}
    connection = database(columns=columns)
    assert same(model(columns).fit(relation(connection)), model(columns).fit(table_of(connection)))


@given(st.lists(st.integers(1, 300), min_size=2, max_size=9), st.data())
def test_each_wanted_table_is_part_of_exactly_one_counted_table(sizes, data):
    options = [(i,) for i in range(len(sizes))] + list(combinations(range(len(sizes)), 2))
    wanted = data.draw(st.lists(st.sampled_from(options), min_size=1))
    joints = choose_joint_tables(sizes, wanted)
    assert sorted(table for joint in joints for table in joint.tables) == list(range(len(wanted)))
    assert all(set(wanted[table]) <= set(joint.columns) for joint in joints for table in joint.tables)


def test_a_table_grows_only_as_long_as_it_is_small():
    sizes = [16] * 5 + [2, 3, 4, 5, 7, 9, 12, 16, 20, 300]
    wanted = list(combinations(range(len(sizes)), 2))
    joints = choose_joint_tables(sizes, wanted)
    assert all(len(joint.columns) == 2 or math.prod(sizes[i] for i in joint.columns) <= 1 << 13 for joint in joints)
    assert len(joints) < len(wanted) / 2


@pytest.mark.parametrize("stratum", [0, 3])
def test_a_column_in_all_wanted_tables_is_in_all_counted_ones(stratum):
    wanted = [(stratum, i, j) for i, j in combinations([i for i in range(6) if i != stratum], 2)]
    joints = choose_joint_tables([3] * 6, wanted)
    assert all(stratum in joint.columns for joint in joints)
    assert len(joints) < len(wanted)
