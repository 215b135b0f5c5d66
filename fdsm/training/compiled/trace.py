"""Tracing an update without the numbers in its tensors.

A graph would keep a number that is read from a tensor while it is traced. So the inputs have no
numbers, only shapes and types (`FakeTensorMode`), and reading one fails. Calls that read tensors
from outside, or that torch does not see, are refused by name.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ...derivatives.checks.state import tracing

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

NAMES = (
    *("item", "tolist", "numpy", "data_ptr", "equal", "allclose", "is_nonzero"),
    *("__array__", "__dlpack__", "__bool__", "__float__", "__int__", "__index__", "__complex__"),
    *("__contains__", "__format__"),
)
READS = {getattr(kind, name) for name in NAMES for kind in (Tensor, torch) if hasattr(kind, name)}
"""Functions and methods of torch that return numbers of a tensor."""


class NotCompilable(Exception):
    """The reason why an update cannot be compiled."""


class RefusedReads(TorchFunctionMode):
    """Context manager in which no tensor can be read as Python numbers.

    Attributes:
        refused: Why a call was refused, or `None`. The code that is traced may catch the error.
        dtypes: Floating point types that the code has computed with.
    """

    def __init__(self) -> None:
        super().__init__()
        self.refused: NotCompilable | None = None
        self.dtypes: set[torch.dtype] = set()

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        """Call a function, unless it reads a tensor."""
        if function in READS:
            name = function.__name__.strip("_")
            self.refused = NotCompilable(
                f"numbers are read from a tensor, by {name}() or a similar call, and a graph "
                "would keep them. This also happens with a step size that changes during "
                "training. Compute with tensors instead, or pass the numbers as an input"
            )
            raise self.refused
        result = function(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.dtype.is_floating_point:
            self.dtypes.add(result.dtype)
        return result


class Traced:
    """A function of tensors as a graph.

    Attributes:
        graph: The graph. Its inputs are those of the function, then the captured tensors.
        captured: Tensors that the function reads and that are not among its inputs.
        full_precision: Whether matrix products must not be computed in reduced precision.
    """

    def __init__(
        self,
        function: Callable[..., Sequence[Tensor]],
        inputs: Sequence[Tensor],
        reads: RefusedReads,
    ) -> None:
        """Trace a function.

        Args:
            function: The function.
            inputs: Tensors of the shapes and types of its inputs.
            reads: The context in which the function computes its loss.

        Raises:
            NotCompilable: If the function depends on numbers in tensors, or on parameters that are
                not among its inputs.
        """
        with torch.no_grad(), tracing() as trace:
            try:
                graph = _traced(function, inputs)
            except Exception as error:
                raise reads.refused or NotCompilable(
                    "torch cannot trace it. It may depend on numbers in a tensor "
                    f"({first_line(error)})"
                ) from error
            if reads.refused:
                raise reads.refused
        self.graph, self.captured = graph, _as_inputs(graph)
        if any(t.requires_grad for t in self.captured):
            raise NotCompilable("the loss uses a parameter that is not part of the module")
        self.full_precision = trace.full_precision


def _traced(function: Callable[..., object], inputs: Iterable[Tensor]) -> "GraphModule":
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fakes = [mode.from_tensor(t.detach().clone()) for t in inputs]
    return make_fx(function, tracing_mode="fake", _allow_non_fake_inputs=True)(*fakes)


def _as_inputs(graph: "GraphModule") -> list[Tensor]:
    """Make the tensors that a graph has captured its last inputs, and return them."""
    nodes = [node for node in graph.graph.nodes if node.op == "get_attr"]
    *_, last = (node for node in graph.graph.nodes if node.op == "placeholder")
    inputs: dict[str, Node] = {}
    for node in nodes:
        if node.target not in inputs:
            with graph.graph.inserting_after(last):
                last = inputs[node.target] = graph.graph.placeholder(f"captured_{len(inputs)}")
            last.meta = node.meta
        node.replace_all_uses_with(inputs[node.target])
        graph.graph.erase_node(node)
    graph.recompile()
    return [getattr(graph, name) for name in inputs]


def first_line(error: Exception) -> str:
    """Return the type of an error and the first line of its message."""
    text, *_ = str(error).strip().split("\n")
    return f"{type(error).__name__}: {text}"
