# Every target does its own set-up: it needs only Python >= 3.11 and a package index.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test test-fast lint docs docs-quick bench peers clean

demo: $(INSTALLED)  ## private synthetic data from real images: a table, output/quickstart.png and output/synthetic_pixels.csv
	$(BIN)/python examples/plot_quickstart.py --output output

test: $(INSTALLED)  ## the test suite: under four minutes on two cores
	$(BIN)/python -m pytest -n auto -q

test-fast: $(INSTALLED)  ## under a minute: the common laws for one variant of each class, without slow and statistical tests
	$(BIN)/python -m pytest -n auto -q -m "not slow and not statistical"

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell

docs: $(INSTALLED)  ## the documentation, in docs/_build/html
	$(BIN)/python -m pip install -q -e '.[docs]'
	$(BIN)/python -m sphinx -W -b html docs docs/_build/html

docs-quick: $(INSTALLED)  ## the documentation with one example run, in docs/_build/quick
	$(BIN)/python -m pip install -q -e '.[docs]'
	$(BIN)/python -m sphinx -W -q -b html -D sphinx_gallery_conf.filename_pattern=plot_quickstart docs docs/_build/quick

bench: $(INSTALLED)  ## the measurements behind the numbers in the documentation
	$(BIN)/python benchmarks/run_all.py

peers: $(INSTALLED)  ## other libraries on the same data, each in an environment of its own; writes docs/comparison.md
	$(BIN)/python benchmarks/peers/compare.py --page docs/comparison.md

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip
	$(BIN)/python -m pip install -q -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) output docs/_build docs/auto_examples
