"""What the rules of a tokenizer.json may ask for, found before the tokenizers package sees them.

The package does what a file says: it repeats a Replace that makes a hundred characters of one as
often as it is stated, and reserves what a table claims to be. So each step is an entry of a table
here, which says by how much it can lengthen a text, and by how much shorten it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from edgewise_runtime.format.charsmap import read_charsmap
from edgewise_runtime.format.patterns import Pattern, read_pattern
from edgewise_runtime.format.reading import shorten

MAX_ID = 1 << 24
"""Exclusive bound of token ids: sixty times the largest vocabulary that has been published."""

FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
"""What is said of each added token besides its text."""

_MAX_STEPS = 32
_MAX_NESTING = 8
_MAX_GROWTH = 4096
_MAX_CONTENT = 256
_MAX_PIECES = 64
_MAX_STRIPPED = 64
_MAX_ADDED = 1 << 16
_MAX_WORD = 1 << 14
_MAX_CUT_WORD = 256
"""Characters of a word that WordPiece cuts, which takes the cube of them: 100 in published ones."""
_MAX_PIECE = 256
"""Characters of a unigram model's token: at each place of a text all that begin there are tried."""
_COMPOSED = 4
"""Characters that Unicode composes into one, at most."""

_PRINTABLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_SPELLED = dict(
    zip(
        (*_PRINTABLE, *(byte for byte in range(256) if byte not in _PRINTABLE)),
        (*_PRINTABLE, *range(0x100, 0x200)),
        strict=False,
    )
)
"""GPT-2's alphabet: printable bytes stand for themselves, the others from U+0100 on."""
_WRITTEN = (9, 10, 13, *range(0x20, 0x7F), *range(0x80, 0xC0), *range(0xC2, 0xF1), 0xF3)
"""Bytes of texts: without control characters and planes that Unicode has nothing in."""

_MARKS = ("continuing_subword_prefix", "end_of_word_suffix")

_Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Effect:
    """What a step does to a text.

    Attributes:
        growth: bytes that one byte becomes at most.
        shrink: characters that become one at most; None for any number.
        drops_spaces: any number of white spaces may disappear.
        linear: it takes time linear in the text.
    """

    growth: int = 1
    shrink: int | None = 1
    drops_spaces: bool = False
    linear: bool = True


@dataclass(frozen=True, slots=True)
class Rules:
    """What is known of all rules together.

    Attributes:
        growth: bytes that a byte of text becomes at most.
        reach: characters of text that a token of the vocabulary stands for at most, white space
            left out where `drops_spaces`; None where nothing is known.
        drops_spaces: as above.
        linear: they take time linear in the text.
    """

    growth: int
    reach: int | None
    drops_spaces: bool
    linear: bool


def check_rules(tokenizer: _Object) -> Rules:
    """Return what is known of the rules of a tokenizer.json.

    Raises ValueError, in words, for rules that would take memory or time without bounds, and for
    values of another kind than they have to be.
    """
    normalizers = [*_effects(tokenizer.get("normalizer"), _NORMALIZERS, "normalizers")]
    cuts = [*_effects(tokenizer.get("pre_tokenizer"), _PRE_TOKENIZERS, "pretokenizers")]
    decoders = [*_effects(tokenizer.get("decoder"), _DECODERS, "decoders")]
    _check_post_processor(tokenizer.get("post_processor"))
    _check_added(tokenizer.get("added_tokens"))
    for effects, what in ((normalizers + cuts, "text"), (decoders, "tokens")):
        growth = prod(effect.growth for effect in effects)
        if growth > _MAX_GROWTH:
            raise ValueError(f"its steps can make {what} {shorten(growth, 20)} times as long")
    if not all(effect.linear for effect in decoders):
        raise ValueError("its decoder looks for a regular expression that is not known here")
    both = normalizers + cuts
    longest = _check_model(_object(tokenizer.get("model"), "model"))
    shrinks = [effect.shrink for effect in both]
    known = [shrink for shrink in shrinks if shrink is not None]
    told = longest is not None and len(known) == len(shrinks) and _knows_all(tokenizer)
    return Rules(
        growth=prod(effect.growth for effect in both),
        reach=prod(known) * max(longest or 0, 1) if told else None,
        drops_spaces=any(effect.drops_spaces for effect in both),
        linear=all(effect.linear for effect in both),
    )


def _effects(
    component: object, table: Mapping[str, Callable[[_Object], Effect]], inner: str
) -> Iterator[Effect]:
    """What each step of a component does, those within sequences as well."""
    pending = [] if component is None else [(component, 0)]
    steps = 0
    while pending:
        step, depth = pending.pop()
        step = _object(step, "step")
        steps += 1
        if steps > _MAX_STEPS or depth > _MAX_NESTING:
            raise ValueError(f"it has more than {_MAX_STEPS} {inner}")
        kind = step.get("type")
        if kind == "Sequence":
            pending += [(part, depth + 1) for part in _list(step.get(inner), inner)]
        elif isinstance(kind, str) and kind in table:
            yield table[kind](step)
        else:
            raise ValueError(f"{shorten(kind)} is none of its {inner}")


def _charsmap(step: _Object) -> Effect:
    encoded = step.get("precompiled_charsmap")
    if not isinstance(encoded, str):
        raise ValueError(f"its charsmap is {shorten(encoded)}")
    found = read_charsmap(encoded)
    return Effect(found.growth, None if found.removes else found.longest_key)


def _replace(step: _Object) -> Effect:
    content = len(_text(step, "content").encode())
    pattern = _object(step.get("pattern"), "pattern")
    if "Regex" in pattern:
        found = _regex(pattern)
        vanishes = not content or found.longest is None
        grown = max(content, 1) + (content if found.empty else 0)
        return Effect(grown, None if vanishes else found.longest, linear=found.linear)
    looked_for = len(_text(pattern, "String"))
    if not looked_for:
        raise ValueError("it replaces nothing by something")
    return Effect(max(1, content), looked_for if content else None)


def _regex(pattern: _Object) -> Pattern:
    return read_pattern(_text(pattern, "Regex", most=1 << 16))


def _split(step: _Object) -> Effect:
    pattern = _object(step.get("pattern"), "pattern")
    linear = _regex(pattern).linear if "Regex" in pattern else bool(_text(pattern, "String"))
    # What is removed is what does not match, for published ones nothing; but who knows.
    return Effect(shrink=None if step.get("behavior") == "Removed" else 1, linear=linear)


def _prepend(step: _Object) -> Effect:
    return Effect(1 + len(_text(step, "prepend").encode()))


def _metaspace(step: _Object) -> Effect:
    mark = _text(step, "replacement")
    if len(mark) != 1:
        raise ValueError(f"its Metaspace marks spaces by {shorten(mark)}")
    return Effect(2 * len(mark.encode()))


def _byte_level(step: _Object) -> Effect:
    return Effect(4 if step.get("add_prefix_space") else 2)


def _fixed_length(step: _Object) -> Effect:
    length = step.get("length", 5)
    if type(length) is not int or length < 1:
        raise ValueError(f"it cuts text every {shorten(length)} characters")
    return Effect()


def _stripped(step: _Object) -> Effect:
    for name in ("start", "stop"):
        count = step.get(name)
        if type(count) is not int or not 0 <= count <= _MAX_STRIPPED:
            raise ValueError(f"its decoder strips {shorten(count)} characters")
    return Effect()


def _as_is(step: _Object) -> Effect:
    return Effect()


def _fixed(effect: Effect) -> Callable[[_Object], Effect]:
    return lambda step: effect


_NORMALIZERS: dict[str, Callable[[_Object], Effect]] = {
    "BertNormalizer": _fixed(Effect(12, None)),
    "ByteLevel": _fixed(Effect(2)),
    "Lowercase": _fixed(Effect(2)),
    "NFC": _fixed(Effect(3, _COMPOSED)),
    "NFD": _fixed(Effect(3)),
    "NFKC": _fixed(Effect(11, _COMPOSED)),
    "NFKD": _fixed(Effect(11)),
    "Nmt": _fixed(Effect(shrink=None)),
    "Precompiled": _charsmap,
    "Prepend": _prepend,
    "Replace": _replace,
    "Strip": _fixed(Effect(drops_spaces=True)),
    "StripAccents": _fixed(Effect(shrink=None)),
}
_PRE_TOKENIZERS: dict[str, Callable[[_Object], Effect]] = {
    "BertPreTokenizer": _fixed(Effect(drops_spaces=True)),
    "ByteLevel": _byte_level,
    "CharDelimiterSplit": _fixed(Effect(shrink=None)),
    "Digits": _as_is,
    "FixedLength": _fixed_length,
    "Metaspace": _metaspace,
    "Punctuation": _fixed(Effect(shrink=None)),
    "Split": _split,
    "UnicodeScripts": _as_is,
    "Whitespace": _fixed(Effect(drops_spaces=True)),
    "WhitespaceSplit": _fixed(Effect(drops_spaces=True)),
}
_DECODERS: dict[str, Callable[[_Object], Effect]] = {
    "BPEDecoder": _as_is,
    "ByteFallback": _as_is,
    "ByteLevel": _as_is,
    "CTC": _as_is,
    "Fuse": _as_is,
    "Metaspace": _metaspace,
    "Replace": _replace,
    "Strip": _stripped,
    "WordPiece": _as_is,
}


def _check_post_processor(component: object) -> None:
    """Check what is put around a text: so many tokens at most, and the text once."""
    pending = [] if component is None else [component]
    pieces = steps = 0
    while pending:
        step = _object(pending.pop(), "post_processor")
        steps += 1
        kind = step.get("type")
        if kind == "Sequence":
            pending += _list(step.get("processors"), "processors")
        elif kind == "TemplateProcessing":
            pieces += _template(step)
        elif kind in ("BertProcessing", "RobertaProcessing"):
            for name in ("sep", "cls"):
                _check_id(_list(step.get(name), name)[-1:])
        elif kind != "ByteLevel":
            raise ValueError(f"{shorten(kind)} is none of its post-processors")
        if pieces > _MAX_PIECES or steps > _MAX_STEPS:
            raise ValueError(f"it adds more than {_MAX_PIECES} tokens to a text")


def _template(step: _Object) -> int:
    """How many tokens are added to a text."""
    known = _object(step.get("special_tokens"), "special_tokens")
    added = texts = 0
    for piece in _list(step.get("single"), "single"):
        piece = _object(piece, "piece")
        if "Sequence" in piece:
            texts += 1
            continue
        name = _object(piece.get("SpecialToken"), "piece").get("id")
        if not isinstance(name, str) or name not in known:
            raise ValueError(f"its template adds {shorten(name)}, which it does not describe")
        ids = _list(_object(known[name], "special token").get("ids"), "ids")
        _check_id(ids)
        added += 1 + len(ids)
        if added > _MAX_PIECES:
            return added
    if texts != 1:
        raise ValueError(f"its template has the text {texts} times")
    return added


def _check_added(tokens: object) -> None:
    listed = [] if tokens is None else _list(tokens, "added_tokens")
    if len(listed) > _MAX_ADDED:
        raise ValueError(f"it adds {len(listed)} tokens; at most {_MAX_ADDED} are read")
    for token in listed:
        token = _object(token, "added token")
        _text(token, "content", most=1 << 16)
        _check_id([token.get("id")])
        for name in FLAGS:
            if not isinstance(token.get(name), bool):
                raise ValueError(f"its {name} is {shorten(token.get(name))}, not true or false")


def _check_model(model: _Object) -> int | None:
    """The characters of the longest token; None where they say nothing."""
    word = model.get("max_input_chars_per_word", 0)
    most = _MAX_CUT_WORD if model.get("type") == "WordPiece" else _MAX_WORD
    if type(word) is not int or not 0 <= word <= most:
        raise ValueError(f"it takes words of {shorten(word)} characters")
    for name in ("unk_token", *_MARKS):
        if model.get(name) is not None:
            _text(model, name)
    for name in ("fuse_unk", "byte_fallback", "ignore_merges"):
        if not isinstance(model.get(name, False), bool | None):
            raise ValueError(f"its {name} is {shorten(model[name])}, not true or false")
    vocab = model.get("vocab")
    if model.get("type") == "BPE":
        _object(vocab, "vocab")
        _list(model.get("merges"), "merges")
    if isinstance(vocab, Mapping):
        _check_id(vocab.values())
        return max(map(len, vocab), default=None)
    if vocab is None:
        raise ValueError("it has no vocabulary")
    # Serde has the last word on what the pairs of token and score are.
    longest = max((len(str(pair[0])) for pair in _list(vocab, "vocab") if pair), default=None)
    if longest is not None and longest > _MAX_PIECE:
        raise ValueError(f"its unigram model has a token of {longest} characters")
    return longest


def _knows_all(tokenizer: _Object) -> bool:
    """Whether there is a token for each byte: then no character is left out, and none unknown."""
    model = tokenizer["model"]
    vocab = model["vocab"]
    # Words that other models do not know are one token however long they are.
    if model.get("type") not in ("BPE", "Unigram") or any(map(model.get, _MARKS)):
        return False
    tokens = vocab if isinstance(vocab, Mapping) else {str(pair[0]) for pair in vocab if pair}
    if model.get("byte_fallback") is True:
        return all(f"<0x{b:02X}>" in tokens or (b < 0x80 and chr(b) in tokens) for b in _WRITTEN)
    return _spells_bytes(tokenizer) and all(chr(_SPELLED[byte]) in tokens for byte in _WRITTEN)


def _spells_bytes(tokenizer: _Object) -> bool:
    found = []
    for name, inner in (("normalizer", "normalizers"), ("pre_tokenizer", "pretokenizers")):
        step = tokenizer.get(name) or {}
        found += [step, *(step.get(inner) or ())]
    return any(step.get("type") == "ByteLevel" for step in found)


def _check_id(ids: Iterable[Any]) -> None:
    ids = list(ids)
    if set(map(type, ids)) <= {int} and 0 <= min(ids, default=0) <= max(ids, default=0) < MAX_ID:
        return
    wrong = next(i for i in ids if type(i) is not int or not 0 <= i < MAX_ID)
    raise ValueError(f"{shorten(wrong)} is no id of a token below {MAX_ID}")


def _text(step: _Object, name: str, *, most: int = _MAX_CONTENT) -> str:
    value = step.get(name)
    if not isinstance(value, str) or len(value) > most:
        raise ValueError(f"its {name} is {shorten(value)}, not a text of {most} characters at most")
    return value


def _object(value: object, name: str) -> _Object:
    if not isinstance(value, Mapping):
        raise ValueError(f"its {name} is {shorten(value)}, not an object")
    return value


def _list(value: object, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"its {name} is {shorten(value)}, not a list")
    return value
