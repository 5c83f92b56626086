"""Writes tools.json with transformers as the reference: what it makes of tools and their calls.

Run from the repository root where transformers is installed:

    python -m tests.runtime.text.goldens.make_tools

`schemas` is what `get_json_schema` says of functions, `rendered` the prompt of each conversation,
its calls' arguments as objects, or as the JSON text of them for the templates that join it to text;
null is what a template refuses.
"""

from __future__ import annotations

from transformers import PreTrainedTokenizerFast
from transformers.utils import get_json_schema

from tests.runtime.text.conversations import SPECIAL_TOKENS
from tests.runtime.text.goldens.make_goldens import HERE, rendered, three_digits, write
from tests.runtime.text.tool_conversations import CONVERSATIONS, TEMPLATES, WANT_TEXT, spelled
from tests.sdk.tool_functions import FUNCTIONS


def main() -> None:
    tokenizer, _ = three_digits()
    reference = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL_TOKENS)
    write(
        HERE / "tools.json",
        {
            "schemas": {name: get_json_schema(one) for name, one in FUNCTIONS.items()},
            "rendered": {
                name: [
                    rendered(
                        reference, template, spelled(chat) if name in WANT_TEXT else chat, True
                    )
                    for chat in CONVERSATIONS
                ]
                for name, template in TEMPLATES.items()
            },
        },
    )


if __name__ == "__main__":
    main()
