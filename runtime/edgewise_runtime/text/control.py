"""Special tokens that somebody has written out, told from those that a chat template writes.

What a template is given has its special tokens hidden: digits that nobody can guess stand for each,
and templates pass digits on as they are. So in the prompt that comes out every special token is the
template's own. Parts of it with something hidden are tokenized by a copy of the tokenizer to which
special tokens are text; there the template's own go by other names, so that they are found among
white space and other tokens exactly as ever. All other parts are tokenized as if nothing had been
looked at: what has no special tokens in it costs one search.
"""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from edgewise_runtime.errors import InputError, UnsupportedError
from edgewise_runtime.text.boundaries import longest_of
from edgewise_runtime.text.template import Message
from edgewise_runtime.text.thinking import CLOSE, OPEN
from edgewise_runtime.text.tokenizer import Tokenizer

_MARK_DIGITS = 24
_INDEX_DIGITS = 7
_MAX_TOKENS = 1 << 16
_THOUGHTS = frozenset((OPEN, CLOSE))
"""What templates look for in earlier answers, to leave their thoughts out."""


@dataclass(frozen=True)
class _Literal:
    """A tokenizer to which control tokens are text, the names that they go by instead, and the ids
    of those names with the ids that they stand for."""

    tokenizer: Tokenizer
    names: Mapping[str, str]
    ids: Mapping[int, int]


class ControlTokens:
    """What of a conversation's texts is control: only what the template has written.

    Control tokens are a tokenizer's special tokens, and those of its other added tokens that the
    template itself writes around messages. Safe to use from several threads.
    """

    def __init__(self, tokenizer: Tokenizer, written: Callable[[], str] = str) -> None:
        """`written` returns what the template makes of some plain conversation."""
        self._tokenizer = tokenizer
        self._written = written
        self._mark = f"{secrets.randbelow(10**_MARK_DIGITS):0{_MARK_DIGITS}}"
        self._hidden = re.compile(rf"{self._mark}(\d{{{_INDEX_DIGITS}}})")

    def hide(self, messages: Iterable[Any]) -> list[Message]:
        """Return messages as they are given to a template; what is no message stays what it is.

        The marks of thoughts in earlier answers are left to the template.
        """
        return [
            {key: self.hide_in(value, _kept_in(message)) for key, value in message.items()}
            if isinstance(message, Mapping)
            else message
            for message in messages
        ]

    def hide_in(self, value: Any, kept: frozenset[str] = frozenset()) -> Any:
        """Return a value with the control tokens hidden in all text of it, but for those `kept`.

        Raises InputError ``input.messages`` for one that is nested too deeply, or holds itself.
        """
        try:
            return self._without(value, kept)
        except RecursionError as error:
            raise InputError(
                "What a message holds is nested too deeply.",
                remedy="Pass text, and plain lists and dicts.",
                code="input.messages",
            ) from error

    def shown(self, text: str) -> str:
        """Return a text with what is hidden in it as it was."""
        return self._hidden.sub(lambda found: self._contents[int(found[1])], text)

    def encode(self, part: str) -> list[int]:
        """Return the ids of a part of a prompt, without what a post-processor adds.

        Raises InputError ``input.special_tokens`` where the tokenizer makes a control token of
        hidden text all the same, and what `Tokenizer.encode` does.
        """
        if self._mark not in part:
            return self._tokenizer.encode(part, add_special_tokens=False)
        literal = self._literal
        named = self._tokens.sub(lambda found: literal.names.get(found[0], found[0]), part)
        ids = literal.tokenizer.encode(self.shown(named), add_special_tokens=False)
        forged = self._ids.intersection(ids)
        if forged:
            raise self._refused(min(forged))
        return [literal.ids.get(token, token) for token in ids]

    def check(self, prompt: str, ids: Sequence[int]) -> None:
        """Refuse a prompt with more control tokens than its template has written.

        There can be such where a tokenizer looks for them in normalized text: what is hidden is
        only how they are spelled. Raises InputError ``input.special_tokens``.
        """
        if not self._tokenizer.normalizes_added:
            return
        written = Counter(self._tokenizer.id_of(token) for token in self._tokens.findall(prompt))
        for token, count in Counter(ids).items():
            if token in self._ids and count > written[token]:
                raise self._refused(token)

    def _without(self, value: Any, kept: frozenset[str]) -> Any:
        if isinstance(value, str):
            return self._tokens.sub(lambda found: self._mark_for(found[0], kept), value)
        if isinstance(value, Mapping):
            return {
                self._without(key, kept): self._without(item, kept) for key, item in value.items()
            }
        if isinstance(value, list):
            return [self._without(item, kept) for item in value]
        if isinstance(value, tuple):
            return tuple(self._without(item, kept) for item in value)
        return value

    def _mark_for(self, token: str, kept: frozenset[str]) -> str:
        index = self._controls.get(token)
        if index is None or token in kept:
            return token
        return f"{self._mark}{index:0{_INDEX_DIGITS}}"

    @cached_property
    def _tokens(self) -> re.Pattern[str]:
        """Matches the longest added token that a text begins with; nothing where there is none."""
        contents = sorted({token.content for token in self._tokenizer.added_tokens()} - {""})
        try:
            if len(contents) <= _MAX_TOKENS:
                return re.compile(longest_of(contents) if contents else r"(?!)")
        except RecursionError:  # tokens that are beginnings of each other, hundreds deep
            pass
        raise UnsupportedError(
            f"The tokenizer has {len(contents):,} added tokens, too many or too much alike to be "
            "told from text.",
            remedy='Pass special_tokens="control": special tokens in messages are then tokens.',
            code="unsupported.tokenizer",
        )

    @cached_property
    def _controls(self) -> Mapping[str, int]:
        """Every control token, numbered."""
        special = {token.content for token in self._tokenizer.added_tokens() if token.special}
        written = set(self._tokens.findall(self._written()))
        return {content: i for i, content in enumerate(sorted((special | written) - {""}))}

    @cached_property
    def _contents(self) -> Sequence[str]:
        return tuple(self._controls)

    @cached_property
    def _ids(self) -> frozenset[int]:
        """Of control tokens, without what any text may hold: the one for unknown characters."""
        return frozenset(self._tokenizer.ids_of(self._contents)) - self._tokenizer.unknown_ids()

    @cached_property
    def _literal(self) -> _Literal:
        mark = secrets.token_hex(_MARK_DIGITS // 2)
        names = {content: f"<{mark}{i}>" for content, i in self._controls.items()}
        tokenizer = self._tokenizer.literal(names)
        known = zip(tokenizer.ids_of(names.values()), self._tokenizer.ids_of(names), strict=True)
        return _Literal(tokenizer, names, dict(known))

    def _refused(self, token: int) -> InputError:
        return InputError(
            f"A message has text that this model's tokenizer takes for the special token "
            f"{self._tokenizer.token_of(token)!r}.",
            remedy='Write it in other words, or pass special_tokens="control" if it is meant.',
            code="input.special_tokens",
        )


def _kept_in(message: Mapping[str, Any]) -> frozenset[str]:
    return _THOUGHTS if message.get("role") == "assistant" else frozenset()
