"""A BrowserEngine that does what it is told: a JSON object a line in, a JSON object a line out.

    python -m tests.browser.lent BUNDLE BEAT_S

The first line out is ``{"url": ...}``. ``{"id": 1, "do": "generate", "prompt": ...}``, or with
``messages``, is answered by ``{"id": 1, "piece": ...}`` as they come, and then
``{"id": 1, "text": ..., "tokens": ...}`` or ``{"id": 1, "code": ...}``; ``wait`` and ``tabs`` by
``{"id": 1, "tabs": ...}``.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from edgewise import BrowserEngine, EdgewiseError

_WRITING = threading.Lock()


def main(bundle: str, beat_s: float) -> None:
    with BrowserEngine(bundle, beat_s=beat_s) as engine:
        say(url=engine.url)
        for line in sys.stdin:
            threading.Thread(target=do, args=(engine, json.loads(line)), daemon=True).start()


def do(engine: BrowserEngine, asked: dict[str, Any]) -> None:
    name = asked["id"]
    try:
        if asked["do"] == "generate":
            options = asked["options"]
            if "messages" in asked:
                stream = engine.chat(asked["messages"], stream=True, **options)
            else:
                stream = engine.generate(asked["prompt"], stream=True, **options)
            for piece in stream:
                say(id=name, piece=piece)
            completion = stream.completion
            say(id=name, text=completion.text, tokens=completion.token_ids)
            return
        if asked["do"] == "wait":
            engine.wait(asked["tabs"], timeout_s=120)
        served = [(tab.device, tab.running, tab.served) for tab in engine.tabs]
        say(id=name, tabs=served)
    except EdgewiseError as error:
        say(id=name, code=error.code)


def say(**message: Any) -> None:
    with _WRITING:
        print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
