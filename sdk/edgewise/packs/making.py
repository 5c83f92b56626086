"""Computing packs: a prompt is prefilled once by each kind of program, and its pages are kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from edgewise.cache import Progress
from edgewise.engine import Engine
from edgewise.generation import Generation
from edgewise.packs.prompt import PackPrompt
from edgewise.packs.writing import Change, Told, add_packs, index_for
from edgewise.session import Submission
from edgewise.settings import Settings
from edgewise.texts import Texts
from edgewise_runtime.devices.base import Device
from edgewise_runtime.devices.table import device_for_target
from edgewise_runtime.errors import DeviceError, EdgewiseError, InputError
from edgewise_runtime.format.bundle import Bundle, Program
from edgewise_runtime.format.packs import Pack, prompt_digest
from edgewise_runtime.format.programs import best_program
from edgewise_runtime.format.reading import ID
from edgewise_runtime.format.state import paged_state
from edgewise_runtime.kv.base import Prefix
from edgewise_runtime.kv.keys import producer_of
from edgewise_runtime.kv.shipped import file_bytes

LEAST_CONTEXT = 256


@dataclass(frozen=True)
class Runner:
    """A program of a bundle, and what runs it here."""

    program: Program
    device: Device


@dataclass(frozen=True)
class Made:
    """A pack that was made.

    Attributes:
        pack: the pack.
        runner: who computed it.
        tokens: that it holds.
        pages: of all state groups, a file each.
        bytes: of its files.
    """

    pack: Pack
    runner: Runner
    tokens: int
    pages: int
    bytes: int


def runners_of(
    bundle: Bundle,
    *,
    targets: Sequence[str] = (),
    program: str | None = None,
    device: Device | None = None,
) -> tuple[list[Runner], list[str]]:
    """The programs whose pages are to be computed here, one for each target and arithmetic; and
    why there is none for others.

    Args:
        targets: of which targets; empty for all that there are and this machine has a device for.
        program: only this one, by its id.
        device: only what this one runs.

    Raises:
        EdgewiseError: why there is none at all, or none for a target that was named.
    """
    if program is not None:
        one = bundle.manifest.program(program)
        return [Runner(one, device or device_for_target(one.target))], []
    names = targets or dict.fromkeys(
        p.target for p in bundle.manifest.programs if device is None or p.target == device.target
    )
    found: list[Runner] = []
    lacking: list[EdgewiseError] = []
    for target in names:
        for runner in _of_target(bundle, target, device):
            if isinstance(runner, Runner):
                found.append(runner)
            else:
                lacking.append(runner)
        if targets and not any(runner.program.target == target for runner in found):
            raise lacking[-1]
    if not found:
        raise lacking[-1] if lacking else _nothing(bundle, device)
    return found, [error.message for error in lacking]


def _of_target(
    bundle: Bundle, target: str, device: Device | None
) -> Iterator[Runner | EdgewiseError]:
    """The best program of each arithmetic, or why it cannot run."""
    programs = [p for p in bundle.manifest.programs if p.target == target]
    try:
        device = device or device_for_target(target)
        features = device.features()
    except EdgewiseError as error:
        yield error
        return
    for arithmetic in dict.fromkeys(p.arithmetic for p in programs) or [None]:
        try:
            best = best_program(bundle.manifest, features, arithmetic, target=target)
        except DeviceError as error:
            yield error
        else:
            yield Runner(best, device)


def _nothing(bundle: Bundle, device: Device | None) -> DeviceError:
    where = "this machine" if device is None else device.name
    return DeviceError(
        f"Bundle {bundle.name!r} has no program for {where}.", code="device.no_program"
    )


def make_packs(
    path: Path,
    prompt: PackPrompt,
    name: str,
    runners: Sequence[Runner],
    *,
    trust: bool = False,
    progress: Progress | None = None,
) -> list[Made]:
    """Compute the pages of a prompt's beginning, and add them to the bundle at a path.

    All of it or nothing: the bundle there is whole at any time, and changes only in the end.

    Raises:
        InputError: ``input.prefix`` for a name that is none or a prompt that is shorter than a
            page, ``input.context``, ``input.device`` where another device has computed packs.
        EdgewiseError: whatever is wrong with the bundle or the device.
    """
    if not ID.fullmatch(name):
        raise InputError(
            f"{name!r} is no name of a pack.",
            remedy="Name it with letters, digits and _.+-: --name NAME.",
            code="input.prefix",
        )
    told: Told = progress or (lambda phase, done, total: None)
    with closing(Bundle.open(path, progress=progress)) as bundle:
        tokens = _whole_pages(bundle, prompt)
        # Before anything is computed that could not be kept.
        for runner in runners:
            index_for(bundle, runner.program, runner.device)
        changes = []
        for nth, runner in enumerate(runners):
            told("Computing the pages", nth, len(runners))
            prefix, speed = _computed(bundle, runner, tokens, trust=trust)
            pack = Pack(name, prompt_digest(tokens), prefix.keys, round(speed))
            producer = producer_of(bundle, runner.program)
            changes.append(Change(runner.program, producer, runner.device, pack, prefix.pages))
        told("Computing the pages", len(runners), len(runners))
        sizes = [file_bytes(bundle, runner.program) for runner in runners]
    add_packs(path, changes, told)
    return [
        Made(change.pack, runner, len(tokens), len(change.pages), size * len(change.pages))
        for change, runner, size in zip(changes, runners, sizes, strict=True)
    ]


def _whole_pages(bundle: Bundle, prompt: PackPrompt) -> tuple[int, ...]:
    """The tokens of the pages that every continuation shares."""
    size = paged_state(bundle.manifest).page_tokens
    shared = prompt.shared(Texts(bundle))
    whole = shared[: len(shared) // size * size]
    if not whole:
        raise InputError(
            f"{len(shared)} tokens are the same whatever follows; a page has {size}.",
            remedy="Nothing is gained by a pack of so short a prompt.",
            code="input.prefix",
        )
    return whole


def _computed(
    bundle: Bundle, runner: Runner, tokens: tuple[int, ...], *, trust: bool
) -> tuple[Prefix, float]:
    """The pages of these tokens, and tokens per second."""
    with Engine(
        bundle.path,
        device=runner.device,
        program=runner.program.id,
        context=min(bundle.model.context, max(LEAST_CONTEXT, len(tokens) + 1)),
        trust=trust,
        settings=Settings(prefix_packs=False, prefix_memory=0),
    ) as engine:
        loop = engine.session.loop
        asked = Submission([loop.engine.pin(tokens)])
        done = Generation(loop, asked, owner=engine).result()
        prefix = loop.call(lambda: loop.engine.pages_of(tokens))
        return prefix, done.timings.prefill_tokens_per_s
