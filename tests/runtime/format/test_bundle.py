"""Bundles: what a valid one gives, and that damaged or hostile ones are refused by name."""

from __future__ import annotations

import copy
import hashlib
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise_runtime.errors import BundleError, EdgewiseError, StorageError
from edgewise_runtime.format import bundle as bundles
from edgewise_runtime.format.bundle import (
    MOST_OPEN,
    Bundle,
    BundleManifest,
    FileEntry,
    describe_files,
)
from edgewise_runtime.format.reading import parse_json
from tests.runtime import sample
from tests.runtime.format.test_bundle_programs import with_programs
from tests.runtime.format.test_plan import anything, places, setter
from tests.runtime.sample import Json

PARAMS = "params/cpu/00000.safetensors"
LIBRARY = "programs/cpu-f32-portable/kernels.so"
PLAN = "programs/cpu-f32-portable/plans/prefill.json"

Change = Callable[[Json], object]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A valid bundle's folder."""
    sample.write_bundle(tmp_path / "tiny")
    return tmp_path / "tiny"


def change_manifest(folder: Path, change: Change) -> None:
    value = sample.read_manifest(folder)
    change(value)
    sample.write_manifest(folder, value)


def refused(folder: Path, **options: Any) -> EdgewiseError:
    """What a bundle is refused for, when opened or at the latest when checked as a whole."""
    with pytest.raises(EdgewiseError) as error:
        Bundle.open(folder, **options).check()
    assert len(str(error.value)) < 700
    return error.value


def test_a_bundle_opens_and_tells_what_it_holds(folder: Path) -> None:
    heard: list[tuple[str, int, int]] = []
    bundle = Bundle.open(str(folder), progress=lambda *event: heard.append(event))
    assert bundle.name == "tiny"
    assert bundle.model.prefill_chunk == 4
    assert bundle.file("tokenizer.json").read_text() == "{}"
    assert bundle.read("tokenizer.json") == b"{}"
    assert bundle.total_bytes == sum(item["bytes"] for item in sample.list_files(folder).values())
    assert sorted(bundle.plans("cpu-f32-portable")) == ["decode", "prefill", "spin"]
    program = bundle.manifest.program("cpu-f32-portable")
    assert program.plan_for("decode", {"b": 2}) == "decode"
    assert program.plan_for("decode", {"b": 3}) is None
    assert program.plan_for("sing", {}) is None
    # Everything without parameters was hashed, whole.
    assert {name for name, _, _ in heard} == bundle.manifest.files.keys() - {PARAMS}
    assert ("tokenizer.json", 2, 2) in heard


def test_a_manifest_reads_and_writes_back_exactly(folder: Path) -> None:
    value = sample.read_manifest(folder)
    manifest = BundleManifest.from_json(value)
    assert manifest.to_json() == value
    assert BundleManifest.from_json(manifest.to_json()) == manifest


def test_weights_that_differ_in_their_schemes_are_called_after_their_recipe(folder: Path) -> None:
    value = sample.read_manifest(folder)
    assert BundleManifest.from_json(value).model.stored == "f32"
    value["model"]["recipe"] = "q4-q8.head"
    manifest = BundleManifest.from_json(value)
    assert (manifest.model.quant, manifest.model.stored) == ("f32", "q4-q8.head")
    assert manifest.to_json() == value


def test_what_the_compiler_writes_is_what_the_runtime_opens(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    folder.mkdir()
    sample.write_files(folder)
    files = bundles.describe_files(folder)
    assert {name: entry.to_json() for name, entry in files.items()} == sample.list_files(folder)
    value = sample.manifest() | {"files": {k: v.to_json() for k, v in files.items()}}
    bundles.write_manifest(folder, BundleManifest.from_json(value))
    opened = Bundle.open(folder)
    assert opened.manifest.to_json() == value


def test_a_large_file_is_described_chunk_by_chunk(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgewise_runtime.format.manifest.CHUNK_BYTES", 100)
    monkeypatch.setattr("edgewise_runtime.format.bundle.CHUNK_BYTES", 100)
    data = bytes(range(250))
    (folder / "large").write_bytes(data)
    entry = describe_files(folder)["large"]
    expected = [hashlib.sha256(data[i : i + 100]).hexdigest() for i in (0, 100, 200)]
    assert entry == FileEntry(250, hashlib.sha256(data).hexdigest(), tuple(expected))
    assert entry.to_json()["chunks"] == expected
    assert "chunks" not in FileEntry(100, "0" * 64).to_json()


def test_a_manifest_that_would_not_be_read_is_not_written(folder: Path) -> None:
    manifest = BundleManifest.from_json(sample.read_manifest(folder))
    bad = BundleManifest(**{**_fields(manifest), "weights_id": "nothing"})
    before = (folder / "bundle.json").read_bytes()
    with pytest.raises(BundleError):
        bundles.write_manifest(folder, bad)
    assert (folder / "bundle.json").read_bytes() == before


def _fields(manifest: BundleManifest) -> dict[str, Any]:
    return {name: getattr(manifest, name) for name in manifest.__slots__}


TENSOR = "layouts/cpu/tensors/w"
MUTATIONS: list[tuple[str, Change, str]] = [
    ("another version", setter("version", 5), "bundle.version"),
    ("the version before", setter("version", 3), "bundle.version"),
    ("an unknown field", setter("comment", ""), "bundle.unknown_field"),
    ("a name with a path in it", setter("name", "../tiny"), "bundle.name"),
    ("a weights id that is no hash", setter("weights_id", "AB" * 32), "bundle.name"),
    ("a model of no layers", setter("model/layers", 0), "bundle.range"),
    ("a model of countless heads", setter("model/heads", 10**4000), "bundle.range"),
    ("a vocabulary that is no number", setter("model/vocab", "32"), "bundle.type"),
    ("an end token outside the vocabulary", setter("model/eos", [32]), "bundle.range"),
    ("a first token outside the vocabulary", setter("model/bos", 32), "bundle.range"),
    ("an unknown quantization", setter("model/quant", "q1"), "bundle.quant"),
    ("a recipe with a path in it", setter("model/recipe", "../q4"), "bundle.name"),
    ("a creator that is no string", setter("created_by/tvm", 27), "bundle.type"),
    ("an unknown kind of state", setter("state_groups/0/kind", "vague"), "bundle.kind"),
    ("a state of a layer there is not", setter("state_groups/0/layers", [1]), "bundle.range"),
    ("a layer without a buffer", setter("state_groups/0/buffers", []), "bundle.state"),
    ("a state no plan has", setter("state_groups/0/buffers", ["kv.9"]), "bundle.state"),
    ("a state that is none", setter("state_groups/0/buffers", ["x"]), "bundle.state"),
    ("a state of another dtype", setter("programs/0/state_dtype", "float16"), "bundle.state"),
    ("a tensor of an unknown dtype", setter(f"{TENSOR}/dtype", "int4"), "bundle.dtype"),
    ("a tensor of another dtype", setter(f"{TENSOR}/dtype", "int32"), "bundle.tensor"),
    ("a tensor of another shape", setter(f"{TENSOR}/shape", [2, 4]), "bundle.tensor"),
    ("a tensor of negative size", setter(f"{TENSOR}/shape", [-8]), "bundle.range"),
    ("a tensor of huge size", setter(f"{TENSOR}/shape", [2**52, 2**52]), "bundle.extent"),
    ("a tensor that disagrees with its bytes", setter(f"{TENSOR}/bytes", 28), "bundle.extent"),
    ("a tensor off the grid", setter(f"{TENSOR}/offset", 32), "bundle.offset"),
    ("a tensor past its file", setter(f"{TENSOR}/offset", 128), "bundle.extent"),
    ("a tensor far past its file", setter(f"{TENSOR}/offset", 2**52), "bundle.extent"),
    ("a tensor before its file", setter(f"{TENSOR}/offset", -64), "bundle.range"),
    ("a tensor in no file", setter(f"{TENSOR}/file", "params/other"), "bundle.unknown_name"),
    ("a tensor that is missing", lambda m: m["layouts"]["cpu"]["tensors"].clear(), "bundle.tensor"),
    ("a program of no layout", setter("programs/0/layout", "gpu"), "bundle.unknown_name"),
    ("a program with another target", setter("programs/0/target", "webgpu"), "bundle.plan"),
    (
        "a program without its plan",
        setter("programs/0/plans/prefill", "x.json"),
        "bundle.unknown_name",
    ),
    ("a program without its library", setter("programs/0/library", "x.so"), "bundle.unknown_name"),
    ("a plan under another name", setter("programs/0/plans/decode", PLAN), "bundle.plan"),
    ("a signature that is none", setter("programs/0/signature", "trust me"), "bundle.name"),
    (
        "an entry for no plan",
        setter("programs/0/entries/prefill/0/plan", "x"),
        "bundle.unknown_name",
    ),
    (
        "an entry beyond the plan",
        setter("programs/0/entries/prefill/0/when/n", [1, 5]),
        "bundle.entry",
    ),
    (
        "an entry over a stranger",
        setter("programs/0/entries/prefill/0/when/m", [1, 5]),
        "bundle.entry",
    ),
    ("an entry of no range", setter("programs/0/entries/prefill/0/when/n", [4, 1]), "bundle.range"),
    ("no entries", setter("programs/0/entries/prefill", []), "bundle.type"),
    (
        "two programs of one name",
        lambda m: m["programs"].append(m["programs"][0]),
        "bundle.duplicate",
    ),
    ("chunks of a small file", setter("files/tokenizer.json/chunks", []), "bundle.chunks"),
    ("a large file without chunks", setter("files/tokenizer.json/bytes", 2**26), "bundle.chunks"),
    ("a size that is wrong", setter("files/tokenizer.json/bytes", 3), "bundle.size"),
    ("a hash that is none", setter("files/tokenizer.json/sha256", "0"), "bundle.name"),
    (
        "a hash of something else",
        setter("files/tokenizer.json/sha256", "0" * 64),
        "bundle.checksum",
    ),
]


def _name(case: tuple[str, Change, str]) -> str:
    return case[0]


@pytest.mark.parametrize("case", MUTATIONS, ids=_name)
def test_a_bundle_is_refused_for(folder: Path, case: tuple[str, Change, str]) -> None:
    change_manifest(folder, case[1])
    assert refused(folder).code == case[2]


@pytest.mark.parametrize(
    "path",
    [
        "../tokenizer.json",
        "/etc/passwd",
        "a/../../tokenizer.json",
        "a//b",
        "./tokenizer.json",
        "a\\b",
        "C:tokenizer.json",
        "C:\\tokenizer.json",
        "tokenizer.json\0",
        ".hidden",
        "a/.hidden",
        "a/",
        "",
        "~/x",
        "a\nb",
        "a b",
        "é",
        "x" * 600,
        "bundle.json",
    ],
    ids=repr,
)
def test_a_path_that_could_leave_the_bundle_is_refused(folder: Path, path: str) -> None:
    change_manifest(folder, lambda m: m["files"].update({path: m["files"]["tokenizer.json"]}))
    assert refused(folder).code == "bundle.path"
    change_manifest(folder, lambda m: m["files"].pop(path))
    change_manifest(folder, setter("programs/0/library", path))
    assert refused(folder).code in {"bundle.path", "bundle.type"}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", "bundle.json"),
        (b"{", "bundle.json"),
        (b"\xff\xfe{}", "bundle.json"),
        (b'{"version": 1, "version": 1}', "bundle.json"),
        (b'{"version": NaN}', "bundle.json"),
        (b'{"version": -Infinity}', "bundle.json"),
        (b"[" * 100_000, "bundle.json"),
        (b'{"version": ' + b"9" * 10_000 + b"}", "bundle.json"),
        (b"[]", "bundle.type"),
        (b"null", "bundle.type"),
        (b'{"version": 4.0}', "bundle.version"),
        (b'{"version": "4"}', "bundle.version"),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value[:24]),
)
def test_text_that_is_no_manifest_is_refused(folder: Path, text: bytes, code: str) -> None:
    (folder / "bundle.json").write_bytes(text)
    assert refused(folder).code == code


def test_a_folder_without_a_manifest_is_no_bundle(tmp_path: Path) -> None:
    error = refused(tmp_path)
    assert error.code == "bundle.missing"
    assert "compile" in error.remedy
    assert refused(tmp_path / "nothing").code == "bundle.missing"


@pytest.mark.parametrize("name", [PLAN, LIBRARY, "tokenizer.json"])
def test_a_flipped_byte_is_found_when_the_bundle_is_opened(folder: Path, name: str) -> None:
    _flip(folder / name)
    with pytest.raises(BundleError, match=name) as error:
        Bundle.open(folder)
    assert error.value.code == "bundle.checksum"


def test_a_full_check_hashes_every_file_whatever_its_stamp(folder: Path) -> None:
    bundle = Bundle.open(folder)
    bundle.verify_params("cpu")
    heard: list[str] = []
    bundle.check(lambda name, *_: heard.append(name))
    assert heard == list(bundle.manifest.files)
    _flip(folder / PARAMS)
    assert refused(folder).code == "bundle.checksum"


def test_what_is_not_hashed_at_open_is_hashed_when_used(folder: Path) -> None:
    _flip(folder / PLAN)
    _flip(folder / "tokenizer.json")
    bundle = Bundle.open(folder, verify=False)
    with pytest.raises(BundleError, match="prefill") as error:
        bundle.plans("cpu-f32-portable")
    assert error.value.code == "bundle.checksum"
    with pytest.raises(BundleError, match="tokenizer"):
        bundle.read("tokenizer.json")


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("verify", [True, False])
def test_a_file_cut_short_is_found_without_reading_it(folder: Path, verify: bool) -> None:
    (folder / PARAMS).write_bytes((folder / PARAMS).read_bytes()[:-1])
    assert refused(folder, verify=verify).code == "bundle.size"


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / PARAMS).unlink()
    error = refused(folder)
    assert error.code == "bundle.missing"
    assert PARAMS in error.message


def test_a_link_may_stay_inside_the_bundle_but_not_leave_it(folder: Path) -> None:
    outside = folder.parent / "outside.json"
    outside.write_text("{}")
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").symlink_to(outside)
    assert refused(folder).code == "bundle.path"
    (folder / "inside").write_text("{}")
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").symlink_to("inside")
    assert Bundle.open(folder).read("tokenizer.json") == b"{}"
    (folder / "inside").unlink()
    (folder / "inside").symlink_to("tokenizer.json")
    assert refused(folder).code in {"bundle.path", "bundle.missing"}


def test_a_link_in_a_folder_above_is_followed_to_where_it_ends(folder: Path) -> None:
    elsewhere = folder.parent / "elsewhere"
    os.replace(folder / "params", elsewhere)
    (folder / "params").symlink_to(elsewhere)
    assert refused(folder).code == "bundle.path"
    # The bundle itself may well be reached through a link.
    (folder / "params").unlink()
    os.replace(elsewhere, folder / "params")
    (folder.parent / "link").symlink_to(folder)
    assert Bundle.open(folder.parent / "link").path == folder.resolve()


def test_what_is_no_regular_file_is_never_opened(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    os.mkfifo(folder / "tokenizer.json")
    assert refused(folder).code == "bundle.type"


def test_a_file_nobody_listed_cannot_be_asked_for(folder: Path) -> None:
    (folder / "secret").write_text("")
    bundle = Bundle.open(folder)
    for ask in (bundle.file, bundle.read):
        with pytest.raises(BundleError) as error:
            ask("secret")
        assert error.value.code == "bundle.unknown_name"
    with pytest.raises(BundleError, match="it has cpu-f32-portable"):
        bundle.plans("cpu-f64")


def test_parameters_are_hashed_once_and_again_when_they_changed(folder: Path) -> None:
    heard: list[str] = []

    def verify() -> None:
        heard.clear()
        Bundle.open(folder).verify_params("cpu", lambda name, *_: heard.append(name))

    verify()
    assert heard == [PARAMS]
    verify()
    assert heard == []
    os.utime(folder / PARAMS, ns=(1, 1))
    verify()
    assert heard == [PARAMS]
    _flip(folder / PARAMS)
    for _ in range(2):
        with pytest.raises(BundleError) as error:
            verify()
        assert error.value.code == "bundle.checksum"


def test_of_many_files_of_parameters_few_are_open_at_a_time(folder: Path) -> None:
    manifest = sample.read_manifest(folder)
    tensors = manifest["layouts"]["cpu"]["tensors"]
    for number in range(3 * MOST_OPEN + 1):
        name = f"params/cpu/more{number:04}"
        shutil.copyfile(folder / PARAMS, folder / name)
        tensors[f"w{number}"] = tensors["w"] | {"file": name}
    sample.write_manifest(folder, manifest | {"files": sample.list_files(folder)})
    bundle, handles = Bundle.open(folder), Path("/proc/self/fd")
    before, seen = len(list(handles.iterdir())), list[str]()
    for files in bundle.open_params("cpu"):
        seen += files
        assert len(list(handles.iterdir())) == before + len(files) <= before + MOST_OPEN
    assert seen == sorted({tensor["file"] for tensor in tensors.values()})
    assert len(list(handles.iterdir())) == before


def test_a_folder_whose_name_is_no_utf_8_has_stamps_as_well(folder: Path, tmp_path: Path) -> None:
    odd = folder.rename(tmp_path / os.fsdecode(b"tin\xff"))
    Bundle.open(odd).verify_params("cpu")
    heard: list[str] = []
    Bundle.open(odd).verify_params("cpu", lambda name, *_: heard.append(name))
    assert heard == []


@pytest.mark.parametrize("contents", ["", "[]", '{"version": 1}', "{"])
def test_damaged_stamps_only_cost_time(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, contents: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    bundle = Bundle.open(folder)
    bundle.verify_params("cpu")
    (stamps,) = (tmp_path / "cache/edgewise/verified").iterdir()
    stamps.write_text(contents)
    heard: list[str] = []
    bundle.verify_params("cpu", lambda name, *_: heard.append(name))
    assert heard == [PARAMS]


def test_without_a_cache_folder_parameters_are_hashed_every_time(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    bundle = Bundle.open(folder)
    for _ in range(2):
        heard: list[str] = []
        bundle.verify_params("cpu", lambda name, *_, heard=heard: heard.append(name))
        assert heard == [PARAMS]


MANIFEST_PLACES = [
    path
    for path in places(
        sample.manifest() | {"files": {"tokenizer.json": {"bytes": 2, "sha256": ""}}}
    )
    if path
]


@given(st.lists(st.tuples(st.sampled_from(MANIFEST_PLACES), anything), min_size=1, max_size=3))
def test_no_change_to_a_manifest_raises_anything_but_our_errors(
    changes: list[tuple[tuple[Any, ...], Any]],
) -> None:
    value = with_programs(["vnni", "float"]).to_json()
    for path, new in changes:
        at: Any = value
        try:
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = copy.deepcopy(new)
        except (KeyError, IndexError, TypeError):
            continue
    with suppress(EdgewiseError):
        read = BundleManifest.from_json(value)
        assert BundleManifest.from_json(read.to_json()) == read


@given(anything)
def test_nothing_at_all_raises_anything_but_our_errors(value: Any) -> None:
    with pytest.raises(EdgewiseError):
        BundleManifest.from_json(value)


@given(st.binary(max_size=64))
def test_no_bytes_raise_anything_but_our_errors(data: bytes) -> None:
    with suppress(StorageError):
        parse_json(data, "bundle.json", StorageError)
