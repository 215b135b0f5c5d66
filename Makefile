PYTHON ?= python3
COVERAGE ?= --cov
BIN = .venv/bin

.PHONY: demo test check slow faults fuzz matrix mutants bench performance reproduction venv clean

demo: .venv/demo  ## Find tumours in a table, train five models of digits, and write a report (minutes).
	$(BIN)/fdsm demo

test: .venv/test  ## Run the tests and the examples in docstrings, and print the coverage. `make test COVERAGE=` is faster.
	$(BIN)/python -m pytest $(COVERAGE)

check: .venv/dev  ## Check style, format, types and spelling.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell

slow: .venv/test  ## Run the tests that take minutes.
	$(BIN)/python -m pytest -m slow

faults: .venv/test  ## Inject every kind of fault (docs/reliability.md), also those that take minutes.
	$(BIN)/python -m pytest tests/faults -m "slow or not slow"

fuzz: .venv/test  ## Change files at random and read them: 60,000 cases, an hour. Options: FUZZ="--cases 100 --seed 1".
	$(BIN)/python -m tests.fuzz --cases 2600 $(FUZZ)
	$(BIN)/python -m tests.fuzz.bombs

matrix:  ## Run the tests with the oldest and newest torch on each Python (several GB). Options: MATRIX="--torch 2.15.0 --delete".
	$(PYTHON) tools/matrix.py $(MATRIX)

mutants: .venv/test  ## Introduce an error into each formula and check that a test fails.
	$(BIN)/python -m tests.mutation

bench: .venv/test  ## Measure time, memory and accuracy as ratios. Fails if a ratio is worse than in results/bench.
	$(BIN)/fdsm bench all --check
	$(BIN)/python -m benchmarks.engines

reproduction: .venv/all  ## Reproduce the paper at the reduced scale (hours) and write docs/reproduction.md.
	$(BIN)/fdsm reproduce all --out results
	$(BIN)/python -m fdsm.paper.document docs/reproduction.md.jinja results docs/reproduction.md

performance: .venv/all  ## Measure everything (hours; other packages where installed) and write docs/performance.md.
	$(BIN)/fdsm bench all --peers --out results/bench
	$(BIN)/python -m fdsm.benchmarks.results.page docs/performance.md.jinja results/bench docs/performance.md

venv: .venv/dev  ## Install everything needed for development.

# There is one environment. A stamp file records each set of extras that has been installed into it.
.venv/all .venv/demo .venv/report .venv/test .venv/dev: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[$(@F)]"
	touch $@

clean:  ## Delete the environment.
	rm -rf .venv
