"""What is fetched from a hub, what is not, and how a download that broke goes on."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from huggingface_hub import constants, hf_hub_download, snapshot_download, try_to_load_from_cache

from edgewise.hub import download
from edgewise.hub.names import DOWNLOADING, HubModel, hub_model
from edgewise.hub.pull import find, pull
from edgewise.hub.stored import home
from edgewise_runtime.errors import CheckpointError, EdgewiseError, HubError, UnsupportedError
from tests.sdk.hub.repositories import (
    BESIDE,
    FOLDER,
    NAME,
    READ,
    WEIGHTS,
    config,
    ggufs,
    mlc,
    noise,
    sharded,
)
from tests.sdk.hub.small_hub import INVITED, LARGE, TOKEN, SmallHub

MODEL = HubModel(NAME)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "PAUSE_S", 0.001)


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder by their paths in it."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def partials() -> list[Path]:
    return list(home(NAME).rglob(f"*{download.PARTIAL}"))


def test_only_what_a_compile_reads_is_fetched(hub: SmallHub) -> None:
    hub.add(NAME, FOLDER)
    pulled = pull(MODEL)
    assert hub.fetched() == sorted(READ)
    assert contents(pulled.path) == READ
    assert (pulled.files, pulled.repo) == (len(READ), NAME)
    assert pulled.size == pulled.fetched == sum(map(len, READ.values()))


def test_of_shards_those_that_the_index_names(hub: SmallHub) -> None:
    files = sharded()
    hub.add(NAME, files)
    beside = {*BESIDE, "model-00003-of-00002.safetensors"}
    assert contents(pull(MODEL).path) == {n: d for n, d in files.items() if n not in beside}


def test_of_gguf_files_the_one_that_is_named_with_all_of_its_parts(hub: SmallHub) -> None:
    parts = [f"m-Q8_0-0000{i}-of-00002.gguf" for i in (1, 2)]
    hub.add(NAME, ggufs("m-Q4_K_M.gguf", *parts))
    one, split = pull(HubModel(NAME)), pull(HubModel(NAME, "Q8_0"))
    assert (one.path.name, one.files) == ("m-Q4_K_M.gguf", 1)
    assert (split.path.name, split.files) == (parts[0], 2)
    assert hub.fetched() == ["m-Q4_K_M.gguf", *parts]


def test_of_a_folder_of_mlc_its_shards_and_one_list_of_them(hub: SmallHub) -> None:
    files = mlc()
    hub.add(NAME, files)
    beside = {"README.md", "vocab.json", "ndarray-cache.json"}
    assert contents(pull(MODEL).path) == {n: d for n, d in files.items() if n not in beside}


def test_a_folder_of_mlc_that_is_not_read_is_refused_before_its_shards_come(
    hub: SmallHub,
) -> None:
    hub.add(NAME, mlc(quantization="q3f16_0"))
    with pytest.raises(UnsupportedError, match="quantization is 'q3f16_0'"):
        pull(MODEL)
    assert hub.asked_for("params_shard_0.bin") == []


def test_files_lie_where_the_library_of_the_hub_finds_them(hub: SmallHub) -> None:
    hub.add(NAME, FOLDER)
    pull(MODEL)
    hub.requests.clear()
    assert Path(str(try_to_load_from_cache(NAME, WEIGHTS))).read_bytes() == READ[WEIGHTS]
    found = snapshot_download(NAME, local_files_only=True, allow_patterns=list(READ))
    assert contents(Path(found)) == READ
    assert hub.requests == []


def test_what_another_program_has_fetched_is_not_fetched_again(hub: SmallHub) -> None:
    hub.add(NAME, FOLDER)
    hf_hub_download(NAME, WEIGHTS)
    hub.requests.clear()
    assert pull(MODEL).fetched == sum(len(data) for name, data in READ.items() if name != WEIGHTS)
    assert hub.asked_for(WEIGHTS) == []


def test_pulled_again_it_fetches_what_is_new(hub: SmallHub) -> None:
    repository = hub.add(NAME, FOLDER)
    before = pull(MODEL)
    hub.requests.clear()
    again = pull(MODEL)
    assert (again.path, again.fetched, hub.fetched()) == (before.path, 0, [])
    repository.files["generation_config.json"] = b'{"temperature": 0.7}'
    after = pull(MODEL)
    assert hub.fetched() == ["generation_config.json"]
    assert after.path != before.path
    assert contents(after.path) == READ | {"generation_config.json": b'{"temperature": 0.7}'}


def test_two_at_a_time_fetch_a_file_once(hub: SmallHub) -> None:
    hub.add(NAME, FOLDER)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(pull, [MODEL, MODEL])
    assert first.path == second.path
    assert contents(first.path) == READ
    assert [len(hub.asked_for(name)) for name in READ] == [1] * len(READ)


def test_a_repository_that_changes_meanwhile_is_pulled_again(hub: SmallHub) -> None:
    repository = hub.add(NAME, FOLDER)

    def change(phase: str, done: int, total: int) -> None:
        if done == total:
            repository.files.pop("tokenizer_config.json", None)

    with pytest.raises(HubError, match="changed while it was fetched") as caught:
        pull(MODEL, change)
    assert caught.value.code == "hub.changed"
    assert contents(pull(MODEL).path).keys() == READ.keys() - {"tokenizer_config.json"}


def test_progress_is_in_bytes_and_ends_when_all_is_there(hub: SmallHub) -> None:
    hub.add(NAME, FOLDER)
    heard: list[tuple[str, int, int]] = []
    pulled = pull(MODEL, lambda *what: heard.append(what))
    assert {(phase, total) for phase, _, total in heard} == {(DOWNLOADING, pulled.size)}
    done = [count for _, count, _ in heard]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, pulled.size)


@pytest.mark.parametrize("typed", [NAME, f"{NAME}:Q4_K_M"])
def test_a_model_that_is_here_is_found_without_asking(hub: SmallHub, typed: str) -> None:
    hub.add(NAME, FOLDER if typed == NAME else ggufs("m-Q4_K_M.gguf", "m-Q8_0.gguf"))
    path = find(hub_model(typed))
    hub.requests.clear()
    assert find(hub_model(typed)) == path
    assert hub.requests == []


def test_a_model_of_which_a_file_is_gone_is_completed(hub: SmallHub) -> None:
    hub.add(NAME, FOLDER)
    path = find(MODEL)
    for name in ("chat_template.jinja", WEIGHTS):
        (path / name).resolve().unlink()
        hub.requests.clear()
        assert contents(find(MODEL)) == READ
        assert hub.fetched() == [name]


def test_a_model_that_another_program_left_will_do_where_the_hub_cannot_be_asked(
    hub: SmallHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(NAME, FOLDER)
    # Programs that fetch files one by one leave no list of what else there is.
    left = {Path(hf_hub_download(NAME, name)) for name in READ if name != "chat_template.jinja"}
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    (folder,) = {path.parent for path in left}
    assert find(MODEL) == folder
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    assert "chat_template.jinja" in contents(find(MODEL))


def test_a_model_that_cannot_be_compiled_is_refused_before_its_weights_come(hub: SmallHub) -> None:
    told = config(architectures=["MambaForCausalLM"], model_type="mamba")
    hub.add(NAME, FOLDER | {"config.json": told})
    with pytest.raises(UnsupportedError, match="Mamba"):
        pull(MODEL)
    assert hub.asked_for(WEIGHTS) == []


@pytest.mark.parametrize("name", [WEIGHTS, "tokenizer.json"])
def test_a_download_that_breaks_off_goes_on_where_it_was(hub: SmallHub, name: str) -> None:
    hub.add(NAME, FOLDER)
    hub.breaks[name] = [1000, 500]
    assert contents(pull(MODEL).path) == READ
    ranges = [request.range for request in hub.asked_for(name)]
    assert ranges == [None, "bytes=1000-", "bytes=1500-"]


def test_the_next_pull_goes_on_where_the_last_one_ended(hub: SmallHub) -> None:
    hub.add(NAME, FOLDER)
    hub.breaks[WEIGHTS] = [3000, *[0] * (1 + download.RETRIES)]
    with pytest.raises(HubError, match="goes on from there") as caught:
        pull(MODEL)
    assert caught.value.code == "hub.unreachable"
    assert [path.stat().st_size for path in partials()] == [3000]
    hub.requests.clear()
    heard: list[int] = []
    pulled = pull(MODEL, lambda phase, done, total: heard.append(done))
    assert [request.range for request in hub.asked_for(WEIGHTS)] == ["bytes=3000-"]
    assert heard[0] == 3000
    assert contents(pulled.path) == READ
    assert partials() == []


def test_a_server_without_ranges_is_asked_for_all_of_it_again(hub: SmallHub) -> None:
    hub.add(NAME, FOLDER)
    hub.breaks[WEIGHTS], hub.ranges = [3000], False
    heard: list[int] = []
    assert contents(pull(MODEL, lambda phase, done, total: heard.append(done)).path) == READ
    assert heard[-1] == sum(map(len, READ.values()))


def test_a_part_that_is_longer_than_the_file_is_thrown_away(hub: SmallHub) -> None:
    hub.add(NAME, FOLDER)
    hub.breaks[WEIGHTS] = [3000, *[0] * (1 + download.RETRIES)]
    with pytest.raises(HubError):
        pull(MODEL)
    (partial,) = partials()
    partial.write_bytes(b"x" * (len(READ[WEIGHTS]) + 1))
    assert contents(pull(MODEL).path) == READ


@pytest.mark.parametrize("name", [WEIGHTS, "config.json"])
def test_what_comes_damaged_is_refused_and_fetched_anew(hub: SmallHub, name: str) -> None:
    hub.add(NAME, FOLDER)
    hub.flips[name] = 1
    with pytest.raises(HubError, match=f"{name} of {NAME} came damaged") as caught:
        pull(MODEL)
    assert caught.value.code == "hub.damaged"
    assert partials() == []
    assert contents(pull(MODEL).path) == READ


def test_more_than_was_announced_is_refused(hub: SmallHub) -> None:
    repository = hub.add(NAME, ggufs("m-Q4_K_M.gguf"))
    told = repository.files["m-Q4_K_M.gguf"]
    file = download.HubFile("m-Q4_K_M.gguf", len(told) - 1, "0" * 64)
    blob = home(NAME) / "blobs" / file.digest
    with pytest.raises(HubError, match="longer than the") as caught:
        download.download(
            file, NAME, repository.commit, blob, blob.with_suffix(".lock"), lambda count: None
        )
    assert caught.value.code == "hub.damaged"
    assert not blob.exists()


def test_tokens_go_to_the_hub_and_to_nobody_else(
    hub: SmallHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(NAME, FOLDER, gated=True)
    monkeypatch.setenv("HF_TOKEN", INVITED)
    pull(MODEL)
    of_files = {
        (len(FOLDER[r.path.rpartition("/")[2]]) >= LARGE, r.token)
        for r in hub.requests
        if "/cdn/" in r.path
    }
    assert of_files == {(True, None)}
    assert {r.token for r in hub.requests if "/cdn/" not in r.path} == {INVITED}


def test_a_token_is_read_from_the_file_that_logging_in_writes(hub: SmallHub) -> None:
    hub.add(NAME, FOLDER, gated=True)
    Path(constants.HF_TOKEN_PATH).write_text(INVITED)
    assert contents(pull(MODEL).path) == READ


def test_a_repository_that_was_renamed_is_found_by_its_old_name(hub: SmallHub) -> None:
    hub.add(NAME, FOLDER)
    hub.renamed["tiny/old"] = NAME
    pulled = pull(HubModel("tiny/old"))
    assert pulled.repo == NAME
    assert contents(pulled.path) == READ
    hub.requests.clear()
    assert find(HubModel("tiny/old")) == pulled.path
    assert hub.requests == []


def failure(model: HubModel = MODEL) -> EdgewiseError:
    """What pulling a model raises."""
    with pytest.raises(EdgewiseError) as caught:
        pull(model)
    return caught.value


@pytest.mark.parametrize(
    ("gated", "token", "code", "said", "remedy"),
    [
        (True, None, "gated", "is gated", f"{NAME}; then run `hf auth login`, or set HF_TOKEN"),
        (True, TOKEN, "gated", "has not been let in", "with the account that the token belongs to"),
        (False, None, "missing", "or it is private", "a private one run `hf auth login`"),
        (False, TOKEN, "missing", "no model tiny/other at http", "that your token may read it"),
        (False, "hf_no", "token", "does not accept your token", "unset HF_TOKEN"),
    ],
)
def test_who_may_not_read_is_told_what_to_do(
    hub: SmallHub,
    monkeypatch: pytest.MonkeyPatch,
    gated: bool,
    token: str | None,
    code: str,
    said: str,
    remedy: str,
) -> None:
    hub.add(NAME, FOLDER, gated=gated)
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    error = failure(MODEL if gated else HubModel("tiny/other"))
    assert error.code == f"hub.{code}"
    assert said in error.message
    assert remedy in error.remedy


def test_a_model_that_was_taken_down_is_named(hub: SmallHub) -> None:
    hub.add(NAME, FOLDER, disabled=True)
    assert failure().code == "hub.disabled"


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        ((429, {}, "{}"), "busy", "too many requests"),
        ((503, {}, "{}"), "unreachable", "503"),
        ((403, {"X-Error-Message": "Fine-grained token"}, "{}"), "forbidden", "Fine-grained token"),
        ((418, {"X-Error-Message": "I am a teapot"}, "{}"), "refused", "I am a teapot"),
        (
            (200, {"Content-Type": "text/html"}, "<html>Log in"),
            "answer",
            "does not answer as a hub",
        ),
        ((200, {}, "[]"), "answer", "does not answer as a hub"),
        ((200, {}, '{"id": "a/b", "sha": "../..", "siblings": []}'), "answer", "a commit is"),
        ((200, {}, '{"id": "a/b", "sha": null, "siblings": null}'), "answer", "hub of models"),
    ],
)
def test_an_answer_that_is_none_is_explained(
    hub: SmallHub, answer: tuple[int, dict[str, str], str], code: str, said: str
) -> None:
    hub.answer = answer
    error = failure()
    assert error.code == f"hub.{code}"
    assert said in error.message
    assert error.remedy


@pytest.mark.parametrize(
    "sibling",
    [
        {"rfilename": "config.json"},
        {"rfilename": "config.json", "size": -1, "blobId": "0" * 40},
        {"rfilename": "config.json", "size": 1, "blobId": "../" * 20},
        {"rfilename": "config.json", "size": "1", "blobId": "0" * 40},
    ],
)
def test_a_listing_without_sizes_and_hashes_is_refused(
    hub: SmallHub, sibling: dict[str, object]
) -> None:
    told = {"id": NAME, "sha": "0" * 40, "siblings": [sibling]}
    hub.answer = (200, {}, json.dumps(told))
    assert failure().code == "hub.answer"


@pytest.mark.parametrize("told", ["{}", '{"id": "a/b", "siblings": []}'])
def test_a_hub_that_is_none_any_more_once_all_is_fetched_is_explained(
    hub: SmallHub, told: str
) -> None:
    hub.add(NAME, READ)

    def spoil(phase: str, done: int, total: int) -> None:
        if done == total:
            hub.answer = (200, {}, told)

    with pytest.raises(HubError, match="does not answer as a hub") as refused:
        pull(hub_model(NAME), spoil)
    assert refused.value.code == "hub.answer"


@pytest.mark.parametrize("host", ["localhost:18446744073709551616", "a" * 70 + ".invalid"])
def test_an_address_that_is_none_is_explained(
    hub: SmallHub, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(NAME, FOLDER)
    monkeypatch.setattr(hub, "cdn", f"http://{host}")
    error = failure()
    assert error.code == "hub.answer"
    assert error.remedy


def test_nobody_is_asked_what_files_are_called_that_have_come(hub: SmallHub) -> None:
    """What a hub says in headers would be a path on this disk."""
    hub.add(NAME, FOLDER)
    pull(hub_model(NAME))
    assert {request.method for request in hub.requests} == {"GET"}


def test_files_that_lead_out_of_their_folder_are_not_seen(hub: SmallHub) -> None:
    hub.add(NAME, ggufs("../m-Q4_K_M.gguf", "a/../../m-Q4_K_M.gguf", "/m-Q4_K_M.gguf", "a\\b.gguf"))
    assert failure().code == "hub.format"


def test_files_of_endless_names_are_not_seen(hub: SmallHub) -> None:
    hub.add(NAME, {"a" * 5000 + ".bin": b"", "b.txt": b""})
    error = failure()
    assert error.code == "hub.format"
    assert len(str(error)) < 500


def test_a_disk_without_room_is_told_before_anything_comes(hub: SmallHub) -> None:
    lfs = {"size": 1 << 60, "sha256": "0" * 64, "pointerSize": 134}
    sibling = {"rfilename": "m.gguf", "size": 134, "blobId": "0" * 40, "lfs": lfs}
    hub.answer = (200, {}, json.dumps({"id": NAME, "sha": "0" * 40, "siblings": [sibling]}))
    error = failure()
    assert error.code == "storage.full"
    assert "HF_HUB_CACHE" in error.remedy
    assert len(hub.requests) == 1


def test_small_files_that_are_not_small_are_refused(hub: SmallHub) -> None:
    sibling = {"rfilename": "config.json", "size": 5 << 20, "blobId": "0" * 40}
    others = [{"rfilename": n, "size": 1, "blobId": "0" * 40} for n in (WEIGHTS, "tokenizer.json")]
    told = {"id": NAME, "sha": "0" * 40, "siblings": [sibling, *others]}
    hub.answer = (200, {}, json.dumps(told))
    error = failure()
    assert isinstance(error, CheckpointError)
    assert "config.json" in error.message


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (b"{}", "no weight_map"),
        (b'{"weight_map": {"a": "../x.safetensors"}}', "no file name"),
        (b'{"weight_map": {"a": "x.safetensors"}}', "lists 'x.safetensors'"),
    ],
)
def test_an_index_that_names_no_shards_of_the_repository_is_refused(
    hub: SmallHub, index: bytes, said: str
) -> None:
    hub.add(NAME, sharded() | {"model.safetensors.index.json": index})
    assert said in failure().message
    assert hub.fetched() == ["model.safetensors.index.json"]


def test_a_hub_that_is_not_there_is_told_with_what_to_check(
    hub: SmallHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    error = failure()
    assert error.code == "hub.unreachable"
    assert "http://127.0.0.1:9 could not be asked" in error.message
    assert "HF_ENDPOINT" in error.remedy


def test_offline_it_says_what_forbids_to_ask(
    hub: SmallHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(NAME, FOLDER)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(HubError, match="HF_HUB_OFFLINE") as caught:
        find(MODEL)
    assert caught.value.code == "hub.offline"
    assert f"edgewise pull hf:{NAME}" in caught.value.remedy
    assert hub.requests == []


def test_a_cache_that_may_not_be_written_to_is_named(
    hub: SmallHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(NAME, FOLDER)
    in_the_way = Path(constants.HF_HUB_CACHE)
    in_the_way.write_bytes(noise("a file", 1))
    error = failure()
    assert error.code.startswith("storage.")
    assert str(in_the_way) in error.message
