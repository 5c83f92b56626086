"""Values as JSON, as Python's `json` writes them."""

from __future__ import annotations

from dataclasses import dataclass

from edgewise_runtime.text.jinja.run import OBJECT_ROOM, Run, TemplateError, Value
from edgewise_runtime.text.jinja.values import Marked, deeper, finite, kind


@dataclass(frozen=True, slots=True)
class Json:
    """How JSON is written; `indent` is None where it is on one line."""

    indent: str | None
    between: str
    after_key: str
    sort_keys: bool
    ascii_only: bool

    def text(self, run: Run, value: Value) -> str:
        pieces: list[str] = []
        self._write(run, value, pieces, 0)
        return "".join(pieces)

    def _write(self, run: Run, value: Value, pieces: list[str], depth: int) -> None:
        deeper(run, depth)
        match value:
            case None | bool():
                pieces.append({None: "null", True: "true", False: "false"}[value])
            case int() | float():
                pieces.append(run.made(repr(finite(value))))
            case str():
                pieces.append(self._quoted(run, value))
            case Marked():
                pieces.append(self._quoted(run, value.text))
            case list() | tuple():
                self._enclosed(run, "[]", [("", item) for item in value], pieces, depth)
            case dict():
                keys = list(value)
                if self.sort_keys:
                    if len({isinstance(key, str) for key in keys}) > 1:
                        raise TemplateError("keys of text and of numbers have no order")
                    keys.sort()
                texts = [(self._quoted(run, str(key)) + self.after_key, value[key]) for key in keys]
                self._enclosed(run, "{}", texts, pieces, depth)
            case _:
                raise TemplateError(f"tojson cannot write {kind(value)}")

    def _enclosed(
        self,
        run: Run,
        marks: str,
        items: list[tuple[str, Value]],
        pieces: list[str],
        depth: int,
    ) -> None:
        if not items:
            pieces.append(marks)
            return
        width = 0 if self.indent is None else 1 + len(self.indent) * (depth + 1)
        run.make(width + len(items) * (OBJECT_ROOM + width + len(self.between)))
        line = "" if self.indent is None else "\n" + self.indent * (depth + 1)
        pieces.append(marks[0])
        for i, (key, item) in enumerate(items):
            pieces.append((self.between if i else "") + line + key)
            self._write(run, item, pieces, depth + 1)
        pieces.append(line[: len(line) - len(self.indent or "")])
        pieces.append(marks[1])

    def _quoted(self, run: Run, text: str) -> str:
        run.make(6 * len(text) if self.ascii_only or not text.isprintable() else len(text))
        escaped = text.translate(_JSON_ESCAPES)
        if self.ascii_only:
            escaped = "".join(c if c.isascii() else _utf16(c) for c in escaped)
        return f'"{escaped}"'


_JSON_ESCAPES = {c: f"\\u{c:04x}" for c in range(0x20)} | {
    ord(c): f"\\{e}" for c, e in zip('"\\\n\r\t\b\f', '"\\nrtbf', strict=True)
}


def _utf16(character: str) -> str:
    words = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{words[i : i + 2].hex()}" for i in range(0, len(words), 2))
