"""The prefix index: which page on the device holds which tokens after which history.

Keys say what pages hold (see `keys`). The index says where: a node a page, found by its key or, for
pages of which only the first tokens fit, among those that follow the same history.

A node is idle while nothing needs its page: no sequence holds it, nobody has pinned it, and that is
true of all that follow it. Idle nodes are in the order in which they were last used, ends of
histories before what they follow, so that the one to go first is found without a search.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from edgewise_runtime.kv.stock import Known

MAX_SCANNED = 64
"""Pages with the same history that are compared token by token, the latest ones."""


@dataclass(slots=True, eq=False)
class Node(Known):
    """A page in the index.

    Attributes:
        children: pages in the index that follow it.
        holders: sequences that hold the page.
        pins: how often it must not go.
        needs: why it is not idle: one for its holders, one for its pins, and one for each page
            that follows it and is not idle. The index counts them.
    """

    children: int = 0
    holders: int = 0
    pins: int = 0
    needs: int = 0


class PrefixIndex:
    """Nodes by key, and by the key of the page before them.

    Attributes:
        unheld: how many nodes no sequence holds.
    """

    def __init__(self, page_tokens: int) -> None:
        self.unheld = 0
        self._page_tokens = page_tokens
        self._nodes: dict[bytes, Node] = {}
        self._idle: OrderedDict[bytes, Node] = OrderedDict()
        self._following: dict[bytes, dict[bytes, Node]] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        """All nodes: the idle ones, the one unused for longest first, and then those in use."""
        yield from self._idle.values()
        yield from (node for node in self._nodes.values() if node.needs)

    @property
    def idle(self) -> int:
        """How many nodes are idle: all of them can go, one after the other."""
        return len(self._idle)

    def get(self, key: bytes) -> Node | None:
        """The node with this key."""
        return self._nodes.get(key)

    def add(self, node: Node) -> None:
        """Take in a node whose key is new, with its holders; the page before it need not be here.

        It is the one used last.
        """
        self._nodes[node.key] = node
        self._following.setdefault(node.parent, {})[node.key] = node
        followers = self._following.get(node.key, {})
        node.children = len(followers)
        before = self._nodes.get(node.parent)
        if before is not None:
            before.children += 1
        self.unheld += not node.holders
        needs = (node.holders > 0) + (node.pins > 0)
        needs += sum(follower.needs > 0 for follower in followers.values())
        self._idle[node.key] = node
        for _ in range(needs):
            self._need(node)

    def remove(self, node: Node) -> None:
        """Let a node go."""
        while node.needs:
            self._spare(node)
        del self._idle[node.key]
        del self._nodes[node.key]
        self.unheld -= not node.holders
        following = self._following[node.parent]
        del following[node.key]
        if not following:
            del self._following[node.parent]
        before = self._nodes.get(node.parent)
        if before is not None:
            before.children -= 1

    def hold(self, node: Node, by: int = 1) -> None:
        """So many more sequences hold a node's page."""
        held, node.holders = node.holders > 0, node.holders + by
        self.unheld += held - (node.holders > 0)
        self._changed(node, held, node.holders > 0)

    def pin(self, node: Node, by: int = 1) -> None:
        """Pin a node so many times more; its pins may have been lost, and are never below 0."""
        pinned, node.pins = node.pins > 0, max(node.pins + by, 0)
        self._changed(node, pinned, node.pins > 0)

    def oldest(self) -> Node | None:
        """The idle node that was used least recently, which nothing follows."""
        node = next(iter(self._idle.values()), None)
        while node is not None and node.children:
            # Not where whoever adds a page holds the one before it.
            node = next(iter(self._following[node.key].values()))
        return node

    def touch(self, keys: Sequence[bytes]) -> None:
        """Make the pages of a history, in its order, the ones used last."""
        for key in reversed(keys):
            node = self._nodes.get(key)
            if node is not None:
                if not node.needs:
                    self._idle.move_to_end(key)
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
            if node.pins < 0 or node.holders < 0:
                problems.append(
                    f"Page {node.page} has {node.pins} pins and {node.holders} holders."
                )
            needs = (node.holders > 0) + (node.pins > 0)
            needs += sum(follower.needs > 0 for follower in following.values())
            if node.needs != needs or (key in self._idle) != (needs == 0):
                problems.append(f"Page {node.page} has {node.needs} needs, not {needs}.")
        if sum(map(len, self._following.values())) != len(self._nodes):
            problems.append("Pages follow that are not in the index.")
        unheld = sum(not node.holders for node in self._nodes.values())
        if self.unheld != unheld or not self._idle.keys() <= self._nodes.keys():
            problems.append(f"{unheld} pages have no holder, not {self.unheld}.")
        return problems

    def _changed(self, node: Node, before: bool, now: bool) -> None:
        """Whether something needs a node was `before` and is `now`."""
        if now and not before:
            self._need(node)
        elif before and not now:
            self._spare(node)

    def _need(self, node: Node | None) -> None:
        """One more thing needs a node: if it is the first, so does the node what it follows."""
        while node is not None:
            node.needs += 1
            if node.needs > 1:
                return
            del self._idle[node.key]
            node = self._nodes.get(node.parent)

    def _spare(self, node: Node | None) -> None:
        """One thing less needs a node, which has just been used: after what follows it."""
        while node is not None:
            node.needs -= 1
            if node.needs:
                return
            self._idle[node.key] = node
            node = self._nodes.get(node.parent)


def common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two sequences begin with alike."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count
