PYTHON ?= python3
BIN = .venv/bin

.PHONY: demo test check slow matrix mutants bench reproduction venv clean

demo: .venv/demo  ## learn digits five ways, with a table and a page
	$(BIN)/fdsm demo

test: .venv/test  ## run the tests and every example in the documentation of the code
	$(BIN)/python -m pytest

check: .venv/dev  ## lint, check the format and the types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

slow: .venv/test  ## the tests that take minutes
	$(BIN)/python -m pytest -m slow

matrix:  ## the tests with the oldest and newest torch on each Python: several GB; options in MATRIX="--torch 2.15.0 --delete"
	$(PYTHON) tools/matrix.py $(MATRIX)

mutants: .venv/test  ## break each formula on purpose and check that a test notices
	$(BIN)/python -m tests.mutation

bench: .venv/test  ## times, memory and accuracy of the engines, as ratios
	$(BIN)/python -m benchmarks.step
	$(BIN)/python -m benchmarks.engines

reproduction: .venv/all  ## everything the paper shows, at the scale of two cores: hours; then the document of it
	$(BIN)/fdsm reproduce all --out results
	$(BIN)/python -m fdsm.paper.document docs/reproduction.md.jinja results docs/reproduction.md

venv: .venv/dev  ## everything to work on the code

# One environment; a stamp for each set of extras that has been installed into it.
.venv/all .venv/demo .venv/report .venv/test .venv/dev: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[$(@F)]"
	touch $@

clean:
	rm -rf .venv
