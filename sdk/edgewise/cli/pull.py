"""`edgewise pull ORG/REPO`: fetch a model from a hub, or what is new in it."""

from __future__ import annotations

import argparse

from edgewise.cli.output import stdout_console
from edgewise.hub.names import hub_model
from edgewise.phases import Phases
from edgewise.units import size


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument(
        "model",
        metavar="ORG/REPO",
        help="a repository at the hub (https://huggingface.co, or HF_ENDPOINT), also as "
        "hf:ORG/REPO; of several GGUF files the name of one, or a quantization such as Q4_K_M",
    )


def run(args: argparse.Namespace) -> int:
    """Fetch what is not here, and say where it is and how to use it."""
    model = hub_model(args.model)
    # The hub's library takes a while to import, which no other command should wait for.
    from edgewise.hub.pull import pull

    console = stdout_console()
    with Phases() as phases:
        pulled = pull(model, phases)
    if pulled.repo != model.repo:
        console.print(f"{model.repo} is called {pulled.repo} now.")
    files = "1 file" if pulled.files == 1 else f"{pulled.files} files"
    new = f"{size(pulled.fetched)} of it new" if pulled.fetched else "nothing new"
    console.print(f"{model}: {files}, {size(pulled.size)}, {new}")
    console.print(f"in {pulled.path}", style="dim")
    console.print(f"Try it: edgewise chat {model}")
    return 0
