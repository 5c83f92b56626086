"""What ``POST /v1/completions`` takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, TypeAlias

from pydantic import Field

from edgewise.hosting.base import Ask
from edgewise.server.openai.refusing import Refused
from edgewise.server.openai.sampling import Sampling
from edgewise.server.wire_types import Count, Text, TokenIds
from edgewise_runtime.errors import UnsupportedError

MAX_PROMPTS = 128
MAX_TOKENS = 16
"""Of an answer where nobody says so, as the API has it."""

Prompt: TypeAlias = Text | TokenIds


class CompletionRequest(Sampling):
    """Texts to go on with."""

    REFUSED: ClassVar[Mapping[str, Refused]] = {
        "best_of": Refused("Use n, and choose by logprobs.", (1,)),
        "suffix": Refused("Models write what follows, not what is between.", ("",)),
    }

    prompt: Prompt | Annotated[list[Prompt], Field(min_length=1, max_length=MAX_PROMPTS)]
    echo: bool | None = None
    logprobs: Count | None = None

    @property
    def prompts(self) -> list[Prompt]:
        """Each prompt."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        several = [one for one in self.prompt if not isinstance(one, int)]
        return several or [[one for one in self.prompt if isinstance(one, int)]]

    @property
    def choices(self) -> int:
        """Of each prompt."""
        return 1 if self.n is None else self.n

    def asks(self) -> list[Ask]:
        """What the model is asked, prompt by prompt.

        Raises UnsupportedError ``unsupported.parameter`` for likelihoods of the prompt itself.
        """
        if self.echo and self.logprobs is not None:
            raise UnsupportedError(
                "echo is set with logprobs; how likely a prompt's tokens are is not told.",
                remedy="Leave out one of them.",
                code="unsupported.parameter",
            )
        options = {
            **self.options(),
            "max_tokens": MAX_TOKENS if self.max_tokens is None else self.max_tokens,
            "logprobs": None if self.logprobs is None else True,
            "top_logprobs": self.logprobs,
        }
        return [Ask(prompt=one, options=options) for one in self.prompts]
