'''What a person types as one message: a line, or several between """ and """.'''

from __future__ import annotations

from collections.abc import Iterable, Iterator

QUOTES = '"""'


def unfinished(text: str) -> bool:
    '''Whether a text has begun with """ and its end is still to come.'''
    text = text.strip()
    if not text.startswith(QUOTES):
        return False
    return not text[len(QUOTES) :].endswith(QUOTES)


def message(text: str) -> str:
    """The message that was typed: without white space around it, and without its quotes."""
    text = text.strip()
    if text.startswith(QUOTES):
        text = text.removeprefix(QUOTES).removesuffix(QUOTES)
    return text.strip()


def messages(lines: Iterable[str]) -> Iterator[str]:
    """The messages of lines that come one by one; what is empty is none."""
    held = ""
    for line in lines:
        held += line
        if not unfinished(held):
            if found := message(held):
                yield found
            held = ""
    if found := message(held):
        yield found
