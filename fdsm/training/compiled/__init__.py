"""A training step as one compiled graph: loss, gradient, clipping, update and average.

An eager step of a small network spends most of its time between the operations: each of several
hundred is called from Python, recorded by autograd and writes its result to memory. Here the step
is traced once, with the weights, the state of the optimizer and the random numbers as inputs, and
compiled by inductor, which fuses the elementwise operations and updates the weights in place.
"""

from .update import CompiledUpdate, CompileWarning, compiled_step

__all__ = ["CompileWarning", "CompiledUpdate", "compiled_step"]
