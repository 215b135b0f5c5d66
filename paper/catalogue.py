"""The catalogue of the reproduction: one record for each table, figure and theorem.

A record holds the title, the modules with the recipes or the study, the number of seeds, the
baseline of each row and the published numbers. To add a table, write its recipes in
`paper.tables` and add a record here. Importing this module does not import torch.

Reference:
    Pang et al. (2020), https://arxiv.org/abs/2007.03317.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from fdsm.untrusted import InputError

from .report import PublishedValue, RowInfo, TargetInfo
from .targets import Scale, StudyTarget, TableTarget, published_values, table_rows

if TYPE_CHECKING:
    from .recipes import Recipe

Target = TableTarget | StudyTarget

NLL, SM_LOSS, FID = "nll", "exact_sm_loss", "fid"
STEP_TIME, BYTES = "milliseconds_per_iteration", "bytes"


class UnknownTargetError(InputError):
    """A table, figure or row that is not in the catalogue."""


_STEP_SIZES = {"0.1": 14.17, "0.05": 13.51, "0.02": 14.03, "0.01": 14.00}
_STEP_SIZES_SOURCE = "Sec. 6.1, on the choice of ε"

TARGETS: tuple[Target, ...] = (
    TableTarget(
        "table1",
        "Table 1: deep kernel exponential families on UCI data",
        ("table1",),
        table_rows(
            "Table 1",
            (NLL, SM_LOSS, STEP_TIME),
            {
                "Parkinsons SSM": ("Parkinsons SSM", 14.52, -123.54, 110),
                "Parkinsons SSMVR": ("Parkinsons SSM", 13.26, -193.97, 111),
                "Parkinsons FD-SSM": ("Parkinsons SSM", 13.69, -138.72, 82.5),
                "RedWine SSM": ("RedWine SSM", 13.34, -33.28, 113),
                "RedWine SSMVR": ("RedWine SSM", 13.13, -31.19, 106),
                "RedWine FD-SSM": ("RedWine SSM", 13.06, -30.34, 82),
                "WhiteWine SSM": ("WhiteWine SSM", 14.13, -38.43, 105),
                "WhiteWine SSMVR": ("WhiteWine SSM", 13.63, -39.42, 111),
                "WhiteWine FD-SSM": ("WhiteWine SSM", 14.10, -32.84, 81.0),
            },
        )
        | table_rows(
            _STEP_SIZES_SOURCE,
            (NLL,),
            {
                f"Parkinsons FD-SSM {step}": ("Parkinsons SSM", _STEP_SIZES[step])
                for step in ("0.05", "0.02", "0.01")
            },
        )
        | {
            f"{data} {row}": RowInfo(baseline=f"{data} SSM")
            for data in ("Parkinsons", "RedWine", "WhiteWine")
            for row in ("FD-SSM-all", "Taylor-SSM", "Taylor-SM")
        }
        | {
            f"Parkinsons {row} longer": RowInfo(baseline="Parkinsons SSM")
            for row in ("SSM", "FD-SSM")
        },
        {"cpu": 10, "paper": 3},
    ),
    StudyTarget("kernels", "Table 1: sensitivity to CPU kernels", "kernels"),
    StudyTarget(
        "sensitivity",
        "Sec. 6.1: sensitivity of FD-SSM to the step size",
        "step_sensitivity",
        # A second number for `Parkinsons FD-SSM` at 0.1, beside the one of Table 1.
        {
            step: published_values(_STEP_SIZES_SOURCE, (NLL,), (nll,))
            for step, nll in _STEP_SIZES.items()
        },
    ),
    StudyTarget("gap", "Table 1: possible causes of the gap on Parkinsons", "parkinsons_gap"),
    StudyTarget("normalizer", "Table 1: four estimates of log Z on Parkinsons", "log_partition"),
    StudyTarget("table1_times", "Table 1: step times in detail", "table1_times"),
    StudyTarget(
        "published_sizes_table1",
        "Table 1: time and memory of a step, as ratios",
        "published_sizes.table1",
    ),
    TableTarget(
        "table2",
        "Table 2: deep energy-based models",
        ("table2",),
        table_rows(
            "Table 2",
            (SM_LOSS, STEP_TIME, BYTES),  # 1 G of the paper is taken as 10⁹ bytes
            {
                "DSM": ("DSM", -9.47e4, 282, 3.0e9),
                "FD-DSM*": ("DSM", -9.24e4, 191, 3.2e9),
                "FD-DSM": ("DSM", -9.27e4, 162, 2.7e9),
                "SSM": ("SSM", -2.97e7, 673, 5.1e9),
                "SSMVR": ("SSM", -3.09e7, 670, 5.0e9),
                "FD-SSM*": ("SSM", -3.36e7, 276, 3.7e9),
                "FD-SSM": ("SSM", -3.33e7, 230, 3.4e9),
                "Taylor-DSM": ("DSM",),
                "Taylor-SSM": ("SSM",),
                "Taylor-SSM 1": ("SSM",),
            },
        ),
    ),
    StudyTarget(
        "published_sizes_table2",
        "Table 2: time and memory of a step at the published size",
        "published_sizes.table2",
    ),
    StudyTarget(
        "denoising_directions",
        "Table 2: directions and iterations that FD-DSM needs to reach DSM",
        "denoising_directions",
    ),
    TableTarget(
        "table3",
        "Table 3: NICE on MNIST",
        ("table3",),
        table_rows(
            "Table 3",
            (SM_LOSS, NLL, STEP_TIME),
            {
                "Approx BP": ("SSM", (-2530, 617), (1853, 819), 55.3),
                "CP": ("SSM", (-2049, 630), (1626, 269), 73.6),
                "DSM 0.1": ("SSM", (-2820, 825), (3398, 1343), 35.8),
                "DSM 1.74": ("SSM", (-180, 50), (3764, 1583), 37.2),
                "SSM": ("SSM", (-2182, 269), (2579, 945), 59.6),
                "SSMVR": ("SSM", (-4943, 3191), (6234, 3782), 61.7),
                "FD-SSM": ("SSM", (-2425, 100), (1647, 306), 26.4),
                "MLE": ("SSM", (-1236, 525), (791, 14), 24.3),
                "Taylor-SSM": ("SSM",),
                "Taylor-SSM 1": ("SSM",),
            },
        ),
        {"cpu": 3, "paper": 5},
    ),
    StudyTarget(
        "published_sizes_table3",
        "Table 3: time and memory of a step at the published size",
        "published_sizes.table3",
    ),
    TableTarget(
        "table4",
        "Table 4: out-of-distribution detection",
        ("table4",),
        table_rows(
            "Table 4",
            (STEP_TIME, "ood_auc_svhn", "ood_auc_cifar10", "ood_auc_imagenet"),
            {
                "SVHN DSM": ("SVHN DSM", 673, 0.49, 1.00, 0.99),
                "SVHN FD-DSM": ("SVHN DSM", 305, 0.50, 1.00, 1.00),
                "CIFAR-10 DSM": ("CIFAR-10 DSM", 635, 0.91, 0.49, 0.79),
                "CIFAR-10 FD-DSM": ("CIFAR-10 DSM", 311, 0.92, 0.51, 0.81),
                "ImageNet DSM": ("ImageNet DSM", 1125, 0.95, 0.87, 0.49),
                "ImageNet FD-DSM": ("ImageNet DSM", 713, 0.95, 0.89, 0.49),
                "MNIST DSM": ("MNIST DSM",),
                "MNIST FD-DSM": ("MNIST DSM",),
                "Fashion-MNIST DSM": ("Fashion-MNIST DSM",),
                "Fashion-MNIST FD-DSM": ("Fashion-MNIST DSM",),
            },
        ),
        {"cpu": 3, "paper": 1},
    ),
    TableTarget(
        "table5",
        "Table 5: noise-conditional score networks",
        ("table5",),
        table_rows(
            "Table 5",
            (FID, STEP_TIME, BYTES),
            {
                "SSMVR": ("SSMVR", 41.2, 865, 6.4e9),
                "FD-SSMVR": ("SSMVR", 39.5, 575, 5.5e9),
                "DSM": ("SSMVR",),
            },
        ),
        {"cpu": 2, "paper": 1},
    ),
    StudyTarget(
        "published_sizes_table5",
        "Table 5: time and memory of a step at the published size",
        "published_sizes.table5",
    ),
    TableTarget(
        "table6",
        "Table 6: VAE and WAE with implicit encoders",
        ("table6_mnist", "table6_celeba"),
        # The times of WAE are probably ten times too small. The authors' code adds the times of
        # every tenth step and divides by the number of all steps.
        table_rows(
            "Table 6",
            (NLL, STEP_TIME),
            {
                "VAE SSMVR": ("VAE SSMVR", 89.58, 5.04),
                "VAE FD-SSMVR": ("VAE SSMVR", 88.96, 3.98),
                "WAE SSMVR": ("WAE SSMVR", 90.45, 0.55),
                "WAE FD-SSMVR": ("WAE SSMVR", 90.66, 0.39),
            },
        )
        | table_rows(
            "Table 6",
            (FID, STEP_TIME),
            {
                "CelebA VAE SSMVR": ("CelebA VAE SSMVR", 62.76, 14.9),
                "CelebA VAE FD-SSMVR": ("CelebA VAE SSMVR", 64.85, 9.38),
                "CelebA WAE SSMVR": ("CelebA WAE SSMVR", 54.28, 1.30),
                "CelebA WAE FD-SSMVR": ("CelebA WAE SSMVR", 54.67, 0.81),
            },
        ),
        {"cpu": 1, "paper": 1},
    ),
    StudyTarget("figure1", "Figure 1: sizes of the computational graphs", "figure1"),
    StudyTarget("figure2", "Figure 2: directional derivatives of any order", "figure2"),
    TableTarget(
        "figure3",
        "Figure 3: samples of deep energy-based models",
        ("figure3",),
        {
            "MNIST FD-DSM": RowInfo("MNIST DSM"),
            "Fashion-MNIST FD-DSM": RowInfo(),
            "CelebA FD-DSM": RowInfo(),
            "MNIST DSM": RowInfo("MNIST DSM"),
        },
        {"cpu": 1, "paper": 1},
    ),
    StudyTarget("figure4", "Figure 4: loss against training time", "figure4"),
    StudyTarget(
        "loss_against_time", "Tables 2, 3 and 5: loss against training time", "loss_against_time"
    ),
    StudyTarget(
        "lemma2", "Lemma 2: angle between finite-difference and exact gradients", "lemma2"
    ),
    StudyTarget("theorem2", "Theorem 2: stochastic gradient descent on FD-SSM", "theorem2"),
    StudyTarget("nce_mpf", "Appendix B.7: NCE, MPF and FD-SSM", "nce_mpf"),
    StudyTarget("sumo", "Appendix B.6: latent-variable models through SUMO", "sumo"),
)
"""The targets of the paper, in the order of a report."""

DEMOS: tuple[Target, ...] = (
    TableTarget(
        "toy_densities",
        "Demonstration: known densities in the plane",
        ("toy_densities",),
        {
            "FD-SSM": RowInfo("SSM"),
            "SSM": RowInfo("SSM"),
            "FD-DSM": RowInfo("SSM"),
            "SM": RowInfo("SSM"),
            "FD-SSM ring": RowInfo("SSM ring"),
            "SSM ring": RowInfo("SSM ring"),
            "FD-DSM ring": RowInfo("SSM ring"),
            "SM ring": RowInfo("SSM ring"),
        },
    ),
    TableTarget(
        "digits",
        "Demonstration: MNIST at its own resolution",
        ("digits",),
        {"EBM FD-DSM": RowInfo(), "EBM FD-SSMVR": RowInfo(), "FD-SSMVR": RowInfo()},
        {"cpu": 1, "paper": 1},
    ),
    StudyTarget(
        "digit_samples", "Demonstration: samples of digits, read by a classifier", "digit_samples"
    ),
)
"""Targets that are not in the paper. Reproducing everything does not include them."""

CLAIMS: Mapping[str, Mapping[str, PublishedValue]] = {
    "FD-SSM": {
        "least_speed_up": PublishedValue(2.5, None, "Sec. 1"),
        "speed_up": PublishedValue(2.9, None, "Sec. 6.1, on MNIST"),
    },
    "FD-DSM": {
        "least_speed_up": PublishedValue(1.5, None, "Sec. 1"),
        "speed_up": PublishedValue(1.7, None, "Sec. 6.1, on MNIST"),
    },
    "SSM": {
        "most_time": PublishedValue(25.0, None, "Sec. 2.2, relative to the log-likelihood"),
        "most_memory": PublishedValue(4.0, None, "Sec. 2.2, relative to the log-likelihood"),
    },
    "DSM": {
        "most_time": PublishedValue(5.0, None, "Sec. 2.2, relative to the log-likelihood"),
        "most_memory": PublishedValue(2.0, None, "Sec. 2.2, relative to the log-likelihood"),
    },
    "FD": {"relative_error": PublishedValue(0.01, None, "Sec. 3.3, on Figure 2")},
}
"""Numbers that only the text of the paper has, by method and quantity."""


def target(name: str) -> Target:
    """Return a target by its name.

    Args:
        name: Name of the target, such as `"table1"`.

    Returns:
        The target.

    Raises:
        UnknownTargetError: If there is no such target.
    """
    by_name: dict[str, Target] = {target.name: target for target in (*TARGETS, *DEMOS)}
    if name not in by_name:
        raise UnknownTargetError(f"unknown target {name!r}.{_suggestion(name, by_name)}")
    return by_name[name]


def find_recipes(
    target: Target, scale: Scale, rows: Iterable[str] | None = None
) -> "dict[str, Recipe]":
    """Return recipes of a target by row.

    Args:
        target: The target. A study has no recipes.
        scale: The scale.
        rows: Names of the rows. All rows if `None`.

    Returns:
        The recipes, in the order of the table.

    Raises:
        UnknownTargetError: If there is no such row.
    """
    recipes = target.recipes(scale) if isinstance(target, TableTarget) else {}
    wanted = list(recipes) if rows is None else list(rows)
    unknown = [row for row in wanted if row not in recipes]
    if unknown:
        raise UnknownTargetError(
            " ".join(
                f"unknown row {row!r} of {target.name}.{_suggestion(row, recipes)}"
                for row in unknown
            )
        )
    return {row: recipe for row, recipe in recipes.items() if row in wanted}


def recipe_of(name: str, row: str, scale: Scale) -> "Recipe":
    """Return the recipe of a row by the names of target and row.

    Args:
        name: Name of the table.
        row: Name of the row.
        scale: The scale.

    Returns:
        The recipe.

    Raises:
        UnknownTargetError: If there is no such table or row.
    """
    return find_recipes(target(name), scale, [row])[row]


def _suggestion(name: str, available: Iterable[str]) -> str:
    names = list(available)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{hint} Available: {', '.join(names) or 'none'}."


def target_infos() -> list[TargetInfo]:
    """Return title, rows, baselines and published numbers of every target, for reports.

    Example:
        >>> print(target_infos()[0].title)
        Table 1: deep kernel exponential families on UCI data
    """
    return [
        TargetInfo(
            target.name, target.title, target.rows if isinstance(target, TableTarget) else {}
        )
        for target in (*TARGETS, *DEMOS)
    ]


def published(name: str, row: str) -> dict[str, PublishedValue]:
    """Return the published numbers of a row by metric.

    Args:
        name: Name of a table or study, such as `"table1"`.
        row: Name of the row.

    Returns:
        The numbers. Empty for rows that are not in the paper.

    Example:
        >>> published("table3", "MLE")["nll"]
        PublishedValue(value=791.0, error=14.0, place='Table 3')
        >>> published("table3", "Taylor-SSM")
        {}
    """
    chosen = target(name)
    if isinstance(chosen, StudyTarget):
        return dict(chosen.published.get(row, {}))
    return dict(chosen.rows[row].published) if row in chosen.rows else {}


def claim(method: str, quantity: str) -> PublishedValue:
    """Return a number that only the text of the paper has.

    Args:
        method: Name of the method, such as `"FD-SSM"`.
        quantity: Name of the quantity, such as `"speed_up"`.

    Returns:
        The number.

    Raises:
        LookupError: If the paper has no such number.

    Example:
        >>> claim("FD-SSM", "speed_up")
        PublishedValue(value=2.9, error=None, place='Sec. 6.1, on MNIST')
    """
    if quantity not in CLAIMS.get(method, {}):
        available = ", ".join(
            f"{name} {quantity}" for name, row in CLAIMS.items() for quantity in row
        )
        raise LookupError(f"the paper has no {quantity!r} of {method!r}. Available: {available}")
    return CLAIMS[method][quantity]
