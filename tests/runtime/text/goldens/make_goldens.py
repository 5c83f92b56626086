"""Writes the goldens of this folder with transformers as the reference.

Run from the repository root where transformers is installed:

    python -m tests.runtime.text.goldens.make_goldens

It trains four small tokenizers (each of a kind that published models use), saves them in Hugging
Face layout, and records what transformers makes of the corpus, of fuzzed strings and of the chat
templates. The fuzzed strings are made again from their number; of their ids only a hash is kept.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

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
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

from tests.runtime.text.conversations import (
    CONVERSATIONS,
    NOW,
    SPECIAL_TOKENS,
    TEMPLATES,
    Conversation,
)
from tests.runtime.text.corpus import TEXTS, fuzzed
from tests.runtime.text.hashing import packed
from tools.make_text_cases import TEMPLATES as CASES
from tools.make_text_cases import TURNS, folder_of

HERE = Path(__file__).parent
FUZZED = 10_000
CHAT = ["<|im_start|>", "<|im_end|>"]

# The split patterns of the two families, as their published tokenizers state them.
THREE_DIGITS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
ONE_DIGIT = THREE_DIGITS.replace(r"\p{N}{1,3}", r"\p{N}")


def byte_level(pattern: str | None, specials: list[str], **options: Any) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(**options))
    last = pre_tokenizers.ByteLevel(add_prefix_space=pattern is None, use_regex=pattern is None)
    split = [pre_tokenizers.Split(Regex(pattern), behavior="isolated")] if pattern else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*split, last])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=520,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(TEXTS[:20], trainer)
    tokenizer.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in specials])
    return tokenizer


def beginning(tokenizer: Tokenizer, bos: str) -> processors.TemplateProcessing:
    return processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A $B", special_tokens=[(bos, tokenizer.token_to_id(bos))]
    )


def three_digits() -> tuple[Tokenizer, dict[str, Any]]:
    tokenizer = byte_level(THREE_DIGITS, ["<s>", "</s>", *CHAT], ignore_merges=True)
    tokenizer.post_processor = processors.Sequence(
        [processors.ByteLevel(trim_offsets=False), beginning(tokenizer, "<s>")]
    )
    return tokenizer, {"bos_token": "<s>", "eos_token": "</s>"}


def one_digit() -> tuple[Tokenizer, dict[str, Any]]:
    tokenizer = byte_level(ONE_DIGIT, ["<|endoftext|>", *CHAT])
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_tokens([AddedToken("<think>", normalized=False), AddedToken("▁x", lstrip=True)])
    config = {"eos_token": CHAT[1], "pad_token": "<|endoftext|>", "add_bos_token": False}
    return tokenizer, config | {"tokenizer_class": "Qwen2Tokenizer"}


def prefix_space() -> tuple[Tokenizer, dict[str, Any]]:
    tokenizer = byte_level(None, ["<s>"])
    tokenizer.post_processor = beginning(tokenizer, "<s>")
    # Tokens that only tokenizer_config.json knows, and a flag that changes nothing.
    return tokenizer, {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "add_bos_token": False,
        "additional_special_tokens": CHAT,
    }


def byte_fallback() -> tuple[Tokenizer, dict[str, Any]]:
    specials = ["<unk>", "<s>", "</s>"]
    everything = specials + [f"<0x{b:02X}>" for b in range(256)]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    trainer = trainers.BpeTrainer(
        vocab_size=620, show_progress=False, special_tokens=everything, limit_alphabet=120
    )
    tokenizer.train_from_iterator(TEXTS[:20], trainer)
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = [t for t in state["added_tokens"] if t["content"] in specials]
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.post_processor = beginning(tokenizer, "<s>")
    return tokenizer, {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


KINDS = {
    "three_digits": three_digits,
    "one_digit": one_digit,
    "prefix_space": prefix_space,
    "byte_fallback": byte_fallback,
}


def write(path: Path, value: Any) -> None:
    text = json.dumps(value, ensure_ascii=True, indent=None, separators=(",", ":"))
    path.write_text(text + "\n", encoding="ascii")


def decoded(reference: Any, text: str) -> bytes:
    """Return what is left of a text after encoding and decoding, as UTF-8."""
    return reference.decode(reference.encode(text), skip_special_tokens=True).encode()


def tokenizers() -> None:
    for name, make in KINDS.items():
        folder = HERE / name
        folder.mkdir(exist_ok=True)
        tokenizer, config = make()
        write(folder / "tokenizer.json", json.loads(tokenizer.to_str()))
        write(
            folder / "tokenizer_config.json",
            {"tokenizer_class": "PreTrainedTokenizerFast", **config},
        )
        reference = AutoTokenizer.from_pretrained(folder)
        encode = reference.encode
        write(
            HERE / f"{name}.json",
            {
                "size": len(reference),
                "ids": [encode(text) for text in TEXTS],
                "plain": "".join(packed(encode(t, add_special_tokens=False)) for t in TEXTS),
                "decoded": "".join(packed(decoded(reference, t)) for t in TEXTS),
                "special_tokens": reference.special_tokens_map,
                "fuzzed": "".join(packed(encode(fuzzed(i))) for i in range(FUZZED)),
            },
        )


def rendered(reference: Any, template: str, chat: Conversation, prompt: bool) -> str | None:
    """Return the text transformers renders, or None where the template refuses."""
    try:
        return reference.apply_chat_template(
            chat.messages,
            tools=chat.tools,
            chat_template=template,
            tokenize=False,
            add_generation_prompt=prompt,
            **chat.variables,
        )
    except Exception:
        return None


def templates() -> None:
    tokenizer, _ = three_digits()
    reference = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL_TOKENS)
    with patch.object(chat_template_utils, "datetime") as clock:
        clock.now.return_value = NOW
        write(
            HERE / "templates.json",
            {
                name: [
                    [rendered(reference, template, chat, prompt) for prompt in (False, True)]
                    for chat in CONVERSATIONS
                ]
                for name, template in TEMPLATES.items()
            },
        )


def turns() -> None:
    """What transformers makes of conversations in which special tokens are written out."""
    asked = []
    with patch.object(chat_template_utils, "datetime") as clock:
        clock.now.return_value = NOW
        for one in TURNS:
            with folder_of(one) as folder:
                reference = PreTrainedTokenizerFast.from_pretrained(folder)
            asked.append(
                reference.apply_chat_template(
                    one.messages,
                    chat_template=CASES[one.template],
                    add_generation_prompt=True,
                    sanitize_control_tokens=True,
                    return_dict=False,
                )
            )
    write(HERE / "turns.json", asked)


if __name__ == "__main__":
    tokenizers()
    templates()
    turns()
