"""One compilation: what every phase of the pipeline reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from edgewise_compiler.checkpoint import Checkpoint
from edgewise_compiler.layouts.schemes import Schemes
from edgewise_compiler.models.base import ModelConfig, ParamSpec
from edgewise_compiler.options import Options
from edgewise_runtime.files import storage_errors

Progress = Callable[[str, int, int], None]
"""Told the phase, and how much of how much of it is done."""


@dataclass(frozen=True)
class Job:
    """A checkpoint on its way into ``folder``, the bundle that is being built."""

    checkpoint: Checkpoint
    options: Options
    schemes: Schemes
    folder: Path
    tell: Progress

    @property
    def cfg(self) -> ModelConfig:
        """The model's sizes."""
        return self.checkpoint.model

    @property
    def params(self) -> tuple[ParamSpec, ...]:
        """The family's parameters in the order of execution."""
        return self.checkpoint.family.params(self.cfg)


def write_dump(job: Job, program: str, texts: Iterable[tuple[str, str]]) -> None:
    """Write the texts of a program (file name, contents) where ``--debug-dump`` asks for them."""
    if job.options.debug_dump is None:
        return
    folder = job.options.debug_dump / program
    with storage_errors("write", folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts:
            (folder / name).write_text(text)
