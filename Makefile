# Everything a fresh machine needs beyond Python 3.11+, make and git is made here, in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find src -name '*.py' -o -name '*.sql') pyproject.toml setup.py
PYTEST := $(BIN)/python -m pytest -q -p no:cacheprovider
# What setup.py makes of the package here, compiled or plain; asked when .venv is there.
MODE = $(shell $(BIN)/python -B -c "import setup; print(setup.mode())")
# Of what is compiled, and a hall of each kind whole: the rest runs the same Python either way.
COMPILED_TESTS := tests/core tests/dialects tests/engine tests/transports tests/sim/test_sim.py \
	$(addprefix tests/system/test_,own_peers.py across_dialects.py drain.py)
WORKERS ?= 3
# One more than two cores: many tests wait more than they compute. Who has nothing left takes from the others.
SHARED := -n $(WORKERS) --dist worksteal

.PHONY: serve test test-plain check format sim sim-long soak bench bench-compare livejournal village clean clients help

help:            ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

serve: $(VENV)/installed            ## open the hall on embedded storage, with every door on loopback at its default port
	$(BIN)/hall serve --all-doors $(ARGS)

test: $(VENV)/tested            ## all tests on the installed package, compiled; then those of what is compiled, as plain Python
	TEST_MODE=$(MODE) $(PYTEST) $(SHARED) -m "not soak" tests
	TEST_MODE=plain PYTHONPATH=$(CURDIR)/src $(PYTEST) $(SHARED) -m "not soak" $(COMPILED_TESTS)

test-plain: $(VENV)/tested            ## all tests on the source as plain Python: no compiling between an edit and its test
	PYTHONPATH=$(CURDIR)/src $(PYTEST) $(SHARED) -m "not soak" $(or $(ONLY),tests)

check: $(VENV)/checked            ## lint, types and tidy rules; under a minute
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=$(CURDIR)/src $(PYTEST) tests/tidy

format: $(VENV)/checked            ## put the source in its form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

sim: SEED ?= 1
sim: $(VENV)/tested            ## one run of the simulator, with its log: make sim SEED=42
	PYTHONPATH=$(CURDIR)/src $(BIN)/python -m tests.sim --seed $(SEED) --verbose

sim-long: SEED ?= 1000000
sim-long: SEEDS ?= 100000
sim-long: $(VENV)/tested            ## many runs on all cores, on the installed package: make sim-long SEED=1000000 SEEDS=100000
	$(BIN)/python -m tests.sim --long --seed $(SEED) --seeds $(SEEDS)

soak: SEED ?= 1
soak: ROUNDS ?= 100
soak: $(VENV)/tested            ## the long fault runs: kills under a load of all dialects (make soak ROUNDS=1000), then what else is slow
	$(BIN)/python tests/soak/run.py --rounds $(ROUNDS) --seed $(SEED)
	$(PYTEST) -m soak tests --timeout 3600

bench: $(VENV)/tested            ## side by side with gearmand; writes bench/RESULTS.md
	$(BIN)/python bench/run.py $(ARGS)

bench-compare: $(VENV)/tested            ## this build beside another, in turns: make bench-compare BEFORE=path/to/python
	$(BIN)/python bench/compare.py $(BEFORE) $(ARGS)

livejournal: $(VENV)/tested            ## an example: ten tasks of a small LiveJournal, and what the log says of them
	$(BIN)/python examples/livejournal/run.py $(ARGS)

village: $(VENV)/tested            ## an example: a village lives on a hall, under each policy; writes village.html
	$(BIN)/python examples/village/run.py --html village.html $(ARGS)

clients:            ## the foreign clients and servers that the tests talk to (Debian; needs root)
	scripts/install-test-clients

clean:            ## forget what make built; hall-data/ (your jobs), .clients/ and other environments stay
	rm -rf $(VENV) build dist *.egg-info src/*.egg-info .mypy_cache .ruff_cache .hypothesis village.html

$(VENV)/made:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade "pip>=25.1"
	touch $@

# A plain install, not an editable one: the hot packages are compiled on the way (see setup.py).
$(VENV)/installed: $(VENV)/made $(SOURCES)
	$(BIN)/python -m pip install -q --upgrade .
	touch $@

$(VENV)/tested: $(VENV)/installed
	$(BIN)/python -m pip install -q --group test
	touch $@

$(VENV)/checked: $(VENV)/tested
	$(BIN)/python -m pip install -q --group check
	touch $@
