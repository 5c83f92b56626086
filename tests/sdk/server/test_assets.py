"""The built chat app under its URLs, and what is said where it is not built."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edgewise.server.app import make_app
from edgewise.server.assets import assets, built
from edgewise.server.bundles import Offer
from edgewise.server.check import fetch_app
from edgewise.server.run import in_background, listen
from edgewise_runtime.errors import InputError
from tests.sdk.server.client import Client
from tests.sdk.server.conftest import SCRIPT


@contextmanager
def serving(folder: Path, *offers: Offer) -> Iterator[Client]:
    app = make_app({offer.name: offer for offer in offers}, assets(folder))
    with listen("127.0.0.1", 0) as listening, in_background(app, listening) as url:
        yield Client(url)


def test_pages_have_short_urls_and_are_asked_for_anew(app_folder: Path) -> None:
    with serving(app_folder) as client:
        for url, text in {"/": "a-1.js", "/selftest": "self-test", "/selftest?x=1": ""}.items():
            answer = client.get(url)
            assert answer.status == 200
            assert text in answer.text
            assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
            assert answer.headers["Cache-Control"] == "no-cache"
        worker = client.get("/sw.js")
        assert worker.headers["Content-Type"] == "text/javascript; charset=utf-8"
        assert worker.headers["Cache-Control"] == "no-cache"
        manifest = client.get("/manifest.webmanifest")
        assert manifest.headers["Content-Type"] == "application/manifest+json"
        assert client.get("/chat/index.html").status == 404
        assert client.get("/assets/").status == 404


def test_files_with_a_hash_in_their_names_never_change(app_folder: Path) -> None:
    with serving(app_folder) as client:
        answer = client.get("/assets/a-1.js")
        assert answer.text == SCRIPT
        assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"


def test_without_a_build_the_page_says_how_to_build(tmp_path: Path) -> None:
    assert not built(tmp_path)
    with serving(tmp_path) as client:
        answer = client.get("/")
        assert answer.status == 200
        assert "make web" in answer.text
        assert client.get("/selftest").status == 404
        assert client.get("/api/bundles").status == 200


def test_a_check_fetches_the_page_its_scripts_and_each_bundle(
    app_folder: Path, offered: Offer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with serving(app_folder, offered) as client:
        fetched = fetch_app(client.url)
    assert fetched.page == len((app_folder / "chat/index.html").read_bytes())
    assert fetched.scripts == len(SCRIPT)
    assert fetched.bundles == (offered.name,)


def missing_script(folder: Path) -> None:
    (folder / "assets/a-1.js").unlink()


def no_script(folder: Path) -> None:
    (folder / "chat/index.html").write_text("<!doctype html>")


def no_build(folder: Path) -> None:
    (folder / "chat/index.html").unlink()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (missing_script, r"/assets/a-1\.js does not answer: .*404"),
        (no_script, "without the chat app"),
        (no_build, "without the chat app"),
    ],
)
def test_a_check_names_what_does_not_answer(
    app_folder: Path, damage: Callable[[Path], None], said: str
) -> None:
    damage(app_folder)
    with serving(app_folder) as client, pytest.raises(InputError, match=said) as error:
        fetch_app(client.url)
    assert error.value.code == "serve.check"


def test_a_check_of_nothing_says_that_nothing_answers() -> None:
    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(InputError, match="does not answer"):
        fetch_app(f"http://127.0.0.1:{port}/")
