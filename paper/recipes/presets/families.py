"""The model families that presets can choose, and how each is set up for a kind of data."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from ...data import (
    Affine,
    Array,
    Binarize,
    Chain,
    Dataset,
    Flatten,
    Logit,
    Noise,
    Source,
    Table,
    TableSchema,
    Transform,
)
from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from fdsm.models import VAE, ExactEquations, FullGradientEquations, SlicedEquations
from fdsm.models.normal_equations import Equations
from fdsm.noise import Geometric
from fdsm.objectives import DSM, MLE, SM, SSM, SSMVR, Annealed, AnnealedDSM, ViaScore
from fdsm.projections import Sphere
from fdsm.training import Adam, CosineSchedule
from fdsm.typing import Derivative, Objective
from fdsm.untrusted import InputError
from ..autoencoder import Autoencoder
from ..flow import Flow
from ..frechet import Frechet, RandomFeatures
from ..kernel import KernelFamily
from ..networks import ConditionalMLP, ConditionalResNet
from ..noise_conditional import CrossFittedEBM, NoiseConditionalEBM
from ..recipe import Recipe, TrainingPlan
from ..score_network import ScoreNetwork

ModelName = Literal["ebm", "flow", "kernel", "score-network", "autoencoder"]
ObjectiveName = Literal["dsm", "ssm", "ssmvr", "sm", "mle"]
DerivativeName = Literal["taylor", "fd", "autodiff"]

STEP = Sphere(0.1)
"""Directions of length 0.1, which is the step size of finite differences."""
DIRECTIONS = 4
"""Number of random directions per row in sliced score matching."""


class PresetError(InputError):
    """A combination of data, model, objective and derivative that does not exist."""


@dataclass(frozen=True)
class Kind:
    """The kind and size of a data set, which determine the preset.

    Attributes:
        is_images: Whether events are images, `(channels, height, width)`.
        rows: Number of training rows.
        elements: Number of elements of an event.
        schema: Types of the columns, if the data is a table of the user.
    """

    is_images: bool
    rows: int
    elements: int
    schema: TableSchema | None = None

    @classmethod
    def of(cls, data: Dataset) -> "Kind":
        """Return the kind of a data set."""
        event = data.train.shape[1:]
        return cls(len(event) == 3, len(data.train), event.numel(), data.schema)

    @property
    def size(self) -> Literal["small", "medium", "large"]:
        """Small below 1,000 training rows, large from 100,000 on."""
        if self.rows < 1000:
            return "small"
        return "medium" if self.rows < 100_000 else "large"

    @property
    def name(self) -> str:
        """The name of the presets for this kind of data."""
        return f"{'images' if self.is_images else 'table'}/{self.size}"

    @property
    def reason(self) -> str:
        """A description of the data, such as `900 training rows of 3 columns`."""
        what = f"images of {self.elements:,} values" if self.is_images else "rows"
        columns = "" if self.is_images else f" of {self.elements:,} columns"
        return f"{self.rows:,} training {what}{columns}"


ENGINES: dict[DerivativeName, Derivative] = {
    "taylor": Taylor(),
    "fd": FiniteDifference(),
    "autodiff": Autodiff(),
}
LEVELS = Geometric(3.0, 0.1, 20)
IMAGE_LEVELS = Geometric(1.0, 0.05, 6)
TITLES: dict[ObjectiveName, str] = {
    "dsm": "denoising score matching",
    "ssm": "sliced score matching",
    "ssmvr": "sliced score matching with variance reduction",
    "sm": "exact score matching",
    "mle": "maximum likelihood",
}


def _without_derivative(name: str, objective: Objective) -> Callable[[Derivative | None], Any]:
    """Return an objective that takes no derivative along directions."""

    def build(engine: Derivative | None) -> Objective:
        if engine is not None:
            raise PresetError(
                f"the objective {name!r} takes no derivatives along directions, so there is no "
                "choice of derivative. Objectives with a choice: ssm, ssmvr, sm"
            )
        return objective

    return build


def _ssm(engine: Derivative | None) -> Objective:
    return SSM(engine or Taylor(), STEP, directions=DIRECTIONS)


def _ssmvr(engine: Derivative | None) -> Objective:
    return ViaScore(SSMVR(engine or Autodiff(), STEP))


def _sm(engine: Derivative | None) -> Objective:
    return SM(engine or Taylor())


def _annealed(
    build: Callable[[Derivative | None], Objective],
) -> Callable[[Derivative | None], Objective]:
    return lambda engine: Annealed(build(engine), LEVELS, relative=True)


def _with_transform(source: Source, *steps: Transform) -> Source:
    """Return a source whose transform is a chain of steps."""
    return replace(source, transform=Chain(steps))  # type: ignore[type-var]


def _plan(
    kind: Kind,
    iterations: dict[str, int],
    batch: int = 128,
    **changes: Any,  # ruff: ignore[any-type]
) -> TrainingPlan:
    """Return a plan whose length follows the size of the data, stopped early by validation."""
    count = iterations[kind.size]
    every = max(1, count // 40)
    plan = TrainingPlan(
        count,
        batch=min(batch, kind.rows),
        validate_every=every,
        checkpoint_every=max(1, count // 8),
        patience=10 * every,
        num_samples=64 if kind.is_images else None,
    )
    return replace(plan, **changes)


def _energy_model(source: Source, kind: Kind, objective: Objective) -> Recipe:
    if kind.is_images:
        return NoiseConditionalEBM(
            "",
            objective,
            _with_transform(source, source.transform, Affine(2.0, -1.0)),
            ConditionalResNet(),
            LEVELS,
            plan=_plan(kind, {"small": 1000, "medium": 2000, "large": 4000}, batch=64),
            validation_rows=100,
        )
    no_splits = isinstance(source, (Table, Array)) and source.validation == source.test == 0
    if (
        no_splits
        and isinstance(objective, ViaScore)
        and isinstance(objective.objective, AnnealedDSM)
    ):
        return CrossFittedEBM(
            "",
            source,
            width=128 if kind.size == "large" else 64,
            plan=_plan(kind, {"small": 1000, "medium": 1500, "large": 5000}, batch=256),
        )
    width = {"small": 128, "medium": 128, "large": 256}[kind.size]
    iterations = {"small": 4000, "medium": 8000, "large": 20_000}
    return NoiseConditionalEBM(
        "",
        objective,
        source,
        ConditionalMLP((width, width, width)),
        LEVELS,
        plan=_plan(kind, iterations),
    )


def _flow(source: Source, kind: Kind, objective: Objective) -> Recipe:
    if kind.is_images:
        source = _with_transform(source, source.transform, Logit(1e-3), Flatten())
    noise = objective.sigma if isinstance(objective, DSM) else 0.0
    return Flow(
        "",
        objective,
        source,
        hidden=200 if kind.is_images else 100,
        depth=2,
        optimizer=Adam(1e-3, clip=10.0, schedule=CosineSchedule()),
        plan=_plan(kind, {"small": 2000, "medium": 4000, "large": 10_000}),
        noise_std=noise,
    )


def _kernel(source: Source, kind: Kind, objective: Objective) -> Recipe:
    equations: Equations = SlicedEquations()
    if isinstance(objective, ViaScore):
        equations = FullGradientEquations()
    elif isinstance(objective, SM):
        equations = ExactEquations()
    half = max(2, kind.rows // 2)
    # Without noise the loss has no minimum if a column takes few different values.
    noisy = _with_transform(source, source.transform, Noise(0.1))
    return KernelFamily(
        "",
        objective,
        noisy,
        equations,
        inducing=min(200, half),
        plan=_plan(
            kind,
            {"small": 1000, "medium": 1000, "large": 2000},
            batch=min(200, half),
            validate_every=20,
            patience=200,
        ),
        penalty_steps=200,
        partition_samples=100_000,
    )


def _score_network(source: Source, kind: Kind, objective: Objective) -> Recipe:
    return ScoreNetwork(
        "",
        objective,
        source,
        IMAGE_LEVELS,
        width=8,
        optimizer=Adam(3e-3, schedule=CosineSchedule()),
        plan=_plan(
            kind,
            {"small": 1000, "medium": 2000, "large": 4000},
            batch=32,
            patience=None,
            ema_decay=0.99,
        ),
        steps=10,
        step_size=7.5e-4,
        denoise=True,
        distance=Frechet(RandomFeatures(), 1000, name="frechet_random"),
    )


def _autoencoder(source: Source, kind: Kind, objective: Objective) -> Recipe:
    return Autoencoder(
        "",
        objective,
        VAE,
        _with_transform(source, source.transform, Binarize()),
        plan=_plan(kind, {"small": 2000, "medium": 3000, "large": 10_000}, patience=None),
        likelihood_rows=50,
        temperatures=500,
        chains=4,
        first_step=0.1,
    )


@dataclass(frozen=True)
class Family:
    """A model family that presets can choose.

    Attributes:
        title: Its name in messages and reports.
        data: The kinds of data that it can learn.
        objectives: How to build each objective from a derivative. The first is the default.
        build: Returns the recipe for a source, a kind of data and an objective.
    """

    title: str
    data: tuple[str, ...]
    objectives: dict[ObjectiveName, Callable[[Derivative | None], Objective]]
    build: Callable[[Source, Kind, Objective], Recipe]


FAMILIES: dict[ModelName, Family] = {
    "ebm": Family(
        "energy-based model",
        ("tables", "images"),
        {
            "dsm": _without_derivative("dsm", ViaScore(AnnealedDSM(LEVELS))),
            "ssm": _annealed(_ssm),
            "ssmvr": _annealed(_ssmvr),
            "sm": _annealed(_sm),
        },
        _energy_model,
    ),
    "flow": Family(
        "normalizing flow (NICE)",
        ("tables", "images"),
        {
            "mle": _without_derivative("mle", MLE()),
            "dsm": _without_derivative("dsm", DSM(0.1)),
            "ssm": _ssm,
            "ssmvr": _ssmvr,
            "sm": _sm,
        },
        _flow,
    ),
    "kernel": Family(
        "deep kernel exponential family",
        ("tables",),
        {"ssm": _ssm, "ssmvr": _ssmvr, "sm": _sm},
        _kernel,
    ),
    "score-network": Family(
        "noise-conditional score network (NCSN)",
        ("images",),
        {
            "dsm": _without_derivative("dsm", AnnealedDSM(IMAGE_LEVELS)),
            "ssmvr": lambda engine: Annealed(
                SSMVR(engine or FiniteDifference(), STEP), IMAGE_LEVELS
            ),
        },
        _score_network,
    ),
    "autoencoder": Family(
        "variational autoencoder with an implicit encoder",
        ("images",),
        {"ssmvr": lambda engine: SSMVR(engine or FiniteDifference(), STEP)},
        _autoencoder,
    ),
}
