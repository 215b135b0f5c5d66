"""How `torch.compile` treats a Taylor series.

Only code that is being compiled imports this module, because it imports the compiler, which takes
a second.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from .engine import propagate

untraced: Callable[..., Tensor] = torch.compiler.disable(  # type: ignore[no-untyped-call]
    propagate,
    reason="Taylor series are compiled only through models that are an `nn.Module`: pass the "
    "module itself, or leave out `fullgraph=True`",
)
"""Breaks the graph."""
traced: Callable[..., Tensor] = getattr(torch._dynamo, "nonstrict_trace", lambda f: f)(propagate)
"""One call to the compiler, which follows the tensors through it."""
