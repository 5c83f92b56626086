"""Models that clients have fetched from the hub, where they may."""

from __future__ import annotations

import json
from collections.abc import Iterator
from threading import Event

import pytest
from ollama import Client as OllamaClient
from ollama import ResponseError
from starlette.applications import Starlette

from edgewise.hub import download
from edgewise.hub.names import HubModel
from edgewise.hub.pull import find
from edgewise.server.ollama.pulling import MOST_PULLS, pulled_name
from edgewise.server.ollama.routes import api
from edgewise.server.run import in_background, listen
from edgewise_runtime.errors import InputError
from tests.sdk.hub.repositories import FOLDER, NAME, READ, WEIGHTS
from tests.sdk.hub.small_hub import SmallHub
from tests.sdk.server.client import Client
from tests.sdk.server.models import Some

SIZE = sum(map(len, READ.values()))


@pytest.fixture
def client(hub: SmallHub, monkeypatch: pytest.MonkeyPatch) -> Iterator[OllamaClient]:
    monkeypatch.setattr(download, "PAUSE_S", 0.001)
    app = Starlette(routes=api(Some({}), allow_pull=True).routes())
    with (
        listen("127.0.0.1", 0) as listening,
        in_background(app, listening) as url,
        OllamaClient(url) as client,
    ):
        yield client


def test_a_model_is_fetched_and_how_far_it_is_is_told(client: OllamaClient, hub: SmallHub) -> None:
    hub.add(NAME, FOLDER)
    told = list(client.pull(NAME, stream=True))
    assert (told[0].status, told[-1].status) == ("pulling manifest", "success")
    between = told[1:-1]
    assert {one.status for one in between} == {"pulling"}
    assert {one.total for one in between} == {SIZE}
    assert len({one.digest for one in between}) == 1
    completed = [one.completed or 0 for one in between]
    assert completed == sorted(completed)
    assert completed[-1] == SIZE
    hub.requests.clear()
    assert find(HubModel(NAME)).is_dir()
    assert hub.fetched() == []


def test_without_a_stream_the_end_is_told(client: OllamaClient, hub: SmallHub) -> None:
    hub.add(NAME, FOLDER)
    assert client.pull(f"hf.co/{NAME}").status == "success"


def test_a_download_that_fails_says_so_at_its_end(client: OllamaClient, hub: SmallHub) -> None:
    hub.add(NAME, FOLDER)
    hub.flips[WEIGHTS] = 99
    with pytest.raises(ResponseError, match="came damaged"):
        list(client.pull(NAME, stream=True))
    with pytest.raises(ResponseError, match="came damaged"):
        client.pull(NAME)


def test_only_so_many_are_fetched_at_once(client: OllamaClient, hub: SmallHub) -> None:
    names = [f"tiny/model-{number}" for number in range(MOST_PULLS + 1)]
    for name in names:
        hub.add(name, FOLDER)
    go_on = hub.waits[WEIGHTS] = Event()
    under_way = [client.pull(name, stream=True) for name in names[:MOST_PULLS]]
    for pulling in under_way:
        assert next(pulling).status == "pulling manifest"
    with pytest.raises(ResponseError, match="are being fetched") as busy:
        client.pull(names[-1])
    assert busy.value.status_code == 503
    go_on.set()
    assert [list(pulling)[-1].status for pulling in under_way] == ["success"] * MOST_PULLS
    assert client.pull(names[-1]).status == "success"


def test_whoever_leaves_gives_the_place_back(client: OllamaClient, hub: SmallHub) -> None:
    hub.add(NAME, FOLDER)
    go_on = hub.waits[WEIGHTS] = Event()
    for _ in range(MOST_PULLS):
        pulling = iter(client.pull(NAME, stream=True))
        assert next(pulling).status == "pulling manifest"
        pulling.close()  # type: ignore[attr-defined]  # a generator, which closes the connection
    go_on.set()
    assert any(fetches(client) for _ in range(5000))


def fetches(client: OllamaClient) -> bool:
    """Whether a model is fetched, and not refused because others still are."""
    try:
        return client.pull(NAME).status == "success"
    except ResponseError as error:
        if error.status_code != 503:
            raise
        return False


def test_a_model_that_there_is_not_is_an_error(client: OllamaClient) -> None:
    with pytest.raises(ResponseError, match="There is no model"):
        client.pull("tiny/nothing")


@pytest.mark.parametrize("body", [{"name": NAME}, {"model": "", "name": NAME}])
def test_older_clients_call_it_a_name(
    client: OllamaClient, hub: SmallHub, body: dict[str, str]
) -> None:
    hub.add(NAME, FOLDER)
    http = Client(str(client._client.base_url))
    answer = http.post("/api/pull", {**body, "stream": False})
    assert json.loads(answer.body) == {"status": "success"}


def test_nothing_is_fetched_without_tls_on_a_clients_word(client: OllamaClient) -> None:
    with pytest.raises(ResponseError, match="insecure"):
        client.pull(NAME, insecure=True)


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("org/model", HubModel("org/model")),
        ("hf:org/model:Q4_K_M", HubModel("org/model", "Q4_K_M")),
        ("hf.co/org/model:Q8_0", HubModel("org/model", "Q8_0")),
        ("huggingface.co/org/model", HubModel("org/model")),
    ],
)
def test_names_of_the_hub(text: str, model: HubModel) -> None:
    assert pulled_name(text) == model


@pytest.mark.parametrize(
    "text",
    [
        "llama3",
        "/etc/passwd",
        "../../etc",
        "https://example.com/org/model",
        "http://127.0.0.1/x",
        "file:///etc/passwd",
        "example.com/org/model",
        "hf.co/https://example.com/a",
        "a/b/../c",
        "a\\b",
    ],
)
def test_paths_and_addresses_are_no_names(text: str) -> None:
    with pytest.raises(InputError) as refused:
        pulled_name(text)
    assert refused.value.code == "input.model"
