"""What errors are to HTTP."""

from __future__ import annotations

import pytest

from edgewise.server.failing import headers_of, known, status_of
from edgewise_runtime.errors import EdgewiseError


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("bundle.entry", 400),
        ("bundle.checksum", 500),
        ("input", 400),
        ("input.sampling", 400),
        ("input.model", 404),
        ("input.modelling", 400),
        ("input.body", 400),
        ("input.body_size", 413),
        ("input.body_type", 415),
        ("engine.busy", 503),
        ("engine.gone", 502),
        ("engine", 500),
        ("unsupported.tool", 400),
        ("constraint.too_large", 400),
        ("device.memory", 500),
        ("internal", 500),
    ],
)
def test_a_status_follows_from_how_a_code_begins(code: str, status: int) -> None:
    assert status_of(EdgewiseError("It went wrong.", code=code)) == status


def test_who_may_ask_again_is_told_when() -> None:
    assert headers_of(EdgewiseError("", code="engine.busy"))["Retry-After"] == "1"
    assert "Retry-After" not in headers_of(EdgewiseError("", code="input.model"))
    assert headers_of(EdgewiseError("", code="input.body_size"))["Connection"] == "close"


def test_errors_of_others_say_nothing_of_themselves() -> None:
    error = known(ValueError("a secret"))
    assert (error.code, status_of(error)) == ("internal", 500)
    assert "secret" not in str(error)
    assert known(error) is error
