"""`python -m edgewise.cli`."""

from __future__ import annotations

import sys

from edgewise.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
