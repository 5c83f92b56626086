"""The tokens that tokenizer_config.json adds to those of tokenizer.json, and their names.

Follows what transformers 5 does with the files of a fast tokenizer. Tokens that the config declares
with all their properties (`added_tokens_decoder`) take the place of those of tokenizer.json, in the
order of ids. Of the tokens that it names or lists, those that are there keep their properties: a
plain string says nothing about white space beside it. New ones go to the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend

from edgewise_runtime.format.reading import shorten
from edgewise_runtime.format.tokenizer import check_ids
from edgewise_runtime.format.tokenizer_rules import FLAGS

_NAMED = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)
_DECLARED = "added_tokens_decoder"
_EXTRA = "extra_special_tokens"
_FORMERLY = "additional_special_tokens"


def merged(config: Mapping[str, Any], older: Mapping[str, Any]) -> dict[str, Any]:
    """A config with what an older checkpoint's special_tokens_map.json adds.

    Args:
        older: empty where the config declares its tokens; it is not read then.
    """
    extra = config.get(_EXTRA) or config.get(_FORMERLY)
    both = {**config, **older}
    more = older.get(_EXTRA)
    if isinstance(extra, list):
        both[_EXTRA] = [*extra, *(more if isinstance(more, list) else ())]
    return both


def register(backend: Backend, config: Mapping[str, Any]) -> dict[str, str]:
    """Add the tokens that a config describes to the backend; return the named ones.

    Raises ValueError or TypeError, in words, for what does not describe a token.
    """
    there = {token.content: token for token in backend.get_added_tokens_decoder().values()}
    declared = _declared(config)
    named, extra = _specials(config)
    names = {_content(value) for value in named.values()}
    tokens = [_added(token, special=_content(token) in names) for token in declared]
    if _DECLARED not in config:
        tokens += [_as_special(t) for name, t in there.items() if name in names and not t.special]
    known = {*there, *(token.content for token in tokens)}
    for value in (*named.values(), *extra):
        content = _content(value)
        if content not in known:
            # Of two declarations of one the first holds, as in the package.
            known.add(content)
            tokens.append(_added(value, special=isinstance(value, str) or content in names))
    backend.add_tokens(tokens)
    check_ids(backend, known)
    return {name: _content(value) for name, value in named.items()}


def plain_ids(backend: Backend, text: str) -> list[int]:
    """The ids of a text by the model alone: no added tokens are looked for in it."""
    normalizer, splitter = backend.normalizer, backend.pre_tokenizer
    text = text if normalizer is None else normalizer.normalize_str(text)
    parts = [text] if splitter is None else [part for part, _ in splitter.pre_tokenize_str(text)]
    return [token.id for part in parts for token in backend.model.tokenize(part)]


def _declared(config: Mapping[str, Any]) -> list[Any]:
    declared = config.get(_DECLARED) or {}
    if not isinstance(declared, Mapping):
        raise TypeError(f"{_DECLARED} is {shorten(declared)}")
    wrong = [token for token in declared.values() if not isinstance(token, Mapping)]
    if wrong:
        raise TypeError(f"{shorten(wrong[0])} does not declare a token")
    return [token for _, token in sorted(((int(i), t) for i, t in declared.items()), key=_first)]


def _first(pair: tuple[int, Any]) -> int:
    return pair[0]


def _specials(config: Mapping[str, Any]) -> tuple[dict[str, Any], Iterable[Any]]:
    """The special tokens that have a name, and those that have none."""
    named: dict[str, Any] = {name: config[name] for name in _NAMED if config.get(name)}
    named |= {
        name: value
        for name, value in config.items()
        if name.endswith("_token") and name not in named and isinstance(value, str | dict) and value
    }
    extra = config.get(_EXTRA) or []
    if isinstance(extra, dict):
        named |= extra
        extra = []
    extra = extra or config.get(_FORMERLY) or []
    if not isinstance(extra, list):
        raise TypeError(f"{_EXTRA} is {shorten(extra)}")
    return named, extra


def _content(value: object) -> str:
    content = value.get("content") if isinstance(value, Mapping) else value
    if not isinstance(content, str):
        raise TypeError(f"{shorten(content)} is not a token")
    return content


def _added(value: object, *, special: bool) -> AddedToken:
    if not isinstance(value, Mapping):
        return AddedToken(_content(value), special=special, normalized=not special)
    flags = {name: bool(value[name]) for name in FLAGS if name in value}
    if special:
        flags["special"] = True
    return AddedToken(_content(value), **flags)


def _as_special(token: AddedToken) -> AddedToken:
    flags = {name: getattr(token, name) for name in FLAGS}
    return _added({"content": token.content, **flags}, special=True)
