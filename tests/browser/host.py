"""Compiles what tests in a browser need, writes what they expect, and serves the bundles.

    python -m tests.browser.host OUT PORT

Prints one line of JSON, ``{"expected": PATH, "bundles": PATH}``, once everything is made, and
serves as `edgewise serve` does until it is ended.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

# As the suite's conftest: how Mesa runs, and where it and the compiler keep what they compiled.
BUILD = Path(__file__).resolve().parents[2] / "build"
os.environ.setdefault("LP_NUM_THREADS", "1")
os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
os.environ.setdefault("MESA_SHADER_CACHE_DIR", str(BUILD / "shader-cache"))
os.environ.setdefault("EDGEWISE_KEPT_KERNELS", str(BUILD / "kernels"))


def main(out: Path, port: str) -> int:
    """Make everything below ``out`` and serve it."""
    for variable in ("XDG_DATA_HOME", "XDG_CACHE_HOME"):
        os.environ[variable] = str(out / variable.lower())  # nothing of the person's own

    from edgewise.cli.main import main as edgewise
    from tests.browser.bundles import compile_bundles
    from tests.browser.constrained import write_constrained
    from tests.browser.expected import write_expected
    from tests.suite import QUICK, SUITE

    made = out / "bundles"
    bundles = compile_bundles(made)
    expected = made / f"expected-{SUITE}.json"
    if not QUICK:  # of whose tests none compares tokens
        write_expected(made, expected)
        write_constrained(bundles[0], made / "constrained.json")
    print(json.dumps({"expected": str(expected), "bundles": str(made)}), flush=True)
    return edgewise(["serve", *map(str, bundles), "--host", "127.0.0.1", "--port", port])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2]))
