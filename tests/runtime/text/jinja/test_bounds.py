"""What a template computes, holds and writes is bounded, whatever it asks for."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping

import pytest

from edgewise_runtime.errors import CheckpointError, EdgewiseError, InputError
from edgewise_runtime.text import ChatTemplate
from tests.runtime.text.conversations import THINKING, assistant, user
from tests.runtime.text.jinja.hostile_templates import HOSTILE, MESSAGE, SLOW, UNREADABLE

MEMORY_MB = 100
HANGING_S = 300
"""A limit that only a template which is not stopped exceeds."""

CHILD = """
import json, resource, sys
from pathlib import Path
from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.text import ChatTemplate

def kilobytes(name):
    text = Path("/proc/self/status").read_text()
    return int(text.partition(name + ":")[2].split()[0])

resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
templates, message = json.load(sys.stdin)
for name, source in templates.items():
    Path("/proc/self/clear_refs").write_text("5")
    before = kilobytes("VmRSS")
    try:
        ended = ChatTemplate(source).render([{"role": "user", "content": message}])
    except EdgewiseError as error:
        ended = error.code
    print(json.dumps([name, ended[:100], (kilobytes("VmHWM") - before) / 1024]), flush=True)
"""


def outcomes(templates: Mapping[str, str]) -> list[tuple[str, str, float]]:
    """What came of each template, with the most MB that it took, in a process of their own."""
    child = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=json.dumps([templates, MESSAGE]),
        capture_output=True,
        text=True,
        timeout=HANGING_S,
        check=False,
    )
    assert child.returncode == 0, child.stdout + child.stderr
    return [tuple(json.loads(line)) for line in child.stdout.splitlines()]


@pytest.mark.parametrize(
    "templates",
    [
        {name: source for name, source in HOSTILE.items() if name not in SLOW} | UNREADABLE,
        pytest.param({name: HOSTILE[name] for name in SLOW}, marks=pytest.mark.full),
    ],
    ids=["quick", "slow"],
)
def test_a_template_that_asks_for_too_much_is_refused(templates: Mapping[str, str]) -> None:
    found = outcomes(templates)
    codes = dict.fromkeys(UNREADABLE, "checkpoint.template") | dict.fromkeys(
        HOSTILE, "input.template"
    )
    assert {name: code for name, code, _ in found} == {name: codes[name] for name in templates}
    assert {name: taken for name, _, taken in found if taken > MEMORY_MB} == {}


def test_nothing_is_computed_before_a_template_is_rendered() -> None:
    ChatTemplate("{{ 10 ** (10 ** 9) }}{{ 'x' * 10 ** 12 }}{{ 1 / 0 }}")


def test_who_is_deep_in_calls_already_is_told_so() -> None:
    source = "{% macro f(n) %}{{ f(n - 1) if n else 'end' }}{% endmacro %}{{ f(30) }}"
    template = ChatTemplate(source)

    def call(frames: int) -> str:
        return template.render([user("x")]) if frames == 0 else call(frames - 1)

    assert call(0) == "end"
    with pytest.raises(InputError, match="nests too deeply"):
        call(_frames_left() - 100)


def _frames_left() -> int:
    frame, used = sys._getframe(), 0
    while frame := frame.f_back:  # type: ignore[assignment]
        used += 1
    return sys.getrecursionlimit() - used


def test_a_long_conversation_is_no_trouble() -> None:
    turns = [assistant("some words " * 100) if i % 2 else user("a question") for i in range(2000)]
    assert len(ChatTemplate(THINKING).render(turns)) > 1_000_000


def test_the_limits_grow_with_the_conversation() -> None:
    source = "{% for i in range(3) %}{{ messages[0].content | upper }}{% endfor %}"
    with pytest.raises(InputError, match="writes more"):
        ChatTemplate(source).render([user("x" * (5 << 20))])
    assert len(ChatTemplate("{{ messages[0].content | upper }}").render([user("x" * (9 << 20))]))


@pytest.mark.parametrize("what", ["deep", "itself", "wide", "large"])
def test_a_conversation_without_end_is_refused(what: str) -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    itself: dict[str, object] = {}
    itself["a"] = itself["b"] = itself
    given = {"deep": deep, "itself": itself, "wide": [0] * (1 << 20), "large": 1 << 300}
    with pytest.raises(InputError) as caught:
        ChatTemplate("x").render([user(given[what])])
    assert caught.value.code == "input.messages"
    assert caught.value.remedy


def test_no_template_of_a_checkpoint_raises_anything_but_our_errors() -> None:
    with pytest.raises(CheckpointError):
        ChatTemplate("\ud800{{")
    with pytest.raises(EdgewiseError):
        ChatTemplate("{{ '\ud800' | int }}{{ x | tojson | abs }}").render(
            [user("\ud800")], x="\ud800"
        )
