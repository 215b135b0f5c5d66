"""Commands of fdsm in two processes that work together, of which one or both are killed."""

import random
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from .commands import Command, Prepare


class Pair:
    """A command that runs in two processes, as `torchrun` starts them.

    Attributes:
        commands: The processes, by rank. A fault is prepared in the first one.
        process: The first process.
        connection: Receives what the fault sends.
        victims: The ranks of the processes that `kill` kills, chosen at random.
    """

    _random = random.Random(0)

    def __init__(
        self, arguments: Sequence[str | Path], log: Path, prepare: Prepare | None = None
    ) -> None:
        """Start a command; see `Command`."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        launch = {
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "GLOO_SOCKET_IFNAME": "lo" if sys.platform == "linux" else "lo0",
            "TMPDIR": str(log.parent),  # a process that is killed leaves its temporary folder
        }
        self.commands = [
            Command(
                arguments,
                log.with_suffix(f".{rank}.log"),
                prepare if rank == 0 else None,
                launch | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            )
            for rank in range(2)
        ]
        # A process that a fault has paused cannot notice that the other one is gone.
        several = [[0], [0, 1]] if prepare is not None else [[0], [1], [0, 1]]
        self.victims = self._random.choice(several)
        self.process, self.connection = self.commands[0].process, self.commands[0].connection

    @property
    def output(self) -> str:
        """What both processes have printed."""
        return "\n".join(command.output for command in self.commands)

    def kill(self) -> bool:
        """Kill one or both processes. Return whether one of them was still running.

        The other one ends by itself if the two have found each other. Otherwise it is ended by
        SIGTERM, as torchrun does.
        """
        for rank in self.victims:
            self.commands[rank].process.kill()
        for command in self.commands:
            command.process.join(5)
            command.process.terminate()
        codes = [command.wait() for command in self.commands]
        return any(codes[rank] == -signal.SIGKILL for rank in self.victims)

    def wait(self) -> int:
        """Return zero if both processes have ended well, or else an exit code."""
        codes = [command.wait() for command in self.commands]
        return next((code for code in codes if code), 0)
