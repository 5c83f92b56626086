"""The methods of text: as Python's, each charged for what it reads and makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from edgewise_runtime.text.jinja.arithmetic import braced, joined
from edgewise_runtime.text.jinja.run import Run, TemplateError, Value
from edgewise_runtime.text.jinja.values import (
    REQUIRED,
    Arguments,
    items_of,
    plain_text,
    whole,
)

_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


def replaced(run: Run, text: str, old: str, new: str, most: int) -> str:
    """Return `text` with `old` replaced by `new`, at most so many times (-1: all)."""
    run.look(len(text), len(old))
    found = text.count(old) if most else 0
    count = found if most < 0 else min(found, most)
    run.make(len(text) + count * (len(new) - len(old)))
    return text.replace(old, new, most)


def split_lines(run: Run, text: str) -> list[str]:
    run.look(len(text))
    run.make(len(text))
    run.items(3 * (1 + sum(map(text.count, _LINE_ENDS))))
    return text.splitlines()


def _strip(name: str, call: Callable[[str, str | None], str]) -> _Method:
    def method(run: Run, text: str, given: Arguments) -> Value:
        (characters,) = given.bind(name, characters=None)
        set_of = None if characters is None else plain_text(characters, name)
        run.look(len(text), len(set_of or ""))
        return run.made(call(text, set_of))

    return method


def _split(name: str, call: Callable[[str, str | None, int], list[str]]) -> _Method:
    def method(run: Run, text: str, given: Arguments) -> Value:
        at, most = given.bind(name, sep=None, maxsplit=-1)
        between = None if at is None else plain_text(at, name)
        if between == "":
            raise TemplateError(f"{name} takes a text that is not empty")
        run.look(len(text), len(between or ""))
        pieces = text.count(between) + 1 if between else len(text) // 2 + 1
        limit = whole(most, name)
        run.items(3 * (pieces if limit < 0 else min(pieces, limit + 1)))
        run.make(len(text))
        return call(text, between, limit)

    return method


def _cased(name: str, call: Callable[[str], str]) -> _Method:
    def method(run: Run, text: str, given: Arguments) -> Value:
        given.bind(name)
        run.look(len(text))
        return run.made(call(text))

    return method


def _affix(name: str, call: Callable[[str, str], bool]) -> _Method:
    def method(run: Run, text: str, given: Arguments) -> Value:
        (affix,) = given.bind(name, affix=REQUIRED)
        for one in affix if isinstance(affix, tuple) else (affix,):
            wanted = plain_text(one, name)
            run.look(len(wanted))
            if call(text, wanted):
                return True
        return False

    return method


def _search(name: str, call: Callable[[str, str], int]) -> _Method:
    def method(run: Run, text: str, given: Arguments) -> Value:
        (sought,) = given.bind(name, sought=REQUIRED)
        wanted = plain_text(sought, name)
        run.look(len(text), len(wanted))
        return call(text, wanted)

    return method


def _without(name: str, call: Callable[[str, str], str]) -> _Method:
    def method(run: Run, text: str, given: Arguments) -> Value:
        (affix,) = given.bind(name, affix=REQUIRED)
        return run.made(call(text, plain_text(affix, name)))

    return method


def _partition(name: str, call: Callable[[str, str], tuple[str, str, str]]) -> _Method:
    def method(run: Run, text: str, given: Arguments) -> Value:
        (at,) = given.bind(name, sep=REQUIRED)
        between = plain_text(at, name)
        if not between:
            raise TemplateError(f"{name} takes a text that is not empty")
        run.look(len(text), len(between))
        run.make(len(text))
        return call(text, between)

    return method


def is_like(name: str, text: str) -> bool:
    """Return what ``text.name()`` says of a text of ASCII's characters."""
    if not text.isascii():
        raise TemplateError(f"{name} is not supported for letters beyond ASCII")
    return _LIKE[name](text)


_LIKE: Mapping[str, Callable[[str], bool]] = {
    "isalnum": str.isalnum,
    "isalpha": str.isalpha,
    "isdigit": str.isdigit,
    "islower": str.islower,
    "isspace": str.isspace,
    "isupper": str.isupper,
}


def _like(name: str) -> _Method:
    def method(run: Run, text: str, given: Arguments) -> Value:
        given.bind(name)
        run.look(len(text))
        return is_like(name, text)

    return method


def _replace(run: Run, text: str, given: Arguments) -> Value:
    old, new, most = given.bind("replace", old=REQUIRED, new=REQUIRED, count=-1)
    texts = plain_text(old, "replace"), plain_text(new, "replace")
    return replaced(run, text, *texts, whole(most, "replace"))


def _join(run: Run, text: str, given: Arguments) -> Value:
    (items,) = given.bind("join", items=REQUIRED)
    return joined(run, [plain_text(item, "join") for item in items_of(run, items)], text)


def _split_lines(run: Run, text: str, given: Arguments) -> Value:
    given.bind("splitlines")
    return split_lines(run, text)


def _found(text: str, wanted: str) -> int:
    at = text.find(wanted)
    if at < 0:
        raise TemplateError("index finds no such text")
    return at


_Method = Callable[[Run, str, Arguments], Value]
_TEXT_METHODS: Mapping[str, _Method] = {
    "capitalize": _cased("capitalize", str.capitalize),
    "count": _search("count", str.count),
    "endswith": _affix("endswith", str.endswith),
    "find": _search("find", str.find),
    "format": braced,
    "index": _search("index", _found),
    "join": _join,
    "lower": _cased("lower", str.lower),
    "lstrip": _strip("lstrip", str.lstrip),
    "partition": _partition("partition", str.partition),
    "removeprefix": _without("removeprefix", str.removeprefix),
    "removesuffix": _without("removesuffix", str.removesuffix),
    "replace": _replace,
    "rfind": _search("rfind", str.rfind),
    "rpartition": _partition("rpartition", str.rpartition),
    "rsplit": _split("rsplit", str.rsplit),
    "rstrip": _strip("rstrip", str.rstrip),
    "split": _split("split", str.split),
    "splitlines": _split_lines,
    "startswith": _affix("startswith", str.startswith),
    "strip": _strip("strip", str.strip),
    "title": _cased("title", str.title),
    "upper": _cased("upper", str.upper),
    **{name: _like(name) for name in _LIKE},
}


def _of_value(method: _Method, name: str) -> Callable[[Run, Value, Arguments], Value]:
    return lambda run, text, given: method(run, plain_text(text, name), given)


TEXT_METHODS = {name: _of_value(method, name) for name, method in _TEXT_METHODS.items()}
"""By their names in Python."""
