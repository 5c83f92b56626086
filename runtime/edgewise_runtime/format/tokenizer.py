"""Opening a tokenizer.json that nobody vouches for."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend
from tokenizers.models import BPE

from edgewise_runtime.errors import CheckpointError, UnsupportedError, raised_by_rust
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.format.tokenizer_rules import FLAGS, Rules, check_rules

MAX_BYTES = 64 << 20
"""Bytes of a tokenizer.json: twice the largest that has been published."""

_MAX_CONTAINERS = 3 << 18
_MAX_VALUES = 3 << 20
"""More than the largest vocabularies have: 262,144 tokens and twice as many merges."""

_MAX_TEXT = 4 << 20
"""Bytes of one text: eight times the longest table of characters that has been published."""
_MAX_ESCAPED = 1 << 18
"""Quotes inside texts: some vocabularies have thousands."""
_SMALL = 16 << 20
_MAX_BYTES_A_VALUE = 256
"""Of a larger file: as text it takes four times its bytes, once it has an emoji in it."""
_VOCABULARY = re.compile(rb'"vocab"\s*:\s*[\[{]')
_MAX_VOCABULARIES = 4
"""Nobody reads more than one, and parsed they take many times their bytes."""
_REMEDY = "Download it again, or save it with a current version of transformers."
_BPE_OPTIONS = (
    "unk_token",
    "continuing_subword_prefix",
    "end_of_word_suffix",
    "fuse_unk",
    "byte_fallback",
    "ignore_merges",
)
"""Not `dropout`, which is for training: by it a text has other tokens each time."""
_MODEL = ("type", "vocab", "merges", "unk_id", "max_input_chars_per_word", *_BPE_OPTIONS)
_WITHOUT = ("normalizer", "pre_tokenizer", "post_processor", "truncation", "padding")
_KEYS = ("version", "added_tokens", "decoder", "model", *_WITHOUT)
"""What the package reads of a file. The rest may be of any size."""
_CHAINS = ("normalizer", "pre_tokenizer", "decoder")
_STEP = frozenset(
    "type normalizers pretokenizers decoders pattern Regex String content prepend strip_left "
    "strip_right strip_accents clean_text handle_chinese_chars lowercase precompiled_charsmap "
    "replacement prepend_scheme split add_prefix_space str_rep trim_offsets use_regex behavior "
    "invert individual_digits delimiter length prefix cleanup suffix start stop pad_token "
    "word_delimiter_token".split()
)
"""What it reads of a step of these."""
_NESTED = 64


@dataclass(frozen=True, slots=True)
class OpenedTokenizer:
    """A tokenizer of the tokenizers package, and what is known of its rules.

    Attributes:
        backend: what the file says. Where its rules are not linear it has the vocabulary and the
            decoder alone: it must not be given texts.
        text: the file, for a process that may be given texts.
        special: tokens that it lists as special: the package leaves them out of texts for good,
            whatever they are declared as afterwards.
    """

    backend: Backend
    rules: Rules
    text: str
    special: frozenset[str]


def open_tokenizer(raw: bytes, where: str) -> OpenedTokenizer:
    """Check a tokenizer.json and hand it to the tokenizers package.

    Args:
        where: what it is called in errors.

    Raises:
        CheckpointError: ``checkpoint.tokenizer`` for what cannot be understood, or would take
            memory or time without bounds.
        UnsupportedError: ``unsupported.tokenizer`` for a kind that cannot be used.
    """
    try:
        _check_size(raw)
        text = _decode(raw, where)
        with _uncollected():
            return _opened(text, where)
    except (UnsupportedError, CheckpointError):
        raise
    except BaseException as error:
        if not raised_by_rust(error):
            raise
        raise CheckpointError(
            f"{where} is not a tokenizer: {str(error)[:200]}.",
            remedy=_REMEDY,
            code="checkpoint.tokenizer",
        ) from error


def _opened(text: str, where: str) -> OpenedTokenizer:
    found = _parse(text)
    rules = check_rules(found)
    backend = _built(found if rules.linear else {**found, **dict.fromkeys(_WITHOUT)})
    tokens = found.get("added_tokens") or ()
    check_ids(backend, {token["content"] for token in tokens})
    # A file may pad every text to a length of its choice.
    backend.no_truncation()
    backend.no_padding()
    special = frozenset(token["content"] for token in tokens if token["special"])
    return OpenedTokenizer(backend, rules, text, special)


def check_ids(backend: Backend, contents: Collection[str]) -> None:
    """Raise ValueError where two of the added tokens with these contents have one id.

    The package would read the first one and write the other.
    """
    if len(backend.get_added_tokens_decoder()) < len({*contents} - {""}):
        raise ValueError("two of its added tokens have one id")


def _built(found: dict[str, Any]) -> Backend:
    """What the package makes of a file that has been parsed.

    Vocabulary and merges are handed over as they are: the package takes half the time for them
    that it takes for their text.
    """
    model = found["model"]
    if model.get("type") != "BPE":
        return Backend.from_str(json.dumps(found))
    rest = {**found, "added_tokens": [], "model": {**model, "vocab": {}, "merges": []}}
    backend = Backend.from_str(json.dumps(rest))
    merges = [tuple(m.split(" ") if isinstance(m, str) else m) for m in model["merges"]]
    prefix = model.get("continuing_subword_prefix") or ""
    for merge in merges if prefix else ():
        if len(merge) != 2 or not str(merge[1]).startswith(prefix):
            raise ValueError(f"it joins {shorten(merge)}, which does not go on with {prefix!r}")
    options = {name: model[name] for name in _BPE_OPTIONS if model.get(name) is not None}
    backend.model = BPE(model["vocab"], merges, **options)
    tokens = found.get("added_tokens") or ()
    backend.add_tokens(
        [AddedToken(token["content"], **{name: token[name] for name in FLAGS}) for token in tokens]
    )
    return backend


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep Python from looking for garbage: half a million new objects, and none of them is."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _decode(raw: bytes, where: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(
            f"{where} is not UTF-8 text: {error.reason}.",
            remedy=_REMEDY,
            code="checkpoint.tokenizer",
        ) from error


def _check_size(raw: bytes) -> None:
    """Refuse what would take far more memory than any vocabulary, before it is text."""
    if len(raw) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES} bytes")
    containers = raw.count(b"[") + raw.count(b"{")
    if containers > _MAX_CONTAINERS or raw.count(b",") > _MAX_VALUES:
        raise ValueError("it has more values than any vocabulary needs")
    if len(raw) > max(_SMALL, _MAX_BYTES_A_VALUE * raw.count(b",")):
        raise ValueError("it has longer texts than any vocabulary needs")
    if sum(1 for _ in _VOCABULARY.finditer(raw)) > _MAX_VOCABULARIES:
        raise ValueError("it has more than one vocabulary")
    if raw.count(b'\\"') > _MAX_ESCAPED or _has_long_text(raw):
        raise ValueError("it has longer texts than any vocabulary needs")


def _has_long_text(raw: bytes) -> bool:
    """Whether so many bytes are without a quote that one may end a text."""
    at = 0
    while len(raw) - at > _MAX_TEXT:
        last = at + _MAX_TEXT
        while (last := raw.rfind(b'"', at, last)) > at and raw[last - 1] == ord("\\"):
            pass
        if last < at:
            return True
        at = last + 1
    return False


def _parse(text: str) -> dict[str, Any]:
    """The file as JSON, each key of an object once: the package must not read another file."""
    found = json.loads(text, object_pairs_hook=_unique)
    if not isinstance(found, dict):
        raise ValueError(f"it holds {shorten(found)}, not an object")
    kept = _only(_KEYS, found)
    if isinstance(kept.get("model"), dict):
        kept["model"] = _only(_MODEL, kept["model"])
    return kept | {name: _read_of(kept[name], 0) for name in _CHAINS if name in kept}


def _read_of(step: Any, depth: int) -> Any:
    """A step without what nobody reads of it; far inside it stays, for it is refused anyway."""
    if depth > _NESTED:
        return step
    if isinstance(step, list):
        return [_read_of(part, depth + 1) for part in step]
    if isinstance(step, dict):
        return {name: _read_of(part, depth + 1) for name, part in step.items() if name in _STEP}
    return step


def _only(names: Collection[str], table: Mapping[str, Any]) -> dict[str, Any]:
    return {name: table[name] for name in names if name in table}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("an object has a key twice")
    return table
