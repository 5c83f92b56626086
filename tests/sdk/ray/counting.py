"""What a server's /metrics says."""

from __future__ import annotations

import re

from tests.sdk.ray.conftest import KEY
from tests.sdk.server.client import Client

_LINE = re.compile(r"^edgewise:(\w+)(?:\{[^}]*\})? (\S+)$", re.MULTILINE)


def numbers(url: str) -> dict[str, float]:
    """The numbers of the engines by name, those of all labels added up."""
    page = Client(url).get("/metrics", {"Authorization": f"Bearer {KEY}"})
    found: dict[str, float] = {}
    for name, value in _LINE.findall(page.text):
        found[name] = found.get(name, 0.0) + float(value)
    return found
