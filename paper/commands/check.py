"""`python -m paper check`: check the finite differences of a trained model."""

from fdsm.cli.printing import console, print_json

from .options import DeviceOption, Flag, RunFolder, open_run


def check(
    run: RunFolder, /, *, device: DeviceOption = None, trust: Flag = False, json: Flag = False
) -> None:
    """Compare finite differences of a trained model with exact derivatives.

    Prints the error of the loss and of its gradient, the rounding error and the recommended step.

    Args:
        run: Folder of the run.
        device: Device. Default: that of the training.
        trust: Execute the file that the recipe is defined in.
        json: Print JSON.
    """
    from fdsm.serialize import to_json

    from ..runs import SavedModel

    saved = SavedModel.load(open_run(run, trust=trust, device=device))
    checked = saved.check(saved.run.recipe.data.load())
    if json:
        print_json(to_json(checked))
    else:
        console(stderr=False).print(str(checked), highlight=False)
