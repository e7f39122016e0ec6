# Every target does its own set-up: it needs only Python >= 3.11 and a package index.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test lint docs bench clean

demo: $(INSTALLED)  ## private synthetic data from real images: a table, output/quickstart.png and output/synthetic_pixels.csv
	$(BIN)/python examples/plot_quickstart.py --output output

test: $(INSTALLED)  ## the test suite
	$(BIN)/python -m pytest -n auto -q

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell

docs: $(INSTALLED)  ## the documentation, in docs/_build/html
	$(BIN)/python -m pip install -q -e '.[docs]'
	$(BIN)/python -m sphinx -W -b html docs docs/_build/html

bench: $(INSTALLED)  ## the measurements behind the numbers in the documentation
	$(BIN)/python benchmarks/run_all.py

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip
	$(BIN)/python -m pip install -q -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) output docs/_build docs/auto_examples
