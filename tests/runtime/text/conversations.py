"""Chat templates written for these tests, and the conversations they render.

Each template has what templates of one kind of model have: ChatML's plain loop; a date, blocks
of content and stripped text; removed thinking, tool calls and JSON; loop controls and macros.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

NOW = datetime(2031, 2, 7, 15, 4, 5)

CHATML = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{{ message['content'] }}<|im_end|>
{% endfor %}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif %}
"""

DATED = """\
{{- bos_token }}
{%- if not date is defined %}
    {%- set date = strftime_now("%d %b %Y") %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content'] | trim %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set system = "" %}
    {%- set rest = messages %}
{%- endif %}
{{- "<|head|>system<|/head|>\\n\\nToday is " + date + ".\\n" + system + eos_token }}
{%- for message in rest %}
    {%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception("Roles must alternate: " ~ message.role ~ " at " ~ loop.index0) }}
    {%- endif %}
    {{- '<|head|>' + message['role'] + '<|/head|>\\n\\n' }}
    {%- if message.content is string %}
        {{- message.content | trim }}
    {%- else %}
        {%- for part in message.content if part.type == 'text' %}
            {{- part.text }}{{ ' ' if not loop.last }}
        {%- endfor %}
    {%- endif %}
    {{- eos_token }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|head|>assistant<|/head|>\\n\\n' }}
{%- endif %}
"""

THINKING = """\
{%- macro call(function) -%}
<call>
{"name": "{{ function.name }}", "arguments": {{ function.arguments | tojson }}}
</call>
{%- endmacro -%}
{%- if tools %}
    {{- '<|im_start|>system\\n# Tools\\n' }}
    {%- for tool in tools %}
        {{- tool | tojson }}
        {{- "\\n" }}
        {{- tool | tojson(indent=2, sort_keys=true) }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(last=messages | length - 1, seen=false) %}
{%- for message in messages[::-1] %}
    {%- if message.role == 'user' and not ns.seen %}
        {%- set ns.seen = true %}
        {%- set ns.last = messages | length - 1 - loop.index0 %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content | default('') %}
    {%- set thought = message.reasoning_content | default('') %}
    {%- if '</think>' in content %}
        {%- set thought = content.split('</think>')[0].split('<think>')[-1].strip('\\n') %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {%- if message.role == 'assistant' %}
        {%- generation %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if thought and loop.index0 > ns.last %}
            {{- '<think>\\n' ~ thought ~ '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- content }}
        {%- for tool_call in message.tool_calls | default([]) %}
            {{- '\\n' ~ call(tool_call.function) }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
        {%- endgeneration %}
    {%- else %}
        {{- '<|im_start|>' ~ message.role ~ '\\n' ~ content ~ '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

CONTROLS = """\
{% set names = dict(user='Q', assistant='A') %}
{% for message in messages %}
    {% if message.role == 'skip' %}
        {% continue %}
    {% endif %}
    {% if message.role == 'end' %}
        {% break %}
    {% endif %}
{{ names.get(message.role, message.role | upper) }}: {{ message.content | e }} \
{{- loop.cycle('odd', 'even') }}
    {% filter indent(2) %}
[{{ message.content | length }}
{{ (message.content ~ '!') * 2 }}]
    {% endfilter %}
{% endfor %}
{{ {'é': [1, 2.5, none, true, '<&>\\u2028']} | tojson }}
{% if add_generation_prompt %}
A:{% endif %}
"""

TEMPLATES = {"chatml": CHATML, "dated": DATED, "thinking": THINKING, "controls": CONTROLS}

SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": 'Wetter für <Stadt> & "Umland" 天気',
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


@dataclass(frozen=True)
class Conversation:
    """What is rendered: messages, tools and the template's own variables."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    variables: dict[str, Any] = field(default_factory=dict)


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str | None, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


CALL = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Zürich"}}}

CONVERSATIONS = (
    Conversation([user("Hello")]),
    Conversation([{"role": "system", "content": "  Be kind. \n"}, user(" two  spaces ")]),
    Conversation([user('a <b> & "c"'), assistant("d\n\ne"), user("日本 😀 مرحبا")]),
    Conversation([user("q"), assistant("<think>\nhm\n</think>\n\nanswer"), user("again")]),
    Conversation([user("q"), assistant("said", reasoning="because"), assistant("last")]),
    Conversation([user("q"), assistant("x", thinking="why"), user("q2"), assistant("end")]),
    Conversation([user("weather?"), assistant(None, tool_calls=[CALL])], tools=[WEATHER]),
    Conversation([user("no tools")], tools=[]),
    Conversation([user("x")], variables={"enable_thinking": False, "date": "1 Jan 2000"}),
    Conversation([user("x")], variables={"enable_thinking": True, "bos_token": "<other>"}),
    Conversation([user([{"type": "text", "text": "one"}, {"type": "image", "url": "u"}])]),
    Conversation([{"role": "skip", "content": "s"}, user("u"), {"role": "end", "content": "e"}]),
    Conversation([assistant("first"), assistant("second")]),
    Conversation([user("{{ 7 * 7 }} {% raw %} {# c #}")]),
)
