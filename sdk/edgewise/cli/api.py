"""What `edgewise serve` serves to programs: the APIs of the models that it is given."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.cache import cached_bundle, has_programs, is_checkpoint
from edgewise.cli.flags import compiled, located
from edgewise.hosting.kept import KEEP_ALIVE_S, PoolOptions
from edgewise.hosting.named import named_models
from edgewise.hosting.pool import Pool
from edgewise.hosting.room import target_of
from edgewise.server.bundles import Offer
from edgewise.server.guard import is_loopback
from edgewise.server.keys import VARIABLE, Key
from edgewise.server.operations.counts import Counts
from edgewise_runtime.devices.table import FORMS
from edgewise_runtime.errors import InputError

if TYPE_CHECKING:
    from edgewise.hosting.tab_model import TabModels


BROWSER = "browser"
"""The device whose GPUs are those of visitors."""


def add_api(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the APIs."""
    group = parser.add_argument_group("APIs")
    group.add_argument(
        "--api-key",
        metavar="KEY",
        help="what programs have to send (Authorization: Bearer KEY); other users of this machine "
        "may see it here",
    )
    group.add_argument(
        "--keep-alive",
        type=_seconds,
        default=KEEP_ALIVE_S,
        metavar="SECONDS",
        help="how long a model stays in memory after its last request; below 0 for ever "
        f"(default {KEEP_ALIVE_S:.0f})",
    )
    group.add_argument(
        "--memory",
        type=_gibibytes,
        metavar="GIB",
        help="what models in memory may take together (default: what there is)",
    )
    group.add_argument(
        "--prefix-disk",
        type=_gibibytes,
        default=0,
        metavar="GIB",
        help="keep KV pages of prompts on disk, so many GiB of them for all models, where they "
        "outlive a model in memory and this server; they can be read back there (default: none)",
    )
    group.add_argument(
        "--device",
        metavar="NAME",
        help=f"{FORMS}; of the machine, for programs. {BROWSER}: visitors' tabs answer, on their "
        "GPUs",
    )
    group.add_argument("--threads", type=int, metavar="N", help="of the CPU, for each model")
    group.add_argument("--context", type=int, metavar="N", help="most tokens of each request")
    group.add_argument("--trust", action="store_true", help="run native code of others")
    group.add_argument(
        "--allow-pull",
        action="store_true",
        help="let clients of Ollama's API have models fetched from the hub to this machine's disk",
    )
    group.add_argument(
        "--no-api", action="store_true", help="serve browsers only: nothing is computed here"
    )


def check_api(args: argparse.Namespace) -> None:
    """Refuse to compute for everybody who reaches this machine.

    Raises:
        InputError: ``serve.key`` for an address of other machines without a key, and for a key that
            cannot be one; ``serve.pull`` for fetching without APIs.
    """
    if args.no_api:
        if args.allow_pull:
            raise InputError(
                "--allow-pull is for clients of the APIs, which --no-api leaves out.",
                remedy="Leave out one of them.",
                code="serve.pull",
            )
        return
    if args.api_key is not None:
        Key.of(args.api_key)
    elif not is_loopback(args.host):
        raise InputError(
            f"At {args.host} models would answer everybody who reaches this machine.",
            remedy=f"Set {VARIABLE} (or --api-key) to a key that programs send; or serve browsers "
            "only, with --no-api.",
            code="serve.key",
        )


def tab_models(args: argparse.Namespace, offered: Mapping[str, Offer]) -> TabModels | None:
    """The models of these bundles as tabs run them, where ``--device browser`` asks for that.

    Raises InputError ``input.device`` for that without APIs, or with what only a device of this
    machine can have.
    """
    if args.device != BROWSER:
        return None
    # Here: no other server waits for what runs on tabs to be imported.
    from edgewise.hosting.tab_model import TabModel, TabModels

    for flag, given in (
        ("--no-api", args.no_api),
        ("--context", args.context is not None),
        ("--threads", args.threads is not None),
        ("--prefix-disk", args.prefix_disk > 0),
    ):
        if given:
            raise InputError(
                f"--device {BROWSER} lets visitors' tabs answer; {flag} is not for them.",
                remedy=f"Leave out {flag}.",
                code="input.device",
            )
    return TabModels({name: TabModel(name, one.bundle) for name, one in offered.items()})


def models_of(args: argparse.Namespace, given: Iterable[str], counts: Counts) -> Pool | None:
    """The models of these names, loaded when somebody asks for them; None with ``--no-api``.

    Checkpoints are compiled now, while somebody looks, and not when the first request waits.

    Raises:
        InputError: ``input.model`` for what is no model, and for two of one name.
        EdgewiseError: what compiling raises.
    """
    if args.no_api:
        return None
    named = named_models(given)
    if not args.check:  # which asks no model
        named = {name: _compiled(where, args) for name, where in named.items()}
    options = PoolOptions(
        keep_alive_s=args.keep_alive,
        memory_bytes=args.memory,
        listed=False,
        device=args.device,
        threads=args.threads,
        context=args.context,
        trust=args.trust,
        settings={"prefix_disk": args.prefix_disk},
    )
    return Pool(named, options, on_restart=counts.on_restart)


def _compiled(where: str, args: argparse.Namespace) -> str:
    """The bundle of a model, with programs for the device that programs ask."""
    target, context = target_of(args.device, None), args.context
    path = located(Path(where), targets=[target])
    if is_checkpoint(path):
        kept = cached_bundle(path, None, context)
        if has_programs(kept, target, context):
            return str(kept)
    return str(compiled(path, None, target=target, context=context))


def _seconds(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return value


def _gibibytes(text: str) -> int:
    value = float(text)
    if not (0 < value < 1 << 20):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of GiB above 0")
    return int(value * (1 << 30))
