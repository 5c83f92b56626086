"""What lies in a bundle's folder and is not listed changes nothing about the model."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from edgewise import Engine
from edgewise_runtime.format.bundle import Bundle

MESSAGES = [{"role": "user", "content": "Hi"}]
FORGED = '{"bos_token": "<forged>", "chat_template": "forged", "temperature": 9}'


@pytest.mark.parametrize("linked", [False, True], ids=["written", "linked"])
def test_texts_that_nobody_listed_change_nothing(
    bundle: Path, engine: Engine, tmp_path: Path, linked: bool
) -> None:
    folder = Path(shutil.copytree(bundle, tmp_path / bundle.name))
    listed = Bundle.open(folder).manifest.files
    forged = {
        "additional_chat_templates/default.jinja",
        "chat_template.jinja",
        "generation_config.json",
        "special_tokens_map.json",
    } - set(listed)
    assert forged >= {"additional_chat_templates/default.jinja", "chat_template.jinja"}
    (tmp_path / "outside").write_text(FORGED)
    for name in forged:
        (folder / name).parent.mkdir(exist_ok=True)
        if linked:
            (folder / name).symlink_to(tmp_path / "outside")
        else:
            (folder / name).write_text(FORGED)
    with Engine(folder) as other:
        assert other.render(MESSAGES) == engine.render(MESSAGES)
        assert other.defaults == engine.defaults
        assert other.tokenizer.special_tokens == engine.tokenizer.special_tokens
