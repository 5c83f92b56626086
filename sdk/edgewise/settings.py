"""How an engine serves its requests, and the drafter and the store that it asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from edgewise.cache import Progress, find_bundle, prefixes_folder
from edgewise.devices import load_program
from edgewise_runtime.devices.base import Device, LoadedProgram
from edgewise_runtime.engine.metrics import Metrics
from edgewise_runtime.engine.speculate.base import Drafter
from edgewise_runtime.engine.speculate.draft import DraftModel
from edgewise_runtime.engine.speculate.lookup import PromptLookup
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.format.state import footprint, paged_state
from edgewise_runtime.kv.keys import producer_of
from edgewise_runtime.kv.shipped import ShippedPages, shipped_pages
from edgewise_runtime.kv.spill import DiskStore, MemoryStore, PageStore, Tiered, WriteBehind
from edgewise_runtime.kv.stored import stored_bytes
from edgewise_runtime.limits import own_memory_left
from edgewise_runtime.trust import Trust

LOOKUP = "lookup"
MAX_CACHE_BYTES = 1 << 50
_WHOLE = {
    "step_tokens": (1, 1 << 31),
    "max_waiting": (1, 1 << 20),
    "prefix_device": (0, MAX_CACHE_BYTES),
    "prefix_memory": (0, MAX_CACHE_BYTES),
    "prefix_disk": (0, MAX_CACHE_BYTES),
}
_OPTIONAL = ("step_tokens", "prefix_device")

KEPT_BYTES = 2 << 30
"""What pages of prefixes may take of this machine's memory where nobody says."""


@dataclass(frozen=True)
class Settings:
    """How an engine serves its requests.

    Attributes:
        step_tokens: tokens that a step of the engine computes at most. Default: what the program
            can prefill at once.
        max_waiting: requests that may wait until they can run, every choice counted; more are
            refused with EngineError ``engine.busy``. Default: 1024.
        prefix_device: bytes of KV pages on the device for prefixes that no request needs at the
            moment; what is pinned does not count. Default: 2 GiB on the CPU, whose pages take
            memory as they are written; elsewhere all of them, which take it from the beginning.
        prefix_memory: bytes of this machine's memory for KV pages of prefixes that have no room
            among those of requests: pages are copied there, and on the CPU, whose pages lie there
            already, there are so many more of them. Default: 512 MiB.
        prefix_disk: bytes of disk for them, where they outlive the engine. Default: 0, which keeps
            prompts off the disk.
        prefix_folder: where on disk. Default: ``$XDG_CACHE_HOME/edgewise/prefixes``.
        prefix_packs: begin prompts with the KV pages that the bundle ships for them. Where another
            device computed those, an answer may differ from one without them as answers of two
            devices do. Default: True.
        share_decoded: let prompts reuse pages that decode has written, also on programs where they
            are not the bits that prefill would write: a conversation's next turn then begins
            sooner, and its text may depend on whether it did. Where both agree they always do.
            Default: False.
        draft: ``"lookup"`` to guess tokens from the text itself, or a bundle with the same
            tokenizer whose model guesses. Default: no guesses.
    """

    step_tokens: int | None = None
    max_waiting: int = 1024
    prefix_device: int | None = None
    prefix_memory: int = 512 << 20
    prefix_disk: int = 0
    prefix_folder: str | Path | None = None
    prefix_packs: bool = True
    share_decoded: bool = False
    draft: str | Path | None = None

    def __post_init__(self) -> None:
        """Raise InputError ``input.option`` for a value out of range."""
        for name, (low, high) in _WHOLE.items():
            value = getattr(self, name)
            if value is None and name in _OPTIONAL:
                continue
            if type(value) is not int or not low <= value <= high:
                raise _refused(name, value, f"a whole number from {low:,} to {high:,}")
        for name in ("prefix_packs", "share_decoded"):
            if not isinstance(getattr(self, name), bool):
                raise _refused(name, getattr(self, name), "True or False")
        for name in ("prefix_folder", "draft"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, str | Path) and str(value)):
                raise _refused(name, value, "a path")
        if self.prefix_folder is not None and not self.prefix_disk:
            raise InputError(
                f"prefix_folder is {shorten(self.prefix_folder)}, but prefix_disk is 0.",
                remedy="Set prefix_disk to how many bytes may be kept there.",
                code="input.option",
            )


def drafting(settings: Settings | None, draft: str | Path | None) -> Settings:
    """The settings, with a draft that was given beside them.

    Raises InputError ``input.option`` where there are two.
    """
    settings = settings or Settings()
    if draft is None:
        return settings
    if settings.draft is not None:
        raise InputError(
            f"draft is {shorten(draft)}, and {shorten(settings.draft)} in the settings.",
            remedy="Give one of them.",
            code="input.option",
        )
    return replace(settings, draft=draft)


def open_drafter(
    settings: Settings,
    target: Bundle,
    device: Device,
    *,
    context: int,
    trust: Trust,
    progress: Progress | None,
) -> Drafter | None:
    """What guesses tokens for the model of `target`, loaded beside it; None for no guesses.

    Raises what finding, opening and loading a bundle does.
    """
    if settings.draft is None:
        return None
    if settings.draft == LOOKUP:
        return PromptLookup()
    path = find_bundle(Path(settings.draft), target=device.target, progress=progress)
    bundle = Bundle.open(path, progress=progress)
    program, pages = load_program(
        bundle,
        device,
        None,
        context=min(context, bundle.model.context),
        trust=trust,
        progress=progress,
    )
    try:
        return DraftModel(program, pages, target)
    except BaseException:
        program.close()
        raise


def kept_bytes(settings: Settings, device: Device) -> tuple[int | None, int]:
    """Bytes of a device's KV pages that may be kept for later requests, None for all of them; and
    bytes of pages that there are to be for it, beside those of requests."""
    kept = settings.prefix_device
    if not device.host_memory:
        return kept, 0
    # Pages cost nothing before they are written, and copies of them elsewhere would save nothing.
    kept = KEPT_BYTES if kept is None else kept
    return kept, min(kept, settings.prefix_memory)


def open_packs(settings: Settings, program: LoadedProgram) -> ShippedPages | None:
    """The KV pages that a bundle ships for a program; None for none.

    Raises BundleError for an index of them that is damaged.
    """
    if not settings.prefix_packs or footprint(program.bundle.manifest).bounded:
        return None
    return shipped_pages(program.bundle, program.program)


def open_store(
    settings: Settings,
    program: LoadedProgram,
    device: Device,
    metrics: Metrics,
    shipped: ShippedPages | None,
) -> PageStore | None:
    """Where a program's KV pages go that have no room on its device; None for nowhere.

    What follows pages that another program or device has computed (`shipped`) is not what this one
    alone would compute: on disk it is that of both together.
    """
    if footprint(program.bundle.manifest).bounded:
        return None  # pages of a model with windows are not stored
    room = 0 if device.host_memory else _room(settings.prefix_memory)
    memory = MemoryStore(room) if room else None
    if not settings.prefix_disk:
        return memory
    folder = settings.prefix_folder
    computed_by = f"{producer_of(program.bundle, program.program)}/{device.identity}"
    if shipped is not None and shipped.computed_by != computed_by:
        computed_by += f"/packs-{shipped.digest}"
    disk = DiskStore(
        prefixes_folder() if folder is None else Path(folder),
        settings.prefix_disk,
        computed_by,
        stored_bytes(paged_state(program.bundle.manifest).page_tokens, program.page_bytes),
    )
    behind = WriteBehind(disk, on_dropped=lambda pages: metrics.on_pages_moved(dropped=pages))
    return behind if memory is None else Tiered(memory, behind)


def _room(wanted: int) -> int:
    """Bytes of this process's memory for copies of pages: so many, or half of what it may take."""
    left = own_memory_left()
    return wanted if left is None else min(wanted, left // 2)


def _refused(name: str, value: object, wanted: str) -> InputError:
    return InputError(f"{name} is {shorten(value)}; it must be {wanted}.", code="input.option")
