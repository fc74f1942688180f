# dgpbench: `make help` lists what can be done. Each target sets up what it needs and re-uses it the next time.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help run test test-full test-faults test-mutants tables figures docs site bench lint lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(None if (3, 11) <= v <= (3, 13) else "dgpbench runs with Python 3.11, 3.12 or 3.13, and $(PYTHON) is %d.%d: name one of them, make $(MAKECMDGOALS) PYTHON=python3.12" % v)'
	$(PYTHON) -m venv $(VENV)

# Python 3.13 has NumPy 2 alone, which GPflow's metadata refuses and its code takes: there, a lock of everything.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
install = @echo 'installing TensorFlow, GPflow and the rest into $(VENV): this takes minutes'; \
	if $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 13))'; \
	then $(PIP) --no-deps --require-hashes --requirement constraints-3.13.txt && $(PIP) --no-deps --editable .; \
	else $(PIP) --constraint constraints.txt --editable '$(1)'; fi

$(VENV)/.installed: pyproject.toml constraints.txt constraints-3.13.txt | $(BIN)/python
	$(call install,.)
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt constraints-3.13.txt | $(BIN)/python
	$(call install,.[dev])
	@touch $@ $(VENV)/.installed

run: $(VENV)/.installed ## train STAR on boston in minutes; ARGS='dataset=... method=... split=1' changes the run
	$(BIN)/dgpbench run method=star dataset=boston budget=laptop training.max_iterations=400 $(ARGS)

test: $(VENV)/.installed-dev ## run the quick tests: some six minutes on two cores
	$(BIN)/python -m pytest -m "not full and not faults" -n 2 --dist loadfile $(ARGS)

test-full: $(VENV)/.installed-dev $(VENV)/.installed-site ## run every test but the fault table: some half an hour
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
	$(BIN)/python -m scripts.docs $(ARGS)

$(VENV)/.installed-site: $(VENV)/.installed
	$(call install,.[site])
	@touch $@

site: $(VENV)/.installed-site ## build the site in docs/build and run its examples: some three minutes
	$(BIN)/python -m sphinx -b html -W --keep-going docs docs/build

bench: $(VENV)/.installed ## time gradient steps against their floors; ARGS='methods=mf,star,fc M=128,64 --output steps.csv'
	$(BIN)/dgpbench bench steps $(ARGS)

lint: $(VENV)/.installed-dev ## check style and types
	$(BIN)/ruff check dgpbench tests scripts
	$(BIN)/ruff format --check dgpbench tests scripts
	$(BIN)/mypy

lock: $(VENV)/.installed-dev $(VENV)/.installed-site ## write the versions in use to constraints.txt, and the newest for Python 3.13 to its own lock
	$(BIN)/python -m pip freeze --exclude-editable --exclude dgpbench > constraints.txt
	printf 'gpflow==2.11.2\n' > $(VENV)/gpflow.in && printf 'numpy>=2.1,<3\n' > $(VENV)/numpy.in
	$(PIP) uv && $(BIN)/uv pip compile pyproject.toml $(VENV)/gpflow.in --extra dev --extra site --override $(VENV)/numpy.in \
		--universal --python-version 3.13 --generate-hashes --no-annotate --no-header --output-file constraints-3.13.txt

clean: ## remove the environment and build products; records stay
	rm -rf $(VENV) build dist *.egg-info
