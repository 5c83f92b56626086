"""The prefix index: which page on the device holds which tokens after which history.

Keys say what pages hold (see `keys`). The index says where: a node a page, found by its key or, for
pages of which only the first tokens fit, among those that follow the same history. Nodes are in
order of use. A node is used no earlier than those that follow it, so the oldest are ends of
histories and go first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

MAX_SCANNED = 64
"""Pages with the same history that are compared token by token, the latest ones."""


@dataclass(slots=True, eq=False)
class Node:
    """A page in the index.

    Attributes:
        key: what it is called.
        parent: the key of the page before it, or a root key.
        page: where it is.
        tokens: what it holds; fewer than a page has room for are the end of a history.
        exact: how many of them, from the first, prefill has written after nothing but prefill.
        children: pages in the index that follow it.
        pins: how often it must not go.
    """

    key: bytes
    parent: bytes
    page: int
    tokens: tuple[int, ...]
    exact: int
    children: int = 0
    pins: int = 0


class PrefixIndex:
    """Nodes by key, and by the key of the page before them."""

    def __init__(self, page_tokens: int) -> None:
        self._page_tokens = page_tokens
        self._nodes: OrderedDict[bytes, Node] = OrderedDict()
        self._following: dict[bytes, dict[bytes, Node]] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        """All nodes, the one unused for longest first."""
        return iter(self._nodes.values())

    def get(self, key: bytes) -> Node | None:
        """The node with this key."""
        return self._nodes.get(key)

    def add(self, node: Node) -> None:
        """Take in a node whose key is new; the page before it need not be here."""
        self._nodes[node.key] = node
        self._following.setdefault(node.parent, {})[node.key] = node
        node.children = len(self._following.get(node.key, {}))
        before = self._nodes.get(node.parent)
        if before is not None:
            before.children += 1

    def remove(self, node: Node) -> None:
        """Let a node go."""
        del self._nodes[node.key]
        following = self._following[node.parent]
        del following[node.key]
        if not following:
            del self._following[node.parent]
        before = self._nodes.get(node.parent)
        if before is not None:
            before.children -= 1

    def touch(self, keys: Sequence[bytes]) -> None:
        """Make the pages of a history, in its order, the ones used last."""
        for key in reversed(keys):
            node = self._nodes.get(key)
            if node is not None:
                self._nodes.move_to_end(key)
                following = self._following[node.parent]
                following[key] = following.pop(key)

    def longest(
        self, parent: bytes, tokens: Sequence[int], *, inexact: bool
    ) -> tuple[Node, int] | None:
        """The page after `parent` that begins like `tokens` for longest, and for how many tokens.

        Args:
            inexact: whether tokens that decode has written count.
        """
        best: tuple[Node, int] | None = None
        latest = reversed(self._following.get(parent, {}).values())
        for node in islice(latest, MAX_SCANNED):
            usable = node.tokens if inexact else node.tokens[: node.exact]
            same = common_length(usable, tokens)
            if same and (best is None or same > best[1]):
                best = (node, same)
        return best

    def check(self) -> list[str]:
        """What is inconsistent, as sentences; empty for a sound index."""
        problems = []
        for key, node in self._nodes.items():
            following = self._following.get(key, {})
            if node.children != len(following):
                problems.append(f"Page {node.page} has {len(following)} followers.")
            if node.key != key or self._following.get(node.parent, {}).get(key) is not node:
                problems.append(f"Page {node.page} is not where its key says.")
            if not 0 <= node.exact <= len(node.tokens) <= self._page_tokens or not node.tokens:
                problems.append(f"Page {node.page} has {len(node.tokens)} tokens.")
            if node.pins < 0:
                problems.append(f"Page {node.page} has {node.pins} pins.")
        if sum(map(len, self._following.values())) != len(self._nodes):
            problems.append("Pages follow that are not in the index.")
        return problems


def common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two sequences begin with alike."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count
