"""vectors.json of a bundle: how a model that was trained to embed or to rank texts is to be asked.

The compiler writes it where the checkpoint says so; bundles of other models have none.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from edgewise_runtime.errors import BundleError
from edgewise_runtime.format.reading import shorten

NAME = "vectors.json"
POOLINGS = ("last", "mean")
MAX_BYTES = 4 << 20

BEFORE = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    'the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n"
)
BETWEEN = "<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}"
AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
"""What a model that ranks is asked, and what it looks for unless told otherwise: the text that was
published with Qwen3-Reranker (arXiv 2506.05176)."""


@dataclass(frozen=True)
class VectorRules:
    """What a model says of its vectors.

    Attributes:
        pooling: how states become a text's vector, where a call does not say.
        normalize: whether it is made one of length 1, where a call does not say.
        prompts: texts to begin with, by name.
        direction: float32 [hidden], "yes" less "no" in the head of a model that ranks: the logits'
            difference is its product with the last state. None for one that does not.
    """

    pooling: str = "last"
    normalize: bool = True
    prompts: Mapping[str, str] = field(default_factory=dict)
    direction: npt.NDArray[np.float32] | None = None


def vector_rules(found: Mapping[str, Any], hidden: int) -> VectorRules:
    """Check them; of a bundle without any nothing is found, which is what models have that say
    nothing.

    Args:
        found: what the file holds.
        hidden: width of a state.

    Raises:
        BundleError: ``bundle.vectors`` for what they cannot be.
    """
    pooling, normalize = found.get("pooling", "last"), found.get("normalize", True)
    prompts = found.get("prompts", {})
    if pooling not in POOLINGS or not isinstance(normalize, bool):
        raise _wrong(f"pooling {shorten(pooling)} and normalize {shorten(normalize)}")
    if not isinstance(prompts, dict) or not all(isinstance(p, str) for p in prompts.values()):
        raise _wrong(f"the prompts {shorten(prompts)}")
    return VectorRules(pooling, normalize, prompts, _direction(found.get("yes_less_no"), hidden))


def _direction(value: Any, hidden: int) -> npt.NDArray[np.float32] | None:
    if value is None:
        return None
    try:
        row = np.frombuffer(base64.b64decode(value, validate=True), "<f4")
    except (ValueError, TypeError) as error:
        raise _wrong("a direction that is no base64") from error
    if row.shape != (hidden,) or not np.isfinite(row).all():
        raise _wrong(f"a direction of {len(row)} numbers for states of {hidden}")
    return row


def _wrong(what: str) -> BundleError:
    return BundleError(
        f"The bundle's {NAME} has {what}.",
        remedy="Copy or compile the bundle again.",
        code="bundle.vectors",
    )
