"""What of a text is on the device: pages that hold its first tokens, and may be shared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgewise_runtime.kv.keys import KeyChain
from edgewise_runtime.kv.prefix import Node, PrefixIndex


@dataclass(frozen=True, slots=True)
class Lookup:
    """Finds the pages of texts in an index. A text comes with its chain: the keys of its pages, as
    far as they have been computed.

    Attributes:
        index: what is where.
        page_tokens: how many tokens a page holds.
        inexact: whether pages that decode has written may be shared.
    """

    index: PrefixIndex
    page_tokens: int
    inexact: bool

    def content(self, tokens: Sequence[int], nth: int) -> tuple[int, ...]:
        """What page `nth` holds of these tokens."""
        return tuple(tokens[nth * self.page_tokens : (nth + 1) * self.page_tokens])

    def adoptable(self, tokens: Sequence[int]) -> int:
        """How many full pages may be found: never the last token."""
        return (len(tokens) - 1) // self.page_tokens

    def sound(self, node: Node) -> bool:
        """Whether a full page may be shared."""
        return self.inexact or node.exact == self.page_tokens

    def page(self, chain: KeyChain, tokens: Sequence[int], nth: int) -> Node | None:
        """What is on the device for page `nth` of these tokens, if it may be shared."""
        content = self.content(tokens, nth)
        node = self.index.get(chain.key(nth, content))
        return node if node and node.tokens == content and self.sound(node) else None

    def leading(
        self, chain: KeyChain, tokens: Sequence[int], pages: int, fits: Callable[[Node], bool]
    ) -> int:
        """How many pages that hold the first of these tokens fit, where `pages` did before."""

        def there(nth: int) -> bool:
            node = self.page(chain, tokens, nth)
            return node is not None and fits(node)

        while pages and not there(pages - 1):
            pages -= 1
        while pages < self.adoptable(tokens) and there(pages):
            pages += 1
        return pages

    def keys(self, chain: KeyChain, tokens: Sequence[int], *, exact: bool) -> tuple[bytes, ...]:
        """The keys of the full pages that hold the first of these tokens, shared or not; `exact`:
        only of those that prefill has written."""
        keys: list[bytes] = []
        for nth in range(len(tokens) // self.page_tokens):
            key = chain.key(nth, self.content(tokens, nth))
            node = self.index.get(key)
            if node is None or (exact and node.exact < self.page_tokens):
                break
            keys.append(key)
        return tuple(keys)
