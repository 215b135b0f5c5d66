"""Taylor goes where a plain forward and backward go."""

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.multiprocessing as mp
from torch import Generator, Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.func import functional_call
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from fdsm.derivatives import Autodiff, MissingRule, Taylor
from fdsm.objectives import SSM, SSMVR, SlicedDSM
from fdsm.projections import Sphere
from fdsm.typing import Derivative, Objective

from ...parameters import at_night
from ..processes import free_port
from . import workers
from .agreement import assert_agrees

ssm, dsm = SSM(Taylor(), Sphere(1.0)), SlicedDSM(0.3, Taylor(), Sphere(1.0))


def density() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 8), nn.Softplus(), nn.Linear(8, 1), nn.Flatten(0))


def gradients(loss: Tensor, model: nn.Module) -> list[Tensor]:
    return list(torch.autograd.grad(loss, list(model.parameters()), materialize_grads=True))


# Compilation


class Scaled(nn.Module):
    """A density with a number that is no parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.density, self.scale = density(), 1.0

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.scale * self.density(x)
        return found


def loss_of(f: Callable[[Tensor], Tensor], x: Tensor, v: Tensor) -> Tensor:
    return (ssm.at(f, x, v) + dsm.at(f, x, v[0], v)).mean()


@pytest.mark.parametrize("where", at_night(["loss", "model", "layer", "both"], but=["loss"]))
def test_compiles_to_the_same_numbers(where: str, generator: Generator) -> None:
    torch.compiler.reset()
    backend = "aot_eager" if where == "loss" else "eager"
    model = density()
    x, *v = torch.randn(4, 6, 3, generator=generator)
    inputs = x, torch.stack(v)
    expected = loss_of(model, *inputs)
    compiled = model
    if where in {"model", "both"}:
        compiled = torch.compile(model, backend=backend)
    if where == "layer":
        compiled = nn.Sequential(torch.compile(model[0], backend=backend), *model[1:])
        model[1].compile(backend=backend)
    loss = loss_of
    if where in {"loss", "both"}:
        loss = torch.compile(loss_of, fullgraph=True, backend=backend)
    found = loss(compiled, *inputs)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        gradients(found, model), gradients(expected, model), rtol=1e-12, atol=1e-12
    )


@pytest.mark.nightly
def test_what_is_compiled_follows_the_model(generator: Generator) -> None:
    """A number and a batch size that change are not taken for constants."""
    torch.compiler.reset()
    model = Scaled()
    x, *v = torch.randn(3, 6, 3, generator=generator)
    compiled = torch.compile(loss_of, fullgraph=True, backend="eager")
    for scale, rows in ((1.0, 6), (2.0, 6), (2.0, 5)):
        model.scale = scale
        inputs = x[:rows], torch.stack(v)[:, :rows]
        torch.testing.assert_close(compiled(model, *inputs), loss_of(model, *inputs))


@pytest.mark.nightly
def test_compiled_dropout_is_switched_off_with_the_model(generator: Generator) -> None:
    torch.compiler.reset()
    f = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), *density()[1:])
    x, v = torch.randn(2, 6, 3, generator=generator)
    loss = lambda f, x, v: ssm.at(f, x, v).mean()
    compiled = torch.compile(loss, fullgraph=True, backend="eager")
    trained = compiled(f, x, v).item()
    f.eval()
    evaluated = loss(f, x, v).item()
    assert compiled(f, x, v).item() == pytest.approx(evaluated, rel=1e-12)
    assert trained != pytest.approx(evaluated, rel=1e-3)


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # which Dynamo looks at
def test_functions_are_not_compiled_but_run(generator: Generator) -> None:
    torch.compiler.reset()
    model = density()
    x, v = torch.randn(2, 6, 3, generator=generator)
    loss = lambda x, v: ssm.at(lambda x: model(x), x, v).mean()
    found = torch.compile(loss, backend="eager")(x, v)
    torch.testing.assert_close(found, loss(x, v))
    torch.testing.assert_close(gradients(found, model), gradients(loss(x, v), model))
    torch.compiler.reset()
    with pytest.raises(
        RuntimeError, match=r"compiled only through models that are an `nn.Module`"
    ):
        torch.compile(loss, backend="eager", fullgraph=True)(x, v)


@pytest.mark.nightly
def test_errors_of_compiled_losses(generator: Generator) -> None:
    torch.compiler.reset()
    x, v = torch.randn(2, 6, 3, generator=generator)
    compiled = torch.compile(lambda f, x, v: ssm.at(f, x, v).mean(), backend="eager")
    with pytest.raises(ValueError, match="must return shape"):
        compiled(density()[:-1], x, v)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")  # of torch, of itself
def test_inductor(generator: Generator) -> None:
    torch.compiler.reset()
    convolution = nn.Sequential(nn.Unflatten(1, (1, 3)), nn.Conv1d(1, 4, 3, padding=1))
    model = nn.Sequential(convolution, nn.Softplus(), nn.Flatten(), nn.Linear(12, 3), density())
    x, *v = torch.randn(4, 6, 3, generator=generator)
    inputs = x, torch.stack(v)
    found = torch.compile(loss_of, fullgraph=True)(model, *inputs)
    expected = loss_of(model, *inputs)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradients(found, model), gradients(expected, model))


# Reduced precision


def convolution() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.Softplus(), nn.Conv2d(16, 16, 3, stride=2), nn.SiLU(),
        nn.GroupNorm(4, 16), nn.Conv2d(16, 8, 3), nn.Softplus(), nn.Flatten(),
        nn.Linear(72, 1), nn.Flatten(0),
    )  # fmt: skip


def perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Linear(8, 64), nn.Softplus(), nn.LayerNorm(64), nn.Linear(64, 64), nn.GELU(),
        nn.Linear(64, 1), nn.Flatten(0),
    )  # fmt: skip


def direction(
    model: nn.Module, x: Tensor, v: Tensor, dtype: torch.dtype, autocast: bool
) -> Tensor:
    """Return the gradient of a loss with respect to all parameters, as it is in some precision."""
    model.to(dtype)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        loss = ssm.at(model, x.to(dtype), v.to(dtype)).mean()
    assert loss.dtype == dtype
    found = torch.cat([g.flatten() for g in gradients(loss, model)])
    assert found.dtype == dtype
    return found.double()


@pytest.mark.parametrize(
    ("make", "shape"), [(convolution, (3, 12, 12)), (perceptron, (8,))], ids=["conv", "mlp"]
)
@pytest.mark.parametrize("steps", [0, 30])
def test_few_digits_leave_the_gradient_its_direction(
    make: Callable[[], nn.Module], shape: tuple[int, ...], steps: int, generator: Generator
) -> None:
    """At the start and after some training, in single precision and under autocast."""
    model = make()
    x, v = torch.randn(2, 16, *shape, generator=generator)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        ssm.at(model, x, v).mean().backward()
        optimizer.step()
    truth = direction(model, x, v, torch.float64, autocast=False)
    for autocast, least in ((False, 0.9999), (True, 0.99)):
        found = direction(model, x, v, torch.float32, autocast)
        assert torch.cosine_similarity(found, truth, 0) >= least


def test_float32_agrees_to_its_precision(generator: Generator) -> None:
    x = torch.randn(4, 3, generator=generator).float()
    assert_agrees(density().float(), x, orders=(2,), rtol=1e-5)


# What models are given, and where they run


@pytest.mark.parametrize(
    "objective",
    [SSM(Taylor()), SSMVR(Taylor()), SlicedDSM(0.3, Taylor())],
    ids=["ssm", "ssmvr", "dsm"],
)
def test_parameters_may_be_passed_as_arguments(objective: Objective, generator: Generator) -> None:
    model = density() if not isinstance(objective, SSMVR) else nn.Linear(3, 3)
    weights = {name: p.detach().requires_grad_() for name, p in model.named_parameters()}
    x = torch.randn(6, 3, generator=generator)
    functional = lambda x: functional_call(model, weights, (x,))
    losses = [objective(f, x, generator=Generator().manual_seed(1)) for f in (model, functional)]
    assert torch.equal(*losses)
    found = torch.autograd.grad(losses[1].sum(), list(weights.values()), materialize_grads=True)
    torch.testing.assert_close(list(found), gradients(losses[0].sum(), model))


class Conditional(nn.Module):
    """A density given a label and a vector that scales and shifts the hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        self.labels, self.film = nn.Embedding(5, 8), nn.Linear(2, 16)
        self.first, self.last = nn.Linear(3, 8), nn.Linear(8, 1)

    def forward(self, x: Tensor, label: Tensor, context: Tensor) -> Tensor:
        scale, shift = self.film(context).chunk(2, 1)
        h = torch.tanh(self.first(x) * (1 + scale) + shift) * self.labels(label)
        return self.last(torch.nn.functional.softplus(h)).squeeze(1)


def test_conditions_are_passed_on(generator: Generator) -> None:
    model = Conditional()
    x, v = torch.randn(2, 6, 3, generator=generator)
    label = torch.randint(5, (6,), generator=generator)
    context = torch.randn(6, 2, generator=generator)
    losses = [SSM(e).at(model, x, v, label, context) for e in (Taylor(), Autodiff())]
    found, truth = ([loss, *gradients(loss.sum(), model)] for loss in losses)
    torch.testing.assert_close(found, truth, rtol=1e-10, atol=1e-10)


def test_conditions_may_be_trained(generator: Generator) -> None:
    model = Conditional()
    x, label = torch.randn(6, 3, generator=generator), torch.arange(6) % 5
    context = torch.randn(6, 2, generator=generator)
    assert_agrees(lambda x: model(x, label, context), x, context, *model.parameters())


def test_data_may_require_a_gradient(generator: Generator) -> None:
    model = density()
    x, v = torch.randn(2, 6, 3, generator=generator)
    x.requires_grad_()
    found, truth = (
        torch.autograd.grad(SSM(engine).at(model, x, v).sum(), x)
        for engine in (Taylor(), Autodiff())
    )
    torch.testing.assert_close(found, truth, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_gradients_may_be_switched_off(
    mode: Callable[[], torch.no_grad], generator: Generator
) -> None:
    model = density()
    x, v = torch.randn(2, 6, 3, generator=generator)
    expected = ssm.at(model, x, v)
    with mode():
        found = ssm.at(model, x, v)
    assert not found.requires_grad
    torch.testing.assert_close(found, expected.detach())


def test_the_same_again(generator: Generator) -> None:
    model = density()
    x, v = torch.randn(2, 6, 3, generator=generator)
    first, second = ssm.at(model, x, v), ssm.at(model, x, v)
    assert torch.equal(first, second)
    for a, b in zip(gradients(first.sum(), model), gradients(second.sum(), model), strict=True):
        assert torch.equal(a, b)


# What is inside of models


def test_dropout_has_one_mask(generator: Generator) -> None:
    """Seeded alike, Autodiff draws the mask that all coefficients must share."""
    f = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(0.4), *density()[2:])
    x, v = torch.randn(2, 6, 3, generator=generator)

    def loss(engine: Derivative) -> Tensor:
        torch.manual_seed(5)
        return SSM(engine).at(f, x, v).sum()

    found, truth = loss(Taylor()), loss(Autodiff())
    torch.testing.assert_close(found, truth, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(gradients(found, f), gradients(truth, f), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "parametrized",
    [parametrizations.spectral_norm, parametrizations.weight_norm, parametrizations.orthogonal],
)
def test_parametrized_weights(
    parametrized: Callable[[nn.Module], nn.Module], generator: Generator
) -> None:
    model = nn.Sequential(parametrized(nn.Linear(3, 8)), nn.Tanh(), *density()[2:]).eval()
    assert_agrees(model, torch.randn(5, 3, generator=generator), *model.parameters())


def test_batch_norm_is_evaluated_but_not_trained(generator: Generator) -> None:
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), *density()[2:])
    x = torch.randn(5, 3, generator=generator)
    model(x)
    with pytest.raises(ValueError, match="mixes the examples"):
        ssm(model, x, generator=generator)
    model.eval()
    assert_agrees(model, x, *model.parameters())


def test_hooks_see_and_change_what_passes(generator: Generator) -> None:
    model = density()
    shapes = []
    model[0].register_forward_pre_hook(lambda _, inputs: (inputs[0] / 2,))
    model[1].register_forward_hook(lambda _, inputs, output: shapes.append(output.shape))
    model[2].register_forward_hook(lambda _, inputs, output: output.square())
    assert_agrees(model, torch.randn(5, 3, generator=generator), *model.parameters())
    assert set(shapes) == {torch.Size((5, 8))}


# Checkpoints


def blocks() -> nn.Sequential:
    hidden = [nn.Sequential(nn.Linear(16, 16), nn.Softplus(), nn.Linear(16, 16)) for _ in range(4)]
    return nn.Sequential(nn.Linear(3, 16), *hidden, nn.Linear(16, 1))


def checkpointed(model: nn.Sequential, reentrant: bool) -> Callable[[Tensor], Tensor]:
    def f(x: Tensor) -> Tensor:
        for block in model:
            x = checkpoint(block, x, use_reentrant=reentrant)
        return x.squeeze(1)

    return f


def test_checkpoints_save_memory_and_change_nothing(generator: Generator) -> None:
    model = blocks()
    x, v = torch.randn(2, 6, 3, generator=generator)
    ways = {
        "plain": lambda x: model(x).squeeze(1),
        "each": checkpointed(model, reentrant=False),
        "sequential": lambda x: checkpoint_sequential(model, 3, x, use_reentrant=False).squeeze(1),
    }
    saved = dict.fromkeys(ways, 0)
    results = {}
    for name, f in ways.items():

        def pack(tensor: Tensor, name: str = name) -> Tensor:
            saved[name] += tensor.nbytes
            return tensor

        with saved_tensors_hooks(pack, lambda tensor: tensor):
            loss = ssm.at(f, x, v).sum()
        results[name] = [loss, *gradients(loss, model)]
    for name in ("each", "sequential"):
        torch.testing.assert_close(results[name], results["plain"], rtol=1e-12, atol=1e-12)
        assert saved[name] < saved["plain"] / 3


@pytest.mark.filterwarnings("ignore:None of the inputs")
def test_reentrant_checkpoints_are_refused(generator: Generator) -> None:
    x, v = torch.randn(2, 6, 3, generator=generator)
    with pytest.raises(MissingRule, match="use_reentrant=False"):
        ssm.at(checkpointed(blocks(), reentrant=True), x, v)


# Several processes


@pytest.mark.nightly
@pytest.mark.timeout(120)
@pytest.mark.parametrize("way", workers.WAYS)
def test_training_in_two_processes_is_training(way: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mp.spawn(workers.work, (str(tmp_path), way, free_port()), nprocs=2)
    model = workers.WAYS[way][0]()
    workers.train(workers.Loss(model))
    found = torch.load(tmp_path / "weights.pt", weights_only=True)
    torch.testing.assert_close(found, dict(model.state_dict()), rtol=1e-12, atol=1e-12)
