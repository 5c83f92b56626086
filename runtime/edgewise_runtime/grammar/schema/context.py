"""What the lowering of one type of value asks of the lowering of all."""

from __future__ import annotations

from typing import Protocol

from edgewise_runtime.grammar.nodes import Node
from edgewise_runtime.grammar.schema.document import Document
from edgewise_runtime.grammar.schema.shape import Atoms


class Context(Protocol):
    @property
    def document(self) -> Document: ...

    def lower(self, atoms: Atoms) -> Node | None:
        """A node of schemas that must hold together; None where nothing does."""

    def shared(self, node: Node) -> Node:
        """The node, as a rule's where it is large."""

    def anything(self, kind: str) -> Node:
        """The rule of any value of a kind."""
