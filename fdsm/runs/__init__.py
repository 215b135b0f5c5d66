"""Run folders: training a recipe, saving the model, and using it."""

from .evaluate import evaluate
from .recipe_file import UnknownRecipeError, recipe_from_file
from .run import Run, RunError, UnfinishedRunError, UntrustedFileError
from .saved_model import SavedModel, Scores
from .train import TrainingInterrupted, train

__all__ = [
    "Run",
    "RunError",
    "SavedModel",
    "Scores",
    "TrainingInterrupted",
    "UnfinishedRunError",
    "UnknownRecipeError",
    "UntrustedFileError",
    "evaluate",
    "recipe_from_file",
    "train",
]
