"""Updates with weights, gradients and optimizer state divided among processes (FSDP2)."""

import copy
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, distribute_tensor

from fdsm.training import Update
from fdsm.training.distributed import LossModule
from fdsm.training.distributed.fully_sharded import Units, fully_sharded

from .update import DistributedUpdate
from .world import World


class FullyShardedUpdate(DistributedUpdate):
    """A `DistributedUpdate` with weights and optimizer state divided among processes (FSDP2).

    The module is changed in place: its parameters become distributed tensors. `plain` is a copy
    with ordinary parameters.
    """

    def __init__(self, update: Update, world: World, units: Units, accumulate: int = 1) -> None:
        """Divide the weights among the processes, with the state of optimizer and average.

        Args:
            update: The update of one process.
            world: The processes.
            units: What is gathered at once.
            accumulate: Number of parts whose gradients are added.

        Raises:
            ValueError: If torch cannot divide the parameters.
        """
        plain, self._units = copy.deepcopy(update.module), units
        names = {id(p): name for name, p in update.module.named_parameters()}
        order = [names[id(p)] for group in update.optimizer.param_groups for p in group["params"]]
        super().__init__(update, world, accumulate)
        self.plain = plain
        self._checked = True  # each process has the gradients of its own part of the weights
        parameters = dict(self.module.named_parameters())
        self._names = list(parameters)
        old = self.parameters
        self.parameters = [parameters[name] for name in order]
        _replace_parameters(self.optimizer, dict(zip(old, self.parameters, strict=True)))
        if self.average is not None:
            self._means = {
                name: _like(mean.detach(), parameters[name])
                for name, mean in self.average.model.named_parameters()
            }

    def _wrap(self, loss: LossModule) -> nn.Module:
        return fully_sharded(loss, self._units)

    @contextmanager
    def _unsynchronized(self) -> Generator[None]:
        wrapped = cast(FSDPModule, self.wrapped)
        wrapped.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            wrapped.set_requires_gradient_sync(True)

    def _clip(self) -> Tensor:
        return _full(super()._clip())

    def _update_average(self) -> None:
        if self.average is not None:
            parameters = dict(self.module.named_parameters())
            torch._foreach_lerp_(
                [self._means[name].to_local() for name in self._names],
                [cast(DTensor, parameters[name].detach()).to_local() for name in self._names],
                self.average.next_weight,
            )
            self.average.count_update()

    def gather(self) -> None:
        """Copy the weights of all processes to `plain`, and their averages to the average."""
        copies: list[tuple[nn.Module, Mapping[str, Tensor]]]
        copies = [(self.plain, dict(self.module.named_parameters()))]
        if self.average is not None:
            copies.append((self.average.model, self._means))
        with torch.no_grad():
            for module, parameters in copies:
                for name, p in module.named_parameters():
                    p.copy_(_full(parameters[name]))
                for mine, theirs in zip(module.buffers(), self.module.buffers(), strict=True):
                    mine.copy_(theirs)

    def optimizer_state(self) -> dict[str, Any]:
        """Return the state of the optimizer with ordinary tensors."""
        state = super().optimizer_state()
        whole = {
            index: {name: _full(v) for name, v in values.items()}
            for index, values in state["state"].items()
        }
        return {**state, "state": whole}


def _full(x: Tensor) -> Tensor:
    """Return a tensor with the parts of all processes."""
    return x.full_tensor() if isinstance(x, DTensor) else x


def _like(x: Tensor, parameter: Tensor) -> DTensor:
    """Return a tensor divided like a parameter."""
    assert isinstance(parameter, DTensor)
    return distribute_tensor(x, parameter.device_mesh, parameter.placements)


def _replace_parameters(
    optimizer: torch.optim.Optimizer, new: dict[nn.Parameter, nn.Parameter]
) -> None:
    """Let an optimizer train other parameters, with the state of the old ones."""
    for group in optimizer.param_groups:
        group["params"] = [new[p] for p in group["params"]]
    for old, parameter in new.items():
        if old in optimizer.state:
            optimizer.state[parameter] = {
                name: _like(v, parameter)
                if isinstance(v, Tensor) and v.shape == parameter.shape and v.ndim
                else v
                for name, v in optimizer.state.pop(old).items()
            }
