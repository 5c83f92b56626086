"""Which origins may be allowed: those that browsers send, letter for letter."""

from __future__ import annotations

import pytest

from edgewise.server.origins import allowed_origin
from edgewise_runtime.errors import InputError


@pytest.mark.parametrize(
    "origin",
    ["http://localhost:5173", "https://chat.example", "https://xn--bcher-kva.example:8443",
     "http://[::1]:5173", "http://192.0.2.7", "http://localhost:443", "https://a.b:80"],
)  # fmt: skip
def test_what_browsers_send_is_taken_as_it_is(origin: str) -> None:
    assert allowed_origin(origin) == origin


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("http://localhost:5173/", "http://localhost:5173"),
        ("HTTP://LocalHost:5173", "http://localhost:5173"),
        ("https://chat.example:443", "https://chat.example"),
        ("http://chat.example:80/app?x=1", "http://chat.example"),
        (" https://chat.example", "https://chat.example"),
    ],
)
def test_what_is_nearly_one_is_refused_with_what_is_meant(text: str, meant: str) -> None:
    with pytest.raises(InputError) as error:
        allowed_origin(text)
    assert error.value.code == "serve.origin"
    assert repr(text) in error.value.message
    assert error.value.remedy == f"Write {meant}."


@pytest.mark.parametrize(
    "text",
    ["*", "null", "", "localhost:5173", "https://*.example", "file:///home", "ftp://a.b",
     "http://user@a.b", "http://a.b:", "http://a.b:0", "http://a.b:65536", "http://a.b:05173",
     "http://bücher.example", "http://a b", "http://[::1", "http://a.b,http://c.d", "x" * 9999],
)  # fmt: skip
def test_anything_else_is_refused_and_named(text: str) -> None:
    with pytest.raises(InputError, match="is no origin") as error:
        allowed_origin(text)
    assert repr(text[:80]) in error.value.message
    assert "http://localhost:5173" in error.value.remedy
