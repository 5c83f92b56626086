"""Token ids of text, by the rules of a checkpoint's own tokenizer.json."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, SupportsIndex

from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend

from edgewise_runtime.errors import CheckpointError, InputError, UnsupportedError, raised_by_rust
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.text.boundaries import Boundaries, boundaries, steps
from edgewise_runtime.text.detokenize import Detokenizer
from edgewise_runtime.text.files import TextFiles

_MAX_TOKENIZER_BYTES = 256 << 20
_NAMED_TOKENS = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)
# With merges that lack the prefix, the tokenizers package ends the process.
_SUBWORD_PREFIX = re.compile(r'"continuing_subword_prefix"\s*:\s*"[^"]')
_UNKNOWN = "\U0010fffe"
"""A character that is none, and never will be."""
_TOKEN_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


class Tokenizer:
    """The tokenizer of one checkpoint or bundle folder; safe to use from several threads.

    tokenizer.json decides everything about ids. From tokenizer_config.json (and an older
    checkpoint's special_tokens_map.json) come the tokens those files add to it and the names
    templates know them by; `add_bos_token` there changes nothing, as in transformers, because
    tokenizer.json's own post-processor already says whether a beginning token is added.
    """

    def __init__(self, backend: Backend, special_tokens: dict[str, str] | None = None) -> None:
        backend.no_truncation()
        backend.no_padding()
        self._backend = backend
        self._special = frozenset(
            token.content for token in backend.get_added_tokens_decoder().values() if token.special
        )
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
        text = files.text(path.name, limit=_MAX_TOKENIZER_BYTES)
        if text is None:
            raise CheckpointError(
                f"There is no tokenizer.json in {files.folder}.",
                remedy="Save the checkpoint's fast tokenizer into this folder "
                "(transformers: AutoTokenizer.from_pretrained(...).save_pretrained(folder)).",
                code="checkpoint.tokenizer",
            )
        if _SUBWORD_PREFIX.search(text):
            raise UnsupportedError(
                f"The tokenizer in {path} marks continued words with a prefix.",
                remedy="Byte-level and SentencePiece-style tokenizers can be used.",
                code="unsupported.tokenizer",
            )
        try:
            backend = Backend.from_str(text)
            backend.encode("a")  # some contradictions only show when it is used
        except BaseException as error:
            if not raised_by_rust(error):
                raise
            raise CheckpointError(
                f"{path} is not a tokenizer: {error}.", code="checkpoint.tokenizer"
            ) from error
        config = files.object("tokenizer_config.json")
        if "added_tokens_decoder" not in config:
            config = {**config, **files.object("special_tokens_map.json")}
        try:
            tokenizer = cls(backend, _register(backend, config))
        except (TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(
                f"{files.folder / 'tokenizer_config.json'} describes its special tokens in a way "
                f"that cannot be read: {error}.",
                code="checkpoint.tokenizer",
            ) from error
        if _strips_around_tokens(backend):
            raise UnsupportedError(
                f"The tokenizer in {path} strips white space off texts with normalized tokens.",
                remedy="Take the Strip step out of its normalizer, or declare its added tokens as "
                "not normalized.",
                code="unsupported.tokenizer",
            )
        return tokenizer

    @property
    def vocab_size(self) -> int:
        """Number of token ids, added tokens included."""
        return self._backend.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Return the ids of `text`; special tokens written out in it become their ids.

        `add_special_tokens` lets the post-processor add what it adds (a beginning token, say);
        pass False for text that comes from a chat template, which writes its own. Raises
        InputError for text with lone surrogates, CheckpointError where the tokenizer's own rules
        fail on a text.
        """
        try:
            return list(self._backend.encode(text, add_special_tokens=add_special_tokens).ids)
        except (TypeError, UnicodeError) as error:
            raise InputError(
                f"Cannot tokenize {shorten(text)}: it is not text that UTF-8 can hold.",
                remedy="Pass a str without lone surrogates.",
                code="input.text",
            ) from error
        except BaseException as error:
            if not raised_by_rust(error):
                raise
            raise CheckpointError(
                f"The tokenizer fails on {shorten(text)}: {error}.", code="checkpoint.tokenizer"
            ) from error

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """Return the text of `ids`; ids outside the vocabulary have none."""
        return str(
            self._backend.decode(
                [_checked(i) for i in ids], skip_special_tokens=skip_special_tokens
            )
        )

    def stream(self, *, skip_special_tokens: bool = True) -> Detokenizer:
        """Return a detokenizer that yields the same text as `decode`, id by id."""
        skipped = self._special if skip_special_tokens else frozenset[str]()
        return Detokenizer(self._backend, skipped)

    def boundaries(self) -> Boundaries | None:
        """Return where a text may be cut without changing its ids, or None where it may not be."""
        return boundaries(self._backend)

    def added_tokens(self) -> list[AddedToken]:
        """Return the tokens that are looked for before anything else is done with a text."""
        return list(self._backend.get_added_tokens_decoder().values())

    @property
    def normalizes_added(self) -> bool:
        """Whether some added tokens are looked for in normalized text."""
        return self._backend.normalizer is not None and any(
            token.normalized for token in self.added_tokens()
        )

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
        normalizer, splitter = self._backend.normalizer, self._backend.pre_tokenizer
        try:
            text = text if normalizer is None else normalizer.normalize_str(text)
            parts = [text] if splitter is None else [p for p, _ in splitter.pre_tokenize_str(text)]
            return [token.id for part in parts for token in self._backend.model.tokenize(part)]
        except BaseException as error:
            if not raised_by_rust(error):
                raise
            raise CheckpointError(
                f"The tokenizer fails on {shorten(text)}: {error}.", code="checkpoint.tokenizer"
            ) from error

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


def _register(backend: Backend, config: dict[str, Any]) -> dict[str, str]:
    """Add the tokens `config` names to the backend; return its named special tokens.

    Follows what transformers 5 does when it loads a fast tokenizer (PreTrainedTokenizerFast):
    `added_tokens_decoder` in the order of ids, then the named and the extra special tokens. A
    token that the vocabulary has keeps its id; a new one goes to the end.
    """
    named: dict[str, Any] = {name: config[name] for name in _NAMED_TOKENS if config.get(name)}
    named |= {
        name: value
        for name, value in config.items()
        if name.endswith("_token") and name not in named and isinstance(value, str | dict) and value
    }
    extra = config.get("extra_special_tokens") or config.get("additional_special_tokens") or []
    if isinstance(extra, dict):
        named |= extra
        extra = []
    declared = {
        int(token_id): _added(token)
        for token_id, token in (config.get("added_tokens_decoder") or {}).items()
    }
    known = {token.content: token for token in declared.values()}
    specials = [
        known.get(_content(value)) or _added(value, special=True) for value in named.values()
    ]
    specials += [known.get(_content(value)) or _added(value, special=True) for value in extra]
    backend.add_tokens([token for _, token in sorted(declared.items(), key=lambda item: item[0])])
    backend.add_special_tokens(specials)
    return {name: _content(value) for name, value in named.items()}


def _content(value: str | dict[str, Any]) -> str:
    content = value if isinstance(value, str) else value["content"]
    if not isinstance(content, str):
        raise TypeError(f"{content!r} is not a token")
    return content


def _added(value: str | dict[str, Any], *, special: bool = False) -> AddedToken:
    if isinstance(value, str):
        return AddedToken(value, special=special, normalized=not special)
    flags = {name: bool(value[name]) for name in _TOKEN_FLAGS if name in value}
    if special:
        flags["special"] = True
    return AddedToken(_content(value), **flags)
