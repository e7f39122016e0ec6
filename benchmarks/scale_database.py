"""A fit inside DuckDB: time beside DuckDB's own counts of the same pairs, memory, and the data that leave the database.

python benchmarks/scale_database.py          # 1e6 rows
python benchmarks/scale_database.py --full   # 1e7 rows, to which the targets belong

The fit and the counts take turns, and the least time of each stands for it: other work on the machine can only add to a time. The target is
for elapsed time; processor time is printed beside it. The first fit also reads the file, so its time is printed by itself.
"""

import argparse
import resource
import sys
import tempfile
import time
import warnings
from itertools import combinations
from pathlib import Path

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.duckdb import _sql

LEVELS = (2, 2, 3, 4, 5, 7, 9, 12, 16, 20)
NUMBERS = {
    "random()": (0.0, 1.0),
    "random() * random() * 100": (0.0, 100.0),
    "round(random() * 90)::INTEGER": (0, 90),
    "-ln(1 - random()) * 10": (0.0, 100.0),
    "CASE WHEN random() < 0.2 THEN 0 ELSE random() * 1000 - 300 END": (-300.0, 700.0),
}


def _columns():
    """SQL of each column, what the schema says, and SQL of a code of it."""
    for i, (sql, (low, high)) in enumerate(NUMBERS.items()):
        yield f"c{i}", sql, (low, high), f"least(greatest(floor((c{i} - {low}) / ({high} - {low}) * 16), 0), 15)"
    for i, size in enumerate(LEVELS):
        levels = [f"level {j}" for j in range(size)]
        sql = f"'level ' || floor(random() * random() * {size})::INTEGER"
        yield f"n{i}", sql, levels, f"list_position({levels}, n{i}) - 1"


def _cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _timed(call):
    start, cpu = time.perf_counter(), _cpu()
    call()
    return time.perf_counter() - start, _cpu() - cpu


def database(args):
    """Measure; return whether a target was missed."""
    import duckdb

    warnings.simplefilter("ignore")
    n_rows, columns, fetched = 10**7 if args.full else 10**6, list(_columns()), []
    schema = {name: kind for name, _, kind, _ in columns}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "people.db")
        with duckdb.connect(path) as making:
            making.execute("SELECT setseed(0.5)").fetchall()
            making.execute(
                f"CREATE TABLE people AS SELECT {', '.join(f'{sql} AS {name}' for name, sql, _, _ in columns)} FROM range({n_rows})"
            )
        connection = duckdb.connect(path, read_only=True)
        ask = _sql.Database._fetch

        def watched(self, sql):
            answer = ask(self, sql)
            fetched.append(len(answer["n"]))
            return answer

        _sql.Database._fetch = watched
        model = LatentFactorSynthesizer(schema, epsilon=1.0, delta=1e-6, random_state=0)

        def fit():
            model.fit(connection.table("people"))

        first, n_fetch = _timed(fit), sum(fetched)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        n_cells = sum(map(len, model.cells_.values())) + sum(table.size for table in model.marginals_.values())
        codes = ", ".join(f"CAST({code} AS UTINYINT) AS {name}" for name, _, _, code in columns)
        connection.execute(f"CREATE TEMPORARY TABLE coded AS SELECT {codes} FROM people")

        def count():
            for pair in combinations(schema, 2):
                connection.execute(f"SELECT {', '.join(pair)}, count(*) FROM coded GROUP BY ALL").fetchall()

        times = [(_timed(count), _timed(fit)) for _ in range(args.runs)]
        connection.close()
    (counting, counting_cpu), (fitting, fitting_cpu) = (
        [min(taken) for taken in zip(*of_one, strict=True)] for of_one in zip(*times, strict=True)
    )
    ratio = fitting / counting
    print(f"fit of {n_rows:.0e} x {len(schema)} inside DuckDB: {fitting:.2f} s, {fitting_cpu:.2f} s of processor")
    print(f"... the first, which reads the file: {first[0]:.2f} s, {first[1]:.2f} s of processor; {memory:.0f} MiB, target < 1000")
    print(f"DuckDB's count(*) of all pairs of its codes: {counting:.2f} s, {counting_cpu:.2f} s of processor")
    print(f"ratio {ratio:.2f}, target <= 2 at 1e7 rows")
    print(f"... of processor time {fitting_cpu / counting_cpu:.2f}; of the first fit {first[0] / counting:.2f}")
    print(f"what left the database: {n_fetch} counts, for a model of {n_cells}")
    return memory >= 1000 or (args.full and ratio > 2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="1e7 rows")
    parser.add_argument("--runs", type=int, default=3)
    sys.exit(database(parser.parse_args()))
