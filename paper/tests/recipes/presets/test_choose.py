"""Presets: the kind and size of the data decide, and every choice can be overruled."""

import itertools
import typing
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Generator

from paper.data import (
    Array,
    Chain,
    Dataset,
    Dequantize,
    Digits,
    EncodeColumns,
    FillMissing,
    ImageFolder,
    NormalizeTails,
    Source,
    Standardize,
    Table,
    TableSchema,
    Transform,
    Whiten,
)
from paper.data.dataset import build_dataset
from paper.data.tables import Categorical, Constant, Numeric
from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from paper.recipes import (
    Autoencoder,
    ConditionalMLP,
    ConditionalResNet,
    CrossFittedEBM,
    Flow,
    KernelFamily,
    NoiseConditionalEBM,
    PresetError,
    RandomFeatures,
    ScoreNetwork,
)
from paper.recipes.presets import (
    FAMILIES,
    DerivativeName,
    Kind,
    ModelName,
    ObjectiveName,
    choose_preset,
    prepare_source,
)
from fdsm.serialize import find_fields, from_json, to_json
from fdsm.training import ShuffledBatches, fit

from tests.parameters import at_night

MODELS = typing.get_args(ModelName)
OBJECTIVES = typing.get_args(ObjectiveName)
DERIVATIVES = typing.get_args(DerivativeName)


@dataclass(frozen=True)
class NormalRows:
    """A table of normal numbers."""

    count: int
    columns: int = 3
    transform: Transform = Standardize()

    def load(self) -> Dataset:
        x = torch.randn(self.count, self.columns, generator=Generator().manual_seed(0))
        return build_dataset(self, (x, x[:4], x[:4]))


@dataclass(frozen=True)
class NoiseImages:
    """Images of random bytes."""

    count: int = 12
    transform: Transform = Dequantize()

    def load(self) -> Dataset:
        pixels = torch.randint(
            256, (self.count, 1, 8, 8), generator=Generator().manual_seed(0), dtype=torch.uint8
        )
        return build_dataset(self, (pixels, pixels[:4], pixels[:4]))


SOURCES: dict[str, Source] = {"tables": NormalRows(24), "images": NoiseImages()}


def allowed(
    kind: str, model: ModelName, objective: ObjectiveName | None, derivative: DerivativeName | None
) -> bool:
    """Return whether a combination exists, as the documentation says."""
    models = {
        "tables": {"ebm", "flow", "kernel"},
        "images": {"ebm", "flow", "score-network", "autoencoder"},
    }
    objectives = {
        "ebm": ("dsm", "ssm", "ssmvr", "sm"),
        "flow": ("mle", "dsm", "ssm", "ssmvr", "sm"),
        "kernel": ("ssm", "ssmvr", "sm"),
        "score-network": ("dsm", "ssmvr"),
        "autoencoder": ("ssmvr",),
    }
    if model not in models[kind]:
        return False
    chosen = objective or objectives[model][0]
    without = chosen in {"dsm", "mle"}
    return chosen in objectives[model] and not (without and derivative)


COMBINATIONS = list(itertools.product(SOURCES, MODELS, (None, *OBJECTIVES), (None, *DERIVATIVES)))


@pytest.mark.parametrize("kind", SOURCES)
def test_combinations_that_do_not_exist_list_the_allowed_ones(kind: str) -> None:
    source = SOURCES[kind]
    data = source.load()
    for combination in (c for c in COMBINATIONS if c[0] == kind and not allowed(*c)):
        _, model, objective, derivative = combination
        with pytest.raises(PresetError) as error:
            choose_preset(source, data, model=model, objective=objective, derivative=derivative)
        message = str(error.value)
        assert "--" not in message
        if not allowed(kind, model, None, None):
            others = [name for name in MODELS if allowed(kind, name, None, None)]
            assert f"not for {kind}. Models for {kind}: {', '.join(others)}" in message
        elif not allowed(kind, model, objective, None):
            assert f"Allowed: {', '.join(FAMILIES[model].objectives)}" in message
        else:
            assert "Objectives with a choice: ssm, ssmvr, sm" in message


EXISTING = [combination for combination in COMBINATIONS if allowed(*combination)]
QUICK = [
    (kind, *others)
    for kind, *others in EXISTING
    if (kind == "tables" and (others[2] is None or others[:2] == ["ebm", "ssm"]))
    or (kind == "images" and others[1:] == [None, None])
]
"""Each model, objective and engine at least once."""


@pytest.mark.parametrize("combination", at_night(EXISTING, but=QUICK), ids=str)
def test_every_other_combination_can_be_recorded_and_trained(
    combination: tuple[str, ModelName, ObjectiveName | None, DerivativeName | None],
) -> None:
    kind, model, objective, derivative = combination
    source = SOURCES[kind]
    data = source.load()
    preset = choose_preset(source, data, model=model, objective=objective, derivative=derivative)
    recipe = preset.recipe
    assert recipe.name == preset.name
    plain = replace(recipe, data=Table("x.csv"))  # type: ignore[type-var]
    assert from_json(to_json(plain)) == plain
    engines = {"taylor": Taylor, "fd": FiniteDifference, "autodiff": Autodiff}
    used = list(find_fields(recipe.objective, "derivative"))  # type: ignore[attr-defined]
    if derivative is not None:
        assert [type(one) for one in used] == [engines[derivative]]
        assert f"derivatives with {engines[derivative].__name__}" in preset.description
    data = replace(data, transform=recipe.data.transform.fit(data.train))
    torch.manual_seed(0)
    network = recipe.build(data.shape)
    generator = Generator().manual_seed(0)
    recipe.before_training(network, data, generator)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    batches = ShuffledBatches(data.train, data.transform, 8, seed=0)
    metrics: list[float] = []
    fit(
        recipe.step(network, data),
        batches,
        1,
        generator=generator,
        callbacks=[lambda event: metrics.extend(map(float, event.metrics.values()))],
    )
    assert torch.tensor(metrics).isfinite().all()
    moved = [not torch.equal(value, before[name]) for name, value in network.state_dict().items()]
    assert any(moved)
    validated = recipe.validate(network, data, generator)
    assert torch.tensor(list(validated.values())).isfinite().all()


@pytest.mark.parametrize(
    ("rows", "name", "iterations"),
    [
        (24, "small", 4000),
        (999, "small", 4000),
        (1000, "medium", 8000),
        (100_000, "large", 20_000),
    ],
)
def test_number_of_rows_decides_the_size(rows: int, name: str, iterations: int) -> None:
    source = NormalRows(rows)
    preset = choose_preset(source, source.load())
    assert preset.name == preset.recipe.name == f"table/{name}"
    assert preset.recipe.plan.iterations == iterations
    assert preset.reason == f"{rows:,} training rows of 3 columns"
    assert isinstance(preset.recipe, NoiseConditionalEBM)
    assert isinstance(preset.recipe.network, ConditionalMLP)


def test_images_get_a_network_for_images() -> None:
    preset = choose_preset(NoiseImages(), NoiseImages().load())
    assert preset.name == "images/small"
    assert preset.reason == "12 training images of 64 values"
    assert isinstance(preset.recipe, NoiseConditionalEBM)
    assert isinstance(preset.recipe.network, ConditionalResNet)
    assert preset.description == "energy-based model, denoising score matching"


@pytest.mark.parametrize(
    ("model", "family", "description"),
    [
        ("flow", Flow, "normalizing flow (NICE), maximum likelihood"),
        (
            "kernel",
            KernelFamily,
            "deep kernel exponential family, sliced score matching, derivatives with Taylor",
        ),
    ],
)
def test_model_family_is_named(model: ModelName, family: type, description: str) -> None:
    source = NormalRows(24)
    preset = choose_preset(source, source.load(), model=model)
    assert isinstance(preset.recipe, family)
    assert preset.name == f"table/small/{model}"
    assert preset.description == description


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("rows", [8, 24, 100, 3000])
def test_batch_is_at_most_the_number_of_rows(model: ModelName, rows: int) -> None:
    for source in (NormalRows(rows), NoiseImages(rows)):
        kind = "tables" if isinstance(source, NormalRows) else "images"
        if allowed(kind, model, None, None):
            plan = choose_preset(source, source.load(), model=model).recipe.plan
            assert plan.batch <= rows
            assert plan.batch == rows or plan.batch >= min(32, rows // 2)
            if plan.patience is not None:
                assert plan.validate_every <= plan.patience < plan.iterations


def test_images_are_compared_by_features_for_any_image() -> None:
    """A classifier of digits would not fit photographs."""
    preset = choose_preset(NoiseImages(), NoiseImages().load(), model="score-network")
    assert isinstance(preset.recipe, ScoreNetwork)
    assert preset.recipe.distance.features == RandomFeatures()
    assert preset.recipe.distance.name == "frechet_random"


def test_autoencoder_sees_binary_images() -> None:
    source = Digits()
    recipe = choose_preset(source, source.load(), model="autoencoder").recipe
    assert isinstance(recipe, Autoencoder)
    data = source.load()
    transform = recipe.data.transform.fit(data.train)
    x = transform.sample(data.train[:100], Generator().manual_seed(0))
    assert set(x.unique().tolist()) == {0.0, 1.0}


def test_energy_models_see_images_from_minus_one_to_one() -> None:
    source = NoiseImages()
    recipe, data = choose_preset(source, source.load()).recipe, source.load()
    transform = recipe.data.transform.fit(data.train)
    dark = transform.deterministic(torch.zeros(1, 1, 8, 8, dtype=torch.uint8))
    light = transform.deterministic(torch.full((1, 1, 8, 8), 255, dtype=torch.uint8))
    assert dark.mean().item() == pytest.approx(-1, abs=0.01)
    assert light.mean().item() == pytest.approx(1, abs=0.01)


def test_kind_is_that_of_the_stored_rows() -> None:
    assert Kind.of(NormalRows(50).load()) == Kind(False, 50, 3)
    assert Kind.of(NoiseImages(20).load()) == Kind(True, 20, 64)


SCHEMA = TableSchema((
    Numeric("a"),
    Constant("unit", "string", "kg"),
    Categorical("kind", "string", ("x", "y", "z")),
))


def codes_of(rows: int) -> Dataset:
    """The codes of a table with a number and a category of three levels."""
    x = torch.stack([torch.randn(rows), torch.randint(3, (rows,)).float()], 1).double()
    return Dataset(x, x[:0], x[:0], Chain(()), {}, schema=SCHEMA)


@pytest.mark.parametrize("source", [Table("x.csv"), Array("x.npy")])
def test_all_rows_of_a_table_are_for_training(source: Table | Array) -> None:
    """Cross-fitting holds out every row once. Other models need their own held-out rows."""
    for objective in (None, "dsm"):
        prepared = prepare_source(source, objective=objective)  # type: ignore[arg-type]
        assert prepared == replace(source, validation=0.0, test=0.0)
    assert prepare_source(source, objective="ssm") == source
    assert prepare_source(source, model="flow") == source


def test_other_data_keep_their_splits() -> None:
    for source in (ImageFolder("photos"), Digits()):
        assert prepare_source(source) == source


@pytest.mark.parametrize(
    ("rows", "size", "iterations", "width"),
    [
        (30, "small", 1000, 64),
        (1000, "medium", 1500, 64),
        (100_000, "large", 5000, 128),
    ],
)
def test_tables_get_a_cross_fitted_ensemble(
    rows: int, size: str, iterations: int, width: int
) -> None:
    preset = choose_preset(prepare_source(Table("x.csv")), codes_of(rows))
    recipe = preset.recipe
    assert isinstance(recipe, CrossFittedEBM)
    assert preset.name == recipe.name == f"table/{size}"
    assert preset.description == "energy-based model, denoising score matching"
    assert (recipe.plan.iterations, recipe.width) == (iterations, width)
    assert recipe.plan.batch == min(256, rows)
    assert recipe.plan.patience is not None
    assert recipe.plan.validate_every < recipe.plan.patience < iterations


def test_recipe_of_a_table_has_the_types_of_its_columns() -> None:
    """The run can be opened and used without the file."""
    recipe = choose_preset(prepare_source(Table("x.csv")), codes_of(30)).recipe
    assert isinstance(recipe.data, Table)
    assert recipe.data.schema == SCHEMA
    assert recipe.data.transform == Chain((EncodeColumns((0, 3)), NormalizeTails(), FillMissing()))
    assert from_json(to_json(recipe)) == recipe


def test_table_with_splits_gets_one_network() -> None:
    recipe = choose_preset(Table("x.csv", test=0.2), codes_of(30)).recipe
    assert isinstance(recipe, NoiseConditionalEBM)
    assert isinstance(recipe.data, Table)
    assert recipe.data.test == pytest.approx(0.2)


def test_transform_of_the_user_is_kept() -> None:
    source = prepare_source(Table("x.csv", transform=Whiten()))
    recipe = choose_preset(source, codes_of(30)).recipe
    assert recipe.data.transform == Whiten()
