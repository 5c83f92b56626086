"""A model as an application of Ray Serve: doors that speak HTTP, and replicas that answer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ray import serve
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy, RequestRouterConfig
from ray.serve.handle import DeploymentHandle
from starlette.types import ASGIApp

from edgewise.cache import find_bundle
from edgewise.hosting.loading import Loading
from edgewise.hosting.named import named_models
from edgewise.ray.model import OneModel, RayModel
from edgewise.ray.options import ServeOptions
from edgewise.ray.replica import Replica, Way
from edgewise.ray.trusting import vouched
from edgewise.server.app import make_app
from edgewise.server.keys import VARIABLE, Key
from edgewise.server.origins import allowed_origin
from edgewise.settings import Settings
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.reading import shorten

MODEL, DOOR = "EdgewiseModel", "EdgewiseDoor"
"""Names of the two deployments."""

HEALTH_S = 10.0
"""Seconds between looks whether a replica's engine still runs."""
STATS_S = 5.0
"""Seconds between what replicas tell of themselves."""
MOST_RUNNING = 4096
"""Sequences that a program runs at once, at most."""


class Door:
    """What speaks HTTP: the APIs of `edgewise serve`, asking replicas."""

    async def __init__(  # type: ignore[misc]
        self,
        model: DeploymentHandle,
        where: str,
        api_key: str | None,
        hosts: tuple[str, ...],
        origins: tuple[str, ...],
    ) -> None:
        """Wait for a replica, and open the bundle.

        Args:
            model: of `Replica`.
            where: the bundle, or what it is compiled of.
        """
        facts = await model.facts.remote(Way())
        folder = await asyncio.to_thread(find_bundle, Path(where), progress=lambda *_: None)
        bundle = await asyncio.to_thread(Bundle.open, folder)
        self._answering = make_app(
            {},
            {},
            hosts,
            origins,
            OneModel(RayModel(facts, bundle, model)),
            api_key or os.environ.get(VARIABLE) or None,
        )

    def __serve_build_asgi_app__(self) -> ASGIApp:
        """Called by Ray: the application, which there is none of before a bundle is open."""
        return self._answering


def app(model: str | Path, options: ServeOptions | None = None) -> serve.Application:
    """A model as an application, for `serve.run`.

    Args:
        model: a bundle, by its name in `edgewise ls` or its folder, which every node must have at
            that path; or a checkpoint folder or ``hf:ORG/REPO``, which each node compiles.
        options: default ``ServeOptions()``.

    Raises:
        InputError: ``input.model`` for what is no model, where that can be told here;
            ``input.option``, ``serve.key``, ``serve.origin`` for options that there are not.
        TrustError: ``trust.key`` where this user's key cannot be used.
    """
    options = options or ServeOptions()
    name, where = _named(model)
    _check(options)
    known = vouched(where) if options.vouched is None else options.vouched
    loading = Loading(
        name=options.name or name,
        bundle=where,
        device=options.device,
        program=options.program,
        threads=options.kernel_threads,
        context=options.context,
        trust=options.trust,
        settings=dict(options.settings),
        vouched=known,
    )
    replicas = serve.deployment(
        Replica,
        name=MODEL,
        ray_actor_options={
            "num_cpus": options.cpus,
            "num_gpus": options.gpus,
            "resources": dict(options.resources),
        },
        # Who waits does so in the engine's queue, which knows who may share a prompt.
        max_ongoing_requests=_waiting(options.settings) + MOST_RUNNING,
        graceful_shutdown_timeout_s=options.drain_s,
        graceful_shutdown_wait_loop_s=min(options.drain_s, 0.5),
        health_check_period_s=HEALTH_S,
        **_counted(options),
        **_routed(options),
    )
    door = serve.deployment(
        serve.ingress()(Door),
        name=DOOR,
        num_replicas=options.doors,
        ray_actor_options={"num_cpus": options.door_cpus},
        max_ongoing_requests=_waiting(options.settings) + MOST_RUNNING,
        graceful_shutdown_timeout_s=options.drain_s,
        graceful_shutdown_wait_loop_s=min(options.drain_s, 0.5),
    )
    handle = replicas.bind(loading, options.full, options.kv_full)
    return door.bind(handle, where, options.api_key, options.hosts, options.origins)


def build(args: Mapping[str, Any]) -> serve.Application:
    """The same for a configuration file, or for ``serve run edgewise.ray:build model=…``.

    Args:
        args: `app`'s model, and fields of `ServeOptions` by name.

    Raises:
        InputError: as `app` does.
    """
    given = dict(args)
    model = given.pop("model", None)
    if not isinstance(model, str) or not model:
        raise InputError(f"model is {shorten(model)}.", remedy="Name a bundle.", code="input.model")
    return app(model, ServeOptions.of(given))


def _named(model: str | Path) -> tuple[str, str]:
    """A model's name, and where nodes find it."""
    path = Path(model)
    if path.is_absolute() and not path.exists():
        return path.name, str(path)  # on the nodes, perhaps
    ((name, where),) = named_models([str(model)]).items()
    return name, str(Path(where).resolve()) if Path(where).exists() else where


def _check(options: ServeOptions) -> None:
    """Refuse here what would be refused on the nodes, in their logs."""
    for origin in options.origins:
        allowed_origin(origin)
    if options.api_key is not None:
        Key.of(options.api_key)
    Loading(name="", bundle="", settings=options.settings).read_settings()


def _waiting(settings: Mapping[str, Any]) -> int:
    return int(settings.get("max_waiting", Settings.max_waiting))


def _counted(options: ServeOptions) -> dict[str, Any]:
    """How many replicas."""
    if not options.scales:
        return {"num_replicas": options.replicas}
    config = AutoscalingConfig(
        min_replicas=options.replicas,
        max_replicas=options.most_replicas,
        upscale_delay_s=options.up_s,
        downscale_delay_s=options.down_s,
        metrics_interval_s=min(STATS_S, max(options.up_s, 0.5)),
        look_back_period_s=max(options.up_s, 1.0),
        policy=AutoscalingPolicy(policy_function="edgewise.ray.scaling:policy"),
    )
    return {"autoscaling_config": config}


def _routed(options: ServeOptions) -> dict[str, Any]:
    """How requests come to them."""
    if options.routing == "load":
        return {}
    kinds: Mapping[str, tuple[str, dict[str, Any]]] = {
        "prefix": (
            "PrefixRouter",
            {"pages": options.pages, "factor": options.busier, "spare": options.spare},
        ),
        "turns": ("TurnRouter", {}),
    }
    kind, given = kinds[options.routing]
    config = RequestRouterConfig(
        request_router_class=f"edgewise.ray.router:{kind}",
        request_router_kwargs=given,
        request_routing_stats_period_s=STATS_S,
    )
    return {"request_router_config": config}
