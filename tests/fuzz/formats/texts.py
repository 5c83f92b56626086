"""Small files that people write and exchange: settings, recipes, conversations."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from edgewise.cli.talk import saved
from edgewise.model_defaults import defaults_from, not_obeyed
from edgewise.request import read_options
from edgewise_compiler.quantize.recipe_file import read_recipe
from edgewise_runtime.text.files import TextFiles
from tests.fuzz.case import Files, Format
from tests.fuzz.mutate import texts, values

VOCAB = 300
_GENERATION: tuple[Any, ...] = (
    {"temperature": 0.7, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "do_sample": True},
    {
        "repetition_penalty": 1.1,
        "max_new_tokens": 100,
        "min_new_tokens": 2,
        "max_length": 20,
        "eos_token_id": [1, 3],
        "bos_token_id": 0,
        "suppress_tokens": [5],
        "top_k": -1,
        "stop_strings": ["\n\n"],
        "bad_words_ids": [[1], [2, 3]],
        "no_repeat_ngram_size": 3,
    },
)
_RECIPE = Path(__file__).parents[2] / "parity"
_TURNS = [
    {"role": "system", "content": "You are terse."},
    {"role": "user", "content": "Hello?"},
    {"role": "assistant", "content": "<think>hm</think>Yes."},
]
_CONVERSATION = {"format": "conversation", "version": 1, "model": "tiny", "messages": _TURNS}
_TOML = (
    *("[[rule]]", "[a.b.c]", "[" * 2000, "{a=", "]", '"""', "'''", '= "q4"', "= [", "\\U0011ffff"),
    *("= 1979-05-27T07:32:00Z", "= inf", "a.a.a.a=1\n", "0x" + "f" * 9000, "[[", "a." * 3000),
)


def _json(name: str) -> Callable[[Random, Files], Files]:
    def mutate(rng: Random, files: Files) -> Files:
        return {name: values.written(rng, values.changed(rng, json.loads(files[name])))}

    return mutate


def _use_generation(folder: Path, files: Files) -> None:
    config = TextFiles.of_folder(folder).object("generation_config.json")
    not_obeyed(config, vocab=VOCAB, eos=(1,))
    read_options({}, defaults_from(config, vocab=VOCAB, eos=(1,)))


def _use_conversation(folder: Path, files: Files) -> None:
    saved.load(folder / "conversation.json")


def _mutate_recipe(rng: Random, files: Files) -> Files:
    return {
        name: texts.damaged(rng, data.decode(), _TOML).encode("utf-8", "surrogatepass")
        for name, data in files.items()
    }


def _use_recipe(folder: Path, files: Files) -> None:
    recipe = read_recipe(folder / "recipe.toml")
    for tensor in ("model.embed_tokens.weight", "model.layers.10.mlp.down_proj.weight", "a" * 60):
        recipe.scheme_of(tensor)


GENERATION_CONFIG = Format(
    lambda: [{"generation_config.json": json.dumps(value).encode()} for value in _GENERATION],
    _json("generation_config.json"),
    _use_generation,
)
RECIPE = Format(
    lambda: [
        {"recipe.toml": (_RECIPE / name).read_bytes()} for name in ("fours.toml", "fives.toml")
    ],
    _mutate_recipe,
    _use_recipe,
)
CONVERSATION = Format(
    lambda: [{"conversation.json": json.dumps(_CONVERSATION).encode()}],
    _json("conversation.json"),
    _use_conversation,
)
