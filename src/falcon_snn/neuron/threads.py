"""Compiled loops on several threads.

numba could share out a loop itself, but with `parallel=True` a kernel takes twice as long to
compile, and a second OpenMP pool stands beside torch's. Kernels run without the interpreter lock,
so plain threads do.

Kernels that allocate nothing have no reference counts either (`_nrt=False`): keeping them up for
every row takes as long as dozens of its neurons.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import torch

ROWS = 32  # of neurons, worth a thread


def share_out(kernel: Callable[..., Any], items: int, least: int, *arguments: Any) -> list[Any]:
    """The results of kernel(first, last, *arguments) for equal parts of all items.

    One part for each thread that torch uses, so that one setting controls both; fewer than `least`
    items are not worth a thread.
    """
    threads = max(min(torch.get_num_threads(), items // least), 1)
    parts = [(items * i // threads, items * (i + 1) // threads) for i in range(threads)]
    others = [_pool(threads).submit(kernel, *part, *arguments) for part in parts[1:]]
    return [kernel(*parts[0], *arguments), *(other.result() for other in others)]


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads)


os.register_at_fork(after_in_child=_pool.cache_clear)  # threads stay with the parent
