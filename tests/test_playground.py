"""The playground computes what the library computes, and its page works.

The tests run in headless Chromium or Chrome and are skipped where there is none.
"""

import html
import json
import math
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from fdsm.derivatives import Autodiff, FiniteDifference, Taylor
from fdsm.objectives import DSM, SM, SSM
from fdsm.projections import Sphere

PAGE = Path(__file__).parents[1] / "docs" / "playground" / "index.html"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=10000",
    "--dump-dom",
)
EPSILON, SIGMA = 0.05, 0.3

pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium or Chrome")

Evaluate = Callable[..., dict[str, Any]]


class Energy(nn.Module):
    """The model of the playground; the order of its parameters is that of the weights there."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        values: Tensor = self.layers(x).squeeze(1) - x.square().sum(1) / 2
        return values


@pytest.fixture
def model(generator: torch.Generator) -> Energy:
    """Return a model whose curvature is not small."""
    model = Energy()
    with torch.no_grad():
        for parameter in model.parameters():
            scale = 0.3 if parameter.shape[-1] == 32 else 1.0
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator))
    return model


@pytest.fixture
def x(generator: torch.Generator) -> Tensor:
    return 1.5 * torch.randn(20, 2, generator=generator)


def shown(page: str, folder: Path) -> dict[str, Any]:
    """Open a page in the browser, and return the JSON that its script writes to `#result`."""
    assert BROWSER is not None
    path = folder / "page.html"
    path.write_text(page, encoding="utf8")
    command = [BROWSER, *OPTIONS, f"--user-data-dir={folder / 'profile'}", path.as_uri()]
    done = subprocess.run(command, capture_output=True, timeout=240, check=True)
    result = re.search(r'<pre id="result">(.*?)</pre>', done.stdout.decode(), re.DOTALL)
    assert result is not None, done.stderr.decode()
    values: dict[str, Any] = json.loads(html.unescape(result[1]))
    return values


@pytest.fixture
def evaluate(tmp_path: Path) -> Evaluate:
    """Return a function that runs JavaScript with the mathematics of the playground."""
    part = re.search(r'<script id="mathematics">.*?</script>', PAGE.read_text("utf8"), re.DOTALL)
    assert part is not None

    def evaluated(script: str, **given: object) -> dict[str, Any]:
        """Run JavaScript in the browser, with the values in `given`, and return its result."""
        page = f"""<meta charset="utf-8">{part[0]}<pre id="result"></pre><script>
            const given = {json.dumps(given)};
            const array = (numbers) => Float64Array.from(numbers.flat());
            const result = (() => {{ {script} }})();
            const plain = (key, value) => ArrayBuffer.isView(value) ? Array.from(value) : value;
            document.getElementById("result").textContent = JSON.stringify(result, plain);
        </script>"""
        return shown(page, tmp_path)

    return evaluated


def weights_of(model: nn.Module) -> list[float]:
    weights: list[float] = parameters_to_vector(model.parameters()).tolist()
    return weights


def gradient_of(losses: Tensor, model: nn.Module) -> Tensor:
    gradients = torch.autograd.grad(losses.mean(), list(model.parameters()))
    return torch.cat([gradient.flatten() for gradient in gradients])


def relative_error(own: list[float], expected: Tensor) -> float:
    return float((torch.tensor(own) - expected).norm() / expected.norm())


def test_losses_and_gradients_are_those_of_the_library(
    model: Energy, x: Tensor, generator: torch.Generator, evaluate: Evaluate
) -> None:
    v = Sphere(EPSILON).sample(x, generator)
    noise = SIGMA * torch.randn(x.shape, generator=generator)
    expected = {
        "ssm": SSM(Taylor(), Sphere(EPSILON)).at(model, x, v),
        "fd-ssm": SSM(FiniteDifference(), Sphere(EPSILON)).at(model, x, v),
        "dsm": DSM(SIGMA).at(model, x, noise),
    }
    results = evaluate(
        """
        const [weights, x] = [array(given.weights), array(given.x)];
        const results = given.names.map((name) => [name, playground.lossAndGradient(
            name, weights, x, array(name === "dsm" ? given.noise : given.v), given.options)]);
        const exact = playground.exactLoss(weights, x);
        const scores = playground.scores(weights, x);
        const values = playground.logDensities(weights, x);
        return { ...Object.fromEntries(results), exact, scores, values };
        """,
        weights=weights_of(model),
        x=x.tolist(),
        v=v.tolist(),
        noise=noise.tolist(),
        names=list(expected),
        options={"epsilon": EPSILON, "sigma": SIGMA, "float32": False},
    )
    for name, losses in expected.items():
        gradient = gradient_of(losses, model)
        assert relative_error(results[name]["losses"], losses.detach()) < 1e-10, name
        assert relative_error(results[name]["gradient"], gradient) < 1e-10, name
    assert results["exact"] == pytest.approx(SM()(model, x).mean().item(), rel=1e-10)
    assert relative_error(results["values"], model(x).detach()) < 1e-12
    at = x.clone().requires_grad_()
    (score,) = torch.autograd.grad(model(at).sum(), at)
    assert relative_error(results["scores"], score.flatten()) < 1e-12


def test_errors_of_the_difference_are_those_of_the_library(
    model: Energy, x: Tensor, generator: torch.Generator, evaluate: Evaluate
) -> None:
    """In float64 to many digits where truncation dominates; in float32 up to the order of sums."""
    directions = Sphere(1).sample(x, generator)
    steps = [1e-3, 1e-1, 1.0]
    errors = evaluate(
        """
        const [weights, x, v] = [given.weights, given.x, given.directions].map(array);
        const errors = (float32) =>
            playground.curvatureErrors(weights, x, v, given.steps, float32);
        return { float64: errors(false), float32: errors(true) };
        """,
        weights=weights_of(model),
        x=x.tolist(),
        directions=directions.tolist(),
        steps=steps,
    )

    def expected(dtype: torch.dtype) -> list[float]:
        f, rows, v = model.to(dtype), x.to(dtype), directions.to(dtype)[None]
        engine = FiniteDifference(checks=False)  # they warn where the error is large
        differences = [engine.sliced(f, rows, h * v)[1].detach() / h**2 for h in steps]
        exact = Autodiff().sliced(model.double(), rows.double(), directions[None])[1].detach()
        return [relative_error(d.tolist(), exact) for d in differences]

    assert errors["float64"][1:] == pytest.approx(expected(torch.float64)[1:], rel=1e-6)
    single = expected(torch.float32)
    assert errors["float32"][1:] == pytest.approx(single[1:], rel=1e-2)
    assert 0.2 < errors["float32"][0] / single[0] < 5
    assert errors["float32"][0] > 100 * errors["float64"][0]


def test_float32_changes_the_gradient_only_by_rounding(
    model: Energy, x: Tensor, generator: torch.Generator, evaluate: Evaluate
) -> None:
    v = Sphere(1).sample(x, generator)
    result = evaluate(
        """
        const [weights, x, v] = [given.weights, given.x, given.v].map(array);
        const errors = given.steps.map((epsilon) => {
            const [exact, rounded] = [false, true].map((float32) => playground.lossAndGradient(
                "fd-ssm", weights, x, v.map((c) => epsilon * c), { epsilon, float32 }).gradient);
            return Math.hypot(...rounded.map((g, i) => g - exact[i])) / Math.hypot(...exact);
        });
        return { errors };
        """,
        weights=weights_of(model),
        x=x.tolist(),
        v=v.tolist(),
        steps=[1e-1, 1e-2, 1e-4],
    )
    large, medium, small = result["errors"]  # steps
    assert 0 < large < 1e-3
    assert large < medium < 0.1
    assert small > 1


def test_the_loss_of_the_data_density_is_that_of_a_mixture(
    x: Tensor, generator: torch.Generator, evaluate: Evaluate
) -> None:
    centers = torch.randn(7, 2, generator=generator)
    result = evaluate(
        """
        const [centers, x] = [given.centers, given.x].map(array);
        const loss = playground.lossOfDataDensity(centers, x);
        return { loss, deviation: playground.DATA_DEVIATION };
        """,
        centers=centers.tolist(),
        x=(x / 2).tolist(),
    )

    def mixture(x: Tensor) -> Tensor:
        squares = (x[:, None] - centers).square().sum(2)
        return torch.logsumexp(-squares / (2 * result["deviation"] ** 2), 1)

    expected = SM(Autodiff())(mixture, x / 2).mean().item()
    assert result["loss"] == pytest.approx(expected, rel=1e-9)


@pytest.mark.nightly
def test_training_lowers_the_exact_loss_and_depends_on_the_seed_only(evaluate: Evaluate) -> None:
    results = evaluate(
        """
        const centers = playground.drawShape("ring", 200, playground.makeRandom(1));
        const x = playground.drawData(centers, 100, playground.makeRandom(2));
        const options = { epsilon: 0.05, sigma: 0.2, float32: false };
        const train = (name, seed, count) => {
            const trainer = playground.makeTrainer(name, centers, seed);
            const initial = playground.exactLoss(trainer.weights, x);
            playground.trainSteps(trainer, count, options);
            return [initial, playground.exactLoss(trainer.weights, x)];
        };
        return {
            trained: ["ssm", "fd-ssm", "dsm"].map((name) => train(name, 0, 150)),
            repeated: [0, 0, 1].map((seed) => train("ssm", seed, 3)[1]),
            least: playground.lossOfDataDensity(centers, x),
        };
        """
    )
    for initial, final in results["trained"]:
        assert initial == results["trained"][0][0]
        assert results["least"] < final < initial - 1
    first, again, other = results["repeated"]
    assert first == again != other


def test_langevin_samples_of_a_gaussian_have_its_mean_and_variance(evaluate: Evaluate) -> None:
    """The variance of the discretized chain is $s² / (1 - a / (2 s²))$."""
    means, deviations, step, count = (1.0, -2.0), (0.5, 1.5), 0.05, 4000
    result = evaluate(
        """
        const score = (x) =>
            x.map((c, i) => (given.means[i % 2] - c) / given.deviations[i % 2] ** 2);
        const random = playground.makeRandom(0);
        let x = playground.drawNormals(2 * given.count, 1, random);
        for (let i = 0; i < 250; i++) x = playground.langevin(score, x, given.step, random);
        return { samples: x };
        """,
        means=means,
        deviations=deviations,
        step=step,
        count=count,
    )
    for axis, (mean, deviation) in enumerate(zip(means, deviations, strict=True)):
        x = torch.tensor(result["samples"]).view(-1, 2)[:, axis]
        variance = deviation**2 / (1 - step / (2 * deviation**2))
        assert x.mean().item() == pytest.approx(mean, abs=5 * math.sqrt(variance / count))
        assert x.var().item() == pytest.approx(variance, rel=5 * math.sqrt(2 / count))


PREPARE_PAGE = """<head><script>
    const problems = [];
    for (const type of ["error", "unhandledrejection", "securitypolicyviolation"]) {
        addEventListener(type, (event) => problems.push(`${type}: ${event.message}`));
    }
    console.error = (...texts) => problems.push(texts.join(" "));
    console.warn = console.error;
    requestAnimationFrame = (draw) => setTimeout(() => draw(performance.now()), 16);
</script>"""
"""It also draws by the virtual clock, because a page without a screen may not be drawn."""

USE_PAGE = """<pre id="result"></pre><script>(async () => {
    const element = (id) => document.getElementById(id);
    const text = (id) => element(id).textContent;
    const frames = async (count) => {
        for (let i = 0; i < count; i++) await new Promise(requestAnimationFrame);
    };
    const press = (key, target) =>
        target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    const set = (id, values) => {
        Object.assign(element(id), values);
        for (const type of ["input", "change"]) element(id).dispatchEvent(new Event(type));
    };
    const point = (type, x, y) => {
        const box = element("plane").getBoundingClientRect();
        const [clientX, clientY] = [box.left + x * box.width, box.top + y * box.height];
        element("plane").dispatchEvent(
            new PointerEvent(type, { clientX, clientY, pointerId: 1, button: 0 }));
    };
    const loss = (name) => Number(text(`loss-${name}`).replace("−", "-"));
    const found = { problems };
    await frames(2);
    found.initial = loss("fd-ssm");
    await frames(30);
    found.trained = loss("fd-ssm");
    document.querySelector("input[value=ssm]").click();
    found.objective = text("status");
    await frames(3);
    found.both = [text("loss-ssm"), text("loss-fd-ssm")];
    press(" ", document.body);
    await frames(2);
    found.paused = [text("status"), text("pause"), text("facts")];
    await frames(5);
    found.still = text("facts");
    set("float32", { checked: true });
    set("epsilon", { value: "-4" });
    found.small = text("status");
    set("epsilon", { value: "-0.5" });
    found.large = text("status");
    element("clear").click();
    await frames(2);
    found.cleared = [text("facts"), text("status"), element("shape").value];
    press("ArrowRight", element("plane"));
    found.cursor = text("status");
    press("Enter", element("plane"));
    found.added = text("status");
    point("pointerdown", 0.5, 0.5);
    point("pointermove", 0.6, 0.5);
    point("pointermove", 0.601, 0.5);
    await frames(2);
    point("pointerup", 0.601, 0.5);
    found.drawn = text("status");
    press(" ", document.body);
    for (const name of ["dsm", "fd-ssm"]) {
        document.querySelector(`input[value=${name}]`).click();
        await frames(2);
    }
    found.shapes = [];
    for (const { value } of element("shape").options) {
        set("shape", { value });
        await frames(2);
        found.shapes.push([value, text("facts")]);
    }
    set("seed", { value: "7" });
    element("reset").click();
    await frames(2);
    found.unlabeled = [...document.querySelectorAll("input, select")]
        .filter((control) => control.labels.length === 0).map((control) => control.id);
    found.overflow = document.documentElement.scrollWidth - innerWidth;
    element("result").textContent = JSON.stringify(found);
})();</script></body>"""


@pytest.mark.nightly
def test_the_page_reacts_to_its_controls_without_errors(tmp_path: Path) -> None:
    page = PAGE.read_text("utf8").replace("<head>", PREPARE_PAGE).replace("</body>", USE_PAGE)
    found = shown(page, tmp_path)
    assert found["problems"] == []
    assert found["trained"] < found["initial"] - 0.5
    assert found["objective"] == "Objective: SSM. The training starts again."
    assert all(found["both"])
    assert found["paused"][:2] == ["Paused.", "Train"]
    assert found["still"] == found["paused"][2]
    assert "mostly rounding" in found["small"]
    assert "mostly truncation" in found["large"]
    assert found["cleared"][0].startswith("0 points.")
    assert found["cleared"][1:] == ["Draw points to start the training.", "own"]
    assert found["cursor"] == "Cursor at 0.1, 0.0."
    assert found["added"] == "Point added: 1 point. The training starts again."
    assert found["drawn"] == "3 points. The training starts again."
    for name, facts in found["shapes"]:
        assert facts.startswith("0 points." if name == "own" else "300 points.")
    assert found["unlabeled"] == []
    assert found["overflow"] <= 0


def test_the_page_loads_nothing() -> None:
    page = PAGE.read_text("utf8")
    assert "default-src 'none'" in page
    assert re.findall(r"\b(?:src|href)=|@import|url\(|\bfetch\(|https?://", page) == []
