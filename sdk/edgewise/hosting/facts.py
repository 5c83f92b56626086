"""What there is to say of a model that an engine has loaded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from edgewise.chat_prompts import ChatPrompts
from edgewise.hosting.base import Facts
from edgewise.session import Loaded
from edgewise.stored import stored_by_scheme
from edgewise.texts import Texts
from edgewise_runtime.engine.pooling import gives_states
from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.facts import ROTATION
from edgewise_runtime.format.manifest import Program

_PROBE = "probe_of_tools"
"""A tool whose name no template has by itself."""


def facts_of(name: str, engine: Loaded) -> Facts:
    """The facts of a model that is asked for by this name."""
    session = engine.session
    facts = facts_of_texts(
        name,
        session.bundle,
        session.texts,
        session.program.program,
        context=engine.context,
        device=engine.device,
    )
    if not gives_states(session.program.program):
        return facts
    return replace(facts, capabilities=(*facts.capabilities, "embedding"))


def facts_of_texts(
    name: str, bundle: Bundle, texts: Texts, program: Program, *, context: int, device: str
) -> Facts:
    """The same of a model that need not be loaded here.

    Args:
        program: of the bundle, that runs.
        device: what it runs on, for people.
    """
    model = bundle.model
    layout = bundle.manifest.layouts[program.layout]
    weights = {name: tensor for name, tensor in layout.items() if name != ROTATION}
    spelled = (texts.tokenizer.token_of(token) for token in model.eos)
    return Facts(
        name=name,
        family=model.family,
        parameters=sum(stored.weights for stored in stored_by_scheme(weights).values()),
        quant=model.stored,
        bytes=sum(tensor.bytes for tensor in layout.values()),
        context=context,
        vocab=model.vocab,
        hidden=model.hidden,
        program=program.id,
        device=device,
        template=texts.prompts.source,
        capabilities=tuple(_capabilities(texts.prompts)),
        defaults=dict(texts.defaults),
        end_tokens=tuple(text for text in spelled if text is not None),
    )


def _capabilities(prompts: ChatPrompts) -> Iterator[str]:
    yield "completion"
    if not prompts.source:
        return
    yield "chat"
    if _shows_tools(prompts):
        yield "tools"
    if prompts.thinks(prompts.form):
        yield "thinking"


def _shows_tools(prompts: ChatPrompts) -> bool:
    """Whether the chat template tells the model of tools, which only trying shows."""
    tool = {"type": "function", "function": {"name": _PROBE, "description": "None."}}
    try:
        shown = prompts.render([{"role": "user", "content": "?"}], tools=[tool])
    except EdgewiseError:
        return False
    return _PROBE in shown
