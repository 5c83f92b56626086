"""Settings of engines: what is refused, and that nothing stays open where it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgewise import Engine, Settings
from edgewise.settings import drafting
from edgewise_runtime.errors import InputError


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"step_tokens": 0}, "step_tokens is 0"),
        ({"step_tokens": True}, "step_tokens is True"),
        ({"step_tokens": 64.0}, "step_tokens is 64.0"),
        ({"max_waiting": 0}, "max_waiting is 0"),
        ({"max_waiting": None}, "max_waiting is None"),
        ({"max_waiting": 1 << 21}, "max_waiting is 2097152"),
        ({"prefix_device": -1}, "prefix_device is -1"),
        ({"prefix_device": "2 GB"}, "prefix_device is '2 GB'"),
        ({"prefix_device": 1 << 51}, "prefix_device is 2251799813685248"),
        ({"prefix_memory": -1}, "prefix_memory is -1"),
        ({"prefix_memory": 0.5}, "prefix_memory is 0.5"),
        ({"prefix_disk": "1 GB"}, "prefix_disk is '1 GB'"),
        ({"prefix_disk": 1 << 51}, "prefix_disk is 2251799813685248"),
        ({"prefix_disk": 9, "prefix_folder": 3}, "prefix_folder is 3"),
        ({"prefix_disk": 9, "prefix_folder": ""}, "prefix_folder is ''"),
        ({"prefix_folder": "here"}, "prefix_disk is 0"),
        ({"share_decoded": 1}, "share_decoded is 1"),
        ({"draft": ""}, "draft is ''"),
        ({"draft": 7}, "draft is 7"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        Settings(**settings)
    assert caught.value.code == "input.option"


def test_a_budget_below_the_batch_is_refused_and_leaves_nothing_open(bundle: Path) -> None:
    with pytest.raises(InputError, match="A step of 7 tokens") as caught:
        Engine(bundle, settings=Settings(step_tokens=7))
    assert caught.value.code == "input.step_tokens"


def test_a_draft_is_given_once() -> None:
    assert drafting(None, "lookup") == Settings(draft="lookup")
    assert drafting(Settings(draft="lookup"), None) == Settings(draft="lookup")
    with pytest.raises(InputError, match=r"'other'.*'lookup' in the settings"):
        drafting(Settings(draft="lookup"), "other")


def test_a_draft_that_is_no_model_is_refused(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        Engine(bundle, draft=tmp_path)
    assert caught.value.code == "input.model"
