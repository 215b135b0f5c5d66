"""Keep the mutations out of the default run: `make mutants` runs them."""

collect_ignore_glob = ["*.py"]
