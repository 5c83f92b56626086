"""Small tokenizers of every kind, trained by the tokenizers package and put together at random."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from tests.runtime.format.test_charsmap import charsmap
from tests.runtime.text.corpus import TEXTS, fuzzed

SPECIAL = ["<unk>", "<s>", "</s>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
PUT_IN = (
    "the", "<|im_end|>", "<s>", "<unk>", "test é", "Test é", " the ", "\u0378", "\u1171e", "İΣ",
    "ΑΣ ", "e\u0301\u0323", "\r\n", "ﬁ\u0301", "각", "\u1100\u1161\u11a8", "\U00011938\u0301",
    "\ufffc①\u200b",
)  # fmt: skip
"""What steps treat in ways of their own: added tokens, marks, characters of a newer Unicode."""
_BEHAVIORS = ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous")
_PATTERNS = (r"\s+", r"\p{L}+", r"\d", r"[^\w\s]|x*")

_Make = Callable[[Random], Any]


REPLACED = {
    "e\u0301": "é", "o\u0308": "ö", "\r\n": "\n", "\t": " ", "\u200b": " ", "\u00ad": "", "①": "1",
    "ﬁ": "fi", "Ａ": "A", "Å": "Å",
}  # fmt: skip
"""Some of what SentencePiece's own tables replace."""


def _bert(rng: Random) -> Any:
    return normalizers.BertNormalizer(
        clean_text=rng.random() < 0.7,
        handle_chinese_chars=rng.random() < 0.7,
        strip_accents=rng.choice((None, True, False)),
        lowercase=rng.random() < 0.5,
    )


def _split(rng: Random, pattern: Any) -> Any:
    return pre_tokenizers.Split(pattern, rng.choice(_BEHAVIORS), invert=rng.random() < 0.3)


NORMALIZERS: tuple[_Make, ...] = (
    lambda _: None,
    lambda _: normalizers.NFC(),
    lambda _: normalizers.NFKC(),
    lambda _: normalizers.NFD(),
    lambda _: normalizers.NFKD(),
    lambda _: normalizers.Lowercase(),
    lambda _: normalizers.StripAccents(),
    lambda _: normalizers.Nmt(),
    lambda _: normalizers.Strip(left=True, right=False),
    lambda _: normalizers.Replace(Regex("[aeiou]"), ""),
    lambda _: normalizers.ByteLevel(),
    lambda _: normalizers.Precompiled(charsmap(REPLACED)),
    _bert,
    lambda _: normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
    lambda _: normalizers.Sequence([normalizers.Nmt(), normalizers.Replace(Regex(" {2,}"), " ")]),
)
PRE_TOKENIZERS: tuple[_Make, ...] = (
    lambda _: None,
    lambda rng: pre_tokenizers.Metaspace(
        prepend_scheme=rng.choice(("always", "first", "never")), split=rng.random() < 0.5
    ),
    lambda _: pre_tokenizers.Whitespace(),
    lambda _: pre_tokenizers.WhitespaceSplit(),
    lambda _: pre_tokenizers.BertPreTokenizer(),
    lambda rng: pre_tokenizers.Punctuation(rng.choice(_BEHAVIORS)),
    lambda rng: pre_tokenizers.Digits(rng.random() < 0.5),
    lambda rng: pre_tokenizers.ByteLevel(rng.random() < 0.5, rng.random() < 0.7),
    lambda rng: _split(rng, Regex(rng.choice(_PATTERNS))),
    lambda rng: _split(rng, rng.choice((" ", "e", "an"))),
    lambda _: pre_tokenizers.CharDelimiterSplit("e"),
    lambda rng: pre_tokenizers.FixedLength(rng.choice((1, 3, 7))),
    lambda _: pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(True), pre_tokenizers.Punctuation(), pre_tokenizers.ByteLevel()]
    ),
)
DECODERS: tuple[_Make, ...] = (
    lambda _: None,
    lambda _: decoders.ByteLevel(),
    lambda rng: decoders.WordPiece(prefix="##", cleanup=rng.random() < 0.5),
    lambda rng: decoders.Metaspace(prepend_scheme=rng.choice(("always", "first", "never"))),
    lambda _: decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    ),
    lambda _: decoders.BPEDecoder("</w>"),
    lambda _: decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]),
)
PROCESSORS: tuple[_Make, ...] = (
    lambda _: None,
    lambda _: processors.BertProcessing(("</s>", 2), ("<s>", 1)),
    lambda _: processors.RobertaProcessing(("</s>", 2), ("<s>", 1)),
    lambda _: processors.TemplateProcessing(
        single="<s> $A </s>", pair="$A $B", special_tokens=[("<s>", 1), ("</s>", 2)]
    ),
)
KINDS = ("BPE", "Unigram", "WordPiece", "WordLevel")


def trained(rng: Random, kind: str, tokens: int) -> Tokenizer:
    """A tokenizer of one kind with about so many tokens, all else by chance.

    Args:
        kind: one of `KINDS`.
    """
    in_bytes = rng.random() < 0.4
    model, trainer = _model(rng, kind, tokens, SPECIAL + (BYTES if in_bytes else []), in_bytes)
    tokenizer = Tokenizer(model)
    for name, makers in (("normalizer", NORMALIZERS), ("pre_tokenizer", PRE_TOKENIZERS)):
        step = rng.choice(makers)(rng)
        if step is not None:
            setattr(tokenizer, name, step)
    corpus = [*TEXTS[:20], *map(fuzzed, range(0 if kind == "Unigram" else rng.choice((0, 200))))]
    tokenizer.train_from_iterator(corpus, trainer)
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = [t for t in state["added_tokens"] if t["content"] in SPECIAL]
    if kind == "Unigram":
        state["model"]["byte_fallback"] = in_bytes
    tokenizer = Tokenizer.from_str(json.dumps(state))
    for name, makers in (("decoder", DECODERS), ("post_processor", PROCESSORS)):
        step = rng.choice(makers)(rng)
        if step is not None:
            setattr(tokenizer, name, step)
    for content in ("<|im_end|>", "the", "Test é"):
        names = ("single_word", "lstrip", "rstrip", "normalized", "special")
        tokenizer.add_tokens([AddedToken(content, **{name: rng.random() < 0.3 for name in names})])
    return tokenizer


def _model(
    rng: Random, kind: str, tokens: int, special: list[str], in_bytes: bool
) -> tuple[Any, Any]:
    size: dict[str, Any] = {"vocab_size": len(special) + tokens, "special_tokens": special}
    size["show_progress"] = False
    if kind == "Unigram":
        size["vocab_size"] += 450  # all characters of the texts are tokens
        return models.Unigram(), trainers.UnigramTrainer(**size, unk_token="<unk>")
    if kind == "WordLevel":
        return models.WordLevel(unk_token="<unk>"), trainers.WordLevelTrainer(**size)
    size["limit_alphabet"] = rng.choice((60, 120))
    if kind == "WordPiece":
        word = rng.choice((5, 100))
        cut = models.WordPiece(unk_token="<unk>", max_input_chars_per_word=word)
        return cut, trainers.WordPieceTrainer(**size)
    options: dict[str, Any] = {
        name: True for name in ("fuse_unk", "ignore_merges") if rng.random() < 0.4
    }
    marks: dict[str, Any] = {
        name: mark
        for name, mark in (("end_of_word_suffix", "</w>"), ("continuing_subword_prefix", "##"))
        if rng.random() < 0.25
    }
    unknown = "<unk>" if rng.random() < 0.6 else None
    model = models.BPE(unk_token=unknown, byte_fallback=in_bytes, **options, **marks)
    return model, trainers.BpeTrainer(**size, **marks)


def mixed(rng: Random) -> str:
    """A fuzzed text with some of what steps treat in ways of their own put into it."""
    text = fuzzed(rng.randrange(10**6))
    for _ in range(rng.randint(0, 4)):
        at = rng.randint(0, len(text))
        beside = [rng.choice(("", " ", "\n", "a", "  ")) for _ in range(2)]
        text = text[:at] + beside[0] + rng.choice(PUT_IN) + beside[1] + text[at:]
    return text
