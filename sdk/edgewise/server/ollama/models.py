"""Which models there are, what is known of them, and which are in memory."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from edgewise.hosting.base import Facts, Loaded, Models
from edgewise.server.ollama.answers import time_of
from edgewise.server.ollama.names import named
from edgewise.server.ollama.options import SAME
from edgewise.server.ollama.requests import Named
from edgewise.server.reading import read_body
from edgewise.server.writing import json_response
from edgewise.units import weights
from edgewise_runtime.installed import VERSION

FORMAT = "edgewise"
NEVER = "9999-12-31T23:59:59Z"
"""When a model leaves that stays."""
CAPABILITIES = ("completion", "tools", "thinking", "embedding")
"""Those that Ollama has a word for."""
PARAMETERS = {ours: theirs for theirs, (ours, _) in SAME.items()} | {"max_tokens": "num_predict"}


def details_of(facts: Facts | None) -> dict[str, Any]:
    """What lists say of a model; of one that is not compiled yet little is known."""
    family = "" if facts is None else facts.family
    return {
        "parent_model": "",
        "format": FORMAT,
        "family": family,
        "families": [family] if family else [],
        "parameter_size": "" if facts is None else weights(facts.parameters),
        "quantization_level": "" if facts is None else facts.quant,
    }


def listed_of(name: str, facts: Facts | None) -> dict[str, Any]:
    """A model of a list."""
    return {
        "name": name,
        "model": name,
        "modified_at": modified_of(facts),
        "size": 0 if facts is None else facts.bytes,
        "digest": digest_of(name, facts),
        "details": details_of(facts),
    }


def running_of(loaded: Loaded) -> dict[str, Any]:
    """A model in memory."""
    facts = loaded.hosted.facts
    expires = loaded.expires
    on_cpu = facts.program.startswith("cpu")
    return {
        "name": facts.name,
        "model": facts.name,
        "size": loaded.bytes,
        "digest": digest_of(facts.name, facts),
        "details": details_of(facts),
        "expires_at": NEVER if expires is None else time_of(datetime.fromtimestamp(expires, UTC)),
        "size_vram": 0 if on_cpu else loaded.bytes,
        "context_length": facts.context,
    }


def shown_of(facts: Facts) -> dict[str, Any]:
    """All that is known of a model."""
    return {
        "parameters": parameters_of(facts),
        "template": facts.template,
        "details": details_of(facts),
        "model_info": {
            "general.architecture": facts.family,
            "general.basename": facts.name,
            "general.parameter_count": facts.parameters,
            f"{facts.family}.context_length": facts.context,
            f"{facts.family}.embedding_length": facts.hidden,
            f"{facts.family}.vocab_size": facts.vocab,
        },
        "capabilities": [one for one in CAPABILITIES if one in facts.capabilities],
        "modified_at": modified_of(facts),
    }


def parameters_of(facts: Facts) -> str:
    """The model's own options, one a line, as a Modelfile has them."""
    own = [
        (PARAMETERS[name], value)
        for name, value in facts.defaults.items()
        if name in PARAMETERS and isinstance(value, int | float | str)
    ]
    stops = [("stop", json.dumps(text, ensure_ascii=False)) for text in facts.end_tokens]
    return "\n".join(f"{name:<30} {value}" for name, value in [*own, *stops])


def modified_of(facts: Facts | None) -> str:
    """When a model was made; the beginning of time where nobody knows."""
    return time_of(datetime.fromtimestamp(0 if facts is None else facts.created, UTC))


def digest_of(name: str, facts: Facts | None) -> str:
    """What clients tell models apart by: a hash of the name and the weights' number and form."""
    told = [name] if facts is None else [name, facts.family, facts.parameters, facts.quant]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


class ModelsApi:
    """What is said of models."""

    def __init__(self, models: Models) -> None:
        self._models = models

    async def tags(self, request: Request) -> Response:
        """All of them."""
        models = self._models
        listed = [listed_of(name, await models.facts(name)) for name in models.names()]
        return json_response({"models": listed})

    async def running(self, request: Request) -> Response:
        """Those in memory."""
        return json_response({"models": [running_of(one) for one in self._models.loaded()]})

    async def show(self, request: Request) -> Response:
        """One of them, which is loaded for that only where nothing is known of it before.

        Raises InputError ``input.model``.
        """
        asked = await read_body(request, Named)
        name = named(asked.model, self._models.names())
        facts = await self._models.facts(name) or (await self._models.get(name)).facts
        return json_response(shown_of(facts))

    async def version(self, request: Request) -> Response:
        """Of the server."""
        return json_response({"version": VERSION})
