"""Two processes that train together."""

import os
import socket
import sys

import torch.distributed as dist


def free_port() -> int:
    """Return a port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def meet(rank: int, port: int) -> None:
    """Join the other process; by a port, since those that meet in a file may wait for ever."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo" if sys.platform == "linux" else "lo0"
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=2)


def part() -> None:
    """Leave together, so that neither waits for one that is gone."""
    dist.barrier()
    dist.destroy_process_group()
