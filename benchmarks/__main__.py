"""Run a benchmark by its name: `python -m benchmarks step --check`."""

import sys
from collections.abc import Sequence
from importlib import import_module

from fdsm.untrusted import InputError

from .suite import NAMES

PROGRAMS = {
    "outliers": ("outliers.compare", "outlier detectors on a folder of tables"),
    "mixed-tables": ("mixed_tables.compare", "errors planted in tables of mixed types"),
    "planted-errors": ("mixed_tables.planted_errors", "errors planted in eight real tables"),
    "imputation": ("imputation", "deleted cells of 20 tables filled again"),
    "synthesis": ("synthesis", "samples of a table against the table"),
    "table-scaling": ("table_scaling", "time and memory of a table as rows and columns grow"),
    "false-discoveries": ("outliers.false_discoveries", "simulated false discovery rates"),
    "leak": ("outliers.leak", "what resampling before the split does to detectors"),
    "log-partition": ("log_partition", "bias and reported error of estimates of log Z"),
    "likelihood": ("likelihood", "log-likelihoods by the probability flow: errors and costs"),
    "operator-models": ("operator_models", "operators on public models against nested autograd"),
    "engines": ("engines", "cost and accuracy of the engines on a ResNet and a flow"),
    "compiled-checks": ("compiled_checks", "what the checks of a compiled step cost"),
    "scaling": ("scaling", "training steps of several processes"),
    "page": ("records.page", "write docs/performance.md from the results"),
}
"""Modules with a function `main`, and what they measure. All other names belong to `costs`."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run a benchmark with its own options, or list all of them."""
    name, *options = [*(sys.argv[1:] if argv is None else argv), ""][:-1] or [""]
    if name in {"", "-h", "--help"}:
        width = max(map(len, PROGRAMS))
        print("usage: python -m benchmarks NAME [options]   (NAME --help lists the options)\n")
        print(f"Costs as ratios: {', '.join(NAMES)}, all.\n")
        print("\n".join(f"{key:{width}}  {text}" for key, (_, text) in PROGRAMS.items()))
        return
    module, _ = PROGRAMS.get(name, ("costs", ""))
    arguments = options if name in PROGRAMS else [name, *options]
    try:
        import_module(f".{module}", __package__).main(arguments)
    except InputError as error:
        sys.exit(f"benchmarks: {error}")


if __name__ == "__main__":
    main()
