"""What Python's devices generate, for a browser's to be compared with."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from edgewise import Engine
from tests.suite import FULL

TOKENS = 64 if FULL else 32
PROGRAMS = ("cpu", "webgpu-f32", *(["webgpu-f16-subgroups"] if FULL else []))
"""`cpu` is this machine's best program; the others run on WgpuDevice, which compiles for long."""

LIKELY, LIKELY_TOKENS = 3, 8
LIKELY_OF = "webgpu-f32"
"""Of so many prompts, tokens and this program it is told how likely they are."""

BUNDLE = "demo-q4"
OTHERS = {
    "coded": ("tiny-mixed-kv8", "webgpu-f32-kv8"),
    "experts": ("experts-q4", "webgpu-f32"),
    "windowed": ("windowed-q4", "webgpu-f32"),
}
"""Other bundles, and a program of each: with int8 pages, mixtures of experts (sinks and windows,
too), and windows."""

CHATS = (
    "Hello! Who are you?",
    "What is edgewise?",
    "How do I compile a model?",
    "Tell me a story about a small robot.",
    "What is a bundle?",
    "Which devices can run a bundle?",
    "Count from one to ten.",
    "What is the capital of France?",
    "Write a short poem about rain.",
    "How are you today?",
)
TEXTS = (
    "Once upon a time",
    "The quick brown fox",
    "In the beginning there was",
    "She opened the door and",
    "A plan is a list of",
    "One day, a little girl named Lily",
    "def add(a, b):",
    "Zürich, Málaga and Łódź are",
    "The weather was cold, so Tom",
    "1, 2, 3, 4,",
)


def write_expected(bundles: Path, out: Path) -> None:
    """Write greedy continuations of 20 prompts, or of a sample, to ``out``, unless it is there.

    ``bundles`` is the folder of `BUNDLE` and of `OTHERS`, of which the same is told after prompts
    of their own.

    Per program and prompt: ``tokens``; ``margins``, by how much each token's logit leads the next
    best; ``deviations``, the standard deviation of the logits there, which bounds of float16
    programs are relative to. Of some, ``likely``: how likely the first tokens were.
    """
    if out.is_file():
        return
    bundle = bundles / BUNDLE
    expected: dict[str, object] = {"bundle": BUNDLE, "prompts": [], "programs": {}}
    programs: dict[str, object] = {}
    prompts: list[list[int]] = []
    likely: list[object] = []
    for name in PROGRAMS:
        with _engine(bundle, name) as engine:
            prompts = prompts or _prompts(engine)
            programs[name] = _continuations(engine, prompts)
            if name == LIKELY_OF:
                likely = [_likely(engine, prompt) for prompt in prompts[:LIKELY]]
    expected["prompts"], expected["programs"] = prompts, programs
    expected["likely"] = likely
    for name, (other, program) in OTHERS.items():
        expected[name] = _made_up(bundles / other, program)
    out.write_text(json.dumps(expected))


def _made_up(bundle: Path, program: str) -> object:
    made = np.random.default_rng(4)
    with _engine(bundle, program) as engine:
        prompts = [made.integers(10, 300, length).tolist() for length in (3, 40, 100)]
        return {"prompts": prompts, "programs": {program: _continuations(engine, prompts)}}


def _engine(bundle: Path, name: str) -> Engine:
    if name == "cpu":
        return Engine(bundle, device="cpu")
    return Engine(bundle, device="wgpu", program=name)


def _prompts(engine: Engine) -> list[list[int]]:
    rendered = [engine.render([{"role": "user", "content": text}]) for text in CHATS]
    chats = [engine.tokenizer.encode(text, add_special_tokens=False) for text in rendered]
    prompts = [*chats, *(engine.tokenizer.encode(text) for text in TEXTS)]
    return prompts if FULL else prompts[1::3]


def _likely(engine: Engine, prompt: list[int]) -> object:
    told = engine.generate(
        prompt,
        max_tokens=LIKELY_TOKENS,
        temperature=0.0,
        ignore_eos=True,
        logprobs=True,
        top_logprobs=5,
    )
    return told.to_json()["logprobs"]


def _continuations(engine: Engine, prompts: list[list[int]]) -> dict[str, object]:
    completions = engine.generate(prompts, max_tokens=TOKENS, temperature=0.0, ignore_eos=True)
    tokens = [list(completion.token_ids) for completion in completions]
    margins, deviations = [], []
    for prompt, answer in zip(prompts, tokens, strict=True):
        logits = engine.score([*prompt, *answer[:-1]])[len(prompt) - 1 :]
        best = np.partition(logits, -2, axis=-1)[:, -2:]
        margins.append([float(value) for value in best[:, 1] - best[:, 0]])
        deviations.append([float(value) for value in logits.std(axis=-1)])
    return {
        "program": engine.program,
        "device": engine.device,
        "tokens": tokens,
        "margins": margins,
        "deviations": deviations,
    }
