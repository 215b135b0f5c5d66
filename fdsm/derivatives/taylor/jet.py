"""Tensors that carry the coefficients of their power series, and changing them in place."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch import Tensor
from torch.autograd.graph import Node
from torch.utils import _pytree

from .common_slopes import CommonActivation, CommonSlopes
from .registry import MissingRule, Rule, rule_of
from .series import Propagation, Truncation


class Jet(Tensor):
    """A tensor with the coefficients of its power series along some directions.

    It has the shape and type of its value, and torch's functions act on it by rules. It has no
    memory of its own: code that bypasses the rules fails instead of losing the coefficients.

    Autograd sees every jet as a leaf that requires a gradient. The output of a custom
    `autograd.Function` that was applied to a jet is therefore part of a graph, which no other
    tensor that depends on a jet is. That is how custom functions are found and refused.

    Attributes:
        coefficients: The value, the slopes and so on, shape `(rows, *shape)`. Trailing
            coefficients that are known to be zero are left out.
        truncation: Which coefficients there are.
        aliases: This jet and the tensors that may share memory with it.
    """

    coefficients: Tensor
    truncation: Truncation
    aliases: list[ReferenceType[Tensor]]
    _source: CommonSlopes | CommonActivation

    @staticmethod
    def __new__(cls: type["Jet"], coefficients: Tensor, truncation: Truncation) -> "Jet":
        """Return a jet: a tensor with the shape of its value, without memory."""
        if truncation.propagation.recording and not torch.is_grad_enabled():
            raise MissingRule(_GRADIENTS_OFF)
        jet: Jet = Tensor._make_wrapper_subclass(
            cls,
            coefficients.shape[1:],
            dtype=coefficients.dtype,
            device=coefficients.device,
            requires_grad=coefficients.is_floating_point() or coefficients.is_complex(),
        )
        jet.coefficients, jet.truncation, jet.aliases = coefficients, truncation, []
        return jet

    @classmethod
    def with_common_slopes(cls, value: Tensor, slopes: Tensor, truncation: Truncation) -> "Jet":
        """Return a jet of degree one whose slopes, shape `(V, *E)`, are the same in all rows.

        A linear layer maps the slopes once instead of once for each row.
        """
        return cls.deferred(CommonSlopes(value, slopes), truncation)

    @classmethod
    def deferred(cls, source: CommonSlopes | CommonActivation, truncation: Truncation) -> "Jet":
        """Return a jet whose coefficients are computed from a source when they are first used."""
        jet = cls(source.value[None], truncation)
        del jet.coefficients
        jet._source = source
        return jet

    def __getattr__(self, name: str) -> Any:
        """Compute the coefficients of a jet from its source."""
        if name != "coefficients" or "_source" not in self.__dict__:
            raise AttributeError(f"'Jet' object has no attribute {name!r}")
        self.coefficients = self._source.coefficients()
        return self.coefficients

    @property
    def source(self) -> CommonSlopes | CommonActivation | None:
        """What the coefficients will be computed from, unless they were used."""
        return None if "coefficients" in self.__dict__ else self._source

    @property
    def factors(self) -> CommonSlopes | None:
        """The value and the slopes that all rows share, unless the coefficients were used."""
        return source if isinstance(source := self.source, CommonSlopes) else None

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Apply the rule of a function of torch."""
        if _current_functorch_level() is not None:
            raise MissingRule("Taylor has no rules for `torch.vmap` and the like (torch.func)")
        if not kwargs:
            propagation, has_complex = _check_operands(args)
            return _apply(rule_of(function, _in_place, has_complex), propagation, args, {})
        propagation, has_complex = _check_operands((*args, *kwargs.values()))
        if kwargs.pop("out", None) is not None:
            raise MissingRule("Taylor cannot write results into `out`: use the returned tensor")
        if not _SYNONYMS.keys().isdisjoint(kwargs):
            kwargs = {_SYNONYMS.get(name, name): value for name, value in kwargs.items()}
        by_name = not args and "input" in kwargs and "condition" not in kwargs
        first = [kwargs.pop("input")] if by_name else []
        applied = rule_of(function, _in_place, has_complex)
        return _apply(applied, propagation, (*args, *first), kwargs)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls,
        function: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Refuse operations that bypass the rules, except for a copy that autograd makes.

        Autograd detaches tensors that it has saved, for example the inputs of a checkpoint.

        Returns:
            The copy.

        Raises:
            MissingRule: For any other operation.
        """
        if function is torch.ops.aten.detach.default:
            (jet,) = args
            with torch.enable_grad():
                return Jet(jet.coefficients, jet.truncation)
        raise MissingRule(
            f"`{function}` was applied to the memory of a jet, which has none. C code and "
            "`torch.tensor(x)` bypass the rules of Taylor in this way: use functions of torch on "
            "the tensor itself, or another engine, e.g. `Taylor(fallback=Autodiff())`"
        )

    @property
    def value(self) -> Tensor:
        """The coefficient of degree zero."""
        return self.coefficients[0]

    @property
    def degree(self) -> int:
        """The highest degree that is not known to be zero."""
        return self.truncation.degree(self.coefficients.shape[0])

    @property
    def shared(self) -> bool:
        """Whether other tensors share its memory. They cannot follow if its degree grows."""
        return any(x() is not None and x() is not self for x in self.aliases)

    def share(self, other: Tensor) -> None:
        """Record that another tensor shares the memory of this one."""
        self.aliases = self.aliases or [ref(self)]
        self.aliases.append(ref(other))
        if isinstance(other, Jet):
            other.aliases = self.aliases

    def part(self, degree: int) -> Tensor:
        """Return the coefficients of a degree, shape `(V, *shape)` or `(1, *shape)`."""
        return self.coefficients[self.truncation.block(degree)]

    @property
    def shape(self) -> torch.Size:  # type: ignore[override]
        """The shape of the value."""
        return self.coefficients.shape[1:]

    @property
    def ndim(self) -> int:  # type: ignore[override]
        """The number of dimensions of the value."""
        return self.coefficients.ndim - 1

    @property
    def dtype(self) -> torch.dtype:  # type: ignore[override]
        """The type of the coefficients."""
        return self.coefficients.dtype

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The device of the coefficients."""
        return self.coefficients.device

    @property
    def requires_grad(self) -> bool:
        """Whether `requires_grad_()` was called on it, so that gradients can be taken.

        It does not say whether the coefficients depend on parameters. If it did, FSDP would
        register its hooks on the jet instead of on the coefficients.
        """
        return self.coefficients.requires_grad and self.coefficients.is_leaf

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(torch.unbind(self))

    def __bool__(self) -> bool:
        return bool(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value.detach(), spec)

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Jet({self.coefficients!r}, {self.truncation!r})"


_SYNONYMS = {"axis": "dim", "keepdims": "keepdim", "self": "input"}
_GRADIENTS_OFF = (
    "gradients are switched off inside the model: by `torch.no_grad()`, by a custom "
    "`autograd.Function`, whose `forward` runs without gradients, or by a checkpoint with "
    "`use_reentrant=True`. Autograd would differentiate this part differently from Taylor. Use "
    "`.detach()` instead of `torch.no_grad()`, functions of torch instead of the custom function "
    "and `use_reentrant=False` for the checkpoint, or another engine, e.g. "
    "`Taylor(fallback=Autodiff())`"
)
_CUSTOM_FUNCTION = (
    "Taylor has no rule for a custom `autograd.Function`: use functions of torch, or another "
    "engine, e.g. `Taylor(fallback=Autodiff())`"
)
_TWO_CALLS = (
    "jets of two calls of Taylor meet: the model has kept a tensor from an earlier call, or calls "
    "Taylor itself. Use Autodiff() inside the model"
)


def _apply(
    applied: Rule, propagation: Propagation | None, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """Apply a rule, with gradients switched off if nothing is kept for a backward pass."""
    if propagation is None or propagation.keeping or not torch.is_grad_enabled():
        return applied(*args, **kwargs)
    propagation.recording = False
    try:
        with torch.no_grad():
            return applied(*args, **kwargs)
    finally:
        propagation.recording = True


def _check_operands(args: Iterable[Any]) -> tuple[Propagation | None, bool]:
    """Check that the operands of a function belong together and that autograd sees them.

    Returns:
        The propagation that they belong to, and whether one of them is complex, or a complex type.

    Raises:
        MissingRule: If jets belong to different propagations, or an operand is the output of a
            custom `autograd.Function`.
    """
    propagation: Propagation | None = None
    operands, has_complex = list(args), False
    with _without_torch_function():
        while operands:
            x = operands.pop()
            if isinstance(x, Tensor):
                has_complex = has_complex or x.is_complex()
                if x.grad_fn is not None and (type(x) is Jet or _depends_on_a_jet(x.grad_fn)):
                    raise MissingRule(_CUSTOM_FUNCTION)
                if type(x) is Jet:
                    propagation = propagation or x.truncation.propagation
                    if x.truncation.propagation is not propagation:
                        raise MissingRule(_TWO_CALLS)
            elif type(x) in (list, tuple):
                operands += x
            elif type(x) is complex or (type(x) is torch.dtype and x.is_complex):
                has_complex = True
    return propagation, has_complex


def _depends_on_a_jet(node: Node) -> bool:
    """Return whether a jet is among the leaves of a graph of autograd."""
    nodes, seen = [node], {node}
    while nodes:
        node = nodes.pop()
        parents = node.next_functions
        if not parents and type(getattr(node, "variable", None)) is Jet:
            return True
        for parent, _ in parents:
            if parent is not None and parent not in seen:
                seen.add(parent)
                nodes.append(parent)
    return False


_current_functorch_level = torch._C._functorch.maybe_current_level
_without_torch_function = torch._C.DisableTorchFunctionSubclass


@dataclass
class _Parts:
    """The parts of a jet for FSDP, which looks for tensors in dataclasses."""

    coefficients: Tensor
    truncation: Truncation


Jet.__dataclass_fields__ = _Parts.__dataclass_fields__  # type: ignore[attr-defined]


def _unflatten(leaves: Iterable[Any], truncation: Truncation) -> Jet | None:
    """Return a jet of coefficients that FSDP or another user of pytrees has processed."""
    (coefficients,) = leaves
    if coefficients is None:  # torch 2.10 only looks at the devices of what it checkpoints
        return None
    if type(coefficients) is not Tensor or torch._C._functorch.is_batchedtensor(coefficients):
        raise MissingRule("Taylor has no rule for `torch.vmap` and the like inside a model")
    return Jet(coefficients, truncation)


_pytree.register_pytree_node(
    Jet,
    lambda jet: ([jet.coefficients], jet.truncation),
    _unflatten,
    serialized_type_name="fdsm.derivatives.taylor.Jet",
)


def _in_place(out_of_place: Rule, name: str) -> Rule:
    """Return the rule of an in-place function, given the rule of its out-of-place form."""

    def applied(target: Tensor, *args: Any, **kwargs: Any) -> Jet:
        if not isinstance(target, Jet):
            instead = f"the out-of-place form, `{name[:-1]}`"
            raise MissingRule(plain_target_message(name, instead, target))
        return assign_(target, out_of_place(snapshot(target), *args, **kwargs))

    return applied


def plain_target_message(name: str, instead: str, target: Tensor) -> str:
    """Return the message of the error for writing a jet into a plain tensor.

    Args:
        name: The function that would write.
        instead: What to use instead of it.
        target: The plain tensor.

    Returns:
        The message.
    """
    return (
        f"`{name}` would write derivatives into a plain tensor of shape {tuple(target.shape)}, "
        "which cannot hold them. Create the tensor from the input of the model, e.g. with "
        f"`torch.zeros_like(x)` or `x.new_zeros(…)`, use {instead}, or another engine: "
        "`Taylor(fallback=Autodiff())`"
    )


def snapshot(jet: Jet) -> Jet:
    """Return a jet that does not change when the given one is changed in place."""
    return Jet(jet.coefficients.clone() if jet.shared else jet.coefficients, jet.truncation)


def assign_(target: Jet, result: Jet | Tensor) -> Jet:
    """Assign a result to a jet in place, so that tensors that share its memory change with it.

    Args:
        target: The jet to change.
        result: Its new series.

    Returns:
        The jet.

    Raises:
        MissingRule: If the degree grows and other tensors share its memory.
        RuntimeError: If the result has another shape, or is complex and the jet is not.
    """
    if result.shape != target.shape:
        raise RuntimeError(
            f"a result of shape {tuple(result.shape)} cannot be assigned in place to a tensor of "
            f"shape {tuple(target.shape)}"
        )
    new = result.coefficients if isinstance(result, Jet) else result[None]
    if new.is_complex() and not target.dtype.is_complex:
        raise RuntimeError(f"a complex result cannot be assigned in place to {target.dtype}")
    new = new.to(target.dtype)
    if not target.shared:
        target.coefficients = new
    elif len(new) <= len(target.coefficients):
        target.coefficients.zero_()
        target.coefficients[: len(new)].copy_(new)
    else:
        raise MissingRule(
            "an in-place operation would give derivatives to a tensor that shares its memory with "
            "another tensor, which Taylor cannot follow: use the out-of-place form, e.g. "
            "`inplace=False`"
        )
    return target
