"""Two replicas of a model on a Ray cluster, with the APIs of OpenAI and Anthropic.

    python examples/ray/serve.py dist/demo-q4
    curl http://127.0.0.1:8000/v1/models
"""

from __future__ import annotations

import sys
from contextlib import suppress

from ray import serve

import edgewise.ray


def main() -> None:
    options = edgewise.ray.ServeOptions(
        replicas=2,
        cpus=1,
        hosts=("models.example.org",),
    )
    app = edgewise.ray.app(sys.argv[1], options)
    with suppress(KeyboardInterrupt):
        serve.run(app, blocking=True)


if __name__ == "__main__":
    main()
