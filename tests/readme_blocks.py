"""Run the code of the pages as it is written: ``pytest tests/readme_blocks.py``."""

import contextlib
import doctest
import importlib
import importlib.util
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sklearn

import skdpsynth

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", flags=re.DOTALL | re.MULTILINE)


def fences(page):
    """Return language and code of each block of a page, in order; "output" is a text right below Python."""
    text, end, found = (ROOT / page).read_text(encoding="utf-8"), 0, []
    for match in FENCE.finditer(text):
        indent, language, code = match.groups()
        below = found and found[-1][0] == "python" and not text[end : match.start()].strip()
        found.append(("output" if below and language == "text" else language, re.sub(rf"^{indent}", "", code, flags=re.MULTILINE)))
        end = match.end()
    return found


def blocks(page, language):
    """Return the code of a page in one language, block by block."""
    return [code for found, code in fences(page) if found == language]


def pages(language):
    """Name the pages that have code in one language; so nobody can forget a page here."""
    return [page.stem for page in sorted((ROOT / "docs").glob("*.md")) if blocks(f"docs/{page.name}", language)]


def run(page, namespace):
    """Run the Python of a page, compare what it prints with what the page shows, and fill in a schema as the page does."""
    filled, printed = None, io.StringIO()
    for number, (language, code) in enumerate(fences(page)):
        if language == "yaml":
            filled = code
        elif language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(code, f"{page}, block {number}", "exec"), namespace)
            if filled and Path("people.yaml").exists():
                Path("people.yaml").write_text(filled, encoding="utf-8")
        elif language == "output" and printed.getvalue():
            assert code.split() == printed.getvalue().split()
    return namespace


def people(n_samples=3000):
    """Return a table of people who do not exist."""
    pd, rng = pytest.importorskip("pandas"), np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 90, n_samples), "smokes": rng.choice(["no", "yes"], n_samples)})
    return frame.assign(region=rng.choice(["north", "south", "west"], n_samples), year=2024)


def written(folder, frame):
    """Write a table in two Parquet files."""
    pytest.importorskip("pyarrow")
    Path(folder).mkdir()
    for number, start in enumerate(range(0, len(frame), 1500)):
        frame.iloc[start : start + 1500].to_parquet(f"{folder}/{number}.parquet")


# What a page takes as given: data that the reader has, and names that a page before it has explained.


def given_by_tables():
    frame = people()[["age", "year"]]
    written("people", frame)
    return {
        "PrivateMeasureMechanism": skdpsynth.PrivateMeasureMechanism,
        "PrivatePCA": skdpsynth.PrivatePCA,
        "bounds": {"age": (0, 120), "year": (2000, 2030)},
        "days": [0, 1, 2],
        "load": lambda day: frame.iloc[1000 * day : 1000 * (day + 1)],
    }


def given_by_large_data():
    for package in ("dask.dataframe", "distributed"):
        pytest.importorskip(package)
    duckdb, numbers = pytest.importorskip("duckdb"), people()[["age", "year"]] / 3000
    written("people", numbers)
    table = people()
    with duckdb.connect("people.db") as database:
        database.register("given", table)
        database.execute("CREATE TABLE people AS SELECT * FROM given")
    pca = skdpsynth.PrivatePCA().fit(numbers)
    return {"bounds": (0, 1), "chunks": lambda: [numbers, numbers], "pca": pca, "write": lambda rows: None}


def given_by_units():
    from sklearn.pipeline import make_pipeline

    rng = np.random.default_rng(0)
    model = skdpsynth.PrivateMeasureMechanism(bounds=(-2, 2), max_rows_per_unit=5)
    given = {"X": rng.random((2000, 4)), "labels": rng.integers(0, 400, 2000), "model": model}
    return given | {"PrivatePCA": skdpsynth.PrivatePCA, "make_pipeline": make_pipeline}


def given_by_federated():
    import secrets
    from multiprocessing.pool import ThreadPool

    from skdpsynth.federated import Masks, Site, Sites

    frame = people()[["age", "smokes"]]
    written("patients", frame)
    schema = skdpsynth.domain.Schema({"age": (17, 90), "smokes": ["no", "yes"]})
    names = ("north", "south", "east")
    keys = {frozenset(pair): secrets.token_bytes(32) for pair in (names[:2], names[1:], names[::2])}

    def site(name):
        shared = {other: keys[frozenset((name, other))] for other in names if other != name}
        return Site("patients/*.parquet", schema=schema, masks=Masks(name, shared)).answer

    asked = []

    def unreachable(question):
        asked.append(question)
        raise TimeoutError

    with pytest.raises(Exception, match="north"):
        skdpsynth.LatentFactorSynthesizer(schema).fit(Sites(dict.fromkeys(names, unreachable), head=frame[:0]))
    stream = np.random.default_rng(0).random((10, 100_000, 2))
    given = {"question": asked[0], "schema": schema, "frame": frame, "chunks": [frame[:1000], frame[1000:]], "stream": stream}
    given |= {f"call_{name}": site(name) for name in names} | {"pool": ThreadPool(2), "np": np}
    given |= {"key_north_south": keys[frozenset(names[:2])], "key_north_east": keys[frozenset(names[::2])]}
    return given | {"PrivateMeasureMechanism": skdpsynth.PrivateMeasureMechanism}


def given_by_progress():
    pytest.importorskip("rich")
    pytest.importorskip("pyarrow")
    pytest.importorskip("sklearn.callback")
    frame = people()[["age", "smokes"]]
    frame.to_parquet("patients.parquet")
    return {"schema": {"age": (17, 90), "smokes": ["no", "yes"]}, "X": np.random.default_rng(0).random((2000, 4))}


GIVEN = {
    "progress": given_by_progress,
    "index": lambda: {"X": np.random.default_rng(0).random((2000, 2))},
    "api": lambda: {"PrivateMeasureMechanism": skdpsynth.PrivateMeasureMechanism},
    "tables": given_by_tables,
    "large_data": given_by_large_data,
    "units": given_by_units,
    "federated": given_by_federated,
}
NEEDED = {"start": ["pandas", "pyarrow", "yaml"], "coming_from": ["pandas", "yaml"], "large_data": ["pandas", "pyarrow"]}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Work in an empty folder, and leave scikit-learn's settings and matplotlib's windows alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    with sklearn.config_context():
        yield


def test_the_readmes_code_runs_as_written():
    namespace = run("README.md", {})
    assert namespace["synthetic"].shape == (20_000, 3)


@pytest.mark.parametrize("page", [page for page in pages("python") if page != "mechanism"])
def test_the_python_of_a_page_runs_as_written(page, monkeypatch):
    for package in NEEDED.get(page, []):
        pytest.importorskip(package)
    given = GIVEN.get(page, dict)()
    if page == "large_data":
        # A cluster and a bucket that a test has not: the same code on a scheduler in this process, and on files.
        distributed, dask = pytest.importorskip("distributed"), pytest.importorskip("dask.dataframe")
        read = dask.read_parquet

        class Nearby(distributed.Client):
            def __init__(self, address):
                super().__init__(processes=False, n_workers=1, dashboard_address=":0")

        monkeypatch.setattr(distributed, "Client", Nearby)
        monkeypatch.setattr(dask, "read_parquet", lambda path: read(path.removeprefix("s3://")))
    namespace = run(f"docs/{page}.md", given)
    if "client" in namespace:
        namespace["client"].close()
    if "connection" in namespace:
        namespace["connection"].close()


@pytest.mark.parametrize("page", pages("pycon"))
def test_a_page_shows_what_python_shows(page):
    code = "\n".join(blocks(f"docs/{page}.md", "pycon"))
    test = doctest.DocTestParser().get_doctest(code, {}, f"docs/{page}.md", None, 0)
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0


@pytest.mark.parametrize("page", ["README.md", "docs/start.md"])
def test_the_commands_of_a_page_run_as_written(page, tmp_path):
    for package in ("pandas", "pyarrow", "yaml", "click", "jinja2"):
        pytest.importorskip(package)
    if importlib.util.find_spec("skdpsynth.__main__") is None:
        pytest.skip("there is no command line")
    run_start = [code for language, code in fences("docs/start.md") if language in ("python", "yaml")]
    exec(run_start[0], {})  # writes people.csv
    lines = "\n".join(blocks(page, "console")).replace("\\\n", " ").splitlines()
    commands = [shlex.split(line, comments=True) for line in lines]
    for command in [command for command in commands if command[:1] == ["skdpsynth"]]:
        done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, env=None, check=False)
        assert done.returncode == 0, done.stderr
        if command[1:3] == ["schema", "init"]:
            Path("people.yaml").write_text(run_start[1], encoding="utf-8")  # as a person fills it in
    assert len(Path("synthetic.csv").read_text(encoding="utf-8").splitlines()) == 5001
    assert Path("card.html").stat().st_size > 1000


def test_the_mechanism_of_the_documentation_keeps_the_laws(tmp_path, monkeypatch):
    code = blocks("docs/mechanism.md", "python")
    assert len(code) == 3
    (tmp_path / "noisy_histogram.py").write_text("\n".join(code), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("noisy_histogram")  # and with it runs all laws
