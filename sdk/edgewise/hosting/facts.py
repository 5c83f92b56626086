"""What there is to say of a model that an engine has loaded."""

from __future__ import annotations

from collections.abc import Iterator

from edgewise.hosting.base import Facts
from edgewise.session import Loaded, Session
from edgewise.stored import stored_by_scheme
from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.format.facts import ROTATION

_PROBE = "probe_of_tools"
"""A tool whose name no template has by itself."""


def facts_of(name: str, engine: Loaded) -> Facts:
    """The facts of a model that is asked for by this name."""
    session = engine.session
    model, manifest = session.bundle.model, session.bundle.manifest
    layout = manifest.layouts[session.program.program.layout]
    weights = {name: tensor for name, tensor in layout.items() if name != ROTATION}
    spelled = (engine.tokenizer.token_of(token) for token in model.eos)
    return Facts(
        name=name,
        family=model.family,
        parameters=sum(stored.weights for stored in stored_by_scheme(weights).values()),
        quant=model.stored,
        bytes=sum(tensor.bytes for tensor in layout.values()),
        context=engine.context,
        vocab=model.vocab,
        program=engine.program,
        device=engine.device,
        template=session.prompts.source,
        capabilities=tuple(_capabilities(session)),
        defaults=engine.defaults,
        end_tokens=tuple(text for text in spelled if text is not None),
    )


def _capabilities(session: Session) -> Iterator[str]:
    prompts = session.prompts
    yield "completion"
    if not prompts.source:
        return
    yield "chat"
    if _shows_tools(session):
        yield "tools"
    if prompts.thinks(prompts.form):
        yield "thinking"


def _shows_tools(session: Session) -> bool:
    """Whether the chat template tells the model of tools, which only trying shows."""
    tool = {"type": "function", "function": {"name": _PROBE, "description": "None."}}
    try:
        shown = session.prompts.render([{"role": "user", "content": "?"}], tools=[tool])
    except EdgewiseError:
        return False
    return _PROBE in shown
