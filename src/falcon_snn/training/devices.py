"""The devices of a training: one, or several with a process each that share every batch.

The first process starts the others with its own command line; they meet it at a port of this
machine.
"""

import atexit
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor, distributed, nn

from falcon_snn.errors import FalconError

_RANK, _PORT = "FALCON_RANK", "FALCON_PORT"  # of a process that was started by the first one
_LOOK_S = 0.5


@dataclass(frozen=True)
class Devices:
    """What this process computes on, and its place among those that share the work."""

    device: torch.device
    rank: int = 0
    count: int = 1
    children: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def leads(self) -> bool:
        """Whether this process reports and writes; with several, only the first does."""
        return self.rank == 0

    def autocast(self) -> AbstractContextManager[object]:
        """Products in bfloat16 on a GPU; a CPU stays with float32."""
        on_gpu = self.device.type == "cuda"
        return torch.autocast("cuda", torch.bfloat16) if on_gpu else nullcontext()

    def shared(self, module: nn.Module) -> Callable[..., Tensor]:
        """The module in mixed precision; with several processes, gradients are averaged."""
        if self.count > 1:
            module = nn.parallel.DistributedDataParallel(module)

        def run(*arguments: object) -> Tensor:
            with self.autocast():
                result: Tensor = module(*arguments)
            return result.float()

        return run

    def total(self, values: Tensor) -> Tensor:
        """The sum over all processes."""
        if self.count > 1:
            values = values.clone()
            distributed.all_reduce(values)
        return values

    def wait(self) -> None:
        """Until all processes are here."""
        if self.count > 1:
            distributed.barrier()

    @contextmanager
    def first_alone(self) -> Iterator[None]:
        """The first process goes ahead, the others follow when it is through."""
        if not self.leads:
            self.wait()
        yield
        if self.leads:
            self.wait()

    def close(self) -> None:
        """Part company; the first process waits for the others' ends."""
        if self.count == 1:
            return
        distributed.destroy_process_group()
        if any(child.wait() for child in self.children):
            raise FalconError("another process of this training failed; its message is above")


def open_devices(count: int) -> Devices:
    """`count` GPUs where there are any, else as many processes on the CPU."""
    on_gpu = torch.cuda.is_available()
    # A few processes on a small CPU serve to try it; thousands would take the machine down.
    available = torch.cuda.device_count() if on_gpu else max(8, os.cpu_count() or 1)
    if not 1 <= count <= available:
        raise FalconError(f"{count} devices; choose 1..{available} on this machine")
    rank, children = int(os.environ.get(_RANK, 0)), []
    if count > 1 and rank == 0:
        os.environ[_PORT] = str(_free_port())
        children = _start(count)
    elif count > 1:
        threading.Thread(target=end_with_parent, args=(os.getppid(),), daemon=True).start()
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    if count > 1:
        distributed.init_process_group(
            "nccl" if on_gpu else "gloo", f"tcp://127.0.0.1:{os.environ[_PORT]}",
            rank=rank, world_size=count,
        )  # fmt: skip
    return Devices(device, rank, count, children)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start(count: int) -> list["subprocess.Popen[bytes]"]:
    """The other processes; they end with this one, and if one fails, all do.

    Ctrl-C is for this one alone, which says what was kept: they are in sessions of their own.
    """
    children = [
        subprocess.Popen(
            sys.orig_argv, env={**os.environ, _RANK: str(rank)}, start_new_session=True
        )
        for rank in range(1, count)
    ]
    ending = threading.Event()

    def end() -> None:
        ending.set()
        for child in children:
            if child.poll() is None:
                child.terminate()

    def look() -> None:
        while not ending.wait(_LOOK_S):
            codes = [child.poll() for child in children]
            if any(codes) and not ending.is_set():
                end()
                os._exit(1)  # this process would wait for the lost one's answer
            if None not in codes:
                return

    atexit.register(end)
    threading.Thread(target=look, daemon=True).start()
    return children


def end_with_parent(parent: int) -> None:
    """End this process as soon as the one that started it is gone."""
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os._exit(1)
