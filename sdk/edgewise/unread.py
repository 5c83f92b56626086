"""Parts of messages that no bundle reads: images, sound and files.

Of models that also see, bundles have the part that reads text; who sends an image should not think
that the model has looked at it.
"""

from __future__ import annotations

from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.format.reading import shorten

KINDS = frozenset(
    (
        *("image", "image_url", "input_image"),
        *("audio", "audio_url", "input_audio", "video", "video_url", "input_video"),
        *("file", "input_file", "document"),
    )
)
"""What OpenAI's, Anthropic's and transformers' messages call them."""

TEXT_ONLY = "this bundle reads text only"


def unread(
    where: str, kind: object, example: str = '{"type": "text", "text": "Hello"}'
) -> UnsupportedError:
    """What to raise for a part of a kind that is not text.

    Args:
        where: the subject of the message, such as ``messages.0.content.1 is of type``.
        example: a part of text as the API writes it.

    Returns:
        ``unsupported.content``; of one of `KINDS` it says that the bundle reads text only.
    """
    known = isinstance(kind, str) and kind in KINDS
    why = TEXT_ONLY if known else "only text is read"
    return UnsupportedError(
        f"{where} {shorten(kind)}; {why}.",
        remedy=f"Send text instead, in parts such as {example}.",
        code="unsupported.content",
    )
