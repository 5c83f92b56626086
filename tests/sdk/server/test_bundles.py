"""What of a bundle browsers may have: its WebGPU programs and what they need, never native code."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from edgewise.server.app import make_app
from edgewise.server.bundles import Offer, offer, offers
from edgewise.server.run import in_background, listen
from edgewise_runtime.errors import BundleError, InputError
from edgewise_runtime.folders import new_folder
from tests.sdk.server.client import Client
from tests.sdk.server.conftest import CASE


@pytest.fixture
def base(offered: Offer) -> str:
    return f"/bundles/{offered.name}/"


def test_the_list_says_what_a_browser_needs_to_choose(server: Client, offered: Offer) -> None:
    answer = server.get("/api/bundles")
    assert answer.headers["Content-Type"] == "application/json"
    listed = json.loads(answer.body)
    assert listed["version"] == 1
    (item,) = listed["bundles"]
    model = offered.bundle.model
    assert item["name"] == offered.name
    assert item["url"] == f"/bundles/{offered.name}/"
    assert (item["family"], item["quant"], item["context"]) == ("llama", "q4", model.context)
    webgpu = [p.id for p in offered.bundle.manifest.programs if p.target == "webgpu"]
    assert item["programs"] == list(item["bytes"]) == webgpu


def test_bytes_are_those_of_everything_a_program_needs(offered: Offer) -> None:
    manifest = offered.bundle.manifest
    program = manifest.program("webgpu-f32")
    tensors = manifest.layouts[program.layout].values()
    names = {t.file for t in tensors} | {*program.plans.values(), *program.shaders.values()}
    names |= {name for name in manifest.files if "/" not in name}
    assert offered.download[program.id] == sum(manifest.files[name].bytes for name in names)


def test_every_file_of_its_webgpu_programs_comes_as_the_manifest_says(
    server: Client, offered: Offer, base: str
) -> None:
    manifest = json.loads(server.get(f"{base}bundle.json").body)
    programs = [p for p in manifest["programs"] if p["target"] == "webgpu"]
    wanted = {name for p in programs for name in (*p["plans"].values(), *p["shaders"].values())}
    for layout in {p["layout"] for p in programs}:
        wanted |= {t["file"] for t in manifest["layouts"][layout]["tensors"].values()}
    wanted |= {"tokenizer.json", "generation_config.json", "proof.json"}
    assert wanted <= set(offered.files)
    for name in wanted:
        answer = server.get(base + name)
        entry = manifest["files"][name]
        assert answer.status == 200
        assert hashlib.sha256(answer.body).hexdigest() == entry["sha256"]
        assert answer.headers["ETag"] == f'"{entry["sha256"]}"'
        assert answer.headers["Cache-Control"] == "no-cache"


def test_the_manifest_is_asked_for_anew_each_time(
    server: Client, offered: Offer, base: str
) -> None:
    data = (offered.bundle.path / "bundle.json").read_bytes()
    answer = server.get(f"{base}bundle.json")
    assert answer.body == data
    assert answer.headers["Cache-Control"] == "no-cache"
    assert answer.headers["ETag"] == f'"{hashlib.sha256(data).hexdigest()}"'
    again = server.get(f"{base}bundle.json", {"If-None-Match": answer.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")


def test_nothing_of_other_targets_is_offered(server: Client, offered: Offer, base: str) -> None:
    others = [
        name
        for name in offered.bundle.manifest.files
        if name.startswith(("params/cpu/", "programs/cpu"))
    ]
    assert any(name.endswith(".so") for name in others)
    assert any(name.endswith(".safetensors") for name in others)
    assert {server.get(base + name).status for name in others} == {404}


@pytest.mark.parametrize(
    "path",
    ["", "params", "params/gpu", "params/gpu/", "bundle.json/", "/bundle.json", "./bundle.json",
     "params/../bundle.json", "../bundle.json", "BUNDLE.JSON", "bundle.json%00", "secret.txt"],
)  # fmt: skip
def test_only_listed_names_are_files(server: Client, offered: Offer, base: str, path: str) -> None:
    secret = offered.bundle.path / "secret.txt"
    secret.write_text("not listed")
    try:
        assert server.get(base + path).status == 404
    finally:
        secret.unlink()


def test_escaped_names_are_the_same_names(server: Client, base: str) -> None:
    assert server.get(base + "%62undle.json").status == 200
    assert server.get("/bundles/" + quote(base.split("/")[2][:-1]) + "/bundle.json").status == 404


def test_a_bundle_for_cpus_only_is_refused_with_the_command_that_helps(
    bundles: Callable[..., Path],
) -> None:
    folder = bundles(CASE)
    with pytest.raises(InputError, match="no browser can run it") as error:
        offer(folder)
    assert error.value.code == "input.program"
    assert f"--target webgpu -o {folder}" in error.value.remedy


def test_two_bundles_of_one_name_are_refused(both: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(both, tmp_path / "copy")
    with pytest.raises(InputError, match="Two bundles are called") as error:
        offers([both, copy])
    assert str(copy) in error.value.message


def test_links_that_leave_the_bundle_are_refused(both: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(both, tmp_path / "copy")
    file = copy / "tokenizer.json"
    outside = file.rename(tmp_path / "outside.json")
    file.symlink_to(outside)
    with pytest.raises(BundleError) as error:
        offer(copy)
    assert error.value.code == "bundle.path"


def test_a_folder_swapped_for_a_link_is_not_followed_later(both: Path, tmp_path: Path) -> None:
    """Names are resolved when the server starts; what it opens must still be the same file."""
    copy = shutil.copytree(both, tmp_path / "copy")
    offered = offer(copy)
    file = copy / "params/gpu/00000.safetensors"
    status, other = file.stat(), tmp_path / "other"
    other.write_bytes(b"x" * status.st_size)
    file.unlink()
    file.symlink_to(other)
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    with (
        listen("127.0.0.1", 0) as listening,
        in_background(make_app({offered.name: offered}, {}), listening) as url,
    ):
        answer = Client(url).get(offered.url + "params/gpu/00000.safetensors")
        assert answer.status == 409
        assert Client(url).get(offered.url + "bundle.json").status == 200


def test_a_bundle_that_is_replaced_is_still_the_one_that_was_offered(
    both: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(both, tmp_path / "copy")
    offered = offer(copy)
    with new_folder(copy, replace=True) as folder:
        (folder / "bundle.json").write_text("{}")
    with (
        listen("127.0.0.1", 0) as listening,
        in_background(make_app({offered.name: offered}, {}), listening) as url,
    ):
        for name in ("params/gpu/00000.safetensors", "tokenizer.json"):
            answer = Client(url).get(offered.url + name)
            assert (answer.status, answer.body) == (200, (both / name).read_bytes())


def test_weights_come_in_ranges(server: Client, offered: Offer, base: str) -> None:
    name = "params/gpu/00000.safetensors"
    data = (offered.bundle.path / name).read_bytes()
    answer = server.get(base + name, {"Range": f"bytes=100-{len(data) - 101}"})
    assert (answer.status, answer.body) == (206, data[100:-100])
