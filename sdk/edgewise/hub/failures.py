"""What went wrong between a hub and here, as errors that say what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
from huggingface_hub import constants, get_token
from huggingface_hub.errors import (
    DisabledRepoError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
)

from edgewise.hub.names import HubModel
from edgewise_runtime.errors import EdgewiseError, HubError
from edgewise_runtime.files import storage_error
from edgewise_runtime.format.reading import shorten

OFFLINE, UNREACHABLE = "hub.offline", "hub.unreachable"
NOT_ASKED = {OFFLINE, UNREACHABLE}
"""Codes of the errors after which nothing is known of the repository."""

_UNREADABLE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
NO_HUB = "Check HF_ENDPOINT if you set it, and whether a proxy answers in its place."
"""What to do where what answers is no hub."""
_LOG_IN = "run `hf auth login`, or set HF_TOKEN to a token of yours"


@contextmanager
def hub_errors(model: HubModel) -> Iterator[None]:
    """Turn what the hub's library raises into HubErrors, and what the disk does into StorageErrors.

    Codes: ``hub.missing``, ``.gated``, ``.token``, ``.forbidden``, ``.disabled``, ``.busy``,
    ``.refused``, ``.unreachable``, ``.offline``; ``storage.*``.
    """
    try:
        yield
    except EdgewiseError:
        raise
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise _explained(error, model) from error


@contextmanager
def hub_answers() -> Iterator[None]:
    """Turn what the hub's library raises at an answer that it cannot read into a HubError.

    Code: ``hub.answer``.
    """
    try:
        yield
    except (HfHubHTTPError, OSError):
        raise
    except _UNREADABLE as error:
        raise HubError(
            f"{constants.ENDPOINT} does not answer as a hub of models does: "
            f"{shorten(str(error), 200)}.",
            remedy=NO_HUB,
            code="hub.answer",
        ) from error


def _explained(error: Exception, model: HubModel) -> EdgewiseError:
    """What the first row of the table that fits makes of it."""
    return next(words(error, model) for kind, words in _WORDS if isinstance(error, kind))


def _offline(error: Exception, model: HubModel) -> EdgewiseError:
    return HubError(
        f"HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE forbids to ask {constants.ENDPOINT} for "
        f"{model.repo}.",
        remedy=f"Unset it once, to fetch what is not here: edgewise pull {model}",
        code=OFFLINE,
    )


def _gated(error: Exception, model: HubModel) -> EdgewiseError:
    page = f"{constants.ENDPOINT}/{model.repo}"
    if get_token():
        return HubError(
            f"{model.repo} is gated, and your token's account has not been let in.",
            remedy=f"Ask for access at {page}, with the account that the token belongs to.",
            code="hub.gated",
        )
    return HubError(
        f"{model.repo} is gated: who downloads it has to ask first.",
        remedy=f"Ask for access at {page}; then {_LOG_IN}.",
        code="hub.gated",
    )


def _disabled(error: Exception, model: HubModel) -> EdgewiseError:
    return HubError(
        f"{model.repo} has been disabled at {constants.ENDPOINT}.",
        remedy="Look for another repository of the model.",
        code="hub.disabled",
    )


def _missing(error: Exception, model: HubModel) -> EdgewiseError:
    known = get_token() is not None
    return HubError(
        f"There is no model {model.repo} at {constants.ENDPOINT}, or it is private.",
        remedy="Check its name; of a private one, that your token may read it."
        if known
        else f"Check its name; for a private one {_LOG_IN}.",
        code="hub.missing",
    )


def _wrong_token(error: Exception, model: HubModel) -> EdgewiseError:
    return HubError(
        f"{constants.ENDPOINT} does not accept your token.",
        remedy=f"Make another one and {_LOG_IN}; public models need none: unset HF_TOKEN, or run "
        "`hf auth logout`.",
        code="hub.token",
    )


def _forbidden(error: Exception, model: HubModel) -> EdgewiseError:
    return HubError(
        f"{constants.ENDPOINT} forbids to read {model.repo} with your token: {_said(error)}.",
        remedy="Give the token the right to read it (of a gated one: to read public gated "
        "repositories).",
        code="hub.forbidden",
    )


def _busy(error: Exception, model: HubModel) -> EdgewiseError:
    return HubError(
        f"{constants.ENDPOINT} has had too many requests from here.",
        remedy="Wait some minutes; with a token more are allowed. What has come is kept.",
        code="hub.busy",
    )


def _unreachable(error: Exception, model: HubModel) -> EdgewiseError:
    return HubError(
        f"{constants.ENDPOINT} could not be asked for {model.repo}: {_said(error)}.",
        remedy="Check the network, and HTTPS_PROXY and HF_ENDPOINT if you set them. What has come "
        "is kept: the same command goes on from there.",
        code=UNREACHABLE,
    )


def _disk(error: Exception, model: HubModel) -> EdgewiseError:
    cause = error if isinstance(error, OSError) else OSError(str(error))
    return storage_error(cause, "write", Path(cause.filename or constants.HF_HUB_CACHE))


_STATUS: dict[int, Callable[[Exception, HubModel], EdgewiseError]] = {
    401: _missing,
    403: _forbidden,
    404: _missing,
    429: _busy,
}


def _by_status(error: Exception, model: HubModel) -> EdgewiseError:
    status = error.response.status_code if isinstance(error, HfHubHTTPError) else 0
    if status == 401 and "credentials" in _said(error):
        return _wrong_token(error, model)
    if status in _STATUS:
        return _STATUS[status](error, model)
    if status >= 500:
        return _unreachable(error, model)
    return HubError(
        f"{constants.ENDPOINT} refuses to hand out {model.repo}: {_said(error)}.",
        remedy="Check HF_ENDPOINT if you set it, or try again later.",
        code="hub.refused",
    )


def _said(error: Exception) -> str:
    """Why, in the server's words or the network's, on one line."""
    text = error.server_message if isinstance(error, HfHubHTTPError) else str(error)
    if not text and isinstance(error, HfHubHTTPError):
        text = f"status {error.response.status_code}"
    line = " ".join((text or type(error).__name__).split())
    return shorten(line, 200).strip("'\"").rstrip(".")


_WORDS: tuple[tuple[type[Exception], Callable[[Exception, HubModel], EdgewiseError]], ...] = (
    (OfflineModeIsEnabled, _offline),
    (GatedRepoError, _gated),
    (DisabledRepoError, _disabled),
    (HfHubHTTPError, _by_status),
    (LocalEntryNotFoundError, _unreachable),
    (OSError, _disk),
    (Exception, _unreachable),
)
