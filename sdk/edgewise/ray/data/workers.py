"""The actors that answer: how many, what each has, and the model that it loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ray.data import ActorPoolStrategy, Dataset

from edgewise.cache import find_model, is_bundle
from edgewise.hosting.loading import Loading
from edgewise.ray.trusting import vouched
from edgewise.settings import Settings
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.bundle import read_manifest
from edgewise_runtime.format.reading import shorten


@dataclass(frozen=True)
class Model:
    """A bundle as this machine has it.

    Attributes:
        path: its folder, by which every worker's node reaches it.
        weights_id: of its weights.
        vouched: digests of its native programs that this user has compiled.
    """

    path: Path
    weights_id: str
    vouched: tuple[str, ...]

    @staticmethod
    def of(bundle: str | Path) -> Model:
        """A bundle by its folder or its name in `edgewise ls`.

        Raises:
            InputError: ``input.bundle`` for what is none.
            BundleError: it is damaged.
        """
        path = find_model(Path(bundle)).absolute()
        if not is_bundle(path):
            raise InputError(
                f"{path} is no bundle, and workers compile nothing.",
                remedy="Compile it first, where all nodes reach it: edgewise compile MODEL.",
                code="input.bundle",
            )
        return Model(path, read_manifest(path).weights_id, vouched(path))


@dataclass(frozen=True, kw_only=True)
class Workers:
    """The actors that answer, each with an engine of its own.

    Attributes:
        concurrency: how many, or the fewest and the most.
        batch_size: rows of a batch: what is computed again where a worker dies.
        max_concurrent_batches: batches that an engine has at a time; with one of them it idles
            while the last row of a batch is being answered.
        num_cpus: of each; its kernels have as many threads, unless `threads` says otherwise.
        num_gpus: of each.
        ray_remote_args: what else `map_batches` is told of them by name, such as
            ``{"resources": {"fast": 1}}``.
        device, program, threads, context, settings: of each engine, as for `Engine`.
    """

    concurrency: int | tuple[int, int] = 1
    batch_size: int = 64
    max_concurrent_batches: int = 2
    num_cpus: float = 1
    num_gpus: float = 0
    ray_remote_args: Mapping[str, Any] = field(default_factory=dict)
    device: str | None = None
    program: str | None = None
    threads: int | None = None
    context: int | None = None
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        """Raise InputError ``input.option`` for a value out of range."""
        low, high = self._bounds
        checked = (
            ("concurrency", low, 1, high),
            ("concurrency", high, low, 1 << 16),
            ("batch_size", self.batch_size, 1, 1024),
            ("max_concurrent_batches", self.max_concurrent_batches, 1, 64),
        )
        for name, value, least, most in checked:
            if type(value) is not int or not least <= value <= most:
                raise InputError(
                    f"{name} is {shorten(getattr(self, name))}; it must be a whole number from "
                    f"{least:,} to {most:,}.",
                    code="input.option",
                )

    @property
    def _bounds(self) -> tuple[Any, Any]:
        """The fewest and the most, unchecked."""
        given = self.concurrency
        return given if isinstance(given, tuple) and len(given) == 2 else (given, given)

    def map(
        self, dataset: Dataset, model: Model, kind: type, arguments: Mapping[str, Any]
    ) -> Dataset:
        """A dataset whose batches an actor's class answers, with what loads its model (`load`) and
        these arguments of the class.

        A block has a batch of rows, and a task of Ray's one block: what comes of it comes as one,
        so that a task that is run again gives what it would have given.
        """
        low, high = self._bounds
        answered = dataset.repartition(target_num_rows_per_block=self.batch_size).map_batches(
            kind,
            fn_constructor_kwargs={"load": self._loading(model).load, **arguments},
            batch_size=self.batch_size,
            batch_format="pyarrow",
            zero_copy_batch=True,
            compute=ActorPoolStrategy(
                min_size=low,
                max_size=high,
                max_tasks_in_flight_per_actor=self.max_concurrent_batches,
                max_concurrent_calls_per_actor=self.max_concurrent_batches,
            ),
            num_cpus=self.num_cpus,
            num_gpus=self.num_gpus,
            **self.ray_remote_args,
        )
        # Wrapped in one of Ray's it would come here without what it was raised for.
        answered.context.raise_original_map_exception = True
        return answered

    def _loading(self, model: Model) -> Loading:
        return Loading(
            name=model.path.name,
            bundle=str(model.path),
            device=self.device,
            program=self.program,
            threads=max(1, int(self.num_cpus)) if self.threads is None else self.threads,
            context=self.context,
            vouched=model.vouched,
            settings={one.name: getattr(self.settings, one.name) for one in fields(Settings)},
        )
