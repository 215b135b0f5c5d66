"""What targets and metrics are called, and in which order they are shown."""

from ..paper.published import PUBLISHED

PACE = "milliseconds_per_iteration"
VALIDATED = "milliseconds_with_validation"
BYTES = "bytes"
RATIO, MEMORY_RATIO = "ratio", "memory ratio"

TARGETS = {
    "table1": "Table 1: DKEF on UCI data",
    "sensitivity": "Sensitivity to the step (Sec. 6.1)",
    "gap": "Parkinsons: what the gap is not",
    "normaliser": "Parkinsons: the normaliser",
    "table1_times": "Times of Table 1 in detail",
    "table2": "Table 2: deep EBMs",
    "table3": "Table 3: NICE",
    "table4": "Table 4: out-of-distribution detection",
    "table5": "Table 5: NCSN",
    "table6": "Table 6: VAE and WAE with implicit encoders",
    "figure1": "Figure 1: computing graphs",
    "figure2": "Figure 2: directional derivatives of any order",
    "figure3": "Figure 3: samples",
    "figure4": "Figure 4: what is learnt in which time",
    "lemma2": "Lemma 2: gradients of finite differences",
    "theorem2": "Theorem 2: convergence under stochastic optimisation",
    "nce_mpf": "Appendix B.7: NCE, MPF and FD-SSM",
    "sumo": "Appendix B.6: latent variables by SUMO",
}
"""The targets of a reproduction, in the order of the page."""

METRICS = {
    "nll": "NLL",
    "nll_near_data": "NLL, proposal near data",
    "effective_sample_size": "effective samples",
    "effective_sample_size_near_data": "effective samples, near data",
    "exact_sm_loss": "exact SM loss",
    "exact_sm_loss_median": "median SM loss",
    "sm_loss": "SM loss",
    "ood_auc": "OOD AUC",
    "fid": "FID",
    "frechet_classifier": "Fréchet distance, classifier features",
    "frechet_random": "Fréchet distance, random features",
    "denoising": "denoising loss",
    "reconstruction": "reconstruction",
    "fisher": "Fisher divergence",
    PACE: "ms / iteration",
    VALIDATED: "ms / iteration with validation",
    BYTES: "memory",
}
"""Metrics of which the name is not what to write above a column."""

_DATA = {"svhn": "SVHN", "cifar10": "CIFAR-10", "imagenet": "ImageNet", "mnist": "MNIST"}


def title(metric: str) -> str:
    """Return what to call a metric.

    Args:
        metric: Its name in `result.json`.

    Returns:
        The title of its column.

    Example:
        >>> title("nll"), title("ood_auc_cifar10"), title("sliced_wasserstein")
        ('NLL', 'OOD AUC, CIFAR-10', 'sliced wasserstein')
    """
    family, _, data = metric.rpartition("auc_")
    if family == "ood_":
        return f"OOD AUC, {_DATA.get(data, data.replace('_', ' '))}"
    return METRICS.get(metric, metric.replace("_", " "))


def rank(target: str, row: str = "") -> tuple[int, int]:
    """Return the place of a target on the page, and that of a row among its published ones.

    What is not known comes last.

    Args:
        target: The name of the target.
        row: The name of the row.

    Returns:
        Two numbers to sort by.
    """
    targets, rows = list(TARGETS), list(PUBLISHED.get(target, {}))
    return (
        targets.index(target) if target in TARGETS else len(targets),
        rows.index(row) if row in rows else len(rows),
    )
