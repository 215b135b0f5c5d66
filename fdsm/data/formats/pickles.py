"""Reading pickles without running them.

A pickle is a program, and unpickling runs it. Here its opcodes build a tree instead: what the
program would import is only named, and what it would call is only written down.
"""

import pickletools
from dataclasses import dataclass
from typing import Any

from ..errors import DataError


@dataclass
class Call:
    """A call that the pickle asks for, and that nobody makes.

    Attributes:
        function: What would be called: `"module name"`, or another value of the pickle.
        arguments: With what.
        state: What the result would be set to afterwards.
    """

    function: object
    arguments: object
    state: object = None


@dataclass(frozen=True)
class Global:
    """Something that the pickle would import.

    Attributes:
        name: `"module name"`.
    """

    name: str


CONSTANTS = {
    "BININT", "BININT1", "BININT2", "BINSTRING", "SHORT_BINSTRING", "BINUNICODE",
    "SHORT_BINBYTES", "BINBYTES",
}  # fmt: skip
"""Opcodes that push their argument."""

LITERALS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
IGNORED = {"PROTO", "STOP"}


def tree(content: bytes) -> object:
    r"""Return what a pickle describes, with nothing imported or called.

    Strings of Python 2 become text in Latin-1, which keeps every byte.

    Args:
        content: The pickle, protocol 2 or the plain parts of later ones.

    Returns:
        Dictionaries, lists, tuples, numbers and strings, with a `Call` for each call and a
        `Global` for each import.

    Raises:
        DataError: If it is not a pickle, or uses opcodes that data do not need.

    Example:
        >>> import pickle
        >>> tree(pickle.dumps({"a": [1, "b", None]}, protocol=2))
        {'a': [1, 'b', None]}
        >>> tree(b"cos\nsystem\nU\x08rm -rf /\x85R.")
        Call(function=Global(name='os system'), arguments=('rm -rf /',), state=None)
    """
    machine = _Machine()
    try:
        for opcode, argument, _ in pickletools.genops(content):
            machine.run(opcode.name, argument)
        return machine.stack.pop()
    except DataError:
        raise
    except (ValueError, IndexError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"not a whole pickle: {error}") from error


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[str, Any] = {}

    def run(self, name: str, argument: object) -> None:
        if name in CONSTANTS:
            self.stack.append(argument)
        elif name in LITERALS:
            self.stack.append(LITERALS[name])
        elif name in TUPLES:
            self.stack.append(tuple(self._popped(TUPLES[name])))
        elif name in {"BINPUT", "LONG_BINPUT"}:
            self.memo[str(argument)] = self.stack[-1]
        elif name in {"BINGET", "LONG_BINGET"}:
            self.stack.append(self.memo[str(argument)])
        elif name not in IGNORED:
            self._structure(name, str(argument))

    def _structure(self, name: str, argument: str) -> None:
        build = {
            "MARK": lambda: self.marks.append(len(self.stack)),
            "EMPTY_DICT": lambda: self.stack.append({}),
            "EMPTY_LIST": lambda: self.stack.append([]),
            "EMPTY_TUPLE": lambda: self.stack.append(()),
            "TUPLE": lambda: self.stack.append(tuple(self._since_mark())),
            "APPEND": lambda: self._extend(self._popped(1)),
            "APPENDS": lambda: self._extend(self._since_mark()),
            "SETITEM": lambda: self._update(self._popped(2)),
            "SETITEMS": lambda: self._update(self._since_mark()),
            "GLOBAL": lambda: self.stack.append(Global(argument)),
            "REDUCE": lambda: self.stack.append(Call(*self._popped(2))),
            "BUILD": lambda: self._build(*self._popped(1)),
        }
        if name not in build:
            raise DataError(f"the opcode {name} has no place in a file of numbers")
        build[name]()

    def _popped(self, n: int) -> list[Any]:
        if len(self.stack) < n:
            raise IndexError("the stack is empty")
        items = self.stack[-n:]
        del self.stack[-n:]
        return items

    def _since_mark(self) -> list[Any]:
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def _extend(self, items: list[Any]) -> None:
        self.stack[-1].extend(items)

    def _update(self, items: list[Any]) -> None:
        if not all(isinstance(key, str) for key in items[::2]):
            raise DataError("the keys of a dictionary are not text")
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))

    def _build(self, state: object) -> None:
        if not isinstance(self.stack[-1], Call):
            raise DataError("a state is set on something that is not a call")
        self.stack[-1].state = state
