"""`edgewise serve`: what it says before it serves, and its check."""

from __future__ import annotations

import shutil
import signal
import ssl
import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.parse import urlsplit

import pytest
from openai import OpenAI

from edgewise.cache import cached_bundle
from edgewise.cli.main import main
from edgewise.hub.names import HubModel
from edgewise.hub.pull import find
from edgewise.server.run import listen
from tests.sdk.cli.commands import command, environment
from tests.sdk.hub.small_hub import SmallHub
from tests.sdk.server.client import Client

CASE = "llama-gqa2-tied-linear"


class Served:
    """A server in a process of its own, which has said where it listens."""

    def __init__(self, *argv: object, **more: str) -> None:
        self._process = subprocess.Popen(
            command("serve", *argv, "--port", 0),
            env=environment(**more),
            stdout=subprocess.PIPE,
            text=True,
        )
        self.first = self.line()
        self.url = self.first.split()[1]

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def ended(self, number: signal.Signals = signal.SIGINT) -> tuple[int, str]:
        """Send a signal; its exit status, and what it has said besides."""
        assert self._process.stdout is not None
        self._process.send_signal(number)
        status = self._process.wait(timeout=30)
        # `communicate` would miss lines that came together with the first.
        rest = self._process.stdout.read()
        self._process.stdout.close()
        return status, rest


@pytest.fixture
def both(bundles: Callable[..., Path]) -> Path:
    return bundles(CASE, targets=("cpu", "webgpu"))


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A chat app of one page and one script, instead of the one that may be built here."""
    folder = tmp_path / "static"
    (folder / "chat").mkdir(parents=True)
    (folder / "assets").mkdir()
    (folder / "chat/index.html").write_text('<script type="module" src="/assets/a.js"></script>')
    (folder / "assets/a.js").write_text("run();" * 200)
    monkeypatch.setattr("edgewise.server.assets.FOLDER", folder)
    return folder


def test_a_check_says_in_a_line_what_arrived_over_http(
    both: Path, app: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", str(both), "--check"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("edgewise serve: http://127.0.0.1:")
    assert "page 50 bytes, scripts 1.2 KiB" in line
    assert f"{both.name} for WebGPU" in line


def test_a_model_of_a_hub_is_served_as_what_is_compiled_of_it(
    both: Path,
    app: Path,
    hub: SmallHub,
    checkpoints: Callable[[str], Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = checkpoints(CASE)
    hub.add("tiny/llama", {path.name: path.read_bytes() for path in folder.iterdir()})
    cached = cached_bundle(find(HubModel("tiny/llama")))
    shutil.copytree(both, cached)
    assert main(["serve", "hf:tiny/llama", "--check"]) == 0
    written = capsys.readouterr()
    assert f"{both.name} for WebGPU" in written.out
    assert f"Using {cached}" in written.err


def test_a_check_without_the_app_fails_and_says_how_to_build_it(
    both: Path, app: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (app / "chat/index.html").unlink()
    assert main(["serve", str(both), "--check"]) == 1
    written = capsys.readouterr()
    assert written.out == ""
    assert "make web" in written.err
    assert "[serve.check]" in written.err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["{cpu}", "--no-api"], "edgewise compile MODEL --target webgpu -o {cpu}"),
        (["nowhere"], "There is no bundle nowhere."),
        (["{both}", "{both}"], "Two bundles are called"),
        (["{both}", "--port", "{port}"], "Choose another with --port; 0 takes a free one."),
        (["{both}", "--host", "0.0.0.0"], "Set EDGEWISE_API_KEY (or --api-key)"),
        (["{both}", "--host", "fd00::7"], "would answer everybody who reaches this machine"),
        (["{both}", "--api-key", "guess"], "Choose 16 to 256 of letters"),
        (
            ["{both}", "--host", "192.0.2.1", "--no-api"],
            "Choose an address of this machine with --host.",
        ),
        (["{both}", "--no-api", "--allow-pull"], "--allow-pull is for clients of the APIs"),
        (["{both}", "--allow-origin", "*"], "'*' is no origin that a browser names a page by."),
        (["{both}", "--allow-origin", "http://a.b/"], "Write http://a.b."),
        (["{both}", "--tls-cert", "c.pem"], "--tls-cert 'c.pem' is given without --tls-key."),
        (["{both}", "--tls-key", "k.pem"], "--tls-key 'k.pem' is given without --tls-cert."),
        (["{both}", "--tls-cert", "c.pem", "--tls-key", "k.pem"], "'c.pem' and 'k.pem' are no"),
        (["{both}", "--tls", "--allow-host", "a..b"], "'a..b' is no name that a certificate"),
    ],
)
def test_what_cannot_be_served_is_said_with_what_to_do(
    both: Path,
    bundles: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    argv: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("EDGEWISE_API_KEY", raising=False)
    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        names = {"both": both, "cpu": bundles(CASE), "port": port}
        assert main(["serve", *(arg.format(**names) for arg in argv)]) == 1
    written = capsys.readouterr()
    assert written.out == ""
    assert said.format(**names) in written.err


def test_a_check_goes_by_https_where_that_is_served(
    both: Path, app: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", str(both), "--check", "--tls"]) == 0
    assert capsys.readouterr().out.startswith("edgewise serve: https://127.0.0.1:")


@pytest.mark.parametrize("port", ["-1", "65536", "http", "8_1", "٣"])
def test_a_port_is_a_number_up_to_65535(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["serve", "x", "--port", port])
    assert f"'{port}' is no port" in capsys.readouterr().err


@pytest.mark.quick(cases=1)
@pytest.mark.parametrize(("host", "warned"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_it_says_what_it_offers_and_who_could_read_it(
    both: Path, tmp_path: Path, host: str, warned: bool
) -> None:
    """The browser that --open starts is whatever BROWSER names."""
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >{opened}.new && mv {opened}.new {opened}\n')
    browser.chmod(0o700)
    served = Served(both, "--host", host, "--open", "--no-api", BROWSER=str(browser))
    url = served.url
    assert Client(url).get("/api/bundles").status == 200
    deadline = monotonic() + 20
    while not opened.exists() and monotonic() < deadline:
        sleep(0.02)
    status, rest = served.ended()
    assert served.first == f"Open {url} in a browser with WebGPU. Ctrl-C stops.\n"
    assert f"{both.name}: llama, q4, context 256; " in rest
    assert "webgpu-f16-subgroups, " in rest
    assert ("Everybody who reaches this machine can read these models." in rest) is warned
    assert status == 0
    assert opened.read_text() == f"{url}\n"


@pytest.mark.landing
@pytest.mark.parametrize(("more", "tokens"), [((), 256), (("--context", 128), 128)])
def test_a_context_that_is_small_for_agents_is_said(
    both: Path, more: tuple[object, ...], tokens: int
) -> None:
    served = Served(both, *more)
    assert Client(served.url).get("/ready").status == 200
    status, rest = served.ended(signal.SIGTERM)
    assert status == -signal.SIGTERM
    assert f"A context of {tokens} tokens is small for coding agents" in rest


@pytest.mark.landing
def test_by_https_it_says_its_addresses_and_how_to_know_its_certificate(both: Path) -> None:
    argv = (both, "--tls", "--allow-host", "my-box", "--host", "0.0.0.0")
    served = Served(*argv, EDGEWISE_API_KEY="sk-edgewise-0123456789")
    lines = [served.line().rstrip() for _ in range(3)]
    parts = urlsplit(served.url)
    shown = ssl.get_server_certificate((parts.hostname or "", parts.port or 0))
    status, rest = served.ended()
    digest = sha256(ssl.PEM_cert_to_DER_cert(shown)).hexdigest().upper()
    fingerprint = ":".join(digest[at : at + 2] for at in range(0, 64, 2))
    assert parts.scheme == "https"
    assert lines == [
        f"From other machines: https://my-box:{parts.port}/",
        "Nobody vouches for its certificate, so browsers warn before they open it.",
        f"SHA-256 of its certificate: {fingerprint}",
    ]
    assert "Everybody who reaches this machine can read these models." in rest
    assert "add --tls" not in rest
    assert status == 0


@pytest.mark.landing
def test_a_bundle_that_no_browser_runs_answers_programs(bundles: Callable[..., Path]) -> None:
    bundle = bundles(CASE)
    served = Served(bundle, "--log-format", "none")
    url = served.url
    assert served.line() == f"APIs at {url}v1 for programs: {bundle.name}.\n"
    with OpenAI(base_url=f"{url}v1", api_key="unused", max_retries=0) as client:
        told: dict[str, Any] = {"model": bundle.name, "prompt": "Once", "max_tokens": 3}
        done = client.completions.create(**told, extra_body={"ignore_eos": True})
        assert [model.id for model in client.models.list()] == [bundle.name]
    assert done.usage is not None
    assert done.usage.completion_tokens == 3
    assert Client(url).get("/api/bundles").status == 200
    assert served.ended()[0] == 0


@pytest.mark.landing
def test_prompts_are_known_to_the_next_server_where_their_pages_are_kept(
    bundles: Callable[..., Path], tmp_path: Path
) -> None:
    bundle, known = bundles(CASE), []
    argv = (bundle, "--log-format", "none", "--prefix-disk", "0.01")
    for _ in range(2):
        served = Served(*argv, XDG_CACHE_HOME=str(tmp_path))
        with OpenAI(base_url=f"{served.url}v1", api_key="unused", max_retries=0) as client:
            told: dict[str, Any] = {"model": bundle.name, "prompt": [7] * 50, "max_tokens": 3}
            usage = client.completions.create(**told).usage
        assert served.ended()[0] == 0
        assert usage is not None
        assert usage.prompt_tokens_details is not None
        known.append(usage.prompt_tokens_details.cached_tokens)
    first, second = known
    assert first == 0
    assert second is not None
    assert second >= 32


@pytest.mark.landing
@pytest.mark.parametrize(
    ("more", "said"), [((), "--allow-pull"), (("--allow-pull",), "hf:ORG/REPO")]
)
def test_clients_may_have_models_fetched_where_that_is_allowed(
    both: Path, more: tuple[str, ...], said: str
) -> None:
    served = Served(both, "--log-format", "none", *more)
    answer = Client(served.url).post("/api/pull", {"model": "../etc/passwd"})
    assert served.ended()[0] == 0
    assert answer.status == (404 if more else 400)
    assert said in answer.text
