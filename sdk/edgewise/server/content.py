"""What a body says that it is: only plain JSON is read."""

from __future__ import annotations

from collections.abc import Mapping

from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten

JSON_TYPES = ("application/json", "application/x-www-form-urlencoded")
FROM_PAGES = frozenset(("origin", "referer", "sec-fetch-site", "sec-fetch-mode"))
REMEDY = "Send a JSON object with Content-Type: application/json."


def check_type(headers: Mapping[str, str]) -> None:
    """Refuse what does not say that it is plain JSON: pages of other sites cannot say so unasked.

    What no page has sent may say what ``curl -d`` says by itself: browsers name the page's origin
    with every POST (https://fetch.spec.whatwg.org/#append-a-request-origin-header).

    Raises InputError ``input.body_type``.
    """
    said = headers.get("content-type", "")
    kind, _, parameters = said.partition(";")
    charset = parameters.strip().lower().partition("charset=")[2].strip("\"' ")
    kinds = JSON_TYPES if FROM_PAGES.isdisjoint(headers) else JSON_TYPES[:1]
    if kind.strip().lower() not in kinds or charset not in ("", "utf-8", "utf8"):
        raise InputError(
            f"The body's Content-Type is {shorten(said)}.", remedy=REMEDY, code="input.body_type"
        )
    encoding = headers.get("content-encoding", "identity")
    if encoding.strip().lower() not in ("", "identity"):
        raise InputError(
            f"The body's Content-Encoding is {shorten(encoding)}.",
            remedy="Send it as it is: compressed bodies are not read.",
            code="input.body_type",
        )
