"""The page that leads from the papers to the code names what exists, and leaves out no algorithm."""

import ast
import importlib
import re
from functools import cache

import numpy as np
import pytest
from extensions import DOCS

import skdpsynth

if not (DOCS / "papers.md").exists():
    pytest.skip("needs the source tree", allow_module_level=True)

PAGE = (DOCS / "papers.md").read_text(encoding="utf-8")
ROOT = DOCS.parent
DISSERTATION, ARTICLE, DPFM, _ = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
# What each source numbers, as it does: where one letter series ends, the source has no more of it.
NUMBERED = [
    *[(DISSERTATION, "Algorithm", str(number)) for number in range(1, 13)],
    *[(DISSERTATION, "Theorem", number) for number in ("1.1", "3.6", "3.8", "3.9", "3.10", "4.1", "4.12", "5.1")],
    *[(DISSERTATION, "Corollary", number) for number in ("3.3", "3.7", "3.11")],
    *[(DISSERTATION, "Lemma", f"{chapter}.{number}") for chapter, numbers in {5: (3, 4, 5, 6, 7, 8, 10, 11)}.items() for number in numbers],
    *[(DISSERTATION, "Lemma", number) for number in ("2.3", "2.4", "2.5", "4.3", "4.11", "4.13")],
    *[(DISSERTATION, "Proposition", f"4.{number}") for number in (2, 4, 5, 6, 8, 9, 10, 14)],
    *[(DISSERTATION, "Proposition", number) for number in ("3.2", "3.4", "3.5", "5.9", "5.12")],
    *[(ARTICLE, "Algorithm", str(number)) for number in range(1, 6)],
    *[(ARTICLE, "Theorem", number) for number in ("1", "9")],
    *[(ARTICLE, "Proposition", str(number)) for number in (2, 3, 4, 5, 6, 7, 8, 10)],
    *[(ARTICLE, "Lemma", str(number)) for number in range(1, 6)],
    *[(DPFM, "Algorithm", str(number)) for number in range(1, 4)],
    *[(DPFM, "Theorem", str(number)) for number in (10, 12, 14, 15)],
    *[(DPFM, "Lemma", str(number)) for number in (5, 6, 7, 8, 9, 11, 13, 16)],
    *[(DPFM, "Table", str(number)) for number in range(1, 8)],
]


def numbers(part, kind):
    """The numbers after a kind in the first column: "Lemmas 5.8, 5.10 and 5.11", "Tables 1 to 7" and the like."""
    found = set()
    for cell in re.findall(r"^\| ([^|]+) \|", part, flags=re.MULTILINE):
        plural = {"Corollary": "Corollar(?:y|ies)"}.get(kind, f"{kind}s?")
        for listed in re.findall(rf"{plural} ((?:[\d.]+(?:, | and | to )?)+)", cell):
            found |= set(re.findall(r"\d+(?:\.\d+)?", listed)) | spans(listed)
    return found


def spans(listed):
    """The numbers between those that "to" stands between."""
    pairs = re.findall(r"(?:(\d+)\.)?(\d+) to (?:\d+\.)?(\d+)", listed)
    return {f"{chapter}.{n}" if chapter else str(n) for chapter, low, high in pairs for n in range(int(low), int(high) + 1)}


def test_what_the_papers_number_has_a_line():
    assert [(part[:5], kind, number) for part, kind, number in NUMBERED if number not in numbers(part, kind)] == []


@cache
def functions(path):
    """The names of the functions of a file of tests."""
    return {node.name for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))) if isinstance(node, ast.FunctionDef)}


def test_named_objects_tests_and_scripts_exist():
    objects = [name.rpartition(".") for name in re.findall(r"\{py:obj\}`~?([\w.]+)`", PAGE)]
    assert [name for name in objects if not hasattr(importlib.import_module(name[0]), name[2])] == []
    tests = [name.partition("::") for name in re.findall(r"`(tests/[\w/.:]+)`", PAGE)]
    assert [name for name in tests if name[2] not in functions(name[0])] == []
    assert [path for path in re.findall(r"`(benchmarks/[\w/]+\.py)`", PAGE) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    ("cls", "parameter", "value"), sorted(set(re.findall(r"py:obj\}`~skdpsynth\.(\w+)` with `(\w+)=\"(\w+)\"`", PAGE)))
)
@pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning")
def test_a_named_setting_is_taken(cls, parameter, value):
    getattr(skdpsynth, cls)(**{parameter: value}).fit(np.random.default_rng(0).random((60, 3)))


def test_a_line_without_code_says_why_it_is_absent():
    lines = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| printed")]
    assert [line for line in lines if "`" not in line and "absent: " not in line] == []
