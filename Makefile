# guardctl: two commands are enough for a newcomer: `make demo` and `make test`. Everything else is for people who change it.
SHELL := /bin/bash
PYTHON ?= $(shell for p in /usr/bin/python3 python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
TORCH ?= torch==2.13.0
NODES ?= 8
SEED ?=

.PHONY: environment help demo lab test test-fast check format bench system clean

help:  ## what there is to make
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/.ready  ## the whole loop on a real Slurm with real faults, shown (SEED=7 repeats a draw)
	$(BIN)/python -m tests.demo $(if $(SEED),--seed $(SEED))

lab: $(VENV)/.ready  ## a Slurm cluster on this machine to play with (NODES=8); `python -m tests.lab down` ends it
	$(BIN)/python -m tests.lab up --nodes $(NODES)

test: $(VENV)/.ready  ## all tests; those in the lab need root and Debian's packages, else they are skipped and counted
	$(BIN)/python -m pytest

test-fast: $(VENV)/.ready  ## the tests without a cluster, under a minute
	$(BIN)/python -m pytest -m "not lab and not slow"

check: $(VENV)/.ready  ## lint, types, and which room may import which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.ready  ## put the code in shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.ready  ## measure, and write docs/benchmarks.md and docs/benchmarks.json
	$(BIN)/python -m tests.bench

system:  ## Debian packages for the lab and the environment, where we may install them
	@sh tests/lab/install.sh

$(VENV)/.ready: pyproject.toml tests/lab/install.sh
	@sh tests/lab/install.sh
	@$(MAKE) --no-print-directory environment  # a make of its own, which looks for the Python that was just installed
	@touch $@

environment:
	@test -n "$(PYTHON)" || { echo "make: needs Python 3.11 or newer: set PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check "$(TORCH)"
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[dev]"

clean:  ## take down labs of this checkout and remove what was built
	-test -x $(BIN)/python && $(BIN)/python -m tests.lab down
	rm -rf $(VENV) .demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
