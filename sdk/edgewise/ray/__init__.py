"""Models on a Ray cluster, with the extra ``ray``.

    from ray import serve
    import edgewise.ray

    serve.run(edgewise.ray.app("/shared/bundles/demo-q4"))

Nothing else of edgewise imports this package, or Ray.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from edgewise.ray.needed import RAY
from edgewise_runtime.errors import UnsupportedError

if TYPE_CHECKING:
    from edgewise.ray.data.completing import complete, complete_batch, complete_to
    from edgewise.ray.data.folder import Written
    from edgewise.ray.data.workers import Workers
    from edgewise.ray.options import ServeOptions
    from edgewise.ray.serving import app, build
    from edgewise.ray.trusting import vouched

__all__ = [
    "ServeOptions",
    "Workers",
    "Written",
    "app",
    "build",
    "complete",
    "complete_batch",
    "complete_to",
    "vouched",
]

_MODULES = {
    "ServeOptions": "options",
    "Workers": "data.workers",
    "Written": "data.folder",
    "app": "serving",
    "build": "serving",
    "complete": "data.completing",
    "complete_batch": "data.completing",
    "complete_to": "data.completing",
    "vouched": "trusting",
}
"""Where names come from: who serves does not wait for what reads data, nor the other way."""


def __getattr__(name: str) -> Any:
    """A name of `_MODULES`.

    Raises:
        UnsupportedError: ``unsupported.ray`` where Ray is there without what it needs for that.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as cause:
        raise UnsupportedError(
            f"edgewise.ray.{name} needs the package {cause.name}, which is not installed.",
            remedy=f"Install it: {RAY.install}",
            code="unsupported.ray",
        ) from cause
