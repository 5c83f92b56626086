"""What both kinds of engine tell of the model they have loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import finalize

from edgewise.host import Host
from edgewise_runtime.engine.trace import Trace
from edgewise_runtime.format.bundle import ModelInfo
from edgewise_runtime.text import Tokenizer
from edgewise_runtime.text.template import Message


class Loaded:
    """A model loaded on a device."""

    def __init__(self, host: Host) -> None:
        self._host = host
        # An engine that is dropped, or open when Python ends, ends its thread.
        self._closing = finalize(self, host.close)

    @property
    def name(self) -> str:
        """The bundle's name."""
        return self._host.bundle.name

    @property
    def model(self) -> ModelInfo:
        """The model's shape and bounds."""
        return self._host.bundle.model

    @property
    def tokenizer(self) -> Tokenizer:
        """`encode` and `decode` of the model's tokenizer."""
        return self._host.tokenizer

    @property
    def context(self) -> int:
        """The most tokens of prompt and answer together."""
        return self._host.context

    @property
    def program(self) -> str:
        """Id of the program that runs, such as ``cpu-w4a8-avx512vnni``."""
        return self._host.program.program.id

    @property
    def device(self) -> str:
        """What it runs on, for people."""
        return self._host.device

    def memory(self) -> dict[str, int]:
        """Bytes in use by role: ``param``, ``state``, ``input``, ``output``, ``scratch``."""
        return self._host.program.memory()

    def metrics(self) -> dict[str, Any]:
        """Counters, gauges and histograms at this moment, see `engine.metrics.FAMILIES`."""
        return self._host.metrics.snapshot()

    @contextmanager
    def trace(self, path: str | Path) -> Iterator[Trace]:
        """Record the engine's steps in a block, and write them for https://ui.perfetto.dev.

        Raises:
            InputError: ``input.trace`` where another block records them already.
            StorageError: where the file cannot be written.
        """
        with self._host.traced(Path(path)) as recorded:
            yield recorded

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """Return the prompt text that `chat` makes of a conversation."""
        return self._host.render(messages, tools=tools, variables=variables)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self.program} context={self.context}>"
