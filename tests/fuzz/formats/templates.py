"""Chat templates, which are programs of whoever made a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

from edgewise_runtime.errors import InputError
from edgewise_runtime.text import ChatTemplate
from edgewise_runtime.text.thinking import thinking_of
from tests.fuzz.case import Files, Format
from tests.fuzz.mutate import jinja, texts
from tests.runtime.text.conversations import CONVERSATIONS, SPECIAL_TOKENS, TEMPLATES

FILE = "chat_template.jinja"


def _seeds() -> Sequence[Files]:
    return [{FILE: source.encode()} for source in TEMPLATES.values()]


def _mutate(rng: Random, files: Files) -> Files:
    if rng.random() < 0.4:
        text = jinja.template(rng)
        text = texts.damaged(rng, text, jinja.WORDS) if rng.random() < 0.2 else text
    else:
        text = texts.damaged(rng, files[FILE].decode(), jinja.WORDS)
    return {FILE: text.encode("utf-8", "surrogatepass")}


def _use(folder: Path, files: Files) -> None:
    """Loads it as an engine does, which asks it about thoughts first, and renders with it."""
    template = ChatTemplate.from_folder(folder, SPECIAL_TOKENS)
    if template is None:
        return
    thinking_of(lambda messages, variables: template.render(messages, **variables))
    for chat in CONVERSATIONS[:3]:
        try:
            template.render(chat.messages, tools=chat.tools)
        except InputError:
            if chat is CONVERSATIONS[2]:
                raise


TEMPLATE = Format(_seeds, _mutate, _use)
