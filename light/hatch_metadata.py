"""What an index is told of edgewise-light: what edgewise tells, with fewer requirements."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class FromTheWhole(MetadataHookInterface):
    """Fills in every dynamic field from the pyproject.toml of the folder above."""

    def update(self, metadata: dict[str, Any]) -> None:
        whole = tomllib.loads((Path(self.root).parent / "pyproject.toml").read_text("utf-8"))
        project = whole["project"]
        required = {re.split(r"[=<>~! ]", line)[0]: line for line in project["dependencies"]}
        extras = {name: [required.pop(package)] for name, package in self.config["extras"].items()}
        offered = project["optional-dependencies"]
        metadata.update(
            {field: project[field] for field in metadata["dynamic"] if field in project},
            dependencies=[*required.values()],
        )
        metadata["optional-dependencies"] = {
            **{name: offered[name] for name in ("ray", "vulkan", "wgpu")},
            **extras,
        }
