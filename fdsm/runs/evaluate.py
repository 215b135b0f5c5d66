"""What a trained run is judged by, in its `result.json`."""

import dataclasses
import statistics
from typing import Any

from ..data.split import fixed_shuffle
from ..recipes.recipe import Density
from ..samplers import Progress
from ..serialize import to_json
from ..training.loggers import records
from .density_grid import save_density_grid
from .run import Run
from .samples import save_samples
from .saved_model import SavedModel


def evaluate(run: Run, trained: SavedModel, progress: Progress) -> dict[str, Any]:
    """Evaluate a model on the test rows in `fixed_shuffle` order, draw samples, and write both down.

    Args:
        run: The run.
        trained: Its model.
        progress: Watches the sampling.

    Returns:
        The content of `result.json`.
    """
    data = run.recipe.data.load()
    run.require_its_data(data)
    data = dataclasses.replace(data, test=fixed_shuffle(data.test), transform=trained.transform)
    metrics = run.recipe.evaluate(trained.model, data, run.generator("evaluate"))
    logged = [r for r in records(run.folder / "metrics.jsonl") if "milliseconds" in r]
    times = [record["milliseconds"] for record in logged]
    mean = 1000 * trained.progress["seconds"] / max(trained.progress["iterations"], 1)
    result: dict[str, Any] = {
        **trained.progress,
        "milliseconds_per_iteration": statistics.median(times) if times else mean,
        "metrics": {name: to_json(dataclasses.asdict(m)) for name, m in metrics.items()},
    }
    if run.recipe.plan.num_samples:
        samples = trained.sample(run.recipe.plan.num_samples, progress)
        files = save_samples(run.folder, samples, trained.largest)
        result["samples"] = files[-1].name
    if trained.shape == (2,) and isinstance(run.recipe, Density):
        x = data.transform.deterministic(data.test).to(run.device)
        save_density_grid(run.folder, run.recipe, run.recipe.log_density(trained.model), x)
    run.write("result.json", result)
    return result
