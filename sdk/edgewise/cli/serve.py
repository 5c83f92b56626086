"""`edgewise serve BUNDLE…`: the chat app and bundles for browsers of this machine."""

from __future__ import annotations

import argparse
import socket
import threading
import webbrowser

from rich.console import Console
from starlette.types import ASGIApp

from edgewise.cli.ls import named
from edgewise.cli.output import size, stdout_console
from edgewise.server.app import make_app
from edgewise.server.assets import BUILD, assets, built
from edgewise.server.bundles import Offer, offers
from edgewise.server.check import fetch_app
from edgewise.server.run import in_background, listen, url_of
from edgewise.server.run import run as run_server

HOST, PORT = "127.0.0.1", 8321
EVERYWHERE = ("0.0.0.0", "::")
MAX_PORT = 65535
WARNING = """\
Everybody who reaches this machine can read these models. It answers only to names given with
--allow-host, and browsers run WebGPU only from localhost or https: other machines need a proxy
with a certificate."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument(
        "bundles",
        nargs="+",
        metavar="BUNDLE",
        help="bundles with a webgpu program, by path or name",
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
    parser.add_argument("--open", action="store_true", help="open the app in a browser")
    parser.add_argument(
        "--check",
        action="store_true",
        help="fetch the app and the start of each bundle once over HTTP, on a free port, and leave",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C, or check and leave."""
    console = stdout_console()
    offered = offers(named(name) for name in args.bundles)
    everywhere = args.host in EVERYWHERE
    app = make_app(offered, assets(), args.allow_host + ([] if everywhere else [args.host]))
    port = (0 if args.check else PORT) if args.port is None else args.port
    with listen(args.host, port) as listening:
        if args.check:
            _check(console, app, listening)
            return 0
        url = url_of(listening)
        console.print(f"Open {url} in a browser with WebGPU. Ctrl-C stops.")
        for offer in offered.values():
            console.print(_line(offer))
        if not built():
            console.print(f"The chat app is not built here, only bundles are offered: {BUILD}.")
        if everywhere:
            console.print(WARNING, style="yellow")
        if args.open:
            # In a thread: a browser in the terminal returns only when it is left.
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
        run_server(app, listening)
    return 0


def _line(offer: Offer) -> str:
    """A bundle, and what the smallest and the largest of its programs make a browser fetch."""
    model, sizes = offer.bundle.model, sorted(offer.download.values())
    least, most = size(sizes[0]), size(sizes[-1])
    download = least if least == most else f"{least} to {most}"
    return (
        f"  {offer.name}: {model.family}, {model.stored}, context {model.context}; "
        f"{download} to fetch; {', '.join(offer.download)}"
    )


def _check(console: Console, app: ASGIApp, listening: socket.socket) -> None:
    with in_background(app, listening) as url:
        found = fetch_app(url)
    console.print(
        f"edgewise serve: {url} sent the chat app (page {size(found.page)}, "
        f"scripts {size(found.scripts)}) and {', '.join(found.bundles)} for WebGPU."
    )


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) > MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to {MAX_PORT}")
    return int(text)
