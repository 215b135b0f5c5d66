"""A trained model by itself: sampling, scoring and checking it, without the data it saw."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..data import Dataset
from ..data.transforms import Transform
from ..derivatives import as_log_density
from ..recipes.recipe import Density
from ..samplers import Progress
from ..training import checkpoint
from ..typing import LogDensity
from .run import MODEL, Run, RunError

REFERENCE_ROWS = 2000
"""How many rows of each split the log-densities are kept of."""
BATCH = 500


@dataclass(frozen=True)
class SavedModel:
    """A model, and what is needed to use it on new data.

    Attributes:
        run: Where it comes from.
        model: The model.
        transform: From data to the space of the model, as fitted in training.
        shape: The shape of an event in the space of the model.
        reference: Log-densities of the training rows, if the model has any.
        held_out: Log-densities of the test rows.
        largest: The largest value in the training rows, such as that of white.
        integral: Whether the data are whole numbers, as images of bytes are.
        progress: How many iterations were made, in how many seconds, and why they ended.
    """

    run: Run
    model: nn.Module
    transform: Transform
    shape: torch.Size
    reference: Tensor | None
    held_out: Tensor | None
    largest: float
    integral: bool
    progress: Mapping[str, Any]

    def sample(self, n: int, progress: Progress, seed: int = 0) -> Tensor:
        """Return samples in the space of the data, shape `(n, *E)`; bytes if that is bytes."""
        generator, parts = self.run.generator("sample", seed), []
        for part in torch.split(torch.arange(n), BATCH):
            y = self.run.recipe.sample(self.model, self.shape, len(part), generator, progress)
            parts.append(self.transform.inverse(y.cpu()))
        x = torch.cat(parts)
        return x.round().clamp(0, self.largest).byte() if self.integral else x

    def log_density(self, rows: Tensor) -> Tensor:
        r"""Return the log-density of rows of data, unnormalised unless the model is, shape `(N,)`.

        It is that of the data, $\log p(Tx) + \log|\det T'(x)|$ for the transform $T$.

        Args:
            rows: Rows as they are stored, shape `(N, *E)`.

        Returns:
            A number per row, in float64.
        """
        return log_densities(
            density_of(self.run, self.model), self.transform, rows, self.run.device
        )


@dataclass(frozen=True)
class Scores:
    r"""How likely rows are, and how typical.

    Attributes:
        log_density: $\log p(x)$, up to a constant unless the model is normalised.
        typicality: $|\log p(x) - E_{train} \log p|$; the larger, the less typical.
        tail: The fraction of held-out rows that are no more typical; small for outliers.
    """

    log_density: Tensor
    typicality: Tensor
    tail: Tensor


def score(trained: SavedModel, rows: Tensor) -> Scores:
    """Return the scores of rows of data.

    Args:
        trained: A model with a log-density.
        rows: The rows, as they are stored, shape `(N, *E)`.

    Returns:
        Three numbers per row.
    """
    values = trained.log_density(rows)
    reference, held_out = trained.reference, trained.held_out
    assert reference is not None
    assert held_out is not None
    typicality = (values - reference.mean()).abs()
    usual = (held_out - reference.mean()).abs().sort().values
    below = torch.searchsorted(usual, typicality)
    return Scores(values, typicality, 1 - below / len(usual))


def density_of(run: Run, model: nn.Module) -> LogDensity:
    """Return the log-density of a model, or say that it has none."""
    if not isinstance(run.recipe, Density):
        raise RunError(
            f"the model of {run.reference.recipe} has no log-density that can be computed, only "
            "samples: train a deep_ebm, nice_mnist or dkef_uci model to score data"
        )
    return run.recipe.log_density(model)


@torch.no_grad()
def log_densities(f: LogDensity, transform: Transform, rows: Tensor, device: str) -> Tensor:
    """Return the log-densities of rows of data, in parts, shape `(N, *E) -> (N,)`, in float64."""
    parts = []
    for part in torch.split(rows, BATCH):
        x = part.to(device)
        parts.append(
            (as_log_density(f)(transform.deterministic(x)) + transform.log_det(x)).double().cpu()
        )
    return torch.cat(parts)


def save_trained(run: Run, model: nn.Module, data: Dataset, progress: Mapping[str, Any]) -> None:
    """Write a trained model with all that is needed to use it."""
    state: dict[str, Any] = {
        "model": model.state_dict(),
        "transform": data.transform.state(),
        "shape": list(data.shape),
        "reference": None,
        "held_out": None,
        "largest": float(data.train.max()),
        "integral": not data.train.is_floating_point(),
        "progress": dict(progress),
    }
    if isinstance(run.recipe, Density):
        f = run.recipe.log_density(model)
        for key, rows in (("reference", data.train), ("held_out", data.test)):
            state[key] = log_densities(f, data.transform, rows[:REFERENCE_ROWS], run.device)
    checkpoint.save(run.folder / MODEL, state)


def is_trained(run: Run) -> bool:
    """Return whether the training of a run is finished."""
    return (run.folder / MODEL).exists()


def open_trained(run: Run) -> SavedModel:
    """Return the model of a run that is finished.

    Args:
        run: The run.

    Returns:
        Its model.

    Raises:
        RunError: If it is not finished.
    """
    if not is_trained(run):
        raise RunError(f"the training in {run.folder} is not finished: `{run.resume}`")
    state = checkpoint.load(run.folder / MODEL)
    try:
        shape = torch.Size(state["shape"])
        model = run.build(shape)
        model.load_state_dict(state["model"])
        return SavedModel(
            run,
            model.eval(),
            run.recipe.data.transform.restore(state["transform"]),
            shape,
            state["reference"],
            state["held_out"],
            state["largest"],
            state["integral"],
            state["progress"],
        )
    except (RuntimeError, KeyError) as error:
        changed = "; ".join(run.changes()) or str(error)
        raise RunError(
            f"{run.folder / MODEL} does not fit the recipe {run.reference.recipe}: {changed}"
        ) from error
