"""What there is to say of a model, from the engine that has loaded it or from its bundle."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from edgewise.chat_prompts import ChatPrompts
from edgewise.hosting.base import Facts
from edgewise.session import Loaded
from edgewise.stored import stored_by_scheme
from edgewise.texts import Texts
from edgewise_runtime.devices.table import DEVICES
from edgewise_runtime.engine.pooling import gives_states
from edgewise_runtime.errors import BundleError, EdgewiseError
from edgewise_runtime.files import storage_errors
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.facts import ROTATIONS
from edgewise_runtime.format.manifest import Program
from edgewise_runtime.format.seal import MANIFEST

_PROBE = "probe_of_tools"
"""A tool whose name no template has by itself."""


def facts_of(name: str, engine: Loaded) -> Facts:
    """The facts of a model that is asked for by this name."""
    session, program = engine.session, engine.session.program.program
    bundle, context = session.bundle, engine.context
    facts = facts_of_texts(
        name, bundle, session.texts, program, context=context, device=engine.device
    )
    return _with_states(facts, program)


def facts_of_bundle(
    name: str, folder: Path, *, target: str | None = None, context: int | None = None
) -> Facts:
    """The facts of a model as nobody has loaded it: no program of it runs, on no device.

    Memory may have room for less context, once it is loaded. It takes the time of reading the
    tokenizer, for a large one some tenths of a second.

    Args:
        folder: of its bundle.
        target: that it will be loaded for; None for the first that the bundle has.
        context: the most tokens that it will be loaded with.

    Raises:
        BundleError, CheckpointError, StorageError: whatever is wrong with it.
    """
    bundle = Bundle.open(folder, verify=False)
    try:
        program = _program(bundle, target)
        most = bundle.model.context
        tokens = most if context is None else min(context, most)
        texts = Texts(bundle)
        facts = facts_of_texts(name, bundle, texts, program, context=tokens, device="")
        return replace(_with_states(facts, program), program="")
    finally:
        bundle.close()


def _program(bundle: Bundle, target: str | None) -> Program:
    """A program as it would be loaded: those of one target hold the same weights."""
    programs = bundle.manifest.programs
    targets = [target] if target else [kind.target for kind in DEVICES.values()]
    fitting = [one for wanted in targets for one in programs if one.target == wanted]
    found = next(iter((*fitting, *programs)), None)
    if found is None:
        raise BundleError(
            f"Bundle {bundle.name!r} has no program.",
            remedy="Compile the model again.",
            code="bundle.programs",
        )
    return found


def _written(manifest: Path) -> int:
    with storage_errors("open", manifest):
        return int(manifest.stat().st_mtime)


def _with_states(facts: Facts, program: Program) -> Facts:
    if not gives_states(program):
        return facts
    return replace(facts, capabilities=(*facts.capabilities, "embedding"))


def facts_of_texts(
    name: str, bundle: Bundle, texts: Texts, program: Program, *, context: int, device: str
) -> Facts:
    """The facts of a model that need not be loaded here.

    Args:
        program: of the bundle, that runs.
        device: what it runs on, for people.
    """
    model = bundle.model
    direction = texts.vectors.direction
    layout = bundle.manifest.layouts[program.layout]
    weights = {name: tensor for name, tensor in layout.items() if name not in ROTATIONS}
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
        created=_written(bundle.folder / MANIFEST),
        ranking="" if direction is None else b64encode(direction.tobytes()).decode(),
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
