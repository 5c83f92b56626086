"""Special tokens that somebody has written out, told from those that a chat template writes.

What a template is given has its control tokens hidden: digits that nobody can guess stand for each,
and templates pass digits on as they are. So in the prompt that comes out every control token is the
template's own. What lies between hidden ones is tokenized as ever, and they themselves as the text
that they are, piece by piece: the ids are those of transformers' `sanitize_control_tokens`. A
conversation without such tokens costs one search.
"""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
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


class ControlTokens:
    """What of a conversation's texts is control: only what the template has written.

    Control tokens are a tokenizer's special tokens, and those of its other added tokens that the
    template's source has in it, white space aside. In answers only those that the template writes
    around messages are, so that what a model writes itself (a call of a tool, a thought) stays what
    it was. Safe to use from several threads.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        encode: Callable[[str], Sequence[int]] | None = None,
        *,
        source: str = "",
        written: Callable[[], str] = str,
    ) -> None:
        """Tell the control tokens of a tokenizer.

        Args:
            encode: ids of a text without what a post-processor adds, by default the tokenizer's.
            source: of the template.
            written: returns what the template makes of a plain conversation.
        """
        self._tokenizer = tokenizer
        self._encode = encode or (lambda text: tokenizer.encode(text, add_special_tokens=False))
        self._source = source
        self._written = written
        mark = f"{secrets.randbelow(10**_MARK_DIGITS):0{_MARK_DIGITS}}"
        self._mark = mark
        self._hidden = re.compile(rf"{mark}(\d{{{_INDEX_DIGITS}}})")
        self._literal: dict[int, list[int]] = {}

    def hide(self, messages: Iterable[Any]) -> list[Message]:
        """Return messages as they are given to a template; what is no message stays what it is."""
        return [
            {key: self.hide_in(value, self._kept_in(message)) for key, value in message.items()}
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

    def encode(self, prompt: str) -> list[int]:
        """Return the ids of a prompt, without what a post-processor adds.

        Raises InputError ``input.special_tokens`` where the tokenizer makes a control token of text
        all the same, and what `Tokenizer.encode` does.
        """
        first, *rest = self._hidden.split(prompt)
        ids = list(self._encode(first))
        for index, text in zip(map(int, rest[::2]), rest[1::2], strict=True):
            ids += self._as_text(index)
            ids += self._going_on(self._encode, text) if text else ()
        if self._tokenizer.normalizes_added:
            self._check(prompt, ids)
        return ids

    def _as_text(self, index: int) -> list[int]:
        """The ids of a control token that is text."""
        ids = self._literal.get(index)
        if ids is None:
            ids = self._going_on(self._tokenizer.encode_plainly, self._contents[index])
            forged = self._ids.intersection(ids)
            if forged:
                raise self._refused(min(forged))
            self._literal[index] = ids
        return ids

    def _going_on(self, encode: Callable[[str], Sequence[int]], text: str) -> list[int]:
        """The ids of a text that does not begin one: some tokenizers put a space before those."""
        ids, newline = list(encode(f"\n{text}")), self._newline
        return ids[len(newline) :] if ids[: len(newline)] == newline else list(encode(text))

    def _check(self, prompt: str, ids: Sequence[int]) -> None:
        """Refuse more control tokens than the template has written: where a tokenizer looks for
        them in normalized text, what is hidden is only how they are spelled."""
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

    def _kept_in(self, message: Mapping[str, Any]) -> frozenset[str]:
        return self._answered if message.get("role") == "assistant" else frozenset()

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
        controls = {
            token.content
            for token in self._tokenizer.added_tokens()
            if token.special or (token.content in self._source and not token.content.isspace())
        }
        controls.update(self._around)
        return {content: i for i, content in enumerate(sorted(controls - {""}))}

    @cached_property
    def _around(self) -> frozenset[str]:
        """Added tokens that the template writes around messages."""
        return frozenset(t for t in self._tokens.findall(self._written()) if not t.isspace())

    @cached_property
    def _answered(self) -> frozenset[str]:
        """Control tokens that answers may have in them."""
        special = {token.content for token in self._tokenizer.added_tokens() if token.special}
        return _THOUGHTS | (self._controls.keys() - special - self._around)

    @cached_property
    def _contents(self) -> Sequence[str]:
        return tuple(self._controls)

    @cached_property
    def _ids(self) -> frozenset[int]:
        """Of control tokens, without what any text may hold: the one for unknown characters."""
        ids = {self._tokenizer.id_of(content) for content in self._contents}
        return frozenset(i for i in ids if i is not None) - self._tokenizer.unknown_ids()

    @cached_property
    def _newline(self) -> list[int]:
        return self._tokenizer.encode("\n", add_special_tokens=False)

    def _refused(self, token: int) -> InputError:
        return InputError(
            f"A message has text that this model's tokenizer takes for the special token "
            f"{self._tokenizer.token_of(token)!r}.",
            remedy='Write it in other words, or pass special_tokens="control" if it is meant.',
            code="input.special_tokens",
        )
