"""What Python makes of tools, formats and calls is what the tab is checked against."""

from __future__ import annotations

import json

from tools.make_request_cases import CASES, cases


def test_python_makes_this_of_requests() -> None:
    stored = json.loads((CASES / "cases.json").read_text("ascii"))
    made = json.loads(json.dumps(cases()))
    for topic in stored.keys() | made.keys():
        assert stored[topic] == made[topic], topic
