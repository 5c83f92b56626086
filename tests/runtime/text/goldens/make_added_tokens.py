"""Writes tests/text/added-tokens.json: what transformers makes of the tokens that configs name.

Run from the repository root where transformers is installed:

    python -m tests.runtime.text.goldens.make_added_tokens

Each case changes the flags of tokens in one tokenizer.json and has files beside it that declare,
name or list tokens. Of each are kept the ids of a few texts (where they are in a list of all that
there are), and the tokens that are left out when ids are made text.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

HERE = Path(__file__).parent
CASES = Path(__file__).parents[3] / "text" / "added-tokens.json"
BASE = "one_digit"
END, START = "<|im_end|>", "<|im_start|>"
STRIPS = {"lstrip": True, "rstrip": True}
PLAIN = {"lstrip": True, "special": False, "normalized": True}
TEXTS = (
    f"a {END} b",
    f"a \n{END}\t b",
    f"x{END}y{END} {START}",
    f"  {START}user\u3000{END}",
    "a <n> b<new>the <x> <e><aa><a> <b> <c> <z>\n<y> <m> a",
)


def whole(content: str, **flags: Any) -> dict[str, Any]:
    """A token as `added_tokens_decoder` has it."""
    given = {"lstrip": False, "rstrip": False, "normalized": False, "single_word": False}
    return {"content": content, **given, "special": True, **flags}


def typed(content: str, **flags: Any) -> dict[str, Any]:
    """A token as a config names it."""
    token = {"__type": "AddedToken", **whole(content), **flags}
    return {name: value for name, value in token.items() if name != "special"}


Case = tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]
CASES_MADE: tuple[Case, ...] = (
    ("nothing", STRIPS, {}, {}),
    ("a name for a token that is there", STRIPS, {"eos_token": END}, {}),
    ("a name of the model's own", STRIPS, {"turn_token": END}, {}),
    ("a list of a token that is there", STRIPS, {"extra_special_tokens": [END]}, {}),
    ("the older list", STRIPS, {"additional_special_tokens": [END]}, {}),
    ("names in an object", STRIPS, {"extra_special_tokens": {"turn_token": END}}, {}),
    ("a name with flags", STRIPS, {"eos_token": typed(END)}, {}),
    ("a name for what was no special token", PLAIN, {"eos_token": END}, {}),
    ("an own name for what was no special token", PLAIN, {"turn_token": END}, {}),
    ("a list of what was no special token", PLAIN, {"extra_special_tokens": [END]}, {}),
    ("a whole word", {"single_word": True}, {"eos_token": END}, {}),
    ("a name without a token", STRIPS, {"eos_token": None, "pad_token": END}, {}),
    ("names for new tokens", STRIPS, {"eos_token": "<new>", "sep_token": "<n>"}, {}),
    ("a name for a word", STRIPS, {"eos_token": "the"}, {}),
    (
        "a new name with flags",
        STRIPS,
        {"sep_token": {"__type": "AddedToken", "content": "<n>", "rstrip": True}},
        {},
    ),
    ("a list with flags", STRIPS, {"extra_special_tokens": [typed("<n>", rstrip=True)]}, {}),
    (
        "a declaration takes the token's place",
        STRIPS,
        {"added_tokens_decoder": {"522": whole(END, lstrip=True)}, "eos_token": END},
        {},
    ),
    (
        "a declaration of another token",
        STRIPS,
        {"added_tokens_decoder": {"521": whole(START)}, "eos_token": END},
        {},
    ),
    (
        "a declaration and a name with other flags",
        STRIPS,
        {"added_tokens_decoder": {"522": whole(END, lstrip=True)}, "eos_token": typed(END)},
        {},
    ),
    (
        "a declaration that is not special, and a name",
        STRIPS,
        {"added_tokens_decoder": {"522": whole(END, special=False)}, "eos_token": END},
        {},
    ),
    (
        "a declaration that leaves out flags",
        STRIPS,
        {"added_tokens_decoder": {"522": {"content": END}}, "eos_token": END},
        {},
    ),
    (
        "a declaration of another, and a name for what was no special token",
        PLAIN,
        {"added_tokens_decoder": {"521": whole(START)}, "eos_token": END},
        {},
    ),
    (
        "declarations of new tokens",
        STRIPS,
        {"added_tokens_decoder": {"601": whole("<y>"), "600": whole("<z>", special=False)}},
        {},
    ),
    (
        "everything at once",
        {},
        {
            "x_token": "<x>",
            "mask_token": "<m>",
            "bos_token": "<b>",
            "extra_special_tokens": ["<e>", "<x>", "<e>"],
            "a_token": "<aa>",
            "added_tokens_decoder": {"601": whole("<y>"), "600": whole("<z>")},
        },
        {},
    ),
    (
        "both lists",
        {},
        {"extra_special_tokens": ["<e>"], "additional_special_tokens": ["<a>"]},
        {},
    ),
    (
        "an empty list and an older one",
        {},
        {"extra_special_tokens": [], "additional_special_tokens": ["<a>"]},
        {},
    ),
    (
        "names in an object and an older list",
        {},
        {"extra_special_tokens": {"x_token": "<e>"}, "additional_special_tokens": ["<a>"]},
        {},
    ),
    ("a beginning that is not added", {}, {"bos_token": START, "add_bos_token": False}, {}),
    ("an older checkpoint's name", STRIPS, {}, {"eos_token": END}),
    ("an older checkpoint's flags", STRIPS, {}, {"eos_token": whole(END)}),
    ("an older checkpoint's new token", STRIPS, {}, {"eos_token": whole("<n>", rstrip=True)}),
    ("an older checkpoint's other name", {}, {"eos_token": "<b>"}, {"eos_token": "<c>"}),
    (
        "an older checkpoint's list",
        STRIPS,
        {"extra_special_tokens": ["<a>"]},
        {"extra_special_tokens": [END, "<b>"], "additional_special_tokens": ["<c>"]},
    ),
    (
        "two older lists",
        {},
        {"additional_special_tokens": ["<a>"]},
        {"additional_special_tokens": ["<c>"]},
    ),
    (
        "an older checkpoint that declares its tokens",
        {},
        {"added_tokens_decoder": {"521": whole(START)}},
        {"sep_token": "<c>"},
    ),
)


def made(case: Case) -> dict[str, Any]:
    """What transformers makes of one case."""
    what, flags, config, older = case
    tokenizer = json.loads((HERE / BASE / "tokenizer.json").read_text())
    for token in tokenizer["added_tokens"]:
        if token["content"] in (END, START):
            token.update(flags)
    with tempfile.TemporaryDirectory() as folder:
        beside = {"tokenizer_class": "PreTrainedTokenizerFast", **config}
        for name, value in (
            ("tokenizer.json", tokenizer),
            ("tokenizer_config.json", beside),
            ("special_tokens_map.json", older),
        ):
            (Path(folder) / name).write_text(json.dumps(value))
        theirs = AutoTokenizer.from_pretrained(folder)
    added = theirs.added_tokens_decoder.values()
    return {
        "what": what,
        "flags": flags,
        "config": config,
        "older": older,
        "ids": [theirs(text).input_ids for text in TEXTS],
        "special": sorted(token.content for token in added if token.special),
    }


def main() -> None:
    cases = [made(case) for case in CASES_MADE]
    distinct: list[list[int]] = []  # most texts have the same ids in most cases
    for case in cases:
        distinct += [ids for ids in case["ids"] if ids not in distinct]
        case["ids"] = [distinct.index(ids) for ids in case["ids"]]
    head = {"base": BASE, "changed": [START, END], "texts": TEXTS, "ids": distinct}
    value = {**head, "cases": cases}
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    CASES.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
