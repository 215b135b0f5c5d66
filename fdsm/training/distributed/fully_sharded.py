"""Weights, gradients and optimizer state divided among processes (FSDP2)."""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, Literal

import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.overrides import TorchFunctionMode

from .loss import LossModule

__all__ = ["InnerGradientError", "Units", "fully_sharded"]

Units = Literal["root", "layers"]
"""What is gathered at once: all weights, or those of one layer after the other."""


class InnerGradientError(ValueError):
    """A loss takes gradients itself, but the layers of its model are gathered one by one."""


def fully_sharded(loss: LossModule, units: Units = "root") -> LossModule:
    """Divide the weights of a model among the processes of the default group.

    The model is changed in place: its parameters become distributed tensors. So build the
    optimizer afterwards. Everything else is that of `torch.distributed.fsdp.fully_shard`; for
    checkpoints see `torch.distributed.checkpoint.state_dict`.

    Args:
        loss: The loss and its model, the same in all processes.
        units: What is gathered at once. Losses that take gradients themselves, such as DSM or SSM
            with `Autodiff`, need `"root"`.

    Returns:
        The loss. Calling it raises `InnerGradientError` if it takes gradients itself with
        `units="layers"`.

    Raises:
        ValueError: If a parameter is a single number.

    Example:
        Started by `torchrun`, after `torch.distributed.init_process_group()`:

        ```python
        loss = fully_sharded(LossModule(partial(DSM(0.1), model), model))
        optimizer = torch.optim.Adam(model.parameters())
        for x in loader:
            optimizer.zero_grad()
            loss(x, generator=generator).backward()
            optimizer.step()
        ```
    """
    parameters = dict(loss.model.named_parameters())
    scalars = [name for name, p in parameters.items() if p.ndim == 0]
    if scalars:
        raise ValueError(
            f"torch cannot divide parameters that are a single number: {', '.join(scalars)}"
        )
    device = next(iter(parameters.values())).device.type
    mesh = init_device_mesh(device, (distributed.get_world_size(),))
    if units == "layers":
        loss.losses = _without_inner_gradients(loss.losses)
        for child in reversed(list(loss.model.modules())):
            if child is not loss.model and has_parameters(child):
                fully_shard(child, mesh=mesh)
    fully_shard(loss, mesh=mesh)
    return loss


def has_parameters(module: nn.Module) -> bool:
    """Return whether a module that can be called has parameters of its own."""
    is_container = type(module).forward is nn.Module.forward
    return not is_container and any(True for _ in module.parameters(recurse=False))


def _without_inner_gradients(losses: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a loss that raises `InnerGradientError` where it takes a gradient."""

    @wraps(losses)
    def refusing(*args: object, **kwargs: object) -> Tensor:
        with _RefusedGradients():
            return losses(*args, **kwargs)

    return refusing


class _RefusedGradients(TorchFunctionMode):
    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call a function, unless it takes a gradient."""
        if function is torch.autograd.grad:
            raise InnerGradientError(
                "the loss takes gradients itself, which torch cannot compute if layers are "
                'gathered one by one: gather all weights at once, units="root", or use '
                "FiniteDifference() or Taylor()"
            )
        return function(*args, **(kwargs or {}))
