"""Byte-level BPE (``gpt2``): vocabulary and merges are in the metadata as in the original.

How text is cut before merging is named by ``tokenizer.ggml.pre``, a table of llama.cpp
(src/llama-vocab.cpp) that is repeated here for the models that are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgewise_compiler.gguf.pipeline import Pipeline, bpe
from edgewise_compiler.gguf.vocabulary import CONTROL, KEYS, USER_DEFINED, Vocabulary
from edgewise_compiler.weights.files import damaged
from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.format.reading import shorten

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LLAMA3 = (
    rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def _by_case(after: str, digits: str) -> str:
    """Words begin at capitals: ``after`` may follow one, digits are cut by ``digits``."""
    before = r"[^\r\n\p{L}\p{N}]?"
    return (
        rf"{before}{_UPPER}*{_LOWER}+{after}|{before}{_UPPER}+{_LOWER}*{after}|{digits}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


_TEKKEN = _by_case("", r"\p{N}")
_GPT4O = _by_case(f"{_CONTRACTIONS}?", r"\p{N}{1,3}")

_GPT2_STEP = {
    "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True,
}  # fmt: skip
"""Cuts by GPT-2's regular expression, then spells bytes as characters."""


@dataclass(frozen=True)
class _Rules:
    """How text is cut into the pieces that are merged.

    Attributes:
        steps: pre-tokenizers as tokenizer.json writes them.
        ignore_merges: a piece that is a token is not merged.
        bos: a text begins with the beginning token, unless the file says otherwise.
        nfc: text is composed first.
    """

    steps: tuple[Mapping[str, Any], ...]
    ignore_merges: bool = False
    bos: bool = False
    nfc: bool = False


def _by(regex: str) -> tuple[Mapping[str, Any], ...]:
    split = {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
    return split, _GPT2_STEP | {"use_regex": False}


_DIGITS = ({"type": "Digits", "individual_digits": True}, _GPT2_STEP)

RULES: dict[str, _Rules] = {
    **dict.fromkeys(("gpt-2", "phi-2", "olmo"), _Rules((_GPT2_STEP,))),
    **dict.fromkeys(("smollm", "starcoder", "refact"), _Rules(_DIGITS)),
    "qwen2": _Rules(_by(_QWEN2), nfc=True),
    "deepseek-r1-qwen": _Rules(_by(_QWEN2)),
    **dict.fromkeys(
        ("llama3", "llama-v3", "llama-bpe", "falcon3", "midm-2.0", "pixtral"),
        _Rules(_by(_LLAMA3), ignore_merges=True, bos=True),
    ),
    **dict.fromkeys(("dbrx", "smaug-bpe"), _Rules(_by(_LLAMA3))),
    "tekken": _Rules(_by(_TEKKEN), ignore_merges=True, bos=True),
    "gpt-4o": _Rules(_by(_GPT4O)),
}
"""By ``tokenizer.ggml.pre``."""


def byte_level(vocabulary: Vocabulary) -> Pipeline:
    """Byte-level BPE by the rules that a file names.

    Raises:
        CheckpointError: merges that are none.
        UnsupportedError: text is cut in a way that is not known.
    """
    rules = _rules(vocabulary)
    return Pipeline(
        special=vocabulary.of_type(CONTROL),
        others=vocabulary.of_type(USER_DEFINED),
        bos=rules.bos,
        steps={
            "normalizer": {"type": "NFC"} if rules.nfc else None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": list(rules.steps)},
            "decoder": _GPT2_STEP,
            "model": bpe(
                vocabulary.tokens,
                [_merge(merge, vocabulary) for merge in vocabulary.texts("merges")],
                ignore_merges=rules.ignore_merges,
            ),
        },
    )


def _rules(vocabulary: Vocabulary) -> _Rules:
    pre = vocabulary.fields.text(f"{KEYS}.pre", "default")
    if pre not in RULES:
        raise UnsupportedError(
            f"{KEYS}.pre in {vocabulary.path.name} is {shorten(pre)}: how it cuts text is not "
            "known.",
            remedy=f"Known: {', '.join(RULES)}. A file that names none was made by an old "
            "llama.cpp: convert the model again.",
            code="unsupported.tokenizer",
        )
    return RULES[pre]


def _merge(text: str, vocabulary: Vocabulary) -> list[str]:
    # The first part may itself begin with a space.
    at = text.find(" ", 1)
    if at < 0:
        raise damaged(vocabulary.path, f"{KEYS}.merges holds {shorten(text)}, which is no pair")
    return [text[:at], text[at + 1 :]]
