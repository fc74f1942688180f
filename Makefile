# dgpbench: `make help` lists what can be done. Each target sets up what it needs and re-uses it the next time.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help run test test-full test-faults test-mutants tables figures docs bench lint lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@ $(VENV)/.installed

run: $(VENV)/.installed ## train STAR on boston in minutes; ARGS='dataset=... method=... split=1' changes the run
	$(BIN)/dgpbench run method=star dataset=boston budget=laptop training.max_iterations=400 $(ARGS)

test: $(VENV)/.installed-dev ## run the tests but for the long statistical ones
	$(BIN)/python -m pytest -m "not full and not faults" -n 2 --dist loadfile $(ARGS)

test-full: $(VENV)/.installed-dev ## run every test, the long statistical ones too
	$(BIN)/python -m pytest -m "not faults" -n 2 --dist loadfile $(ARGS)

test-faults: $(VENV)/.installed-dev ## run the fault table: kills, full disks, bad input; within 20 minutes
	$(BIN)/python -m pytest tests/faults $(ARGS)

test-mutants: $(VENV)/.installed-dev ## put known faults into a copy, one at a time; ARGS='training --workers 1' names a list or a fault
	$(BIN)/python tests/mutants/run.py $(ARGS)

tables: $(VENV)/.installed ## write every table that has records in results/ to results/tables; ARGS=budget=laptop
	$(BIN)/dgpbench table all $(ARGS)

figures: $(VENV)/.installed ## draw every figure that has records in results/ to results/figures; ARGS=budget=laptop
	$(BIN)/dgpbench figure all --output results/figures $(ARGS)

docs: $(VENV)/.installed ## write the tables of README.md and docs/ from results/records; ARGS=--check only looks
	$(BIN)/dgpbench docs $(ARGS)

bench: $(VENV)/.installed ## time gradient steps against their floors; ARGS='methods=mf,star,fc M=128,64 --output steps.csv'
	$(BIN)/dgpbench bench steps $(ARGS)

lint: $(VENV)/.installed-dev ## check style and types
	$(BIN)/ruff check dgpbench tests scripts
	$(BIN)/ruff format --check dgpbench tests scripts
	$(BIN)/mypy

lock: $(VENV)/.installed-dev ## write the versions in use to constraints.txt
	$(BIN)/python -m pip freeze --exclude-editable --exclude dgpbench > constraints.txt

clean: ## remove the environment and build products; records stay
	rm -rf $(VENV) build dist *.egg-info
