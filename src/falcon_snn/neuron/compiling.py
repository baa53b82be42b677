"""Compilers are named once they take long: the first run on a machine waits, later ones do not."""

import logging
import time
from functools import cache
from threading import Lock, Timer
from typing import Any

log = logging.getLogger("falcon_snn")

PATIENCE_S = 1.0  # of waiting in all before a word is said


class Wait:
    """A wait that may come in parts; what it is for is said once, while it lasts."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._lock, self._said = Lock(), False
        self._inside, self._began, self._spent_s = 0, 0.0, 0.0
        self._timer: Timer | None = None

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1 and not self._said:
                self._began = time.monotonic()
                self._timer = Timer(max(PATIENCE_S - self._spent_s, 0.0), self._say)
                self._timer.daemon = True
                self._timer.start()

    def __exit__(self, *failure: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._timer is not None:
                self._timer.cancel()
                self._timer = None
                self._spent_s += time.monotonic() - self._began

    def _say(self) -> None:
        with self._lock:
            if self._said or self._inside == 0:
                return
            self._said = True
        log.warning(self.what)


preparing_kernels = Wait("preparing kernels for this GPU; they are compiled once and kept")


@cache
def watch_numba() -> None:
    """From now on, numba's compiler is named when it takes long; loading from its cache is not."""
    from numba.core import event

    wait = Wait("compiling for this processor, once; it is kept for later runs")

    class Listener(event.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            wait.__enter__()

        def on_end(self, event: Any) -> None:
            wait.__exit__()

    event.register("numba:compile", Listener())
