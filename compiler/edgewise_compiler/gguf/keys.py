"""The metadata of one architecture, whose keys all begin with its name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.models.shape import FULL, LOCAL, layer_kinds
from edgewise_compiler.models.traits import PAGE, said
from edgewise_runtime.errors import CheckpointError, UnsupportedError
from edgewise_runtime.format.reading import shorten

MOST = 1 << 31
HUGE = 1e30


@dataclass(frozen=True)
class Keys:
    """What a file says under ``<architecture>.``, checked as :class:`ConfigFields` checks it.

    Attributes:
        fields: all of the metadata.
        name: of the architecture.
        tensors: names of the file's tensors.
    """

    fields: ConfigFields
    name: str
    tensors: Collection[str]

    def has(self, key: str) -> bool:
        return self.fields.has(f"{self.name}.{key}")

    def integer(self, key: str, **default: int) -> int:
        return self.fields.integer(f"{self.name}.{key}", 0, MOST, **default)

    def of_layers(self, key: str, **default: int) -> int:
        """An integer, which a file may also give for each layer.

        Raises:
            UnsupportedError: layers that differ.
        """
        name = f"{self.name}.{key}"
        found = self.fields.values.get(name)
        listed = found.tolist() if isinstance(found, np.ndarray) else found
        if not isinstance(listed, list) or not listed:
            return self.integer(key, **default)
        if len(others := set(map(str, listed))) > 1:
            raise UnsupportedError(
                f"Not implemented: layers that differ ({said(name, listed)}: "
                f"{len(others)} values).",
                remedy=f"Use a model whose layers are alike; see {PAGE}.",
                code="unsupported.attention",
            )
        return ConfigFields({name: listed[0]}, self.fields.where).integer(name, 0, MOST)

    def number(self, key: str, high: float = HUGE, **default: float) -> float:
        return self.fields.number(f"{self.name}.{key}", 0.0, high, **default)

    def text(self, key: str, **default: str) -> str:
        return self.fields.text(f"{self.name}.{key}", **default)

    def windows(self, layers: int, period: int) -> list[str]:
        """The kind of each layer, as config.json's ``layer_types`` has them.

        ``attention.sliding_window_pattern`` has a flag for each layer, or is a period: of so many
        layers the last one has no window; of 0 all have one.

        Args:
            period: where the file does not say.

        Raises:
            CheckpointError: flags of other layers than there are.
        """
        key = f"{self.name}.attention.sliding_window_pattern"
        found = self.fields.values.get(key)
        if isinstance(found, np.ndarray | list):
            flags = found.tolist() if isinstance(found, np.ndarray) else found
            if len(flags) != layers or not all(isinstance(flag, bool | int) for flag in flags):
                raise CheckpointError(
                    f"{key} in {self.fields.where} is {shorten(flags, 40)}, which are no flags of "
                    f"{layers} layers.",
                    remedy="Download the model again, or convert it again.",
                    code="checkpoint.config",
                )
        else:
            period = self.integer("attention.sliding_window_pattern", default=period)
            return layer_kinds(layers, period)
        return [LOCAL if flag else FULL for flag in flags]
