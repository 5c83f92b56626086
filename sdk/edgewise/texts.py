"""What a bundle's texts are to requests, whatever computes them and wherever."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from edgewise.chat_prompts import ChatPrompts
from edgewise.messages import conversation
from edgewise.model_defaults import defaults_from, not_obeyed
from edgewise.request import read_options
from edgewise.tools import ToolLike
from edgewise.wanted import wanted_of
from edgewise_runtime.format import vectors
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.text import Tokenizer
from edgewise_runtime.text.files import TextFiles

_ANY_LENGTH = 1 << 31
"""Tokens that no prompt has."""


class Texts:
    """The tokenizer, the chat template and the options that a bundle has.

    Attributes:
        defaults: what the model's generation_config.json sets, see `model_defaults`.
        vectors: what the model says of its vectors.
    """

    def __init__(self, bundle: Bundle) -> None:
        """Read them. Raises as `Tokenizer.from_bundle` and `ChatTemplate.from_bundle`."""
        self._bundle = bundle
        self.tokenizer = Tokenizer.from_bundle(bundle)
        self.prompts = ChatPrompts(bundle, self.tokenizer)
        model = bundle.model
        said = TextFiles.of_bundle(bundle).object(vectors.NAME, limit=vectors.MAX_BYTES)
        self.vectors = vectors.vector_rules(said, model.hidden)
        self.defaults = defaults_from(self._config, vocab=model.vocab, eos=model.eos)

    def not_obeyed(self) -> list[str]:
        """What the model's generation_config.json sets that is not done."""
        model = self._bundle.model
        return not_obeyed(self._config, vocab=model.vocab, eos=model.eos)

    def text_of_chat(
        self,
        messages: Any,
        tools: Iterable[ToolLike] | None,
        variables: Mapping[str, Any] | None,
        options: Mapping[str, Any],
    ) -> str:
        """The prompt text of a conversation that is asked with these options.

        Raises InputError as `Session.ask_chat` does.
        """
        read_options(options, self.defaults, several=True)
        return self.prompts.asked(conversation(messages), wanted_of(options, tools), variables)

    def ids_of_chat(
        self,
        messages: Any,
        tools: Iterable[ToolLike] | None,
        variables: Mapping[str, Any] | None,
        options: Mapping[str, Any],
        *,
        most: int = _ANY_LENGTH,
    ) -> tuple[int, ...]:
        """The token ids of the same, though they be more than the context holds.

        Raises InputError ``input.context`` for text that is more than `most` tokens, by its
        characters.
        """
        asked = read_options(options, self.defaults, several=True)
        wanted = wanted_of(options, tools)
        found = self.prompts.turns(conversation(messages), wanted, variables, asked, most)
        return found[0].ids

    @cached_property
    def _config(self) -> Mapping[str, Any]:
        return TextFiles.of_bundle(self._bundle).object("generation_config.json")
