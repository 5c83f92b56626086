"""A chat template, in Jinja, that renders what MLC LLM does of a ``conv_template``.

The rules are those of MLC's ``Conversation.as_prompt``: the system message in its template; then of
each message its role's name, a separator, its content in the role's template, and what ends it; at
last the assistant's name with what stands for no content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from edgewise_compiler.mlc.names import CONFIG
from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.models.traits import PAGE, said
from edgewise_runtime.errors import CheckpointError, UnsupportedError
from edgewise_runtime.format.reading import shorten

SYSTEM, FUNCTION = "{system_message}", "{function_string}"
ROLES = ("user", "assistant", "tool")
MOST_MESSAGES = 64
"""That a template may begin with."""

_WHERE = f"conv_template of {CONFIG}"


def chat_template(found: Mapping[str, Any], token_text: Callable[[int], str]) -> str:
    """The Jinja source for a parsed ``conv_template``.

    Args:
        token_text: text of a token that is found in texts as it is; CheckpointError of others.

    Raises:
        CheckpointError: a key that is missing or of the wrong type.
        UnsupportedError: what is not rendered here.
    """
    fields = ConfigFields(found, _WHERE)
    function = fields.text("function_string", "")
    if function:
        raise UnsupportedError(
            f"Not implemented: {_WHERE} with {said('function_string', function)}.",
            remedy=f"Put a chat_template.jinja beside it; see {PAGE}.",
            code="unsupported.template",
        )
    roles = _texts(fields, "roles")
    templates = {role: f"{{{role}_message}}" for role in ROLES} | _texts(fields, "role_templates")
    ends = _separators(fields)
    between, open_end = fields.text("role_content_sep", ""), fields.text("role_empty_sep", "")
    system = fields.text("system_template", SYSTEM).split(SYSTEM)
    named = fields.flag("add_role_after_system_message", True)
    prefix = "".join(token_text(token) for token in _ids(fields))
    messages = _messages(fields, roles)

    def of_role(role: str) -> tuple[str, str, str]:
        """What stands before a role's name is known, before its content, and after it."""
        before, _, after = templates[role].replace(FUNCTION, "").partition(f"{{{role}_message}}")
        return roles[role] + between, before, after + ends[role == "assistant"]

    message = _quoted(fields.text("system_message", ""))
    lines = [
        f"{{%- set ns = namespace(system={message}, first=true) %}}",
        "{%- for message in messages %}",
        "{%- if message['role'] == 'system' %}",
        "{%- set ns.system = message['content'] %}",
        "{%- endif %}",
        "{%- endfor %}",
        f"{{%- set system = {' + ns.system + '.join(map(_quoted, system))} %}}",
    ]
    if prefix:
        lines.append(f"{{{{- {_quoted(prefix)} }}}}")
    lines.append("{{- system }}")
    for index, (role, content) in enumerate(messages):
        name, before, after = of_role(role)
        name = _quoted(name)
        name = name if index or named else f"({name} if system == '' else '')"
        lines.append(f"{{{{- {name} + {_quoted(before + content + after)} }}}}")
    if messages:
        lines.append("{%- set ns.first = false %}")
    lines.append("{%- for message in messages %}")
    word = "if"
    for role in roles:
        if role not in ROLES:
            continue
        name, before, after = of_role(role)
        lines.append(f"{{%- {word} message['role'] == {_quoted(role)} %}}")
        word = "elif"
        if named:
            lines.append(f"{{{{- {_quoted(name + before)} }}}}")
        else:
            lines.append(
                f"{{%- if not ns.first or system == '' %}}{{{{- {_quoted(name)} }}}}{{%- endif %}}"
            )
            lines.append(f"{{{{- {_quoted(before)} }}}}")
        lines.append(f"{{{{- message['content'] + {_quoted(after)} }}}}")
        lines.append("{%- set ns.first = false %}")
    lines += [
        "{%- elif message['role'] != 'system' %}",
        "{{- raise_exception('There is no role ' + message['role'] + ' in this template.') }}",
        "{%- endif %}",
        "{%- endfor %}",
        "{%- if add_generation_prompt %}",
        f"{{{{- {_quoted(roles['assistant'] + open_end)} }}}}",
        "{%- endif %}",
    ]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """A text as Jinja writes it."""
    for plain, escaped in (
        ("\\", "\\\\"),
        ("'", "\\'"),
        ("\n", "\\n"),
        ("\r", "\\r"),
        ("\t", "\\t"),
    ):
        text = text.replace(plain, escaped)
    return f"'{text}'"


def _texts(fields: ConfigFields, key: str) -> dict[str, str]:
    """An object of texts; ``roles`` has to have user and assistant."""
    found = fields.mapping(key) or {}
    own = ConfigFields(found, f"{key} of {_WHERE}")
    texts = {name: own.text(name) for name in found}
    for name in ROLES[:2] if key == "roles" else ():
        own.text(name)
    return texts


def _separators(fields: ConfigFields) -> tuple[str, str]:
    """What ends messages: of all but the assistant's, and of the assistant's."""
    found = fields.values.get("seps")
    if not isinstance(found, list) or not 0 < len(found) <= 2:
        raise _wrong("seps", found)
    if not all(isinstance(text, str) for text in found):
        raise _wrong("seps", found)
    return found[0], found[-1]


def _ids(fields: ConfigFields) -> tuple[int, ...]:
    """Tokens that come before everything; one may come twice."""
    found = fields.values.get("system_prefix_token_ids")
    if found is None:
        return ()
    if not isinstance(found, list) or len(found) > MOST_MESSAGES:
        raise _wrong("system_prefix_token_ids", found)
    if not all(isinstance(token, int) and not isinstance(token, bool) for token in found):
        raise _wrong("system_prefix_token_ids", found)
    return tuple(found)


def _messages(fields: ConfigFields, roles: Mapping[str, str]) -> list[tuple[str, str]]:
    """Messages that every conversation begins with."""
    found = fields.values.get("messages") or []
    if not isinstance(found, list) or len(found) > MOST_MESSAGES:
        raise _wrong("messages", found)
    for pair in found:
        good = isinstance(pair, list) and len(pair) == 2
        if not good or not all(isinstance(text, str) for text in pair):
            raise _wrong("messages", pair)
        if pair[0] not in roles or pair[0] not in ROLES:
            raise _wrong("messages", pair)
    return [(role, content) for role, content in found]


def _wrong(key: str, value: object) -> CheckpointError:
    return CheckpointError(
        f"{key!r} in {_WHERE} is {shorten(value)}.",
        remedy="Correct the file, or put a chat_template.jinja beside it.",
        code="checkpoint.config",
    )
