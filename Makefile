PYTHON ?= python3
BIN = .venv/bin
WORKERS ?= 2
PYTEST = OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
TARGETS = table1 table2 table3 table4 table5 table6 figure1 figure2 figure3 figure4 lemma2 theorem2 \
          sensitivity gap normalizer table1_times kernels nce_mpf sumo denoising_directions \
          loss_against_time published_sizes_table1 published_sizes_table2 published_sizes_table3 \
          published_sizes_table5 digits digit_samples

.PHONY: demo test test-paper test-benchmarks check coverage nightly matrix bench performance reproduction $(TARGETS) docs \
        release-check venv clean

demo: .venv/tables  ## Compare five objectives on digits, find tumors in a table, and write one page (two minutes).
	$(BIN)/fdsm demo

test: .venv/test  ## Run the tests of the package and the examples in docstrings (minutes).
	$(PYTEST)

test-paper: .venv/test  ## Run the tests of the reproduction.
	$(PYTEST) paper

test-benchmarks: .venv/test  ## Run the tests of the benchmarks.
	$(PYTEST) benchmarks

check: .venv/dev  ## Check style, format, types, spelling and workflows.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyrefly check
	$(BIN)/codespell
	$(BIN)/zizmor --offline --quiet .

coverage: .venv/test  ## Run the tests of the package and print which lines they do not reach.
	$(PYTEST) --cov

nightly: .venv/test  ## Run what takes longer: faults, fuzzed files, launches, compilation, mutations (an hour).
	$(PYTEST) tests paper benchmarks -m nightly
	FDSM_EVERY_ORDER=1 $(PYTEST) tests/derivatives/taylor
	$(BIN)/python -m tests.nightly.fuzz --cases 100
	$(BIN)/python -m tests.nightly.fuzz.bombs
	$(BIN)/python -m tests.nightly.mutation

matrix:  ## Run the tests with the oldest and newest torch on each Python (several GB). Options: MATRIX="--torch 2.15.0 --delete".
	$(PYTHON) tools/matrix.py $(MATRIX)

bench: .venv/test  ## Measure time, memory and accuracy as ratios. Fails if a ratio is worse than the committed one.
	$(BIN)/python -m benchmarks all --check
	$(BIN)/python -m benchmarks engines

performance: .venv/test  ## Measure everything (hours; other packages where installed) and write docs/performance.md.
	$(BIN)/python -m benchmarks all --peers --out benchmarks/results/costs
	$(BIN)/python -m benchmarks page

$(TARGETS): .venv/all  ## Reproduce a table or figure of the paper at the reduced scale, for example `make table2`.
	$(BIN)/python -m paper $@

reproduction: .venv/all  ## Reproduce the paper at the reduced scale (hours) and write docs/reproduction.md.
	$(BIN)/python -m paper all --out paper/results
	$(BIN)/python -m paper.document

docs: .venv/docs .venv/test  ## Build the site in docs/_build/html: run the gallery, write the reference, check links. Fails on warnings.
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build --fail-on-warning --keep-going --builder html docs docs/_build/html
	$(BIN)/python -m pytest -q tests/test_site.py

release-check: .venv/dev  ## Build the package twice, compare, and try it in empty environments (minutes).
	$(BIN)/python tools/release_check.py

venv: .venv/dev  ## Install everything needed for development.

# There is one environment. A stamp file records each extra or dependency group that has been installed into it.
.venv/test .venv/dev .venv/docs: INSTALL = -e ".[all]" --group $(@F)
.venv/tables .venv/all: INSTALL = -e ".[$(@F)]"
.venv/tables .venv/all .venv/test .venv/dev .venv/docs: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet 'pip>=25.1'  # older ones know no groups
	$(BIN)/python -m pip install --quiet -c constraints.txt $(INSTALL)
	touch $@

clean:  ## Delete the environment.
	rm -rf .venv
