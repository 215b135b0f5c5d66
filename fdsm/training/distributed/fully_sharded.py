"""Updates with weights, gradients and optimizer state divided among processes (FSDP2)."""

import copy
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from ...sharding import Shard
from ..compiled.graph import random_state_kept
from ..update import Update
from .checks import InnerGradients, NotShardable
from .update import ShardedUpdate, ShardLoss
from .world import World

Units = Literal["root", "layers"]
"""What is gathered at once: all weights, or those of one layer after the other."""
TOLERANCE = 1e-3
"""Largest accepted relative difference of gradients from those of one process."""


class FullyShardedUpdate(ShardedUpdate):
    """A `ShardedUpdate` by `torch.distributed.fsdp.fully_shard`.

    The module is changed in place: its parameters become distributed tensors. `plain` has the
    weights of all processes after `gather`.

    Attributes:
        plain: A copy of the module with ordinary parameters, for evaluation and checkpoints.
    """

    def __init__(
        self,
        update: Update,
        world: World,
        shard: Shard,
        units: Units,
        rows: Tensor,
        generator: torch.Generator,
        *,
        accumulate: int = 1,
        dim: int = 0,
    ) -> None:
        """Divide the weights among the processes, with the state of optimizer and average.

        Args:
            update: The update of the whole batch.
            world: The processes.
            shard: The rows of this process in a batch.
            units: What is gathered at once.
            rows: A few rows, the same in all processes, on which the gradients are compared with
                those of a single process.
            generator: Random number generator of the loss. Its state is restored.
            accumulate: Number of parts whose gradients are added.
            dim: The dimension of a batch that counts rows.

        Raises:
            NotShardable: If a loss or gradient is not that of a single process.
        """
        self.plain, self._units = copy.deepcopy(update.module), units
        names = {id(p): name for name, p in update.module.named_parameters()}
        order = [names[id(p)] for group in update.optimizer.param_groups for p in group["params"]]
        with InnerGradients() as inner:
            whole = ShardLoss(update.module, update.loss, dim=dim)
            reference = _gradients(whole, rows, generator, dim)
        if inner.taken and units == "layers":
            raise NotShardable(
                "its loss takes gradients itself, which torch cannot compute if layers are "
                "gathered one by one. Gather all weights at once (--fsdp root), or use finite "
                "differences or Taylor mode (--derivative)"
            )
        super().__init__(update, world, shard, accumulate=accumulate, dim=dim)
        self._checked = True
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
        gradients = _gradients(self.part, rows, generator, dim, world.size)
        self.optimizer.zero_grad(set_to_none=True)
        _require_close(gradients, reference)

    def _wrap(self, part: ShardLoss) -> nn.Module:
        device = next(self.module.parameters()).device.type
        scalars = [name for name, p in self.module.named_parameters() if p.ndim == 0]
        if scalars:
            raise NotShardable(
                f"torch cannot divide parameters that are a single number: {', '.join(scalars)}. "
                "Leave out --fsdp"
            )
        mesh: DeviceMesh = init_device_mesh(device, (self.world.size,))
        if self._units == "layers":
            for child in reversed(list(part.module.modules())):
                if child is not part.module and has_parameters(child):
                    fully_shard(child, mesh=mesh)
        fully_shard(part, mesh=mesh)
        return part

    @contextmanager
    def _unsynchronized(self) -> Generator[None]:
        part = cast(FSDPModule, self.part)
        part.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            part.set_requires_gradient_sync(True)

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


def has_parameters(module: nn.Module) -> bool:
    """Return whether a module that can be called has parameters of its own."""
    is_container = type(module).forward is nn.Module.forward
    return not is_container and any(True for _ in module.parameters(recurse=False))


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


def _gradients(
    part: nn.Module, rows: Tensor, generator: torch.Generator, dim: int, processes: int = 1
) -> dict[str, Tensor]:
    """Return the loss of rows and its gradients by name, if all processes have the same rows."""
    n = rows.shape[dim]
    with random_state_kept(generator, rows.device):
        try:
            loss = part(Shard(0, n, n), (rows,), generator, 0.0) / processes
            loss.backward()
        except RuntimeError as error:
            first, *_ = str(error).splitlines()
            raise NotShardable(f"torch cannot compute its gradient: {first}") from error
    values = {"the loss": loss.detach()}
    for name, p in part.named_parameters():
        if p.grad is not None:
            values[name.removeprefix("module.")] = _full(p.grad).clone()
            p.grad = None
    return values


def _require_close(gradients: dict[str, Tensor], reference: dict[str, Tensor]) -> None:
    """Raise `NotShardable` if gradients are not those of a single process."""
    scale = max(float(g.abs().max()) for g in reference.values())
    missing = reference.keys() ^ gradients.keys()
    wrong = {
        name
        for name in reference.keys() & gradients.keys()
        if not (gradients[name] - reference[name]).abs().max() <= TOLERANCE * scale
    }
    if missing | wrong:
        raise NotShardable(
            f"gradients differ from those of one process: {', '.join(sorted(missing | wrong)[:3])}"
        )
