"""The engine whose GPU is a visitor's: a page in a browser computes, Python asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NoReturn, Unpack, overload

from edgewise.answers import Completion
from edgewise.cache import Progress, find_bundle
from edgewise.generation import Stream
from edgewise.hosting.base import Ask
from edgewise.hosting.tab_model import TARGET, TabModel, TabModels
from edgewise.hosting.tabs import BEAT_S, LEND, MAX_BEAT_S
from edgewise.messages import each_conversation
from edgewise.options import RequestOptions, SamplingOptions, documents
from edgewise.prompt import each_prompt_ids
from edgewise.tab_generation import TabGeneration
from edgewise.tools import ToolLike, described
from edgewise.wanted import Wanted, wanted_of
from edgewise_runtime.engine.pooling import Pooling
from edgewise_runtime.errors import EngineError, InputError, UnsupportedError
from edgewise_runtime.format.bundle import Bundle, ModelInfo
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.text import Tokenizer
from edgewise_runtime.text.template import Message


@dataclass(frozen=True)
class LendingTab:
    """A tab that lends its GPU.

    Attributes:
        device, program: what runs what, for people.
        running, served: requests that it answers now, and that it was given so far.
    """

    id: str
    device: str
    program: str
    running: int
    served: int


class BrowserEngine:
    """A model on the GPUs of whoever opens a page.

        with BrowserEngine("dist/demo-q4") as engine:
            print(f"Open {engine.url}")
            engine.wait(timeout_s=60)
            print(engine.generate("Once upon a time", max_tokens=40).text)

    It serves the app and the bundle itself. Tabs that have its address open are asked in turn, each
    as much as it takes; prompts go to them and nowhere else. Any thread may call it.
    """

    def __init__(
        self,
        bundle: str | Path,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        beat_s: float = BEAT_S,
        progress: Progress | None = None,
    ) -> None:
        """Serve a model to browsers.

        Args:
            bundle: as `Engine` takes it, with a program for WebGPU.
            host, port: of this machine; port 0 takes a free one. Default: only this machine's
                browsers reach it.
            beat_s: seconds between beats that tabs answer, two of which may be missed.
            progress: called with what is being done, how far, and of how much.

        Raises:
            InputError: ``input.program`` for a bundle that no browser can run, ``serve.host`` for
                an address of other machines, ``serve.port`` for a port that is taken.
            BundleError: a bundle that is damaged or malformed.
        """
        # Here: who uses none of this waits for no server to be imported.
        from edgewise.server.app import make_app
        from edgewise.server.assets import assets, built
        from edgewise.server.bundles import offer
        from edgewise.server.guard import is_loopback
        from edgewise.server.run import in_thread, listen

        if not is_loopback(host):
            raise InputError(
                f"At {shorten(host)} everybody who reaches this machine could answer for the "
                "model, and read what it is asked.",
                remedy="Use 127.0.0.1; for other machines, edgewise serve --device browser with a "
                "key.",
                code="serve.host",
            )
        if not 0 < beat_s <= MAX_BEAT_S:
            raise InputError(
                f"beat_s is {beat_s!r}; it must be above 0 and at most {MAX_BEAT_S}.",
                code="input.option",
            )
        if not built():
            raise InputError(
                "The app that browsers run is not built here.",
                remedy="Install edgewise from a wheel, or run make web.",
                code="serve.app",
            )
        path = find_bundle(Path(bundle), target=TARGET, progress=progress)
        with ExitStack() as stack:
            offered = offer(path)
            self._bundle = Bundle.open(path, progress=progress)
            stack.callback(self._bundle.close)
            self._model = TabModel(offered.name, self._bundle, beat_s=beat_s)
            models = TabModels({offered.name: self._model})
            tabs = {offered.name: self._model.tabs}
            app = make_app({offered.name: offered}, assets(), models=models, tabs=tabs)
            listening = stack.enter_context(listen(host, port))
            background = stack.enter_context(in_thread(app, listening, models=models))
            self._loop = background.loop
            self.url = background.url + LEND
            self._closing = stack.pop_all()

    @property
    def name(self) -> str:
        """The bundle's name."""
        return self._bundle.name

    @property
    def model(self) -> ModelInfo:
        """The model's shape and bounds."""
        return self._bundle.model

    @property
    def context(self) -> int:
        """The most tokens of prompt and answer together; a tab short of memory may allow less."""
        return self._model.facts.context

    @property
    def tokenizer(self) -> Tokenizer:
        """`encode` and `decode` of the model's tokenizer."""
        return self._model.texts.tokenizer

    @property
    def tabs(self) -> tuple[LendingTab, ...]:
        """Those that lend their GPU now."""
        return tuple(
            LendingTab(tab.id, tab.lent.device, tab.lent.program, len(tab.running), tab.served)
            for tab in self._model.tabs
        )

    def wait(self, tabs: int = 1, timeout_s: float | None = None) -> None:
        """Wait until so many tabs lend their GPU.

        Raises:
            EngineError: ``tab.none`` where they are not there in time.
        """
        if not self._model.tabs.wait(tabs, timeout_s):
            raise EngineError(
                f"After {timeout_s:g} s {len(self.tabs)} of {tabs} tabs lend their GPU.",
                remedy=f"Open {self.url} in a browser with WebGPU.",
                code="tab.none",
            )

    @overload
    def generate(
        self,
        prompt: str | list[int],
        *,
        tools: Sequence[ToolLike] | None = None,
        stream: Literal[False] = False,
        **options: Unpack[RequestOptions],
    ) -> Completion: ...

    @overload
    def generate(
        self,
        prompt: str | list[int],
        *,
        tools: Sequence[ToolLike] | None = None,
        stream: Literal[True],
        **options: Unpack[RequestOptions],
    ) -> Stream: ...

    @overload
    def generate(
        self,
        prompt: list[str] | list[list[int]],
        *,
        tools: Sequence[ToolLike] | None = None,
        stream: Literal[False] = False,
        **options: Unpack[RequestOptions],
    ) -> list[Completion]: ...

    @documents(RequestOptions)
    def generate(
        self,
        prompt: Any,
        *,
        tools: Sequence[ToolLike] | None = None,
        stream: bool = False,
        **options: Unpack[RequestOptions],
    ) -> Completion | Stream | list[Completion]:
        """Generate text from a prompt, as `Engine.generate` does.

        Args:
            prompt: text or token ids, or a list of either, which run together.
            tools: as of `chat`; nobody tells the model of them but the prompt.
            stream: return an iterator of text instead; for one prompt. Default: False.
            options: below.

        Raises:
            InputError: a prompt that is none, a parameter out of range.
            EngineError: ``tab.none`` where no tab lends its GPU, ``tab.gone`` and ``tab.silent``
                where the one that answered is lost, ``engine.busy`` for too many at once.
            UnsupportedError: ``unsupported.tab`` for what engines of tabs do not do.
        """
        ids, alone = each_prompt_ids(prompt, self.tokenizer, self.context)
        wanted = wanted_of(options, tools)
        asked = [self._ask(wanted, options, prompt=list(one)) for one in ids]
        return self._answer(asked, wanted, alone=alone, stream=stream)

    @overload
    def chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolLike] | None = None,
        variables: Mapping[str, Any] | None = None,
        stream: Literal[False] = False,
        **options: Unpack[RequestOptions],
    ) -> Completion: ...

    @overload
    def chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolLike] | None = None,
        variables: Mapping[str, Any] | None = None,
        stream: Literal[True],
        **options: Unpack[RequestOptions],
    ) -> Stream: ...

    @overload
    def chat(
        self,
        messages: Sequence[Sequence[Message]],
        *,
        tools: Sequence[ToolLike] | None = None,
        variables: Mapping[str, Any] | None = None,
        stream: Literal[False] = False,
        **options: Unpack[RequestOptions],
    ) -> list[Completion]: ...

    @documents(RequestOptions)
    def chat(
        self,
        messages: Any,
        *,
        tools: Sequence[ToolLike] | None = None,
        variables: Mapping[str, Any] | None = None,
        stream: bool = False,
        **options: Unpack[RequestOptions],
    ) -> Completion | Stream | list[Completion]:
        """Answer a conversation, as `Engine.chat` does.

        Args:
            messages: a conversation, or a list of them, which run together.
            tools: what the model is told that it may call. Default: none.
            variables: what else the chat template reads. Default: nothing.
            stream: return an iterator of text instead; for one conversation. Default: False.
            options: below.

        Raises what `generate` does.
        """
        conversations, alone = each_conversation(messages)
        wanted = wanted_of(options, tools)
        asked = [
            self._ask(wanted, options, messages=list(one), variables=variables)
            for one in conversations
        ]
        return self._answer(asked, wanted, alone=alone, stream=stream)

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolLike] | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """Return the prompt text that `chat` makes of a conversation."""
        return self._model.texts.text_of_chat(messages, tools, variables, {})

    def score(self, tokens: Sequence[int]) -> NoReturn:
        """Refused: logits do not leave a tab. Raises UnsupportedError ``unsupported.tab``."""
        raise _unsupported("score")

    def embed(
        self,
        texts: str | Sequence[int] | Sequence[str] | Sequence[Sequence[int]],
        *,
        pooling: Pooling | None = None,
        normalize: bool | None = None,
        truncate: bool = False,
        prompt: str | None = None,
    ) -> NoReturn:
        """Refused: hidden states do not leave a tab. Raises as `score`."""
        raise _unsupported("embed")

    def rerank(
        self, query: str, documents: Sequence[str], *, instruction: str | None = None
    ) -> NoReturn:
        """Refused, as `embed`."""
        raise _unsupported("rerank")

    def pin(self, prompt: str | list[int], *, cache_salt: str | None = None) -> NoReturn:
        """Refused: a tab decides itself what it keeps. Raises as `score`."""
        raise _unsupported("pin")

    def unpin(self, prompt: str | list[int], *, cache_salt: str | None = None) -> NoReturn:
        """Refused, as `pin`."""
        raise _unsupported("unpin")

    def forget(self) -> NoReturn:
        """Refused, as `pin`."""
        raise _unsupported("forget")

    def close(self) -> None:
        """End what runs, and serve no longer. Closing twice is fine."""
        self._closing.close()

    def __enter__(self) -> BrowserEngine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self.url} tabs={len(self.tabs)}>"

    def _ask(self, wanted: Wanted, options: RequestOptions, **given: Any) -> Ask:
        """A request as a tab is sent it: everything in it JSON."""
        found: dict[str, Any] = {k: v for k, v in options.items() if v is not None}
        sampling = found.pop("sampling", None)
        if isinstance(sampling, SamplingOptions):
            found = sampling.given() | found
        if wanted.format is not None:
            found["response_format"] = wanted.format.to_json()
        if "tool_choice" in found:
            found["tool_choice"] = wanted.choice.to_json()
        if wanted.reasoning is not None:
            found["reasoning"] = wanted.reasoning.to_json()
        tools = None if wanted.tools is None else described(wanted.tools)
        return Ask(tools=tools, options=found, **given)

    def _answer(
        self, asked: Sequence[Ask], wanted: Wanted, *, alone: bool, stream: bool
    ) -> Completion | Stream | list[Completion]:
        if stream and not alone:
            raise InputError(
                f"This streams one answer, not {len(asked)}.",
                remedy="Call it once for each; without stream it takes a list.",
                code="input.stream",
            )
        running = [TabGeneration(self._model, one, wanted, self._loop) for one in asked]
        if stream:
            return Stream(running[0])
        try:
            completions = [generation.result() for generation in running]
        except BaseException:
            for generation in running:
                generation.close()
            raise
        return completions[0] if alone else completions


def _unsupported(name: str) -> UnsupportedError:
    return UnsupportedError(
        f"{name} is not for models that tabs run.",
        remedy="Use edgewise.Engine, which computes in this process.",
        code="unsupported.tab",
    )
