"""The engine: a compiled model, ready to generate."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Unpack, overload
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from edgewise.cache import Progress, find_bundle
from edgewise.devices import device_for, load_program
from edgewise.options import SamplingOptions
from edgewise.prompts import prompt_ids, token_ids
from edgewise.stream import Stream
from edgewise.turns import Turns
from edgewise_runtime.bundle import Bundle, ModelInfo
from edgewise_runtime.devices.base import Device
from edgewise_runtime.engine.completion import Completion
from edgewise_runtime.engine.engine import GenerationEngine
from edgewise_runtime.engine.sampling import defaults_from, sampling_params
from edgewise_runtime.engine.sequence import Request
from edgewise_runtime.errors import InputError
from edgewise_runtime.text import ChatTemplate, Tokenizer
from edgewise_runtime.text.files import read_object
from edgewise_runtime.text.template import Message, missing_template


class Engine:
    """A model loaded on a device.

        with Engine("dist/demo-q4") as engine:
            print(engine.generate("Once upon a time", max_tokens=40).text)
            for piece in engine.chat([{"role": "user", "content": "Hello"}], stream=True):
                print(piece, end="", flush=True)

    Any thread may call it; calls take turns, each one whole. For several prompts at once pass a
    list, which is decoded together: every answer is the same as if it had been asked for alone.

    Attributes:
        tokenizer: `encode` and `decode` of the model's tokenizer.
        context: the most tokens of prompt and answer together.
    """

    def __init__(
        self,
        bundle: str | Path,
        *,
        device: Device | str | None = None,
        program: str | None = None,
        threads: int | None = None,
        trust: bool = False,
        context: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Load a model.

        Args:
            bundle: a bundle folder, or a checkpoint folder in Hugging Face layout, which is
                compiled once (q4) into ``$XDG_CACHE_HOME/edgewise/bundles``.
            device: what to run on: ``"cpu"``, ``"wgpu"`` (the best GPU), ``"wgpu:1"``, or a
                device. None for what `program` is for, and else the CPU, unless the bundle is only
                for GPUs.
            program: id of the program to run; None for the best that fits the device.
            threads: threads for kernels on the CPU; None for one per physical core.
            trust: load native code that this user did not compile.
            context: the most tokens of a sequence, to save memory; None for all the bundle allows.
            progress: told the phase, and how much of how much of it is done.

        Raises:
            EdgewiseError: whatever is wrong, with a code and what to do about it.
        """
        opened = Bundle.open(find_bundle(Path(bundle), progress=progress), progress=progress)
        self.context = _context(opened.model, context)
        self.tokenizer = Tokenizer.from_folder(opened.path)
        self._bundle = opened
        self._template = ChatTemplate.from_folder(opened.path, self.tokenizer.special_tokens)
        self._defaults = defaults_from(read_object(opened.path / "generation_config.json"))
        chosen = device_for(opened, device, program, threads=threads)
        self._device = chosen.name
        self._program, pages = load_program(
            opened, chosen, program, context=self.context, trust=trust, progress=progress
        )
        self._core = GenerationEngine(
            self._program, self.tokenizer, pages=pages, context=self.context
        )
        self._turns = Turns()
        self._streams = WeakSet[Stream]()

    @property
    def name(self) -> str:
        """The bundle's name."""
        return self._bundle.name

    @property
    def model(self) -> ModelInfo:
        """The model's shape and bounds."""
        return self._bundle.model

    @property
    def program(self) -> str:
        """Id of the program that runs, such as ``cpu-w4a8-avx512vnni``."""
        return self._program.program.id

    @property
    def device(self) -> str:
        """What it runs on, for people."""
        return self._device

    def memory(self) -> dict[str, int]:
        """Bytes in use by role: ``param``, ``state``, ``input``, ``output``, ``scratch``."""
        return self._program.memory()

    @overload
    def generate(
        self,
        prompt: str | list[int],
        *,
        stream: Literal[False] = False,
        **sampling: Unpack[SamplingOptions],
    ) -> Completion: ...

    @overload
    def generate(
        self,
        prompt: str | list[int],
        *,
        stream: Literal[True],
        **sampling: Unpack[SamplingOptions],
    ) -> Stream: ...

    @overload
    def generate(
        self,
        prompt: list[str] | list[list[int]],
        *,
        stream: Literal[False] = False,
        **sampling: Unpack[SamplingOptions],
    ) -> list[Completion]: ...

    def generate(
        self,
        prompt: str | list[int] | list[str] | list[list[int]],
        *,
        stream: bool = False,
        **sampling: Unpack[SamplingOptions],
    ) -> Completion | Stream | list[Completion]:
        """Continue a prompt.

        Args:
            prompt: text, which gets the tokenizer's special tokens (a beginning token, say);
                or token ids as they are; or a list of either.
            stream: return an iterator of text instead; for one prompt.
            sampling: see `SamplingOptions`.

        Raises:
            InputError: a prompt that is empty or too long, a parameter out of range.
        """
        prompts, single = prompt_ids(prompt, self.tokenizer)
        return self._start(prompts, stream=stream, single=single, sampling=sampling)

    @overload
    def chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
        stream: Literal[False] = False,
        **sampling: Unpack[SamplingOptions],
    ) -> Completion: ...

    @overload
    def chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
        stream: Literal[True],
        **sampling: Unpack[SamplingOptions],
    ) -> Stream: ...

    def chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
        stream: bool = False,
        **sampling: Unpack[SamplingOptions],
    ) -> Completion | Stream | list[Completion]:
        """Answer a conversation, by the model's own chat template.

        Args:
            messages: dicts such as ``{"role": "user", "content": "Hello"}``.
            tools: JSON schemas of functions, for templates that show them.
            variables: what else the template reads, such as ``{"enable_thinking": False}``.
            stream: return an iterator of text instead.
            sampling: see `SamplingOptions`.

        Raises:
            InputError: messages the template refuses, a conversation that is too long, a
                parameter out of range, a model without a chat template.
        """
        text = self.render(messages, tools=tools, variables=variables)
        prompt = tuple(self.tokenizer.encode(text, add_special_tokens=False))
        return self._start([prompt], stream=stream, single=True, sampling=sampling)

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """Return the prompt text that `chat` makes of a conversation."""
        if self._template is None:
            raise missing_template(self.name)
        return self._template.render(messages, tools=tools, **(variables or {}))

    def score(self, tokens: Sequence[int]) -> npt.NDArray[np.float32]:
        """Return the logits after each token: float32 [len(tokens), vocab].

        Raises:
            InputError: no tokens, too many, or what is no id of the vocabulary.
        """
        with self._turns.take():
            return self._core.score(token_ids(tokens))

    def close(self) -> None:
        """Cancel an open stream and release the memory. Closing twice is fine."""
        for stream in list(self._streams):
            stream.close()
        with self._turns.take():
            self._program.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Engine {self.name} {self.program} context={self.context}>"

    def _start(
        self,
        prompts: list[tuple[int, ...]],
        *,
        stream: bool,
        single: bool,
        sampling: Mapping[str, Any],
    ) -> Completion | Stream | list[Completion]:
        params = sampling_params(self._defaults, **sampling)
        sequences = [self._core.sequence(Request(prompt, params)) for prompt in prompts]
        if not stream:
            with self._turns.take():
                for _ in self._core.run(sequences):
                    pass
            completions = [sequence.completion() for sequence in sequences]
            return completions[0] if single else completions
        if not single:
            raise InputError(
                f"A stream has one prompt, not a list of {len(prompts)}.",
                remedy="Call generate once for each, or leave out stream.",
                code="input.stream",
            )
        started = Stream(sequences[0], self._pieces(sequences[0]))
        self._streams.add(started)
        return started

    def _pieces(self, sequence: Any) -> Generator[str]:
        with self._turns.take():
            for _, text in self._core.run([sequence]):
                if text:
                    yield text
                    self._turns.adopt()


def _context(model: ModelInfo, asked: int | None) -> int:
    if asked is None:
        return model.context
    if isinstance(asked, bool) or not isinstance(asked, int) or not 1 < asked <= model.context:
        raise InputError(
            f"context is {asked!r}; this bundle allows 2 to {model.context}.",
            remedy="Compile the model with a larger --context for more.",
            code="input.context",
        )
    return asked
