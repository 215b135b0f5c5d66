"""Presets: a recipe for a user's data, chosen by the kind and size of the data.

The model family, the objective and the derivative engine can be chosen instead.
"""

from .choose import Preset, choose_preset, prepare_source
from .families import (
    FAMILIES,
    DerivativeName,
    Kind,
    ModelName,
    ObjectiveName,
    PresetError,
)

__all__ = [
    "FAMILIES",
    "DerivativeName",
    "Kind",
    "ModelName",
    "ObjectiveName",
    "Preset",
    "PresetError",
    "choose_preset",
    "prepare_source",
]
