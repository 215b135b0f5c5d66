"""The ways in which torch and Python wrap a model."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.utils import prune
from torch.optim.swa_utils import AveragedModel
from torch.utils.checkpoint import checkpoint

from .public_models_cases import (
    NO_RULE,
    ONLY_VALUES,
    RANDOM,
    REFUSED,
    Case,
    Model,
    log_density,
    mlp,
)


def data() -> Tensor:
    return torch.randn(3, 3)


def normed(norm: nn.Module | None = None) -> nn.Module:
    """Return a perceptron of shape `(B, 3)` to `(B,)` with layer norm or another module."""
    layers = nn.Linear(3, 6), norm or nn.LayerNorm(6), nn.SiLU(), nn.Linear(6, 1)
    return nn.Sequential(*layers, nn.Flatten(0))


def layer_norm() -> nn.Module:
    return normed()


def instance_norm() -> nn.Module:
    norm = nn.Unflatten(1, (2, 3)), nn.InstanceNorm1d(2), nn.Flatten()
    return normed(nn.Sequential(*norm))


def batch_norm() -> nn.Module:
    return normed(nn.BatchNorm1d(6))


def dropout() -> nn.Module:
    return normed(nn.Dropout(0.5))


class Owner:
    """A plain object that calls a module."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def log_prob(self, x: Tensor) -> Tensor:
        return self.module(x)

    def __call__(self, x: Tensor) -> Tensor:
        return self.module(x)


def call(x: Tensor, module: nn.Module) -> Tensor:
    return module(x)


def by_functional_call(module: nn.Module) -> Model:
    values = dict(module.named_parameters())
    return log_density(lambda x: functional_call(module, values, x), module, data())


def by_lambda(module: nn.Module) -> Model:
    return log_density(lambda x: module(x), module, data())


def by_partial(module: nn.Module) -> Model:
    return log_density(partial(call, module=module), module, data())


def by_method(module: nn.Module) -> Model:
    return log_density(Owner(module).log_prob, module, data())


def by_object(module: nn.Module) -> Model:
    return log_density(Owner(module), module, data())


def by_list(module: nn.Module) -> Model:
    """Return a model that finds its module in a list of lists, where no search would look."""
    nested = [[{"module": [module]}]]
    return log_density(lambda x: nested[0][0]["module"][0](x), module, data())


def scripted(module: nn.Module) -> Model:
    module = torch.jit.script(module)
    return log_density(module, module, data())


def traced(module: nn.Module) -> Model:
    module = torch.jit.trace(module, data(), check_trace=False)
    return log_density(module, module, data())


def compiled(module: nn.Module) -> Model:
    torch.compiler.reset()
    return log_density(torch.compile(module, backend="eager"), module, data())


def compiled_in_place(module: nn.Module) -> Model:
    torch.compiler.reset()
    module.compile(backend="eager")
    return log_density(module, module, data())


def fx_traced(module: nn.Module) -> Model:
    module = torch.fx.symbolic_trace(module)
    return log_density(module, module, data())


def exported(module: nn.Module) -> Model:
    batch = torch.export.Dim("batch", min=2, max=1000)
    module = torch.export.export(module, (data(),), dynamic_shapes=({0: batch},)).module()
    return log_density(module, module, data())


def averaged(module: nn.Module) -> Model:
    model = AveragedModel(module)
    model.update_parameters(module)
    return log_density(model, model, data())


def parallel(module: nn.Module) -> Model:
    return log_density(nn.DataParallel(module), module, data())


def pruned(module: nn.Module) -> Model:
    prune.random_unstructured(module[0], "weight", amount=0.3)
    return log_density(module, module, data())


def hooked(module: nn.Module) -> Model:
    module[0].register_forward_hook(lambda module, args, y: y.tanh())
    module.register_forward_pre_hook(lambda module, args: (2 * args[0],))
    return log_density(module, module, data())


def checkpointed(reentrant: bool) -> Model:
    module = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), mlp())
    f = lambda x: checkpoint(module[2], module[:2](x), use_reentrant=reentrant)
    return log_density(f, module, data())


def conditional() -> Model:
    """Return a model with a branch that `torch.cond` chooses."""
    module, flag = mlp(), torch.tensor(True)
    branches = lambda h: h.sin() * h, lambda h: h.cos()
    f = lambda x: module(x + torch.cond(flag, *branches, (2 * x,)))
    return log_density(f, module, data())


def vmapped() -> Model:
    module = nn.Sequential(nn.Linear(3, 5), nn.Softplus(), nn.Linear(5, 1))
    return log_density(vmap(lambda row: module(row).squeeze(0)), module, data())


Wrap = Callable[[nn.Module], Model]
PYTHON: dict[str, Wrap] = {
    "functional_call": by_functional_call,
    "lambda": by_lambda,
    "partial": by_partial,
    "method": by_method,
    "callable object": by_object,
    "nested lists": by_list,
}
EAGER: dict[str, Wrap] = {
    "AveragedModel": averaged,
    "DataParallel": parallel,
    "Module.compile": compiled_in_place,
    "compile": compiled,
    "fx.symbolic_trace": fx_traced,
    "hooks": hooked,
    "prune": pruned,
}
SCRIPTED: dict[str, Wrap] = {"jit.script": scripted, "jit.trace": traced}
WRONG_GRADIENT: dict[str, Any] = dict.fromkeys(("autodiff", "fallback"), ("warned", "refused"))
"""For norms in a graph that Python does not see. Torch's third derivatives of them are wrong; for
instance norm torch 2.15 raises an error."""


def wrapped(
    wraps: dict[str, Wrap], make: Callable[[], nn.Module], **outcomes: object
) -> dict[str, Case]:
    name = {mlp: "perceptron"}.get(make, make.__name__)
    return {
        f"{how}, {name}": Case(lambda wrap=wrap: wrap(make()), **outcomes)
        for how, wrap in wraps.items()
    }


WRAPPERS: dict[str, Case] = (
    wrapped(PYTHON | EAGER, mlp)
    | wrapped(PYTHON | EAGER, layer_norm)
    | wrapped(PYTHON | EAGER, batch_norm, **REFUSED)
    | wrapped({"nested lists": by_list, "compile": compiled}, dropout, **RANDOM)
    | wrapped(SCRIPTED, mlp, **NO_RULE)
    | wrapped(SCRIPTED, layer_norm, **NO_RULE | WRONG_GRADIENT)
    | wrapped(SCRIPTED, instance_norm, **NO_RULE | WRONG_GRADIENT)
    | wrapped(SCRIPTED, batch_norm, **REFUSED)
    | wrapped(SCRIPTED, dropout, **RANDOM, **NO_RULE)
    | {
        "checkpoint": Case(lambda: checkpointed(False)),
        "checkpoint, reentrant": Case(lambda: checkpointed(True), **ONLY_VALUES),
        "export, perceptron": Case(lambda: exported(mlp()), taylor="refused", fallback="refused"),
        "export, layer_norm": Case(
            lambda: exported(normed()), **ONLY_VALUES | {"autodiff": "warned"}
        ),
        "export, batch_norm": Case(lambda: exported(batch_norm()), **REFUSED),
        "cond": Case(
            conditional,
            autodiff="refused",
            taylor=("right", "refused"),
            fallback=("right", "refused"),
        ),
        "vmap": Case(vmapped, **NO_RULE),
    }
)
