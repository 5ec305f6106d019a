# A fresh machine needs Python 3.11+, make and git. Everything else is installed here, in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find src -name '*.py' -o -name '*.sql') pyproject.toml setup.py
PYTEST := $(BIN)/python -m pytest -q -p no:cacheprovider
# How setup.py builds the package here: compiled or plain. Evaluated after .venv exists.
MODE = $(shell $(BIN)/python -B -c "import setup; print(setup.mode())")
# The tests of compiled code, and some of whole halls: all other code is the same Python in both modes. What
# the second run finds is a difference between the two modes, for which Hypothesis needs fewer examples.
COMPILED_TESTS := tests/core tests/dialects tests/engine tests/transports tests/sim/test_sim.py \
	$(addprefix tests/system/test_,own_peers.py across_dialects.py drain.py)
# What starts halls and keeps jobs: it also runs with the data in PostgreSQL. Tests of SQLite's files are left out there.
STORED_TESTS := $(addprefix tests/,system web sdk worker shell flows_cli)
# The part of it that touches storage most and takes little time, in every `make test`.
STORED_SOON := $(addprefix tests/system/test_,across_dialects.py own_peers.py delays.py pauses.py)
WORKERS ?= 3
# Thousands of processes are started: none of them should compile the same modules again.
unexport PYTHONDONTWRITEBYTECODE
# More processes than two cores, because many tests wait more than they compute. Idle ones take tests from others.
SHARED := -n $(WORKERS) --dist worksteal

.PHONY: serve pictures matrix test test-plain test-postgres check types tidy format sim sim-long soak bench bench-compare livejournal village wheels clean clients help

help:            ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

serve: $(VENV)/installed            ## run a hall with SQLite storage and every door on loopback, at its default port
	$(BIN)/hall serve --all-doors $(ARGS)

test: $(VENV)/tested            ## all tests on the installed, compiled package; then the tests of compiled code again as plain Python
	TEST_MODE=$(MODE) $(PYTEST) $(SHARED) -m "not soak" tests
	TEST_DATA=postgres TEST_MODE=$(MODE) $(PYTEST) $(SHARED) -m "not soak" $(STORED_SOON)
	TEST_MODE=plain EXAMPLES=few PYTHONPATH=$(CURDIR)/src $(PYTEST) $(SHARED) -m "not soak" $(COMPILED_TESTS)

test-plain: $(VENV)/tested            ## all tests on the source as plain Python, without compiling; ONLY=tests/core selects some
	PYTHONPATH=$(CURDIR)/src $(PYTEST) $(SHARED) -m "not soak" $(or $(ONLY),tests)

test-postgres: $(VENV)/tested            ## the tests that start halls, with the data of each hall in PostgreSQL; ONLY=tests/system selects some
	TEST_DATA=postgres TEST_MODE=$(MODE) $(PYTEST) $(SHARED) -m "not soak" $(or $(ONLY),$(STORED_TESTS))

check: $(VENV)/checked            ## lint, type checks and tidy tests; takes less than a minute
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MAKE) --jobs=2 --output-sync=target types tidy

types: $(VENV)/checked
	$(BIN)/mypy

tidy: $(VENV)/checked
	PYTHONPATH=$(CURDIR)/src $(PYTEST) tests/tidy

format: $(VENV)/checked            ## format the source and fix lint errors
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

sim: SEED ?= 1
sim: $(VENV)/tested            ## one run of the simulator, with its log: make sim SEED=42
	PYTHONPATH=$(CURDIR)/src $(BIN)/python -m tests.sim --seed $(SEED) --verbose

sim-long: SEED ?= 1000000
sim-long: SEEDS ?= 100000
sim-long: $(VENV)/tested            ## many simulator runs on all cores, on the installed package, and a tenth as many with several halls: make sim-long SEED=1000000 SEEDS=100000
	$(BIN)/python -m tests.sim --long --seed $(SEED) --seeds $(SEEDS)

soak: SEED ?= 1
soak: ROUNDS ?= 100
soak: $(VENV)/tested            ## long fault tests: kill the hall under load in all dialects (make soak ROUNDS=1000); hall, worker and client of the SDK; a flow of 100,000 tasks; faults of several halls on PostgreSQL; other slow tests
	$(BIN)/python tests/soak/run.py --rounds $(ROUNDS) --seed $(SEED)
	$(BIN)/python tests/soak/sdk.py --seed $(SEED)
	$(BIN)/python tests/soak/flows.py --seed $(SEED)
	$(BIN)/python tests/soak/cluster.py --seed $(SEED)
	$(PYTEST) -m soak tests --timeout 3600

bench: $(VENV)/tested            ## measure the hall beside other servers; writes bench/RESULTS.md and docs/images/speed.svg
	$(BIN)/python bench/run.py $(ARGS)

bench-compare: $(VENV)/tested            ## compare this build with another one, in turns: make bench-compare BEFORE=path/to/python
	$(BIN)/python bench/compare.py $(BEFORE) $(ARGS)

livejournal: $(VENV)/tested            ## example: ten tasks of a small LiveJournal, and what the history says about them
	$(BIN)/python examples/livejournal/run.py $(ARGS)

village: $(VENV)/tested            ## example: a village of agents uses a hall, under each policy; writes village.html
	$(BIN)/python examples/village/run.py --html village.html $(ARGS)

matrix: $(VENV)/tested            ## see every pair of dialects on one hall; writes docs/matrix.md
	PYTHONPATH=$(CURDIR)/src $(BIN)/python -m tests.matrix

pictures: $(VENV)/tested            ## take the pictures of the dashboard from a busy hall, with Chromium; writes docs/images/dashboard-*.png
	PYTHONPATH=$(CURDIR)/src $(BIN)/python tests/browser/take_pictures.py

wheels:            ## build a compiled wheel in dist/ for each CPython from 3.11 to 3.14 that is here, and test it where nothing can be compiled
	scripts/build-wheels $(VERSIONS)

clients:            ## install the foreign clients and servers that the tests use (Debian; needs root)
	scripts/install-test-clients

clean:            ## delete what make built; keeps hall-data/ (your jobs), .clients/ and other environments
	rm -rf $(VENV) build dist *.egg-info src/*.egg-info .mypy_cache .ruff_cache .hypothesis village.html

$(VENV)/made:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade "pip>=25.1"
	touch $@

# Not an editable install: the hot packages are compiled during the install (see setup.py).
$(VENV)/installed: $(VENV)/made $(SOURCES)
	@$(BIN)/python -B -c "import setup; print(setup.notice())"
	$(BIN)/python -m pip install -q --upgrade .
	touch $@

$(VENV)/tested: $(VENV)/installed
	$(BIN)/python -m pip install -q --group test
	touch $@

$(VENV)/checked: $(VENV)/tested
	$(BIN)/python -m pip install -q --group check
	touch $@
