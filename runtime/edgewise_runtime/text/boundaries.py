"""Where a text may be cut so that its parts, tokenized one by one, have the ids of the whole.

The tokenizers package (added_vocabulary.rs, `extract_and_normalize`) first takes the added tokens
that are not normalized out of the raw text, leftmost first and of those the longest. What is left
between them is normalized, pre-tokenized and tokenized piece by piece. So a piece's ids depend on
nothing outside it, except for

- whether it begins the text (Metaspace's prepend scheme ``first``): a part therefore begins with
  the token it was cut at, and never looks like the beginning of a text that it is not;
- added tokens that look at the characters around them: with `single_word` at both, which is why
  nothing is cut where there are any; with `lstrip` and `rstrip` at white space up to the token
  before or after, which is why nothing is cut at these, nor at tokens that begin with white space;
- a post-processor that repeats or leaves out the text, and merges left out by chance (dropout):
  nothing is cut with these, nor with steps that are not known here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend

_MAX_TOKENS = 1 << 16
_MAX_CHARACTERS = 1 << 20
_NORMALIZERS = frozenset(
    "BertNormalizer ByteLevel Lowercase NFC NFD NFKC NFKD Nmt Precompiled Prepend Replace "
    "Sequence Strip StripAccents".split()
)
_PRE_TOKENIZERS = frozenset(
    "BertPreTokenizer ByteLevel CharDelimiterSplit Digits FixedLength Metaspace Punctuation "
    "Sequence Split UnicodeScripts Whitespace WhitespaceSplit".split()
)
_POST_PROCESSORS = frozenset(
    "BertProcessing ByteLevel RobertaProcessing Sequence TemplateProcessing".split()
)
_MODELS = frozenset(("BPE", "WordLevel", "WordPiece"))


@dataclass(frozen=True, slots=True)
class Boundaries:
    """The tokens that texts are cut before.

    Attributes:
        tokens: matches every token taken out of raw text, the longest that there is.
        starts: those of them that a part may begin with.
    """

    tokens: re.Pattern[str]
    starts: frozenset[str]

    def parts(self, text: str) -> list[str]:
        """Return the parts of `text`, none of them empty, in time linear in its length.

        Their ids one after the other are those of `text`, without what a post-processor adds.
        """
        at = [m.start() for m in self.tokens.finditer(text) if m.group() in self.starts]
        edges = [0, *(start for start in at if start), len(text)]
        return [text[a:b] for a, b in pairwise(edges)] if text else []


def boundaries(backend: Backend) -> Boundaries | None:
    """Return where texts may be cut for a tokenizer, or None where that cannot be told.

    Cuts are made at special tokens only, for these are what chat templates write.
    """
    if backend.encode_special_tokens or not _is_known(backend):
        return None
    raw = [token for token in backend.get_added_tokens_decoder().values() if not token.normalized]
    starts = frozenset(token.content for token in raw if _starts_part(token))
    if not starts or any(token.single_word for token in raw):
        return None
    contents = sorted({token.content for token in raw})
    if len(contents) > _MAX_TOKENS or sum(map(len, contents)) > _MAX_CHARACTERS:
        return None
    try:
        return Boundaries(re.compile(longest_of(contents)), starts)
    except RecursionError:  # tokens that are beginnings of each other, hundreds deep
        return None


def _starts_part(token: AddedToken) -> bool:
    return token.special and not (token.lstrip or token.rstrip or token.content[:1].isspace())


def _is_known(backend: Backend) -> bool:
    if type(backend.model).__name__ not in _MODELS or getattr(backend.model, "dropout", None):
        return False
    return (
        all(step["type"] in _NORMALIZERS for step in steps(backend.normalizer))
        and all(step["type"] in _PRE_TOKENIZERS for step in steps(backend.pre_tokenizer))
        and all(_keeps_text(step) for step in steps(backend.post_processor))
    )


def _keeps_text(step: dict[str, Any]) -> bool:
    """Whether a post-processor that may add no special tokens leaves the ids as they are."""
    if step["type"] != "TemplateProcessing":
        return step["type"] in _POST_PROCESSORS
    return [p["Sequence"]["id"] for p in step["single"] if "Sequence" in p] == ["A"]


def steps(component: Any) -> Iterator[dict[str, Any]]:
    """Return the steps of a component of a tokenizer as JSON, those within sequences as well."""
    pending = [] if component is None else [json.loads(component.__getstate__())]
    while pending:
        step: dict[str, Any] = pending.pop()
        yield step
        for name in ("normalizers", "pretokenizers", "processors"):
            pending.extend(step.get(name, ()))


def longest_of(words: Sequence[str]) -> str:
    """Return an expression for the longest of some words, sorted ones, that a text begins with.

    It is a trie, so that matching takes as long for many words as for few.
    """
    return "|".join(map(_branch, _by_first_character(words)))


def _branch(words: list[str]) -> str:
    first, last = words[0], words[-1]  # what these two begin with, those between begin with too
    shared = next(
        (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first)
    )
    stem, rests = first[:shared], [word[shared:] for word in words]
    longer = [rest for rest in rests if rest]
    if not longer:
        return re.escape(stem)
    return f"{re.escape(stem)}(?:{longest_of(longer)}){'?' if len(longer) < len(rests) else ''}"


def _by_first_character(words: Iterable[str]) -> Iterator[list[str]]:
    return (list(group) for _, group in groupby(words, key=lambda word: word[0]))
