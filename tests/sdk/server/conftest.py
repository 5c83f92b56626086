"""Servers on free ports, and what to ask them with: http.client adds and hides little."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgewise.server.app import make_app
from edgewise.server.bundles import Offer, offer
from edgewise.server.run import in_background, listen
from tests.sdk.server.client import Client

CASE = "llama-gqa2-tied-linear"
SCRIPT = "console.log('edgewise');\n" * 100


@pytest.fixture(scope="session")
def both(bundles: Callable[..., Path]) -> Path:
    """A tiny bundle with programs for the CPU and for WebGPU."""
    return bundles(CASE, targets=("cpu", "webgpu"))


@pytest.fixture(scope="session")
def offered(both: Path) -> Offer:
    return offer(both)


@pytest.fixture
def app_folder(tmp_path: Path) -> Path:
    """What a build of the chat app leaves, in small."""
    files = {
        "chat/index.html": '<!doctype html><script type="module" src="/assets/a-1.js"></script>',
        "selftest/selftest.html": "<!doctype html><title>self-test</title>",
        "assets/a-1.js": SCRIPT,
        "sw.js": "self.skipWaiting();",
        "manifest.webmanifest": "{}",
    }
    for name, text in files.items():
        path = tmp_path / "static" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "static"


@pytest.fixture(scope="session")
def server(offered: Offer) -> Iterator[Client]:
    """A server of the tiny bundle, which knows itself as my-box too."""
    app = make_app({offered.name: offered}, {}, ["my-box", "192.0.2.7", "fd00::7"])
    with listen("127.0.0.1", 0) as listening, in_background(app, listening) as url:
        yield Client(url)
