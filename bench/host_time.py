"""The processor time that an engine's own threads take beside kernels."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from edgewise_runtime.devices.cpu import binding
from edgewise_runtime.engine.loop import OURS

ENGINE = f"{OURS}engine"
"""The thread that steps: what it does for every token is what `HostTime` was written for."""


class HostTime:
    """Processor time by thread, that of kernels told apart on whichever thread calls them.

    Programs count that are loaded within `watching`. TVM's workers have no names of ours and are
    not looked at.
    """

    def __init__(self) -> None:
        self.kernels_ns: Counter[int] = Counter()
        """Nanoseconds in kernels, by the identifier of the thread that called them."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Tell kernels apart in programs loaded meanwhile: a microsecond for every call of a plan,
        most of it counted as the kernel's."""
        bind = binding.bind_host

        def bind_watched(*bound: Any, **named: Any) -> Callable[[int], None]:
            return self._watched(bind(*bound, **named))

        binding.bind_host = bind_watched
        try:
            yield
        finally:
            binding.bind_host = bind

    def seconds(self, prefix: str = OURS) -> float:
        """What threads have taken so far whose names begin so, without kernels.

        Read it while no step is computed: a kernel that runs counts once it has returned.
        """
        idents = [t.ident for t in threading.enumerate() if t.name.startswith(prefix)]
        taken = sum(
            time.clock_gettime_ns(time.pthread_getcpuclockid(ident)) - self.kernels_ns[ident]
            for ident in idents
            if ident is not None
        )
        return taken / 1e9

    def _watched(self, call: Callable[[int], None]) -> Callable[[int], None]:
        def watched(k: int) -> None:
            begun = time.thread_time_ns()
            try:
                call(k)
            finally:
                self.kernels_ns[threading.get_ident()] += time.thread_time_ns() - begun

        return watched
