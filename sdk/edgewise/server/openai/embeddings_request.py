"""What ``POST /v1/embeddings`` takes."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from edgewise.embedding import MAX_TEXTS
from edgewise.server.openai.refusing import Asking
from edgewise.server.wire_types import Count, Name, Text, TokenIds

Input: TypeAlias = Text | TokenIds


class EmbeddingRequest(Asking):
    """Texts, or their tokens.

    Beside the API are `pooling` and `prompt_name`, of the model's prompts (which is what
    sentence-transformers and text-embeddings-inference call it): see `edgewise.Engine.embed`.
    """

    model: Name
    input: Input | Annotated[list[Input], Field(min_length=1, max_length=MAX_TEXTS)]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Count | None = None
    pooling: Literal["last", "mean"] | None = None
    prompt_name: Name | None = None

    @property
    def texts(self) -> list[Input]:
        """Each text."""
        if isinstance(self.input, str):
            return [self.input]
        several = [one for one in self.input if not isinstance(one, int)]
        return several or [[one for one in self.input if isinstance(one, int)]]
