"""Free text, and texts of a grammar from triggers on, such as an answer with calls of tools."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.grammar.automaton import After, Around
from edgewise_runtime.grammar.free_text import free_text
from edgewise_runtime.grammar.matcher import Matcher
from edgewise_runtime.grammar.vocabulary import Vocabulary


class Triggered(Matcher):
    """Anything may come, also tokens without bytes, up to a trigger, with which a text of the
    grammar begins; after it free text goes on, or nothing follows. An answer may end in free text,
    also within what would become a trigger, and where the grammar's text may.

    A trigger can only be written where a text of the grammar goes on from it. Tokens without bytes
    are no part of a text: what they stand between goes on as if they were not there.
    """

    def __init__(
        self, matcher: Matcher, triggers: Sequence[bytes], after: After, vocabulary: Vocabulary
    ) -> None:
        """Wait for triggers.

        Args:
            matcher: of a grammar whose texts begin with a trigger each.

        Raises:
            InputError: ``constraint.triggers`` for no triggers, an empty one, too many, and one
                that no text of the grammar begins with; what `Matcher` raises.
        """
        super().__init__(matcher.grammar, vocabulary, Around(free_text(triggers), after))
        for trigger in triggers:
            if matcher.advance_bytes(matcher.start, trigger) is None:
                said = shorten(trigger.decode(errors="replace"))
                raise InputError(
                    f"No text of the grammar begins with {said}.", code="constraint.triggers"
                )
