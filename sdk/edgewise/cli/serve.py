"""`edgewise serve MODEL…`: the APIs of models, and the chat app and bundles for browsers."""

from __future__ import annotations

import argparse
import os
import socket
import threading
import webbrowser
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from starlette.types import ASGIApp

from edgewise.cache import is_checkpoint
from edgewise.cli.api import add_api, check_api, models_of, tab_models
from edgewise.cli.flags import compiled
from edgewise.cli.ls import named
from edgewise.cli.output import stdout_console
from edgewise.hosting.tabs import LEND
from edgewise.hub.names import is_hub_name
from edgewise.server.agents import too_small_for_agents
from edgewise.server.assets import BUILD, assets, built
from edgewise.server.bundles import TARGET, Offer, for_browsers, offers
from edgewise.server.check import fetch_app
from edgewise.server.guard import LOCAL, in_header
from edgewise.server.operations.counts import Counts
from edgewise.server.operations.drain import Drain
from edgewise.server.operations.environment import by_environment, fill
from edgewise.server.operations.flags import add_operations
from edgewise.server.operations.logs import Log
from edgewise.server.operations.operations import Operations
from edgewise.server.origins import allowed_origin
from edgewise.server.run import in_background, listen, url_of
from edgewise.server.run import run as run_server
from edgewise.server.tls import Certificate, load
from edgewise.units import size
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.bundle import read_manifest
from edgewise_runtime.installed import CRYPTOGRAPHY, need

HOST, PORT = "127.0.0.1", 8321
EVERYWHERE = ("0.0.0.0", "::")
MAX_PORT = 65535
READABLE = """\
Everybody who reaches this machine can read these models. It answers only to names given with
--allow-host."""
INSECURE = """\
Browsers run WebGPU only from localhost or https: for other machines add --tls."""
SELF_SIGNED = """\
Nobody vouches for its certificate, so browsers warn before they open it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument(
        "bundles",
        nargs="+",
        metavar="MODEL",
        help="bundles, by path or name; checkpoint folders, GGUF files and hf:ORG/REPO are "
        "compiled once. Browsers are offered those with a webgpu program",
    )
    parser.add_argument("--host", default=HOST, help=f"address to listen on (default {HOST})")
    parser.add_argument("--port", type=_port, help=f"port; 0 takes a free one (default {PORT})")
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another name that browsers reach this machine by; may be repeated",
    )
    parser.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="another server whose pages may load these bundles, as http://localhost:5173; may be "
        "repeated",
    )
    parser.add_argument(
        "--tls",
        action="store_true",
        help="serve by https, with a certificate made now, which browsers warn of",
    )
    parser.add_argument(
        "--tls-cert", type=Path, metavar="FILE", help="serve by https with this certificate (PEM)"
    )
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="its key (PEM)")
    parser.add_argument("--open", action="store_true", help="open the app in a browser")
    parser.add_argument(
        "--check",
        action="store_true",
        help="fetch the app and the start of each bundle once over HTTP, on a free port, and leave",
    )
    add_api(parser)
    add_operations(parser)
    parser.set_defaults(settings=by_environment(parser))


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C, or check and leave."""
    console = stdout_console()
    fill(args, args.settings, os.environ)
    check_api(args)
    folders = [(name, _bundle(name)) for name in args.bundles]
    counts = Counts()
    offered = offers(for_browsers([folder for _, folder in folders], args.no_api))
    lent = tab_models(args, offered)
    models = lent or models_of(args, map(_asked, folders), counts)
    names = [] if models is None else models.names()
    operations = Operations(
        log=Log(args.log_format),
        drain=Drain(args.drain_seconds),
        counts=counts,
        wanted=names,
        keep_agent_lines=args.keep_agent_lines,
    )
    everywhere = args.host in EVERYWHERE
    hosts = args.allow_host + ([] if everywhere else [args.host])
    certificate = _certificate(args, hosts)
    origins = map(allowed_origin, args.allow_origin)
    # Here: no other command needs what reads requests, which takes a while to import.
    from edgewise.server.app import make_app

    app = make_app(
        offered,
        assets(),
        hosts,
        origins,
        models,
        args.api_key,
        operations,
        allow_pull=args.allow_pull,
        tabs=lent.tabs if lent else None,
    )
    port = (0 if args.check else PORT) if args.port is None else args.port
    with listen(args.host, port) as listening:
        if args.check:
            _check(console, app, listening, certificate)
            return 0
        url = url_of(listening, certificate)
        console.print(f"Open {url} in a browser with WebGPU. Ctrl-C stops.")
        if certificate:
            _print_certificate(console, certificate, args.allow_host, listening)
        for offer in offered.values():
            console.print(_line(offer))
        if lent:
            console.print(f"Tabs that have {url}{LEND} open answer with their GPUs.")
        if names:
            console.print(f"APIs at {url}v1 for programs: {', '.join(names)}.")
            if too_small := too_small_for_agents(_least_context(folders, args.context)):
                console.print(too_small, style="yellow")
        if not built():
            console.print(f"The chat app is not built here, only bundles are offered: {BUILD}.")
        if everywhere:
            console.print(READABLE if certificate else f"{READABLE}\n{INSECURE}", style="yellow")
        if args.open:
            # In a thread: a browser in the terminal returns only when it is left.
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
        run_server(app, listening, certificate, operations, models)
    return 0


def _bundle(name: str) -> Path:
    """The bundle of a name, or what is compiled of a checkpoint for browsers, once."""
    if _is_compiled(name):
        return compiled(Path(name), None, target=TARGET)
    return named(name)


def _asked(given: tuple[str, Path]) -> str:
    """What the APIs find a model by: a checkpoint itself, of which there may be other programs."""
    name, folder = given
    return name if _is_compiled(name) else str(folder)


def _is_compiled(name: str) -> bool:
    return is_hub_name(name) or is_checkpoint(Path(name))


def _least_context(folders: Iterable[tuple[str, Path]], asked: int | None) -> int:
    """The most tokens that a request may have at every model; `asked`: by who serves them."""
    contexts = [read_manifest(folder).model.context for _, folder in folders]
    return min([*contexts, *([asked] if asked else [])])


def _line(offer: Offer) -> str:
    """A bundle, and what the smallest and the largest of its programs make a browser fetch."""
    model, sizes = offer.bundle.model, sorted(offer.download.values())
    least, most = size(sizes[0]), size(sizes[-1])
    download = least if least == most else f"{least} to {most}"
    return (
        f"  {offer.name}: {model.family}, {model.stored}, context {model.context}; "
        f"{download} to fetch; {', '.join(offer.download)}"
    )


def _certificate(args: argparse.Namespace, hosts: list[str]) -> Certificate | None:
    cert, key = args.tls_cert, args.tls_key
    if cert and key:
        return load(cert, key)
    if cert or key:
        there, missing = ("--tls-cert", "--tls-key") if cert else ("--tls-key", "--tls-cert")
        raise InputError(
            f"{there} {str(cert or key)[:200]!r} is given without {missing}.",
            remedy="Give both, or --tls alone, which makes both.",
            code="serve.tls",
        )
    if not args.tls:
        return None
    need(CRYPTOGRAPHY)
    # Here: no other command needs what makes certificates.
    from edgewise.server.self_signed import self_signed

    return self_signed(dict.fromkeys(map(in_header, (*LOCAL, *hosts))))


def _print_certificate(
    console: Console, certificate: Certificate, names: list[str], listening: socket.socket
) -> None:
    """What other machines open, and what a person compares before going past the warning."""
    port = listening.getsockname()[1]
    for name in names:
        console.print(f"From other machines: https://{in_header(name)}:{port}/")
    if certificate.made_here:
        console.print(SELF_SIGNED)
    console.print(f"SHA-256 of its certificate: {certificate.fingerprint}", soft_wrap=True)


def _check(
    console: Console, app: ASGIApp, listening: socket.socket, certificate: Certificate | None
) -> None:
    with in_background(app, listening, certificate) as url:
        found = fetch_app(url, certificate.client() if certificate else None)
    console.print(
        f"edgewise serve: {url} sent the chat app (page {size(found.page)}, "
        f"scripts {size(found.scripts)}) and {', '.join(found.bundles)} for WebGPU."
    )


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) > MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to {MAX_PORT}")
    return int(text)
