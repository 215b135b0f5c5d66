"""One case of the fuzzer: change a file, read it, and check what the reader promises."""

import json
import os
import random
import shutil
import sys
import time
import traceback
import unicodedata
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .mutations import mutate
from .readers import ALLOWED, STRUCTURE, Reader

MAX_SECONDS = 10.0
"""Longest time of a case, in seconds of the processor."""
MAX_MESSAGE = 4000
"""Longest message, in characters."""


@dataclass(frozen=True)
class Outcome:
    """What happened in a case.

    Attributes:
        reader: Name of the reader.
        case: Number of the case.
        kind: "accepted", "refused", or what went wrong, such as "foreign exception".
        details: The error or message.
        seconds: Duration.
    """

    reader: str
    case: int
    kind: str
    details: str = ""
    seconds: float = 0.0

    @property
    def is_finding(self) -> bool:
        """Whether a promise was broken."""
        return self.kind not in {"accepted", "refused"}


class Watch:
    """Notices code execution, processes, connections, and writes outside a folder.

    Python calls audit hooks at such events. They cannot be removed, so this one is switched off
    between the cases.

    Attributes:
        folder: The only folder that may be written to. `None` switches the watch off.
        seen: What was noticed.
    """

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.seen: list[str] = []
        self._libraries = tuple({
            os.path.realpath(part) for part in (*sys.path, sys.prefix, sys.base_prefix) if part
        })
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder is None or event not in _CHECKS:
            return
        folder, self.folder = self.folder, None  # the checks themselves cause events
        try:
            if _CHECKS[event](self, folder, arguments):
                self.seen.append(f"{event} {arguments!r:.200}")
        finally:
            self.folder = folder

    def _writes_outside(self, folder: Path, arguments: tuple[Any, ...]) -> bool:
        path, _, flags = arguments
        writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        return bool(writes) and self._is_outside(folder, (path,))

    def _is_outside(self, folder: Path, arguments: tuple[Any, ...]) -> bool:
        path = arguments[0]
        if not isinstance(path, (str, bytes, os.PathLike)):
            return False
        real = os.path.realpath(os.fsdecode(path))
        return not real.startswith((str(folder), os.devnull))

    def _either_is_outside(self, folder: Path, arguments: tuple[Any, ...]) -> bool:
        return any(self._is_outside(folder, (path,)) for path in arguments[:2])

    def _executes_foreign_code(self, folder: Path, arguments: tuple[Any, ...]) -> bool:
        """Return whether code is executed that is neither of a library nor made by one."""
        file = getattr(arguments[0], "co_filename", "")
        return not file.startswith(("<", *self._libraries))

    def _always(self, folder: Path, arguments: tuple[Any, ...]) -> bool:
        return True


_CHECKS = {
    "open": Watch._writes_outside,
    "os.mkdir": Watch._is_outside,
    "os.remove": Watch._is_outside,
    "os.rmdir": Watch._is_outside,
    "os.rename": Watch._either_is_outside,
    "os.symlink": Watch._either_is_outside,
    "os.chmod": Watch._is_outside,
    "os.truncate": Watch._is_outside,
    "exec": Watch._executes_foreign_code,
    "os.system": Watch._always,
    "os.exec": Watch._always,
    "os.fork": Watch._always,
    "os.posix_spawn": Watch._always,
    "subprocess.Popen": Watch._always,
    "socket.connect": Watch._always,
    "socket.getaddrinfo": Watch._always,
    "ctypes.dlopen": Watch._always,
}


class Cases:
    """Runs cases in a folder.

    Attributes:
        seeds: The folder of the seeds.
        folder: A folder for changed copies. Nothing else may be written to.
        seed: Random seed.
    """

    def __init__(self, seeds: Path, folder: Path, seed: int) -> None:
        self.seeds, self.folder, self.seed = seeds.resolve(), folder.resolve(), seed
        self._watch = Watch()
        os.environ["FUZZ_SEEDS"] = str(self.seeds)
        os.environ["XDG_CACHE_HOME"] = str(self.folder / "cache")

    def warm_up(self, readers: Iterable[Reader]) -> None:
        """Read all seeds, so that everything is imported before a case is watched and timed."""
        for reader in readers:
            for file in self.files(reader)[: None if reader.share == 1 else 1]:
                outcome = self._read(reader, -1, file, file.read_bytes())
                if outcome.kind != "accepted":
                    raise AssertionError(f"the seed {file} cannot be read: {outcome}")

    def files(self, reader: Reader) -> list[Path]:
        """Return the seeds that are changed for a reader."""
        folder = self.seeds / reader.seeds
        return [file for pattern in reader.files for file in sorted(folder.glob(pattern))]

    def content(self, reader: Reader, case: int) -> tuple[Path, bytes]:
        """Return the seed of a case and its changed content."""
        rng = random.Random(f"{self.seed}/{reader.name}/{case}")
        file = rng.choice(self.files(reader))
        structure = reader.structure or STRUCTURE.get(file.suffix, ())
        return file, mutate(rng, file.read_bytes(), structure)

    def run(self, reader: Reader, case: int) -> Outcome:
        """Run a case."""
        file, content = self.content(reader, case)
        return self._read(reader, case, file, content)

    def _read(self, reader: Reader, case: int, file: Path, content: bytes) -> Outcome:
        copy = self.folder / "case"
        shutil.copytree(self.seeds / reader.seeds, copy)
        target = copy / file.relative_to(self.seeds / reader.seeds)
        target.write_bytes(content)
        self._watch.seen.clear()
        start, stderr = time.process_time(), sys.stderr
        self._watch.folder = None if case < 0 else self.folder
        kind, details = "accepted", ""
        try:
            with warnings.catch_warnings(), open(os.devnull, "w", encoding="utf-8") as sys.stderr:
                warnings.simplefilter("ignore")
                shown = list(reader.read(copy, target))
            bad = [text for text in shown if _unprintable(text)]
            if bad:
                kind, details = "control characters are shown", repr(bad[0])[:500]
        except Exception as error:
            kind, details = _judge(error, reader.names or target.name)
        finally:
            self._watch.folder, sys.stderr = None, stderr
            shutil.rmtree(copy)
        seconds = time.process_time() - start
        if self._watch.seen:
            kind, details = "forbidden action", "; ".join(self._watch.seen)
        elif seconds > MAX_SECONDS and case >= 0:
            kind, details = "too slow", f"{seconds:.1f} s ({kind}: {details})"
        return Outcome(reader.name, case, kind, details, seconds)


def _judge(error: Exception, name: str) -> tuple[str, str]:
    """Return whether an error is one that a reader may raise, and the error."""
    details, chain, inner = f"{type(error).__name__}: {error}", [], error
    while inner is not None and inner not in chain:
        chain.append(inner)
        inner = inner.__cause__ or inner.__context__
    if any(isinstance(one, MemoryError) for one in chain):
        return "too much memory", details[:500]
    is_named = isinstance(error, OSError) and error.errno is not None
    if not (isinstance(error, ALLOWED) or is_named):
        where = traceback.extract_tb(error.__traceback__)
        own = [f for f in where if "site-packages" not in f.filename]
        places = " ".join(f"{Path(f.filename).name}:{f.lineno}" for f in own[-3:])
        return "foreign exception", f"{details[:300]} (in {places})"
    if name not in str(error):
        return "file is not named", details[:500]
    if _unprintable(str(error)):
        return "control characters are shown", repr(str(error))[:500]
    if len(str(error)) > MAX_MESSAGE:
        return "long message", details[:200]
    return "refused", details[:200]


def _unprintable(text: str) -> bool:
    """Return whether text has characters that control a terminal or hide other text."""
    hidden = {"Cc", "Cs"}
    return any(
        (unicodedata.category(c) in hidden and c not in "\n\t") or c in _BIDIRECTIONAL
        for c in text
    )


_BIDIRECTIONAL = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def as_json(outcome: Outcome) -> str:
    """Return an outcome as a line of JSON."""
    return json.dumps(vars(outcome))
