"""Which time of which threads is the engine's own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgewise import Engine
from edgewise_runtime.devices.cpu import binding
from edgewise_runtime.engine.loop import OURS
from host_time import ENGINE, HostTime


@pytest.fixture
def resting() -> Iterator[threading.Thread]:
    """A thread with a name of ours that takes no time."""
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name=f"{OURS}resting")
    thread.start()
    yield thread
    end.set()
    thread.join()


def test_what_a_thread_has_spent_in_kernels_is_not_its_own(resting: threading.Thread) -> None:
    host = HostTime()
    before = host.seconds(resting.name)
    host.kernels_ns[resting.ident or 0] += 10**9
    assert host.seconds(resting.name) == pytest.approx(before - 1)
    assert host.seconds(f"{OURS}nobody") == 0


@pytest.mark.landing
def test_kernels_are_told_apart_in_a_program_that_is_loaded_meanwhile(
    bundles: Callable[..., Path],
) -> None:
    bind = binding.bind_host
    host = HostTime()
    with host.watching(), Engine(bundles("llama-gqa2-tied-linear"), device="cpu") as engine:
        engine.generate([1, 2, 3], max_tokens=2)
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        assert ENGINE in names.values()
        called_by = {names[ident] for ident in host.kernels_ns}
    assert called_by
    assert all(name.startswith(OURS) for name in called_by)
    assert all(host.kernels_ns.values())
    assert binding.bind_host is bind
