# Every target sets up .venv by itself; only Python 3.11+ must be present.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo test test-oldest lint format docs wheel bench screenshots clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch hatchling editables
	$(BIN)/pip install --quiet --constraint constraints.txt --no-build-isolation --editable ".[dev]"
	touch $@

demo: $(STAMP)
	$(BIN)/noisyteacher demo

test: $(STAMP)
	$(BIN)/pytest -n 2 --cov --cov-report=term:skip-covered

# The same tests with the oldest allowed versions of the core requirements other than torch.
test-oldest: .venv-oldest/.installed
	.venv-oldest/bin/pytest -n 2

.venv-oldest/.installed: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/pip install --quiet --constraint constraints.txt torch hatchling editables
	.venv-oldest/bin/pip install --quiet --constraint constraints-oldest.txt --no-build-isolation --editable ".[dev]"
	touch $@

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The documentation as a site, in site/.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

wheel: $(STAMP)
	$(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

# CPU figures of benchmarks/README.md; those of a GPU are made by the commands named there.
bench: $(STAMP)
	$(BIN)/python benchmarks/store.py --csv benchmarks/store.csv
	$(BIN)/python benchmarks/noise.py --csv benchmarks/noise.csv
	$(BIN)/python benchmarks/solver.py --csv benchmarks/solver.csv
	$(BIN)/python benchmarks/engine.py --device cpu --csv benchmarks/engine-cpu.csv
	$(BIN)/python benchmarks/methods.py --device cpu --csv benchmarks/methods-cpu.csv
	$(BIN)/python benchmarks/audit.py --csv benchmarks/audit.csv
	$(BIN)/python benchmarks/join.py --csv benchmarks/join.csv
	$(BIN)/python benchmarks/import_jsonl.py --csv benchmarks/import_jsonl.csv
	$(BIN)/python benchmarks/halfspace.py --csv results/halfspace/speed.csv

# Hours on two cores; see the options of each script for a smaller or a parallel run.
JOBS ?= 2
attack: export OMP_NUM_THREADS = 1
attack: export MKL_NUM_THREADS = 1
attack: $(STAMP)
	$(BIN)/python tests/attack/bad_inputs.py
	$(BIN)/python tests/attack/malicious.py
	$(BIN)/python tests/attack/flips.py --flips 2000 --jobs $(JOBS)
	$(BIN)/python tests/attack/kills.py --count 1000 --jobs $(JOBS) --out build/kills.jsonl
	$(BIN)/python tests/attack/mutation.py --count 150 --jobs $(JOBS) --out build/mutants.jsonl

# Needs Chromium on the PATH.
screenshots: demo
	$(BIN)/python docs/screenshots.py runs/demo

clean:
	rm -rf $(VENV) .venv-oldest .mypy_cache .pytest_cache .ruff_cache build dist site
