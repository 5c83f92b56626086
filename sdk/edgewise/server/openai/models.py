"""``GET /v1/models``: which there are, and what is known of them."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from edgewise.hosting.base import Facts, Models
from edgewise.server.writing import json_response
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten


def model_of(name: str, facts: Facts | None) -> dict[str, Any]:
    """A model as the API lists it; of one that is not compiled yet only the name is known."""
    created = 0 if facts is None else facts.created
    listed = {"id": name, "object": "model", "created": created, "owned_by": "edgewise"}
    if facts is None:
        return listed
    return {
        **listed,
        "context_length": facts.context,
        "max_model_len": facts.context,
        "family": facts.family,
        "parameters": facts.parameters,
        "quantization": facts.quant,
        "size": facts.bytes,
        "vocabulary": facts.vocab,
        "capabilities": list(facts.capabilities),
        **({"program": facts.program} if facts.program else {}),
    }


class ModelsApi:
    """What is said of models."""

    def __init__(self, models: Models) -> None:
        self._models = models

    async def listing(self, request: Request) -> Response:
        """All of them."""
        data = [model_of(name, await self._models.facts(name)) for name in self._models.names()]
        return json_response({"object": "list", "data": data})

    async def one(self, request: Request) -> Response:
        """One of them. Raises InputError ``input.model``."""
        name = request.path_params["name"]
        names = self._models.names()
        if name not in names:
            raise InputError(
                f"There is no model {shorten(name)}.",
                remedy=f"There are {', '.join(names[:20])}.",
                code="input.model",
            )
        return json_response(model_of(name, await self._models.facts(name)))
