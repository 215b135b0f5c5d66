"""`fdsm evaluate`: evaluate a trained model again."""

from .options import DeviceOption, Flag, RunFolder, open_run
from .train import evaluate_and_print


def evaluate(
    run: RunFolder, /, *, device: DeviceOption = None, trust: Flag = False, json: Flag = False
) -> None:
    """Evaluate a trained model again and draw new samples.

    Args:
        run: Folder of the run.
        device: Device. Default: that of the training.
        trust: Execute the file that the recipe is defined in.
        json: Print the result as JSON.
    """
    from ..runs import SavedModel

    saved = SavedModel.load(open_run(run, trust=trust, device=device))
    evaluate_and_print(saved, saved.run.recipe.data.load(), json=json)
