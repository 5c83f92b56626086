"""Models of tests: by name, in this process."""

from __future__ import annotations

from collections.abc import Mapping

from edgewise.hosting.base import Hosted, Loaded, Models
from edgewise_runtime.errors import InputError


class Some(Models):
    """Models that are there from the start."""

    def __init__(self, hosted: Mapping[str, Hosted]) -> None:
        self._hosted = dict(hosted)

    async def get(self, name: str, *, keep_alive_s: float | None = None) -> Hosted:
        if name not in self._hosted:
            raise InputError(f"There is no model {name!r}.", code="input.model")
        return self._hosted[name]

    def hosted(self, name: str) -> Hosted:
        """One of them, at once."""
        return self._hosted[name]

    def names(self) -> list[str]:
        return list(self._hosted)

    def loaded(self) -> list[Loaded]:
        return [Loaded(one, one.facts.bytes, None, 0, 0) for one in self._hosted.values()]

    async def close(self) -> None:
        for one in self._hosted.values():
            await one.close()
