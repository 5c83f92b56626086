"""`edgewise serve BUNDLE…`: the chat app and bundles for browsers of this machine."""

from __future__ import annotations

import argparse

from edgewise.cli.bundles import named
from edgewise.cli.output import stdout_console
from edgewise.cli.sizes import size
from edgewise.server.app import make_app
from edgewise.server.assets import assets, built
from edgewise.server.bundles import offers
from edgewise.server.check import fetch_app
from edgewise.server.run import in_background, listen, url_of
from edgewise.server.run import run as run_server

HOST, PORT = "127.0.0.1", 8321
EVERYWHERE = ("0.0.0.0", "::")
MAX_PORT = 65535


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument(
        "bundles",
        nargs="+",
        metavar="BUNDLE",
        help="bundles with a webgpu program, by path or name",
    )
    parser.add_argument("--host", default=HOST, help=f"address to listen on (default {HOST})")
    parser.add_argument(
        "--port", type=_port, default=PORT, help=f"port; 0 takes a free one (default {PORT})"
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another name this machine is reached by; may be repeated",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="fetch the app and each bundle once over HTTP, and leave",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C, or check and leave."""
    console = stdout_console()
    offered = offers(named(name) for name in args.bundles)
    app = make_app(offered, assets(), [args.host, *args.allow_host])
    with listen(args.host, args.port) as listening:
        if args.check:
            with in_background(app, listening) as url:
                found = fetch_app(url)
            console.print(
                f"The app answers at {url} (page {size(found.page)}, code {size(found.scripts)}), "
                f"and so does {', '.join(found.bundles)}."
            )
            return 0
        console.print(f"Open {url_of(listening)} in a browser with WebGPU. Ctrl-C stops.")
        for offer in offered.values():
            least = min(offer.download.values())
            programs = ", ".join(offer.download)
            console.print(f"  {offer.name}: {size(least)} to download; programs {programs}")
        if not built():
            console.print("The chat app is not built in this checkout: run `make web`.")
        if args.host in EVERYWHERE:
            console.print(
                "Everybody who reaches this machine can read these models. Browsers run WebGPU "
                "only from https or localhost: other machines need a proxy with a certificate."
            )
        run_server(app, listening)
    return 0


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to {MAX_PORT}")
    return int(text)
