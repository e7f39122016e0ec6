"""Run all that stands for a paper: the tests and the scripts that docs/papers.md names beside its algorithms, theorems and tables.

    python benchmarks/papers/reproduce.py he_2025|he_2024|zhang_2024 [--list] [--no-scripts]

First come the tests, in a minute or two, and a line for each printed result: passed or failed. Then the scripts run one after the other,
which takes hours for he_2025; `--no-scripts` leaves them out, and `--list` runs nothing.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAPERS = {"he_2025": "He (2025)", "he_2024": "He, Strohmer, Vershynin, Zhu (2024)", "zhang_2024": "Zhang, Xu, Tang, Qu (2024)"}
TEST, SCRIPT = re.compile(r"`(tests/[\w/]+\.py::\w+)`"), re.compile(r"`(benchmarks/[\w/]+\.py)`")


def printed(paper):
    """Return (printed result, tests, scripts) for each line of a paper on the page."""
    sections = re.split(r"^## ", (ROOT / "docs" / "papers.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    (section,) = (each for each in sections if each.startswith(PAPERS[paper]))
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ") and not line.startswith("| printed")]
    return [(cells[0], TEST.findall(cells[-1]), SCRIPT.findall(cells[-1])) for cells in lines]


def outcomes(tests):
    """Run tests; return whether all cases of each passed, by its name."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", f"--junitxml={report}", *tests]
        subprocess.run(command, cwd=ROOT, check=False)
        passed: dict = {}
        for case in ElementTree.parse(report).iter("testcase"):
            name = case.get("name", "").partition("[")[0]
            passed[name] = passed.get(name, True) and not {part.tag for part in case} & {"failure", "error"}
    return passed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paper", choices=PAPERS)
    parser.add_argument("--list", action="store_true", help="say what stands for each printed result, and run nothing")
    parser.add_argument("--no-scripts", action="store_true", help="run the tests alone")
    arguments = parser.parse_args()
    results = printed(arguments.paper)
    scripts = list(dict.fromkeys(script for _, _, of_line in results for script in of_line))
    passed = {} if arguments.list else outcomes(list(dict.fromkeys(test for _, tests, _ in results for test in tests)))
    said = {True: "passed", False: "FAILED", None: "not run"}
    for result, tests, of_line in results:
        verdicts = [f"{test}: {said[passed.get(test.partition('::')[2])]}" for test in tests]
        print(f"{result}\n    " + "\n    ".join([*verdicts, *of_line] or ["nothing to run: docs/papers.md says why"]))
    codes = [not all(passed.values())]
    for script in () if arguments.list or arguments.no_scripts else scripts:
        print(f"== {script}", flush=True)
        codes.append(subprocess.run([sys.executable, ROOT / script], check=False).returncode != 0)
    sys.exit(any(codes))


if __name__ == "__main__":
    main()
