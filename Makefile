# Every target does its own set-up: it needs only Python >= 3.11 and a package index.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest -n auto -q
ROOM ?=
PAPER ?= he_2025
DEMO := .venv-demo
LEADERBOARD := .venv-leaderboard

.PHONY: help demo test test-all test-nightly faults costs coverage lint docs docs-quick docs-phone dist bench leaderboard paper peers clean
.DEFAULT_GOAL := help

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/  make \1@\2/p' $(MAKEFILE_LIST) | awk -F@ '{ printf "%-18s %s\n", $$1, $$2 }'

demo: $(DEMO)/.installed  ## synthetic patients from made-up ones: a table, output/quickstart.png and output/synthetic_patients.csv
	$(DEMO)/bin/python examples/plot_quickstart.py --output output

test: $(INSTALLED)  ## the quick lane, some three minutes: what is cheap or a must; of one folder with ROOM=privacy
	$(PYTEST) --lane quick $(or $(wildcard tests/$(ROOM)),$(wildcard tests/test_$(ROOM)*.py),$(error no tests of $(ROOM)))

test-all: $(INSTALLED)  ## all tests but those that are nightly: some seven minutes on two cores
	$(PYTEST) --lane day

test-nightly: $(INSTALLED)  ## all tests, with new noise, five times
	for round in 1 2 3 4 5; do $(PYTEST) --fresh || exit 1; done

faults: $(INSTALLED)  ## faults that are put in by hand, and a tenth of the mutants: some test must fail each time
	$(BIN)/python benchmarks/injected_faults.py
	$(BIN)/python benchmarks/mutations.py --part 1/10

costs: $(INSTALLED)  ## measure what each test costs, for the lanes
	$(PYTEST) --costs

coverage: $(INSTALLED)  ## the test suite, and which lines of the package it leaves out
	$(BIN)/python -m pytest -n auto -q --cov --cov-report=term-missing:skip-covered

lint: $(INSTALLED)  ## ruff, mypy, codespell
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell

docs: $(INSTALLED)  ## the documentation, in docs/_build/html
	$(BIN)/python -m pip install -q -e '.[docs]'
	$(BIN)/python -m sphinx -W -j auto -b html docs docs/_build/html
	$(BIN)/python docs/_ext/check_site.py docs/_build/html

docs-quick: $(INSTALLED)  ## the documentation with one example run, in docs/_build/quick
	$(BIN)/python -m pip install -q -e '.[docs]'
	$(BIN)/python -m sphinx -W -q -j auto -b html -D sphinx_gallery_conf.filename_pattern=plot_quickstart docs docs/_build/quick
	$(BIN)/python docs/_ext/check_site.py docs/_build/quick

docs-phone: docs-quick  ## no title and no code wider than its box on a phone and a small screen; needs Chromium
	$(BIN)/python docs/_ext/phone.py docs/_build/quick
	$(BIN)/python docs/_ext/phone.py docs/_build/quick --width 1280

dist: $(INSTALLED)  ## the wheel and the source archive, checked, in dist
	rm -rf dist
	$(BIN)/python -m hatchling build
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl

bench: $(INSTALLED)  ## the measurements behind the numbers in the documentation
	$(BIN)/python benchmarks/run_all.py

leaderboard: $(LEADERBOARD)/.installed  ## skdpsynth beside stored peers on public benchmarks: ten minutes of processor time; writes docs/leaderboard.md
	$(LEADERBOARD)/bin/python benchmarks/leaderboard.py

paper: $(INSTALLED)  ## the tests and scripts that stand for a paper: PAPER=he_2025, he_2024 or zhang_2024
	$(BIN)/python benchmarks/papers/reproduce.py $(PAPER)

peers: $(INSTALLED)  ## other libraries on the same data, each in an environment of its own; writes docs/comparison.md
	$(BIN)/python benchmarks/peers/compare.py --page docs/comparison.md

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip
	$(BIN)/python -m pip install -q -e '.[dev]'
	touch $@

# The demo is for people who look around: it gets the library, pandas and matplotlib, and none of the developers' tools.
$(DEMO)/.installed: pyproject.toml
	$(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/python -m pip install -q --upgrade pip
	$(DEMO)/bin/python -m pip install -q -e '.[plot]' pandas
	touch $@

# Pinned, so that figures of two machines are those of the same versions.
$(LEADERBOARD)/.installed: benchmarks/leaderboard.txt pyproject.toml
	$(PYTHON) -m venv $(LEADERBOARD)
	$(LEADERBOARD)/bin/python -m pip install -q --upgrade pip
	$(LEADERBOARD)/bin/python -m pip install -q -r benchmarks/leaderboard.txt
	$(LEADERBOARD)/bin/python -m pip install -q --no-deps -e .
	touch $@

clean:  ## remove all that was made
	rm -rf $(VENV) $(DEMO) $(LEADERBOARD) .venv-peers .venv-core .venv-oldest dist output docs/_build docs/auto_examples docs/api
