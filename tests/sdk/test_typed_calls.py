"""What calls give is what their types say; that mypy takes them is part of `make lint`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edgewise import Completion, Engine, Stream
from tests.sdk import typed_calls


@pytest.mark.parametrize("call", [typed_calls.generate, typed_calls.chat])
@pytest.mark.parametrize(("live", "given"), [(True, Stream), (False, Completion)])
def test_stream_may_be_any_bool(
    engine: Engine, call: Callable[[Engine, bool], list[object]], live: bool, given: type
) -> None:
    kinds = [type(result) for result in call(engine, live)]
    assert kinds == [Completion, Completion, Stream, given, list]


def test_kept_options_are_keywords(engine: Engine) -> None:
    assert len(typed_calls.options(engine).token_ids) == 1
