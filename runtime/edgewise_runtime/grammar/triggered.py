"""Free text, and texts of a grammar after triggers, such as an answer with calls of tools."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise_runtime.grammar.automaton import After, Around
from edgewise_runtime.grammar.free_text import free_text
from edgewise_runtime.grammar.matcher import Matcher
from edgewise_runtime.grammar.vocabulary import Vocabulary


class Triggered(Matcher):
    """Anything may come, also tokens without bytes, up to a trigger. A text of the grammar follows
    it; then free text goes on, or nothing follows. An answer may end in free text, also within what
    would become a trigger, and where the grammar's text may.

    Tokens without bytes are no part of a text: what they stand between goes on as if they were not
    there.
    """

    def __init__(
        self, matcher: Matcher, triggers: Sequence[bytes], after: After, vocabulary: Vocabulary
    ) -> None:
        """Wait for triggers.

        Args:
            matcher: of the grammar.

        Raises:
            InputError: ``constraint.triggers`` for no triggers, an empty one, and too many; what
                `Matcher` raises.
        """
        super().__init__(matcher.grammar, vocabulary, Around(free_text(triggers), after))
