"""Worker processes with limits on time and memory. One that hangs or dies is replaced."""

import multiprocessing
import resource
import tempfile
import time
from collections import Counter
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import NamedTuple

from .cases import MAX_SECONDS, Cases, Outcome
from .readers import READERS

MAX_MEMORY = 2**30
"""Memory that a worker may use in addition to what it needs to import everything."""
Job = tuple[str, int, int]
"""Name of a reader, the first case, and the number of cases."""


def work(connection: Connection, seeds: Path, seed: int) -> None:
    """Run the cases that the parent asks for. The name of a case is sent before it starts."""
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        cases = Cases(seeds, Path(name), seed)
        cases.warm_up()
        _limit_memory()
        readers = {reader.name: reader for reader in READERS}
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


class Worker:
    """A worker process, and the case that it is running."""

    def __init__(self, seeds: Path, seed: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=work, args=(other, seeds, seed), daemon=True)
        self.process.start()
        other.close()
        self.job: Job | None = None
        self.case, self.started = -1, time.monotonic()

    def give(self, job: Job | None) -> None:
        """Give the worker its next cases."""
        self.job, self.case, self.started = job, -1, time.monotonic()
        self.connection.send(job)

    def stop(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.join()


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


def run_all(seeds: Path, seed: int, jobs: list[Job], workers: int) -> Summary:
    """Run jobs in worker processes. A worker that hangs or dies is replaced."""
    names = [reader.name for reader in READERS]
    summary = Summary({n: Counter() for n in names}, dict.fromkeys(names, 0.0), [])
    jobs = jobs[::-1]
    active = [Worker(seeds, seed) for _ in range(workers)]
    for worker in active:
        worker.give(jobs.pop() if jobs else None)
    while any(worker.job for worker in active):
        ready = wait([w.connection for w in active if w.job], timeout=1)
        for place, worker in enumerate(active):
            if worker.job is None:
                continue
            problem = None
            if worker.connection in ready:
                try:
                    message = worker.connection.recv()
                except (EOFError, OSError):
                    problem = "crash"
                else:
                    _receive(worker, message, jobs, summary)
            elif time.monotonic() - worker.started > _patience(worker):
                problem = "hang"
            if problem:
                reader, first, count = worker.job
                worker.stop()
                if worker.case < 0:
                    raise RuntimeError(f"a worker could not start ({problem})")
                summary.add(Outcome(reader, worker.case, problem))
                rest = first + count - worker.case - 1
                active[place] = Worker(seeds, seed)
                if rest:
                    jobs.append((reader, worker.case + 1, rest))
                active[place].give(jobs.pop() if jobs else None)
    for worker in active:
        worker.stop()
    return summary


def _patience(worker: Worker) -> float:
    """Return how many seconds of silence are a hang. A new worker imports everything first."""
    return 600 if worker.case < 0 else 3 * MAX_SECONDS


def _receive(worker: Worker, message: object, jobs: list[Job], summary: Summary) -> None:
    worker.started = time.monotonic()
    if isinstance(message, Outcome):
        summary.add(message)
    elif isinstance(message, int):
        worker.case = message
    else:
        job = jobs.pop() if jobs else None
        case = worker.case
        worker.give(job)
        worker.case = case if job is None else job[1]
