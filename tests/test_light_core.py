"""The library needs torch, numpy and safetensors. Everything else names the extra it needs."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fdsm.extras import DISTRIBUTIONS, EXTRAS, name_missing_extra

ROOT = Path(__file__).parents[1]

WITHOUT_EXTRAS = """
import runpy, sys
from importlib.machinery import PathFinder

missing = {
    "PIL", "filelock", "jinja2", "joblib", "matplotlib", "pandas", "polars", "pooch", "pyarrow",
    "rich", "scipy", "sklearn", "tensorboard", "threadpoolctl", "torchvision", "tyro",
}

class Installed(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in missing else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Installed
"""
"""Optional packages cannot be imported from here on, as if they were not installed."""

LIBRARY = """
import pydoc, tempfile
from pathlib import Path

import torch

import fdsm
import fdsm.atomic_io, fdsm.derivatives, fdsm.measurement, fdsm.noise, fdsm.serialize, fdsm.typing
from fdsm import (
    DSM, SM, SSM, SSMVR, Autodiff, FiniteDifference, MultiscaleDSM, SlicedDSM, Sphere, Taylor,
    biharmonic, directional_derivative, divergence, hessian_diagonal, laplacian,
)
from fdsm.evaluation import exact_sm_loss, fit_gaussian
from fdsm.models import QuadraticMLP
from fdsm.objectives import NCE, GradientPenalty, ViaScore
from fdsm.samplers import ais, hmc, langevin, sigmoid_schedule
from fdsm.training import (
    Adam, Checkpoints, GradientStep, JsonLines, LogMetrics, SaveCheckpoint, compiled_step,
    distributed, fit, objective_loss,
)

torch.manual_seed(0)
generator = torch.Generator().manual_seed(0)
x = torch.randn(32, 3, generator=generator)
model = QuadraticMLP(3, widths=(8, 8))

# The loop of the README, with each engine and objective.
optimizer = torch.optim.Adam(model.parameters())
for objective in (
    SSM(Taylor(), directions=4), SSM(Autodiff()), SSM(FiniteDifference(), Sphere(0.1)), DSM(0.3),
    SlicedDSM(0.3), MultiscaleDSM(DSM(0.1)), SM(Taylor()), ViaScore(SSMVR()), NCE(),
    GradientPenalty(),
):
    loss = objective(model, x, generator=generator).mean()
    loss.backward()
    optimizer.step()
    assert loss.isfinite()
step = compiled_step(DSM(0.3), model, torch.optim.Adam(model.parameters()))
assert step(x)["loss"].isfinite()  # the second call would compile

# The operators, on functions with known derivatives.
quartic = lambda x: x.pow(4).sum(1)
v = torch.eye(3)[0].expand_as(x)
torch.testing.assert_close(laplacian(quartic, x), 12 * x.square().sum(1))
torch.testing.assert_close(hessian_diagonal(quartic, x), 12 * x.square())
torch.testing.assert_close(divergence(lambda x: x.pow(3), x), 3 * x.square().sum(1))
torch.testing.assert_close(biharmonic(quartic, x), torch.full((32,), 72.0))
torch.testing.assert_close(directional_derivative(quartic, x, v, order=3), 24 * x[:, 0])

# Samplers and evaluation.
prior = lambda x: -(x.square() + 1.8378771).sum(1) / 2
assert langevin(lambda x: -x, x, 5, 0.1, generator=generator).shape == x.shape
assert hmc(prior, x, 5, generator=generator).samples.shape[-1] == 3
schedule = sigmoid_schedule(5)
assert ais(prior, prior, x, temperatures=schedule, generator=generator).log_weights.shape == (32,)
assert exact_sm_loss(model, x).value > -torch.inf
assert fit_gaussian(x)(x).shape == (32,)

# Training with logs and checkpoints, continued from the last one.
folder = Path(tempfile.mkdtemp())
checkpoints, batches = Checkpoints(folder), lambda i, generator: x
step = GradientStep(objective_loss(SSM(Taylor()), model), model, Adam(1e-3), iterations=4)
save = lambda event: checkpoints.save(event.iteration, {"model": model.state_dict()})
callbacks = [LogMetrics([JsonLines(folder / "metrics.jsonl")], 1), SaveCheckpoint(save, 2)]
fit(step, batches, 2, generator=generator, callbacks=callbacks)
model.load_state_dict(checkpoints.latest()["model"])
event = fit(step, batches, 4, start=2, generator=generator, callbacks=callbacks)
assert event.iteration == 4 and len(checkpoints.numbered()) == 2

rooms = {name.split(".")[1] for name in sys.modules if name.startswith("fdsm.")}
assert not rooms & {"cli", "tables"}, rooms

# All other public modules can be imported too.
from fdsm import *

assert "SSM" in pydoc.render_doc(fdsm)
assert not missing & {name.partition(".")[0] for name in sys.modules}
"""

SENTENCES = """
import tempfile
from importlib import import_module
from pathlib import Path

import torch

import fdsm
from fdsm.evaluation import fit_gaussian_mixture
from fdsm.training import ProgressBar, TensorBoard

folder = Path(tempfile.mkdtemp())
table = folder / "x.csv"
table.write_text("a,b" + 100 * "\\n1,2")

def command(*arguments):
    sys.argv = ["fdsm", *arguments]
    runpy.run_module("fdsm", run_name="__main__")

for use in (
    lambda: fdsm.ScoreMatchingDensity,
    lambda: fdsm.TableModel,
    lambda: fdsm.tables,
    lambda: import_module("fdsm.tables.model"),
    lambda: fit_gaussian_mixture(torch.zeros(100, 2)),
    lambda: ProgressBar("training"),
    lambda: TensorBoard(folder),
    lambda: command("--help"),
    lambda: command("train", str(table)),
):
    try:
        use()
    except (ImportError, SystemExit) as error:
        print(error)
"""


def run(code: str) -> str:
    """Run code in a process in which optional packages cannot be imported."""
    command = [sys.executable, "-W", "error", "-c", WITHOUT_EXTRAS + code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_library_needs_no_extra() -> None:
    run(LIBRARY)


def test_everything_else_names_its_extra_in_one_sentence() -> None:
    install = "Install it with: pip install 'fdsm[tables]'"
    assert run(SENTENCES).splitlines() == [
        *[f"fdsm.tables needs pyarrow. {install}"] * 4,
        f"fit_gaussian_mixture needs scikit-learn. {install}",
        f"a progress bar needs rich. {install}",
        "a log for TensorBoard needs tensorboard. "
        "Install it with: pip install 'fdsm[tensorboard]'",
        f"fdsm: the command fdsm needs rich. {install}",
        f"fdsm: the command fdsm needs rich. {install}",
    ]


def test_an_old_version_names_the_extra_too() -> None:
    with (
        pytest.raises(ImportError, match=r"needs scikit-learn\. Install .*'fdsm\[tables\]'"),
        name_missing_extra("ScoreMatchingDensity"),
    ):
        raise ImportError("cannot import name 'validate_data'", name="sklearn.utils.validation")


@pytest.mark.parametrize("name", ["numpy.future", "fdsm.future", None])
def test_other_errors_of_imports_are_not_changed(name: str | None) -> None:
    with pytest.raises(ImportError, match=r"^some problem$"), name_missing_extra("x"):
        raise ImportError("some problem", name=name)


def test_extras_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {
        re.split(r"[>=]", requirement)[0]: extra
        for extra in ("all", "tables", "tensorboard")
        for requirement in project["optional-dependencies"][extra]
        if not requirement.startswith("fdsm[")
    }
    assert declared == EXTRAS
    assert set(DISTRIBUTIONS.values()) <= EXTRAS.keys()
    assert [re.split(r"[>=]", name)[0] for name in project["dependencies"]] == [
        "numpy", "safetensors", "torch",
    ]  # fmt: skip
