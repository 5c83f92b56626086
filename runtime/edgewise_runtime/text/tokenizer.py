"""Token ids of text, by the rules of a checkpoint's own tokenizer.json."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import SupportsIndex

from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend

from edgewise_runtime.errors import (
    CheckpointError,
    EdgewiseError,
    InputError,
    UnsupportedError,
    raised_by_rust,
)
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.format.tokenizer import MAX_BYTES, open_tokenizer
from edgewise_runtime.format.tokenizer_rules import Rules
from edgewise_runtime.text.apart import Apart, Ids
from edgewise_runtime.text.boundaries import Boundaries, boundaries, steps
from edgewise_runtime.text.detokenize import Detokenizer, Spelled
from edgewise_runtime.text.files import TextFiles
from edgewise_runtime.text.tokens import merged, plain_ids, register

MAX_TEXT = 32 << 20
"""Bytes of text after normalizing at most; a character is at least one."""

_UNREAD = Rules(growth=4, reach=None, drops_spaces=True, linear=True)
_UNKNOWN = "\U0010fffe"
"""A character that is none, and never will be."""


class Tokenizer:
    """The tokenizer of one checkpoint or bundle folder; safe to use from several threads.

    tokenizer.json decides everything about ids. From tokenizer_config.json (and an older
    checkpoint's special_tokens_map.json) come the tokens those files add to it and the names
    templates know them by; `add_bos_token` there changes nothing, as in transformers, because
    tokenizer.json's own post-processor already says whether a beginning token is added.
    """

    def __init__(
        self,
        backend: Backend,
        special_tokens: dict[str, str] | None = None,
        *,
        rules: Rules = _UNREAD,
        apart: Apart | None = None,
        special: frozenset[str] = frozenset(),
    ) -> None:
        """Use a tokenizer of the package.

        Args:
            rules: what is known of its rules.
            apart: tokenizes in its place, which then only decodes.
            special: what has been a special token once, and is left out of texts as those are.
        """
        backend.no_truncation()
        backend.no_padding()
        self._backend = backend
        self._apart = apart
        added = list(backend.get_added_tokens_decoder().values())
        self._special = special | {token.content for token in added if token.special}
        self._spelled: dict[frozenset[str], Spelled] = {}
        self._most = MAX_TEXT // rules.growth
        self._reach = rules.reach and max([rules.reach, *(len(token.content) for token in added)])
        self._drops_spaces = rules.drops_spaces or any(t.lstrip or t.rstrip for t in added)
        self.special_tokens: dict[str, str] = dict(special_tokens or {})
        """Name to text of the named special tokens, such as ``{"bos_token": "<s>"}``."""

    @classmethod
    def from_folder(cls, folder: Path) -> Tokenizer:
        """Load the tokenizer of a checkpoint's folder; raises as `from_files`."""
        return cls.from_files(TextFiles.of_folder(folder))

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> Tokenizer:
        """Load the tokenizer of a bundle, of the files it lists; raises as `from_files`."""
        return cls.from_files(TextFiles.of_bundle(bundle))

    @classmethod
    def from_files(cls, files: TextFiles) -> Tokenizer:
        """Load a tokenizer of files as Hugging Face's libraries write them.

        Raises CheckpointError when tokenizer.json is missing or cannot be understood,
        UnsupportedError for a kind of tokenizer that cannot be used.
        """
        path = files.folder / "tokenizer.json"
        raw = files.read(path.name, MAX_BYTES)
        if raw is None:
            raise CheckpointError(
                f"There is no tokenizer.json in {files.folder}.",
                remedy="Save the checkpoint's fast tokenizer into this folder "
                "(transformers: AutoTokenizer.from_pretrained(...).save_pretrained(folder)).",
                code="checkpoint.tokenizer",
            )
        opened = open_tokenizer(raw, str(path))
        config = files.object("tokenizer_config.json")
        if "added_tokens_decoder" not in config:
            config = merged(config, files.object("special_tokens_map.json"))
        try:
            named = register(opened.backend, config)
        except (TypeError, ValueError) as error:
            raise CheckpointError(
                f"{files.folder / 'tokenizer_config.json'} describes its special tokens in a way "
                f"that cannot be read: {str(error)[:200]}.",
                code="checkpoint.tokenizer",
            ) from error
        if _strips_around_tokens(opened.backend):
            raise UnsupportedError(
                f"The tokenizer in {path} strips white space off texts with normalized tokens.",
                remedy="Take the Strip step out of its normalizer, or declare its added tokens as "
                "not normalized.",
                code="unsupported.tokenizer",
            )
        apart = None if opened.rules.linear else Apart(opened.text, config)
        tokenizer = cls(
            opened.backend, named, rules=opened.rules, apart=apart, special=opened.special
        )
        if not apart:
            tokenizer.encode("a")  # some contradictions only show when it is used
        return tokenizer

    @property
    def vocab_size(self) -> int:
        """Number of token ids, added tokens included."""
        return self._backend.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Return the ids of `text`; special tokens written out in it become their ids.

        Other threads go on while it works. `add_special_tokens` lets the post-processor add what
        it adds (a beginning token, say); pass False for text that comes from a chat template,
        which writes its own. Raises InputError for text with lone surrogates or of more characters
        than can be held, CheckpointError where the tokenizer's own rules fail on a text.
        """
        self._check_length(text)
        with _explained(text):
            try:
                if self._apart:
                    ids = Ids.ADDED if add_special_tokens else Ids.ITS_OWN
                    return self._apart.encode(text, ids)
                # Of one text: unlike `encode` this lets other threads go on, and finds no offsets.
                return self._backend.encode_batch_fast(
                    [text], add_special_tokens=add_special_tokens
                )[0].ids
            except (AttributeError, TypeError, UnicodeError) as error:
                raise InputError(
                    f"Cannot tokenize {shorten(text)}: it is not text that UTF-8 can hold.",
                    remedy="Pass a str without lone surrogates.",
                    code="input.text",
                ) from error

    def exceeds(self, text: str, tokens: int) -> bool:
        """Whether `text` surely has more than so many tokens, told without tokenizing it.

        No token stands for more characters than the longest one has, as long as the rules leave
        none out; where they may, this is False.
        """
        if self._reach is None or len(text) <= tokens * self._reach:
            return False
        if not self._drops_spaces:
            return True
        return sum(map(len, text.split())) > tokens * self._reach

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """Return the text of `ids`; ids outside the vocabulary have none."""
        checked = [_checked(i) for i in ids]
        with _explained(checked):
            return str(self._backend.decode(checked, skip_special_tokens=skip_special_tokens))

    def stream(
        self, *, skip_special_tokens: bool = True, shown: tuple[str, ...] = ()
    ) -> Detokenizer:
        """Return a detokenizer that yields the same text as `decode`, id by id.

        Args:
            shown: special tokens that are part of one of these texts are not skipped.
        """
        spelled = self.spelled(shown) if skip_special_tokens else self._spelled_without(frozenset())
        return Detokenizer(self._backend, spelled=spelled)

    def spelled(self, shown: tuple[str, ...] = ()) -> Spelled:
        """Return what ids stand for in a text without special tokens, but for those `shown`."""
        return self._spelled_without(
            frozenset(t for t in self._special if not any(t in text for text in shown))
        )

    def _spelled_without(self, skipped: frozenset[str]) -> Spelled:
        spelled = self._spelled.get(skipped)
        if spelled is None:
            spelled = self._spelled[skipped] = Spelled(self._backend, skipped)
        return spelled

    def boundaries(self) -> Boundaries | None:
        """Return where a text may be cut without changing its ids, or None where it may not be."""
        return None if self._apart else boundaries(self._backend)

    def added_tokens(self) -> list[AddedToken]:
        """Return the tokens that are looked for before anything else is done with a text."""
        return list(self._backend.get_added_tokens_decoder().values())

    @property
    def normalizes_added(self) -> bool:
        """Whether some added tokens are looked for in normalized text."""
        # What has a process of its own has its normalizer there.
        normalizes = self._apart is not None or self._backend.normalizer is not None
        return normalizes and any(token.normalized for token in self.added_tokens())

    def unknown_ids(self) -> frozenset[int]:
        """Return the ids of what the model makes of a character that it does not know."""
        try:
            return frozenset(token.id for token in self._backend.model.tokenize(_UNKNOWN))
        except BaseException as error:
            if not raised_by_rust(error):
                raise
            return frozenset()

    def encode_plainly(self, text: str) -> list[int]:
        """Return the ids of `text` by the model alone: no added tokens are looked for in it.

        Raises CheckpointError where the tokenizer's own rules fail on a text.
        """
        self._check_length(text)
        if self._apart:
            return self._apart.encode(text, Ids.PLAIN)
        with _explained(text):
            return plain_ids(self._backend, text)

    def _check_length(self, text: str) -> None:
        if isinstance(text, str) and len(text) > self._most:
            raise InputError(
                f"The text has {len(text):,} characters; this tokenizer is given {self._most:,} "
                "at most.",
                remedy="Pass it in parts.",
                code="input.text",
            )

    def id_of(self, token: str) -> int | None:
        """Return the id of one exact token, or None."""
        return self._backend.token_to_id(token)

    def token_of(self, token_id: int) -> str | None:
        """Return the token of one id as the vocabulary spells it, or None."""
        return self._backend.id_to_token(_checked(token_id))


def _strips_around_tokens(backend: Backend) -> bool:
    """Whether the tokenizers package would lose track of characters.

    Its Strip counts bytes for characters at the end of a text, and looking for normalized tokens
    in what is left then panics or takes memory without end (seen with version 0.23).
    """
    return any(
        step["type"] == "Strip" and step["strip_right"] for step in steps(backend.normalizer)
    ) and any(token.normalized for token in backend.get_added_tokens_decoder().values())


def _checked(token_id: int) -> int:
    if not isinstance(token_id, SupportsIndex) or not 0 <= int(token_id) < 1 << 32:
        raise InputError(
            f"{token_id!r} is not a token id: ids are whole numbers from 0.", code="input.token"
        )
    return int(token_id)


@contextmanager
def _explained(given: str | list[int]) -> Iterator[None]:
    """Turn what the tokenizers package raises over a text, or over ids, into a CheckpointError."""
    try:
        yield
    except EdgewiseError:
        raise
    except BaseException as error:
        if not raised_by_rust(error):
            raise
        what = f"{len(given)} ids" if isinstance(given, list) else shorten(given)
        raise CheckpointError(
            f"The tokenizer fails on {what}: {str(error)[:200]}.", code="checkpoint.tokenizer"
        ) from error
