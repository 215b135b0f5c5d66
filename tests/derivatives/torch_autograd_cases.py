"""Models that change what autograd sees, take gradients themselves or lose precision inside."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import grad
from torch.nn import functional

from .public_models_cases import (
    KINK,
    NO_RULE,
    ONLY_VALUES,
    REFUSED,
    Case,
    Model,
    density_of,
    log_density,
    mlp,
    perturbed,
    score,
)


def data() -> Tensor:
    return torch.randn(3, 3)


def normed() -> nn.Module:
    layers = nn.Linear(3, 6), nn.LayerNorm(6), nn.SiLU(), nn.Linear(6, 1), nn.Flatten(0)
    return nn.Sequential(*layers)


def detached_score(module: nn.Module) -> Model:
    """Return the score at a detached copy of the input, a common way to write it."""

    def f(x: Tensor) -> Tensor:
        z = x.detach().requires_grad_()
        return torch.autograd.grad(module(z).sum(), z, create_graph=True)[0]

    return score(f, module, data())


def own_score(module: nn.Module) -> Model:
    def f(x: Tensor) -> Tensor:
        with torch.enable_grad():
            x.requires_grad_()
            return torch.autograd.grad(module(x).sum(), x, create_graph=True)[0]

    return score(f, module, data())


def functional_score(module: nn.Module) -> Model:
    return score(grad(lambda x: module(x).sum()), module, data())


def score_network(norm: nn.Module) -> Model:
    module = nn.Sequential(nn.Linear(3, 6), norm, nn.SiLU(), nn.Linear(6, 3))
    return score(module, module, data())


def functional_norm_score() -> Model:
    module = nn.ModuleList([nn.Linear(3, 6), nn.Linear(6, 3)])
    f = lambda x: module[1](functional.silu(functional.layer_norm(module[0](x), (6,))))
    return score(f, module, data())


SCORES: dict[str, Case] = {
    "score at a detached copy": Case(lambda: detached_score(mlp()), **ONLY_VALUES),
    "score at a detached copy, LayerNorm": Case(lambda: detached_score(normed()), **ONLY_VALUES),
    "score by autograd.grad": Case(lambda: own_score(mlp())),
    "score by autograd.grad, LayerNorm": Case(lambda: own_score(normed())),
    "score by func.grad": Case(lambda: functional_score(mlp()), **NO_RULE),
    "score by func.grad, LayerNorm": Case(lambda: functional_score(normed()), **NO_RULE),
    "score network": Case(lambda: score_network(nn.Identity())),
    "score network, LayerNorm": Case(lambda: score_network(nn.LayerNorm(6))),
    "score network, functional.layer_norm": Case(functional_norm_score),
    "score network, BatchNorm train": Case(lambda: score_network(nn.BatchNorm1d(6)), **REFUSED),
}


def preprocessed(change: Callable[[Tensor], Tensor]) -> Model:
    module = mlp()
    return log_density(lambda x: module(change(x)), module, data())


def without_gradients() -> Model:
    module, scale = mlp(), torch.ones(())

    def f(x: Tensor) -> Tensor:
        with torch.no_grad():
            y = module(x)
        return scale * y

    return log_density(f, [scale], data())


def detached_maximum() -> Model:
    """Return a log-sum-exp written by hand, whose maximum is held fixed."""
    module = nn.Linear(3, 4)

    def f(x: Tensor) -> Tensor:
        y = module(x)
        m = y.max(1, keepdim=True).values.detach()
        return m.squeeze(1) + (y - m).exp().sum(1).log()

    return log_density(f, module, data())


def gradient_of_hidden_units() -> Model:
    """Return a model that keeps a graph if its hidden units require one, as flows of zuko do."""
    module = nn.ModuleList([nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 5), nn.Tanh())])

    def f(x: Tensor) -> Tensor:
        with torch.enable_grad():
            h = module[0](x).requires_grad_()
            y = module[1](h).sum()
        (g,) = torch.autograd.grad(y, h, create_graph=h.requires_grad, retain_graph=True)
        return -h.square().sum(1) - g.exp().sum(1)

    return log_density(f, module, data())


def accumulated() -> Model:
    module = nn.ModuleList([mlp(nn.Tanh()), mlp(nn.Softplus())])

    def f(x: Tensor) -> Tensor:
        total = torch.zeros(len(x))
        for part in module:
            total += part(x)
        return total

    return log_density(f, module, data())


def written_in_slices() -> Model:
    module = nn.Linear(3, 2)

    def f(x: Tensor) -> Tensor:
        y = torch.empty(len(x), 2)
        y[:, 0] = module(x)[:, 0].tanh()
        y[:, 1] = module(x)[:, 1].exp()
        return y.sum(1)

    return log_density(f, module, data())


def centered() -> Model:
    """Return a model that subtracts the mean of the batch, so that examples depend on it."""
    module = mlp()
    return log_density(lambda x: module(x - x.mean(0)), module, data())


def attention_between_examples() -> Model:
    """Return attention with `batch_first=False`, the default, on data with the batch first."""
    module = nn.MultiheadAttention(4, 2)
    return density_of(module, 3, 4, f=lambda x: module(x, x, x)[0])


GRAPHS: dict[str, Case] = {
    "detached input": Case(lambda: preprocessed(Tensor.detach), **ONLY_VALUES),
    "detached input, .data": Case(lambda: preprocessed(lambda x: x.data), **ONLY_VALUES),
    "detached input, numpy": Case(
        lambda: preprocessed(lambda x: torch.from_numpy(x.detach().numpy().copy())), **ONLY_VALUES
    ),
    "no_grad inside": Case(without_gradients, **ONLY_VALUES),
    "detached maximum": Case(detached_maximum, **KINK),
    "gradient of hidden units": Case(gradient_of_hidden_units),
    "accumulated in place": Case(accumulated, **NO_RULE),
    "written in slices": Case(written_in_slices, **NO_RULE),
    "batch mean subtracted": Case(centered, fd="refused", autodiff="refused"),
    "attention between examples": Case(
        attention_between_examples, fd="refused", autodiff="refused"
    ),
}


def half_weights() -> Model:
    """Return a model with bfloat16 weights that casts its result back."""
    precise = mlp(width=16)
    with torch.no_grad():
        for p in precise.parameters():
            p.copy_((3 * p).bfloat16())
    half = mlp(width=16).bfloat16()
    half.load_state_dict(precise.state_dict())
    x = data()
    return Model(
        lambda x: half(x.bfloat16()).to(x.dtype),
        list(half.parameters()),
        x,
        precise=Model(precise, list(precise.parameters()), x),
    )


def single_norm() -> Model:
    """Return a norm in float32 inside a float64 network, as several public transformers have."""
    module = nn.ModuleList([nn.Linear(3, 6), nn.Linear(6, 1)])
    rms = lambda h: h * torch.rsqrt(h.square().mean(1, keepdim=True) + 1e-6)
    f = lambda x: module[1](rms(module[0](x).float()).double().tanh()).squeeze(1)
    precise = lambda x: module[1](rms(module[0](x)).tanh()).squeeze(1)
    x, parameters = data(), perturbed(module)
    return Model(f, parameters, x, precise=Model(precise, parameters, x))


def autocast() -> Model:
    module = mlp(width=16).float()
    parameters = perturbed(module)
    precise = mlp(width=16)
    precise.load_state_dict(module.state_dict())
    x = data().float()

    def f(x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return module(x).float()

    return Model(f, parameters, x, precise=Model(precise, list(precise.parameters()), x.double()))


def offset() -> Model:
    module = mlp()
    x, parameters = data(), perturbed(module)
    precise = Model(module, parameters, x)
    return Model(lambda x: (module(x) + 1e8) - 1e8, parameters, x, precise=precise)


PRECISION: dict[str, Case] = {
    "bfloat16 weights": Case(half_weights, fd="warned", rtol=0.1),
    "float32 norm inside": Case(single_norm, fd="warned", step=1e-4, rtol=1e-3),
    "autocast inside": Case(autocast, fd="warned", rtol=0.1),
    "offset inside": Case(offset, fd="warned"),
}
AUTOGRAD: dict[str, Case] = SCORES | GRAPHS | PRECISION
