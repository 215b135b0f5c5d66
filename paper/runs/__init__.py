"""Run folders: training a recipe, saving the model, and using it."""

from .evaluate import evaluate
from .recipe_file import UnknownRecipeError, recipe_from_file
from .run import Run, RunError, UnfinishedRunError, UntrustedFileError, environment_info
from .saved_model import SavedModel
from .step_cost import StepCost, TimedRun, measure_step_costs
from .train import SHEET_FOLDER, TrainingInterrupted, train

__all__ = [
    "SHEET_FOLDER",
    "Run",
    "RunError",
    "SavedModel",
    "StepCost",
    "TimedRun",
    "TrainingInterrupted",
    "UnfinishedRunError",
    "UnknownRecipeError",
    "UntrustedFileError",
    "environment_info",
    "evaluate",
    "measure_step_costs",
    "recipe_from_file",
    "train",
]
