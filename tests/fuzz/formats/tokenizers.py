"""tokenizer.json and the files that add to it, of every kind of tokenizer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from edgewise_runtime.text import SegmentCache, Tokenizer
from tests.fuzz.case import Files, Format, WrongAnswerError
from tests.fuzz.mutate import values

FILE, CONFIG, MAP = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
TEXT = "Hello wörld, it's 12345 <s> 日本🙂<|im_end|>  \n\t don't"
_GOLDENS = Path(__file__).parents[2] / "runtime/text/goldens"
_TRAINED = Path(__file__).parents[2] / "text/trained.json"

_SPLIT = {"pattern": {"String": " "}, "behavior": "Isolated", "invert": False}
_STEPS: dict[str, tuple[dict[str, Any], ...]] = {
    "normalizer": (
        {"type": "NFC"}, {"type": "NFKD"}, {"type": "Lowercase"}, {"type": "StripAccents"},
        {"type": "Nmt"}, {"type": "Prepend", "prepend": "▁"},
        {"type": "Prepend", "prepend": "x" * 100_000},
        {"type": "Strip", "strip_left": True, "strip_right": False},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        {"type": "Replace", "pattern": {"Regex": "[aeiou]"}, "content": "ab" * 1000},
        {"type": "Replace", "pattern": {"String": ""}, "content": "xx"},
        {"type": "Replace", "pattern": {"Regex": "(a*)*b"}, "content": ""},
        {"type": "Precompiled", "precompiled_charsmap": "AAAA"},
        {"type": "Precompiled", "precompiled_charsmap": "/////w=="},
        {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
         "strip_accents": None, "lowercase": True},
    ),
    "pre_tokenizer": (
        {"type": "Whitespace"}, {"type": "WhitespaceSplit"}, {"type": "Punctuation"},
        {"type": "BertPreTokenizer"}, {"type": "UnicodeScripts"},
        {"type": "Digits", "individual_digits": True},
        {"type": "CharDelimiterSplit", "delimiter": "e"}, {"type": "Split", **_SPLIT},
        {"type": "Split", **_SPLIT, "pattern": {"Regex": r"(?:\s+)+$|(?:x+x+)+y"}},
        {"type": "Split", **_SPLIT, "pattern": {"Regex": "(" * 2000 + ")" * 2000}},
        {"type": "Split", **_SPLIT, "pattern": {"Regex": "(?:a{1000}){1000}"}},
        {"type": "FixedLength", "length": 0},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    ),
    "post_processor": (
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
        {"type": "BertProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1]},
        {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 4_000_000_000],
         "trim_offsets": True, "add_prefix_space": True},
        {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}] * 3,
         "pair": [], "special_tokens": {}},
        {"type": "TemplateProcessing",
         "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}] * 10,
         "pair": [],
         "special_tokens": {"<s>": {"id": "<s>", "ids": [1] * 100_000, "tokens": ["<s>"]}}},
    ),
    "decoder": (
        {"type": "ByteLevel"}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "BPEDecoder", "suffix": "</w>"},
        {"type": "WordPiece", "prefix": "##", "cleanup": True}, {"type": "CTC"},
        {"type": "Strip", "content": " ", "start": 2**60, "stop": 0},
        {"type": "Replace", "pattern": {"Regex": ""}, "content": "x" * 1000},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
    ),
    "padding": (
        {"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None,
         "pad_id": 0, "pad_type_id": 0, "pad_token": "<s>"},
        {"strategy": "BatchLongest", "direction": "Left", "pad_to_multiple_of": 2**40, "pad_id": 0,
         "pad_type_id": 0, "pad_token": ""},
    ),
    "truncation": (
        {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 5},
        {"direction": "Left", "max_length": 0, "strategy": "OnlyFirst", "stride": 2**60},
    ),
    "model": (
        {"type": "WordLevel", "vocab": {"a": 0, "<unk>": 1}, "unk_token": "<unk>"},
        {"type": "WordPiece", "vocab": {"a": 0, "[UNK]": 2**31}, "unk_token": "[UNK]",
         "continuing_subword_prefix": "##", "max_input_chars_per_word": 2**60},
        {"type": "Unigram", "vocab": [["<unk>", 0.0], ["a", -1e300], ["b", 1e300]], "unk_id": 0},
        {"type": "Unigram", "vocab": [], "unk_id": 5, "byte_fallback": True},
        {"type": "Unigram", "vocab": [["a" * n, -1.0] for n in range(1, 2000)], "unk_id": 0},
        {"type": "Unigram", "vocab": [["a" * n, -1.0] for n in range(1, 257)], "unk_id": None},
        {"type": "WordPiece", "vocab": {"a": 0, "##": 1, "": 2}, "unk_token": "[UNK]",
         "continuing_subword_prefix": "##", "max_input_chars_per_word": 256},
        {"type": "BPE", "vocab": {"a": 0, "##a": 1, "a##a": 2}, "merges": [["a", "##a"]],
         "continuing_subword_prefix": "##", "end_of_word_suffix": "</w>", "fuse_unk": True},
        {"type": "BPE", "vocab": {"a": 0, "b": 0}, "merges": [["a", "b"]]},
        {"type": "BPE", "vocab": {}, "merges": ["a b c"], "dropout": 2.0},
    ),
}  # fmt: skip
_TOKENS: tuple[Any, ...] = (
    {"content": "", "special": True}, {"content": "a" * 100_000, "lstrip": True, "rstrip": True},
    {"id": 2**32 - 1, "content": "<x>", "special": True, "normalized": True, "single_word": True},
    {"id": 0, "content": "<|im_end|>", "special": True, "normalized": False}, {"content": 3}, "<s>",
)  # fmt: skip


def _seeds() -> Sequence[Files]:
    kinds = ("byte_fallback", "one_digit", "prefix_space", "three_digits")
    trained = json.loads(_TRAINED.read_text("ascii"))["tokenizers"]
    small = [{FILE: json.dumps(each["tokenizer"]).encode(), CONFIG: b"{}"} for each in trained]
    return small + [
        {
            FILE: (_GOLDENS / kind / FILE).read_bytes(),
            CONFIG: (_GOLDENS / kind / CONFIG).read_bytes(),
        }
        for kind in kinds
    ]


@cache
def _parsed(data: bytes) -> Any:
    return json.loads(data)


def _mutate(rng: Random, files: Files) -> Files:
    if rng.random() < 0.25:
        return {**files, **_companion(rng, files)}
    value = _parsed(files[FILE])
    if rng.random() < 0.6:
        value = _with_steps(rng, value)
    if rng.random() < 0.7:
        value = _but_vocabulary(rng, value)
    return {**files, FILE: values.written(rng, value)}


def _with_steps(rng: Random, value: Any) -> Any:
    """Another step than before, or several one after the other."""
    part = rng.choice(list(_STEPS))
    step: Any = rng.choice(_STEPS[part])
    inner = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "decoder": "decoders"}
    if part in inner and rng.random() < 0.5:
        steps = [rng.choice(_STEPS[part]) for _ in range(rng.choice((1, 2, 3, 40)))]
        steps += [value[part]] if value[part] else []
        step = {"type": "Sequence", inner[part]: steps}
    token = {"id": 3, "content": "x", "single_word": False, "lstrip": False, "rstrip": False}
    more = [token | {"normalized": True, "special": False} | rng.choice(_TOKENS[:4])]
    added = {"added_tokens": value["added_tokens"] + more} if rng.random() < 0.3 else {}
    return {**value, part: step, **added}


def _but_vocabulary(rng: Random, value: Any) -> Any:
    """A change anywhere; of the many entries of a vocabulary only seldom in one."""
    model = value["model"]
    if rng.random() < 0.2 or not isinstance(model, dict):
        return values.changed(rng, value)
    large = {key: model[key] for key in ("vocab", "merges") if key in model}
    changed = values.changed(
        rng, {**value, "model": {k: v for k, v in model.items() if k not in large}}
    )
    if isinstance(changed, dict) and isinstance(changed.get("model"), dict):
        changed = {**changed, "model": large | changed["model"]}
    return changed


def _companion(rng: Random, files: Files) -> Files:
    name = rng.choice((CONFIG, CONFIG, MAP))
    value = _parsed(files.get(name, b'{"bos_token": "<s>", "eos_token": {"content": "</s>"}}'))
    if rng.random() < 0.5:
        token = rng.choice(_TOKENS)
        key = rng.choice(("added_tokens_decoder", "extra_special_tokens", "pad_token", "x_token"))
        held = (
            {str(rng.choice(values.INTS[:40])): token} if key == "added_tokens_decoder" else token
        )
        value = value | {key: [token] * rng.choice((1, 1000)) if "extra" in key else held}
    return {name: values.written(rng, values.changed(rng, value, ["<s>", "content", "special"]))}


def _use(folder: Path, files: Files) -> None:
    tokenizer = Tokenizer.from_folder(folder)
    ids = tokenizer.encode(TEXT)
    plain = tokenizer.encode(TEXT, add_special_tokens=False)
    if SegmentCache(tokenizer).encode(TEXT) != plain:
        raise WrongAnswerError("text in parts has other ids than the whole")
    text = tokenizer.decode(ids, skip_special_tokens=True)
    stream = tokenizer.stream()
    streamed = "".join(stream.push([token]) for token in ids) + stream.finish()
    if streamed != text:
        raise WrongAnswerError(f"{streamed[:99]!r} id by id, and {text[:99]!r} at once")


TOKENIZER = Format(_seeds, _mutate, _use)
