"""Worker processes with limits on time and memory. One that hangs or dies is replaced."""

import multiprocessing
import resource
import tempfile
import time
from collections import Counter
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import NamedTuple

from .cases import MAX_SECONDS, Cases, Outcome

MAX_MEMORY = 2**30
"""Memory that a worker may use in addition to what it needs to import everything."""

Job = tuple[str, int, int]
"""Name of a reader, the first case, and the number of cases."""


def work(connection: Connection, module: str, seeds: Path, seed: int) -> None:
    """Run the cases that the parent asks for. The number of a case is sent before it starts."""
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        cases = Cases(seeds, Path(name), seed)
        readers = {reader.name: reader for reader in import_module(module).READERS}
        cases.warm_up(readers.values())
        _limit_memory()
        while (job := connection.recv()) is not None:
            reader, first, count = job
            for case in range(first, first + count):
                connection.send(case)
                connection.send(cases.run(readers[reader], case))
            connection.send(None)


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + MAX_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


class Summary(NamedTuple):
    """Counts of the outcomes by reader, the longest times, and the findings."""

    counts: dict[str, Counter[str]]
    slowest: dict[str, float]
    findings: list[Outcome]

    def add(self, outcome: Outcome) -> None:
        """Count an outcome."""
        self.counts[outcome.reader][outcome.kind] += 1
        self.slowest[outcome.reader] = max(self.slowest[outcome.reader], outcome.seconds)
        if outcome.is_finding:
            self.findings.append(outcome)
            print(f"{outcome.reader} {outcome.case}: {outcome.kind} {outcome.details}", flush=True)


class Worker:
    """A worker process and the cases that it has to run."""

    def __init__(self, module: str, seeds: Path, seed: int, jobs: list[Job]) -> None:
        """Start the process and give it a job."""
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=work, args=(other, module, seeds, seed), daemon=True)
        self.process.start()
        other.close()
        self._jobs, self._module, self._seeds, self._seed = jobs, module, seeds, seed
        self._is_ready = False
        self._next_job()

    def _next_job(self) -> None:
        self.job = self._jobs.pop() if self._jobs else None
        self._case, self._heard = -1, time.monotonic()
        self.connection.send(self.job)

    def receive(self, summary: Summary) -> "Worker":
        """Take a message if there is one. Returns this worker, or a new one after a failure."""
        try:
            while self.job is not None and self.connection.poll():
                self._take(self.connection.recv(), summary)
        except (EOFError, OSError):
            return self._replaced("crash", summary)
        # A new worker imports everything before its first case.
        patience = 12 * MAX_SECONDS if self._is_ready else 600
        is_silent = self.job is not None and time.monotonic() - self._heard > patience
        return self._replaced("hang", summary) if is_silent else self

    def _take(self, message: object, summary: Summary) -> None:
        self._heard, self._is_ready = time.monotonic(), True
        if isinstance(message, Outcome):
            summary.add(message)
        elif isinstance(message, int):
            self._case = message
        else:
            self._next_job()

    def _replaced(self, kind: str, summary: Summary) -> "Worker":
        assert self.job is not None
        reader, first, count = self.job
        self.stop()
        if self._case < 0:
            raise RuntimeError(f"a worker could not start ({kind})")
        summary.add(Outcome(reader, self._case, kind))
        if rest := first + count - self._case - 1:
            self._jobs.append((reader, self._case + 1, rest))
        return Worker(self._module, self._seeds, self._seed, self._jobs)

    def stop(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.join()


def run_all(module: str, seeds: Path, seed: int, jobs: list[Job], count: int) -> Summary:
    """Run jobs of the readers of a module in worker processes. Ctrl-C ends it early."""
    names = [reader.name for reader in import_module(module).READERS]
    summary = Summary({n: Counter() for n in names}, dict.fromkeys(names, 0.0), [])
    jobs = jobs[::-1]
    workers = [Worker(module, seeds, seed, jobs) for _ in range(count)]
    with suppress(KeyboardInterrupt):
        while any(worker.job for worker in workers):
            wait([worker.connection for worker in workers if worker.job], timeout=1)
            workers = [worker.receive(summary) for worker in workers]
    for worker in workers:
        worker.stop()
    return summary
