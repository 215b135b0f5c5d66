"""`python -m paper sample`: draw samples from a trained model."""

from typing import Annotated

from tyro.conf import arg

from fdsm.cli.printing import progress, report_files

from .evaluate import warn_of_problems
from .options import DeviceOption, Flag, PathOption, RunFolder, UsageError, open_run


def sample(
    run: RunFolder,
    /,
    *,
    n: Annotated[int, arg(aliases=["-n"])] = 64,
    out: PathOption = None,
    seed: int = 0,
    device: DeviceOption = None,
    trust: Flag = False,
    json: Flag = False,
) -> None:
    """Draw samples from a trained model.

    Args:
        run: Folder of the run.
        n: Number of samples.
        out: A .npy or .png file, or a folder. Default: RUN/samples.
        seed: Random seed.
        device: Device. Default: that of the training.
        trust: Execute the file that the recipe is defined in.
        json: Print the files as JSON.

    Raises:
        UsageError: If the number of samples is not positive.
    """
    if n < 1:
        raise UsageError(f"-n must be at least 1, but is {n}")
    from ..runs import SavedModel
    from ..runs.samples import save_sample_file, save_samples

    saved = SavedModel.load(open_run(run, trust=trust, device=device))
    samples = saved.sample(n, progress("Sampling"), seed=seed)
    folder = out or run / "samples"
    if folder.suffix and not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        files = [save_sample_file(folder, samples, saved.max_value)]
    else:
        files = save_samples(folder, samples, saved.max_value)
    warn_of_problems(saved.run)
    report_files(files, json=json, samples=n, shape=list(samples.shape))
