"""What a process is to load, as values that are JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from edgewise.async_engine import AsyncEngine
from edgewise.hosting.base import Json
from edgewise.hosting.local import LocalModel
from edgewise.settings import Settings
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten


@dataclass(frozen=True, kw_only=True)
class Loading:
    """A model to load, see `edgewise.Engine`.

    Attributes:
        name: that it is asked for by.
        bundle: its folder.
        settings: of `edgewise.Settings`, by name.
        vouched: digests of native programs that may be loaded, see `trust.vouched`.
    """

    name: str
    bundle: str
    device: str | None = None
    program: str | None = None
    threads: int | None = None
    context: int | None = None
    trust: bool = False
    settings: Mapping[str, Json] = field(default_factory=dict)
    vouched: tuple[str, ...] = ()

    async def load(self, *, apart_s: float = 0.0) -> LocalModel:
        """The model, in this process.

        Args:
            apart_s: see `LocalModel`.

        Raises:
            EdgewiseError: as `engine` does.
        """
        return LocalModel(self.name, await self.engine(), apart_s=apart_s)

    async def engine(self) -> AsyncEngine:
        """Its engine, in this process.

        Raises:
            InputError: ``input.option`` for a setting that there is not; else as `Engine`.
        """
        return await AsyncEngine.load(
            Path(self.bundle),
            device=self.device,
            program=self.program,
            threads=self.threads,
            trust=self.trust or self.vouched,
            context=self.context,
            settings=self.read_settings(),
        )

    def read_settings(self) -> Settings:
        """The settings; raises InputError ``input.option`` for those that there are not."""
        known = {one.name for one in fields(Settings)}
        if unknown := sorted(self.settings.keys() - known):
            raise InputError(
                f"There is no setting {shorten(unknown[0])}.",
                remedy=f"There are {', '.join(sorted(known))}.",
                code="input.option",
            )
        return Settings(**self.settings)
