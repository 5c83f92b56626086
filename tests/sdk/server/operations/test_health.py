"""Whether a server lives, and whether it can take requests."""

from __future__ import annotations

import json

import pytest

from edgewise.server.app import make_app
from edgewise.server.operations.operations import Operations
from edgewise.server.run import in_background, listen
from edgewise_runtime.errors import BundleError, EdgewiseError, EngineError, InputError
from tests.sdk.server.client import Client
from tests.sdk.server.models import Some
from tests.sdk.server.operations.serving import serving

KEY = "a-key-that-nobody-guesses"


def why(operations: Operations) -> list[str]:
    return operations.readiness.why_not(Some({}))


def test_a_server_that_was_started_for_nothing_is_ready() -> None:
    with serving(Operations()) as client:
        assert json.loads(client.get("/health").body) == {"status": "ok"}
        ready = client.get("/ready")
        assert (ready.status, json.loads(ready.body)) == (200, {"status": "ready"})
        assert ready.headers["Cache-Control"] == "no-store"
        assert client.get("/health", method="HEAD").status == 200


def test_it_is_not_ready_without_a_model_that_it_was_started_for() -> None:
    with serving(Operations(wanted=["secret-project"])) as client:
        assert client.get("/health").status == 200
        ready = client.get("/ready")
        assert ready.status == 503
        assert json.loads(ready.body) == {"status": "missing", "why": ["missing: 1 of 1 models"]}


def test_it_is_not_ready_while_it_loads() -> None:
    operations = Operations()
    operations.readiness.loading.add("m")
    assert why(operations) == ["loading"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BundleError("Torn.", code="bundle.checksum"), ["cannot load: bundle.checksum"]),
        (EngineError("Dies.", code="engine.gone"), ["cannot load: engine.gone"]),
        (EngineError("Later.", code="engine.busy"), []),
        (EngineError("Full.", code="engine.memory"), []),
        (InputError("None such.", code="input.model"), []),
    ],
)
def test_what_a_model_last_failed_with_is_said_until_it_loads(
    error: EdgewiseError, said: list[str]
) -> None:
    operations = Operations(wanted=["m"])
    operations.readiness.on_failed("m", error)
    operations.readiness.on_failed("another", BundleError("Torn."))
    assert why(operations) == ["missing: 1 of 1 models", *said]
    operations.readiness.on_loaded("m")
    assert why(operations) == ["missing: 1 of 1 models"]


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_both_need_no_key_and_name_nothing(path: str) -> None:
    operations = Operations(wanted=["secret-project"])
    app = make_app({}, {}, models=Some({}), api_key=KEY, operations=operations)
    with listen("127.0.0.1", 0) as listening, in_background(app, listening) as url:
        client = Client(url)
        answer = client.get(path)
        assert answer.status in (200, 503)
        assert "secret" not in answer.text
        assert client.get("/metrics").status == 401
        assert client.get("/metrics", {"Authorization": f"Bearer {KEY}"}).status == 200
