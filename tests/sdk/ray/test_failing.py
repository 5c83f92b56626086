"""Replicas that end while they answer."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from anthropic import Anthropic
from openai import APIError, OpenAI

from edgewise import Engine
from tests.processes import eventually
from tests.sdk.ray.conftest import KEY, MODEL, Cluster
from tests.sdk.ray.counting import numbers

LONG: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": 2500,
    "temperature": 0.0,
    "extra_body": {"ignore_eos": True},
}
PROMPTS = [[20 + nth] * 40 for nth in range(8)]
"""That begin in different ways, so that both replicas have some of them."""


def replicas() -> list[int]:
    """The processes of the replicas, which Ray calls by the deployment's name."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if command.startswith(b"ray::ServeReplica:tiny:EdgewiseModel"):
            found.append(int(path.name))
    return sorted(found)


def both_answer(url: str) -> bool:
    """Whether there are two replicas that say their numbers."""
    from ray import serve

    status = serve.status().applications[MODEL].deployments["EdgewiseModel"]
    running = {str(getattr(name, "value", name)): n for name, n in status.replica_states.items()}
    return running == {"RUNNING": 2} and len(replicas()) == 2


def test_streams_of_a_replica_that_is_killed_say_so_and_no_others_notice(
    url: str, engine: Engine
) -> None:
    assert eventually(lambda: both_answer(url))
    begun = Barrier(len(PROMPTS) + 1)

    def ask(prompt: list[int]) -> tuple[str, str]:
        """The text that came, and what went wrong after that."""
        text = ""
        with OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
            stream = client.completions.create(**LONG, prompt=prompt, stream=True)
            try:
                for nth, chunk in enumerate(stream):
                    text += chunk.choices[0].text
                    if not nth:
                        begun.wait(30)
            except APIError as error:
                return text, f"{error.code}: {error.message}"
        return text, ""

    with ThreadPoolExecutor(len(PROMPTS)) as pool:
        asked = [pool.submit(ask, prompt) for prompt in PROMPTS]
        begun.wait(30)
        os.kill(replicas()[0], signal.SIGKILL)
        found = [one.result(60) for one in asked]
    whole = [engine.generate(p, max_tokens=2500, temperature=0.0, ignore_eos=True) for p in PROMPTS]
    failed = [error for _, error in found if error]
    assert 0 < len(failed) < len(PROMPTS)
    for (text, error), expected in zip(found, whole, strict=True):
        assert expected.text.startswith(text)
        assert error or text == expected.text
        assert not error or ("engine.gone" in error and "is gone" in error)
    # Who comes now is answered, by the other one at first.
    with OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
        done = client.completions.create(**{**LONG, "max_tokens": 8}, prompt=PROMPTS[0])
    assert whole[0].text.startswith(done.choices[0].text)
    assert eventually(lambda: both_answer(url))


@pytest.mark.full
def test_a_request_of_which_nothing_came_goes_to_another_replica(url: str) -> None:
    assert eventually(lambda: both_answer(url))
    first, _ = frozen = replicas()
    # None of the two says anything: whichever it came to has the request, and then has ended.
    for process in frozen:
        os.kill(process, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor() as pool, Anthropic(base_url=url, api_key=KEY, max_retries=0) as c:
            asked = [
                pool.submit(
                    c.messages.create,
                    model=MODEL,
                    max_tokens=4,
                    messages=[{"role": "user", "content": f"{nth} + {nth}?"}],
                )
                for nth in range(6)
            ]
            assert not any(one.done() for one in asked)
            os.kill(first, signal.SIGKILL)
            os.kill(frozen[1], signal.SIGCONT)
            assert all(one.result(60).usage.output_tokens for one in asked)
    finally:
        for process in replicas():
            os.kill(process, signal.SIGCONT)
    assert eventually(lambda: both_answer(url))


@pytest.mark.full
def test_streams_end_well_when_there_are_to_be_fewer_replicas(
    cluster: Cluster, tiny: Path, engine: Engine
) -> None:
    from ray import serve

    import edgewise.ray

    begun = Barrier(len(PROMPTS) + 1)

    def ask(url: str, prompt: list[int]) -> str:
        text = ""
        with OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
            for nth, chunk in enumerate(
                client.completions.create(**LONG, prompt=prompt, stream=True)
            ):
                text += chunk.choices[0].text
                if not nth:
                    begun.wait(30)
        return text

    given: dict[str, Any] = {"cpus": 0.1, "door_cpus": 0.1, "threads": 1, "context": 4096}
    fewer = edgewise.ray.ServeOptions(**given, replicas=1, drain_s=60.0)
    with cluster.serving(tiny, replicas=2, context=4096, drain_s=60.0) as url:
        with ThreadPoolExecutor(len(PROMPTS)) as pool:
            asked = [pool.submit(ask, url, prompt) for prompt in PROMPTS]
            begun.wait(30)
            serve.run(edgewise.ray.app(tiny, fewer), name=MODEL, route_prefix="/")
            found = [one.result(90) for one in asked]
        assert eventually(lambda: len(replicas()) == 1)
    whole = [engine.generate(p, max_tokens=2500, temperature=0.0, ignore_eos=True) for p in PROMPTS]
    assert found == [one.text for one in whole]


@pytest.mark.full
def test_replicas_come_while_there_is_much_to_do_and_go_when_there_is_not(
    cluster: Cluster, tiny: Path
) -> None:
    scaled = {"replicas": 1, "most_replicas": 2, "up_s": 1.0, "down_s": 2.0, "full": 0.05}
    with cluster.serving(tiny, context=4096, **scaled) as url:
        assert len(replicas()) == 1

        def ask(prompt: list[int]) -> int:
            with OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
                done = client.completions.create(**LONG, prompt=prompt)
            return done.usage.completion_tokens if done.usage else 0

        with ThreadPoolExecutor(16) as pool:
            asked = [pool.submit(ask, prompt) for prompt in PROMPTS * 16]
            assert eventually(lambda: len(replicas()) == 2)
            assert {one.result(120) for one in asked} == {2500}
        assert eventually(lambda: numbers(url)["num_requests_running"] == 0)
        assert eventually(lambda: len(replicas()) == 1)


@pytest.mark.full
def test_native_code_that_nobody_vouches_for_does_not_run_on_a_node(
    cluster: Cluster, tiny: Path
) -> None:
    with pytest.raises(RuntimeError, match=r"trust\.foreign"), cluster.serving(tiny, vouched=()):
        pass
