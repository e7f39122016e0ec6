"""Which tests a lane runs, by what they were measured to cost.

`--lane quick` (make test) takes each test that costs less than `QUICK` seconds of a processor, and all that are marked `must`. `--lane day`
(make test-all) leaves only what is marked `nightly`. Without a lane, all that were asked for run. `tests/costs.json` holds what is dear,
so a new test counts as cheap; `make costs` writes it.
"""

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest

COSTS = Path(__file__).with_name("costs.json")
QUICK = 0.05


def pytest_addoption(parser):
    parser.addoption("--lane", choices=["quick", "day"], help="quick: what is cheap or a must; day: all but what is nightly")
    parser.addoption("--costs", action="store_true", help="measure what each test costs, and write it to tests/costs.json")


def pytest_configure(config):
    if config.getoption("--costs") and not hasattr(config, "workerinput"):
        part = [config.getoption(name) for name in ("lane", "keyword", "markexpr")]
        config.pluginmanager.register(_Costs(is_whole=not any(part) and config.args == config.getini("testpaths")))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    lane = config.getoption("--lane")
    if lane is None:
        return
    costs = read()
    sides = {True: [], False: []}
    for item in items:
        sides[_is_in(item, lane, costs)].append(item)
    config.hook.pytest_deselected(items=sides[False])
    items[:] = sides[True]


def _is_in(item, lane, costs):
    if item.get_closest_marker("nightly") is not None:
        return False
    return lane == "day" or item.get_closest_marker("must") is not None or item.nodeid not in costs


def read():
    """Return the seconds of dear tests by their names."""
    if not COSTS.exists():
        return {}
    files = json.loads(COSTS.read_text(encoding="utf-8"))
    return {f"{file}::{name}": seconds for file, tests in files.items() for name, seconds in tests.items()}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    item.began = _processor()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "teardown" and item.config.getoption("--costs"):
        report.user_properties.append(("cost", _processor() - item.began))
    return report


def _processor():
    """Return the seconds that this process and those it waited for have used a processor."""
    return sum(os.times()[:4])


class _Costs:
    """Writes what tests cost. Of a part of them, those that did not run keep what they had."""

    def __init__(self, is_whole):
        self._is_whole, self._ran = is_whole, defaultdict(dict)

    def pytest_runtest_logreport(self, report):
        for name, value in report.user_properties if report.when == "teardown" else ():
            if name == "cost":
                file, _, test = report.nodeid.partition("::")
                self._ran[file][test] = value

    def pytest_sessionfinish(self, session):
        files = {} if self._is_whole or not COSTS.exists() else json.loads(COSTS.read_text(encoding="utf-8"))
        for file, tests in self._ran.items():
            dear = {test: float(f"{seconds:.1g}") for test, seconds in tests.items() if seconds >= QUICK}
            files[file] = {test: seconds for test, seconds in files.get(file, {}).items() if test not in tests} | dear
        files = {file: dict(sorted(tests.items())) for file, tests in sorted(files.items()) if tests}
        COSTS.write_text(json.dumps(files, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
