"""Vectors of texts: the same alone and among others, and nothing is left of them."""

from __future__ import annotations

import asyncio
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from edgewise import AsyncEngine, Engine, Settings
from edgewise.embedding import MAX_TEXTS
from edgewise_runtime.errors import BundleError, DeviceError, EngineError, InputError
from edgewise_runtime.format.seal import seal, unseal
from tests.sdk.gate import Gate

TEXT = "The quick brown fox"
LONG = TEXT * 12
TEXTS = [TEXT, "A model", "def add(a, b):\n", "Zürich", LONG, "1", "on the desk", "🙂"] * 3
WRONG: list[tuple[Any, dict[str, Any], str]] = [
    ("", {}, "input.empty"),
    ([TEXT, ""], {}, "input.empty"),
    (LONG * 40, {}, "input.context"),
    ([[1, 2], [1 << 20]], {}, "input.token"),
    ([[1, -1]], {}, "input.token"),
    ([TEXT, 7], {}, "input.prompt"),
    (None, {}, "input.prompt"),
    (None, {"truncate": True}, "input.prompt"),
    ([TEXT] * (MAX_TEXTS + 1), {}, "input.texts"),
    (TEXT, {"pooling": "cls"}, "input.pooling"),
]


@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_texts_together_have_the_vectors_that_each_has_alone(engine: Engine, pooling: Any) -> None:
    together = engine.embed(TEXTS, pooling=pooling)
    assert together.dtype == np.float32
    assert together.shape == (len(TEXTS), engine.model.hidden)
    assert len(TEXTS) > engine.model.max_batch
    alone = [engine.embed(text, pooling=pooling)[0] for text in TEXTS]
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_a_vector_does_not_depend_on_where_chunks_are_cut(
    engine: Engine, bundle: Path, pooling: Any
) -> None:
    with Engine(bundle, settings=Settings(step_tokens=9)) as small:
        found = small.embed([LONG, TEXT], pooling=pooling, normalize=False)
    np.testing.assert_array_equal(
        found, engine.embed([LONG, TEXT], pooling=pooling, normalize=False)
    )


def test_the_mean_is_that_of_the_state_after_each_token(engine: Engine) -> None:
    ids = engine.tokenizer.encode(LONG)
    assert len(ids) > engine.model.prefill_chunk
    states = engine.embed([ids[: end + 1] for end in range(len(ids))], normalize=False)
    mean = states.astype(np.float64).mean(axis=0).astype(np.float32)
    np.testing.assert_allclose(
        engine.embed(ids, pooling="mean", normalize=False)[0], mean, rtol=0, atol=1e-7
    )


@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_a_vector_is_the_same_beside_an_answer_and_leaves_it_as_it_is(
    engine: Engine, bundle: Path, pooling: Any
) -> None:
    options: dict[str, Any] = {"max_tokens": 100, "temperature": 1.2, "seed": 5, "ignore_eos": True}
    expected = engine.generate("A story:", **options).token_ids
    with Engine(bundle) as busy:
        generation = busy.submit("A story:", **options)
        found = busy.embed(TEXTS, pooling=pooling)
        assert generation.result().token_ids == expected
    np.testing.assert_array_equal(found, engine.embed(TEXTS, pooling=pooling))


def test_it_takes_no_page_from_what_is_kept_and_leaves_none(bundle: Path) -> None:
    with Engine(bundle) as engine:
        engine.generate(LONG, max_tokens=4)
        before = engine.metrics()
        vectors = engine.embed([LONG, *TEXTS])
        assert engine.metrics()["prefix_cache_bytes"] == before["prefix_cache_bytes"]
        assert engine.metrics()["kv_pages_used"] == 0
        assert engine.session.loop.call(engine.session.loop.engine.check) == []
        assert engine.generate(LONG, max_tokens=4).usage.cached_tokens > 0
        engine.forget()
        engine.embed(LONG + " and others")
        assert engine.generate(LONG, max_tokens=4).usage.cached_tokens == 0
        np.testing.assert_array_equal(engine.embed(LONG)[0], vectors[0])


def test_vectors_may_keep_their_length(engine: Engine) -> None:
    vectors = engine.embed(TEXTS, normalize=False)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    assert np.abs(lengths - 1).min() > 0.1
    np.testing.assert_allclose(vectors / lengths, engine.embed(TEXTS), atol=1e-6)


def test_text_is_what_its_tokens_are(engine: Engine) -> None:
    ids = engine.tokenizer.encode(TEXT)
    np.testing.assert_array_equal(engine.embed(TEXT), engine.embed(ids))
    np.testing.assert_array_equal(engine.embed([ids, np.array(ids)]), engine.embed([TEXT, TEXT]))  # type: ignore[list-item]
    assert engine.embed([]).shape == (0, engine.model.hidden)


def test_what_is_behind_the_context_is_left_out_where_that_is_asked_for(engine: Engine) -> None:
    ids = engine.tokenizer.encode(LONG * 40)
    cut = engine.embed(LONG * 40, truncate=True)
    np.testing.assert_array_equal(cut, engine.embed(ids[: engine.context]))
    np.testing.assert_array_equal(cut, engine.embed([ids], truncate=True))
    np.testing.assert_array_equal(engine.embed([TEXT], truncate=True), engine.embed(TEXT))


@pytest.mark.parametrize(("texts", "options", "code"), WRONG)
def test_what_has_no_vector_is_refused_by_name(
    engine: Engine, texts: Any, options: dict[str, Any], code: str
) -> None:
    with pytest.raises(InputError) as refused:
        engine.embed(texts, **options)
    assert refused.value.code == code


def test_a_text_that_is_refused_is_named(engine: Engine) -> None:
    with pytest.raises(InputError, match="Text 2: The prompt is empty"):
        engine.embed([TEXT, TEXT, ""])


def test_a_bundle_of_before_says_what_to_do(bundle: Path, tmp_path: Path) -> None:
    older = shutil.copytree(bundle, tmp_path / "older")
    manifest = unseal((bundle / "bundle.json").read_bytes())
    for program in manifest["programs"]:
        del program["entries"]["hidden"], program["plans"]["hidden"]
    manifest["files"] = {
        name: entry for name, entry in manifest["files"].items() if "hidden" not in name
    }
    (older / "bundle.json").write_bytes(seal(manifest))
    with Engine(older, trust=True) as engine:
        assert engine.generate(TEXT, max_tokens=2).text is not None
        with pytest.raises(BundleError, match="Compile the model again") as refused:
            engine.embed(TEXT)
    assert refused.value.code == "bundle.entry"


def test_an_engine_that_is_closed_meanwhile_says_so(bundle: Path) -> None:
    gate, raised = Gate(), []
    engine = Engine(bundle, device=gate)

    def embed() -> None:
        try:
            engine.embed(TEXTS)
        except EngineError as error:
            raised.append(error.code)

    gate.close()
    waiting = Thread(target=embed)
    waiting.start()
    gate.wait()
    closing = Thread(target=engine.close)
    closing.start()
    while not engine.session.loop.closed:
        pass
    gate.open()
    for thread in (waiting, closing):
        thread.join()
    assert raised == ["engine.closed"]


def test_a_device_that_fails_fails_the_texts_and_nothing_after_them(bundle: Path) -> None:
    gate = Gate()
    with Engine(bundle, device=gate) as engine:
        expected = engine.embed(TEXTS)
        gate.fail(5, "device.launch")
        with pytest.raises(DeviceError) as failed:
            engine.embed(TEXTS)
        assert failed.value.code == "device.launch"
        np.testing.assert_array_equal(engine.embed(TEXTS), expected)


def test_asyncio_has_the_same_and_a_cancelled_task_cancels_its_texts(
    engine: Engine, bundle: Path
) -> None:
    async def run() -> None:
        async with await AsyncEngine.load(bundle) as other:
            found = await asyncio.gather(*(other.embed(text) for text in TEXTS))
            np.testing.assert_array_equal(np.concatenate(found), engine.embed(TEXTS))
            many = [f"{nth} {TEXT * 12}" for nth in range(400)]
            before = other.metrics()["prefill_tokens_total"]
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
            task = asyncio.create_task(other.embed(many))
            await asyncio.sleep(0)  # they are being tokenized
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.to_thread(int)  # the only thread has done with them
            while other.metrics()["num_requests_waiting"] or other.metrics()["kv_pages_used"]:
                await asyncio.sleep(0.01)
            computed = other.metrics()["prefill_tokens_total"] - before
            assert computed < len(many) // 2 * len(other.tokenizer.encode(many[0]))

    asyncio.run(run())
