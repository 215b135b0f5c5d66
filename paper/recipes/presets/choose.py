"""Choose a recipe for a user's data by the kind and size of the data."""

from dataclasses import dataclass, replace

from ...data import (
    Array,
    Chain,
    Dataset,
    EncodeColumns,
    FillMissing,
    NormalizeTails,
    Source,
    Table,
    Transform,
)
from fdsm.serialize import find_fields
from ..recipe import Recipe
from .families import (
    ENGINES,
    FAMILIES,
    TITLES,
    DerivativeName,
    Kind,
    ModelName,
    ObjectiveName,
    PresetError,
)


@dataclass(frozen=True)
class Preset:
    """A recipe chosen for a data set, and why.

    Attributes:
        name: Name of the preset, such as `table/small`.
        recipe: The recipe.
        description: The model, the objective and the derivative, as text.
        reason: The properties of the data that determined the choice.
    """

    name: str
    recipe: Recipe
    description: str
    reason: str


def prepare_source(
    source: Source, *, model: ModelName = "ebm", objective: ObjectiveName | None = None
) -> Source:
    """Return the source with the splits that the preset needs, before the data are loaded.

    The preset for tables holds out every row once, by cross-fitting. So all rows of a table are
    for training. Other data and models need rows for validation and test.

    Args:
        source: The source of the data.
        model: The model family.
        objective: The objective. Default: that of the model family.

    Returns:
        The source.
    """
    if isinstance(source, (Table, Array)) and model == "ebm" and objective in {None, "dsm"}:
        return replace(source, validation=0.0, test=0.0)
    return source


def choose_preset(
    source: Source,
    data: Dataset,
    *,
    model: ModelName = "ebm",
    objective: ObjectiveName | None = None,
    derivative: DerivativeName | None = None,
) -> Preset:
    """Return the preset for a data set.

    Args:
        source: The source of the data. Its transform is replaced if the model needs another.
        data: The data set that was loaded from it. Its kind and size determine the preset.
        model: The model family.
        objective: The objective. Default: that of the model family.
        derivative: How to differentiate along directions. Default: that of the objective.

    Returns:
        The preset.

    Raises:
        PresetError: If the combination does not exist. The message lists the allowed ones.
    """
    kind, family = Kind.of(data), FAMILIES[model]
    wanted = "images" if kind.is_images else "tables"
    if wanted not in family.data:
        raise PresetError(
            f"a model {model!r} is for {' and '.join(family.data)}, not for {wanted}. "
            f"Models for {wanted}: "
            f"{', '.join(name for name, other in FAMILIES.items() if wanted in other.data)}"
        )
    chosen = objective or next(iter(family.objectives))
    if chosen not in family.objectives:
        raise PresetError(
            f"a model {model!r} cannot be trained with the objective {chosen!r}. "
            f"Allowed: {', '.join(family.objectives)}"
        )
    engine = None if derivative is None else ENGINES[derivative]
    loss = family.objectives[chosen](engine)
    if isinstance(source, (Table, Array)):
        source = _for_columns(source, kind)
    recipe = family.build(source, kind, loss)
    name = kind.name if model == "ebm" else f"{kind.name}/{model}"
    used = next(find_fields(loss, "derivative"), None)
    suffix = "" if used is None else f", derivatives with {type(used).__name__}"
    return Preset(
        name,
        replace(recipe, name=name),  # type: ignore[type-var]
        f"{family.title}, {TITLES[chosen]}{suffix}",
        kind.reason,
    )


def _for_columns(source: Table | Array, kind: Kind) -> Table | Array:
    """Return a source with the types of its columns, and without missing values as inputs."""
    assert kind.schema is not None
    encode: Transform = source.transform
    if isinstance(encode, EncodeColumns):
        encode = EncodeColumns(kind.schema.num_levels)
        encode = Chain((encode, NormalizeTails(), FillMissing()))
    return replace(source, schema=kind.schema, transform=encode)
