"""Chat templates that show tools, written for these tests, and conversations with calls of tools.

Each template does what those of one kind of model do: Llama's JSON of a call with parameters;
Qwen's tags, with results inside a turn of the user; Qwen3-Coder's XML of each argument; Mistral's
lists with ids of nine characters; Gemma's declarations without quotes; DeepSeek's, which join a
call's arguments to text; and one that knows nothing of tools.
"""

from __future__ import annotations

import json
from typing import Any

from tests.runtime.text.conversations import CHATML, WEATHER, Conversation, assistant, user

LLAMA = """\
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system = "" %}
{%- endif %}
{{- "<|head|>system<|/head|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- system + "<|eot|>" }}
{%- if tools is not none %}
    {%- set first = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
    {{- '<|head|>user<|/head|>\\n\\nAnswer with a call of one of these.\\n\\n' }}
    {%- for tool in tools %}
        {{- tool | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
    {{- first + "<|eot|>" }}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|head|>' + message['role'] + '<|/head|>\\n\\n' }}
        {{- message['content'] | trim + '<|eot|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls | length == 1 %}
            {{- raise_exception("Only one call at a time!") }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|head|>assistant<|/head|>\\n\\n' }}
        {{- '{"name": "' + call.name + '", "parameters": ' }}
        {{- call.arguments | tojson }}
        {{- "}<|eot|>" }}
    {%- else %}
        {{- "<|head|>ipython<|/head|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|head|>assistant<|/head|>\\n\\n' }}
{%- endif %}
"""

QWEN = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- "# Tools\\n\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}{{- '\\n' }}{%- endif %}
                {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
                {{- '<tool_call>\\n{"name": "' }}
                {{- tool_call.name }}
                {{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""

CODER = """\
{%- if tools is iterable and tools | length > 0 %}
    {{- '<|im_start|>system\\n<tools>' }}
    {%- for tool in tools %}
        {%- if tool.function is defined %}{%- set tool = tool.function %}{%- endif %}
        {{- '\\n<function>\\n<name>' ~ tool.name ~ '</name>' }}
        {{- '\\n<description>' ~ (tool.description | trim) ~ '</description>' }}
        {%- for name, fields in tool.parameters.properties | items %}
            {{- '\\n<parameter>\\n<name>' ~ name ~ '</name>' }}
            {%- for key in fields.keys() | reject("in", ["description", "type"]) %}
                {{- '\\n<' ~ key ~ '>' ~ fields[key] | string ~ '</' ~ key ~ '>' }}
            {%- endfor %}
            {{- '\\n</parameter>' }}
        {%- endfor %}
        {{- '\\n</function>' }}
    {%- endfor %}
    {{- '\\n</tools><|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role }}
    {%- if message.content is string and message.content | trim | length > 0 %}
        {{- '\\n' + message.content | trim }}
    {%- endif %}
    {%- for tool_call in message.tool_calls | default([]) %}
        {%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}
        {{- '\\n<tool_call>\\n<function=' + tool_call.name + '>\\n' }}
        {%- for name, value in tool_call.arguments | items %}
            {{- '<parameter=' + name + '>\\n' }}
            {%- if value is mapping or (value is sequence and value is not string) %}
                {%- set value = value | tojson %}
            {%- else %}
                {%- set value = value | string %}
            {%- endif %}
            {{- value }}
            {{- '\\n</parameter>\\n' }}
        {%- endfor %}
        {{- '</function>\\n</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""

MISTRAL = """\
{%- set users = messages | selectattr("role", "equalto", "user") | list %}
{{- bos_token }}
{%- for message in messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == users[-1]) %}
            {{- "[AVAILABLE_TOOLS][" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, value in tool.items() if key != "return" %}
                    {%- if value is string and not loop.first %}
                        {{- ', "' + key + '": "' + value + '"' }}
                    {%- else %}
                        {{- ', ' if not loop.first }}{{- '"' + key + '": ' + value | tojson }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" }}{%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {{- "[INST]" + message["content"] + "[/INST]" }}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS][" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function | tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id | length != 9 %}
                {{- raise_exception("Ids of calls should be alphanumeric strings of length 9!") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" + eos_token }}{%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- message["content"] + eos_token }}
    {%- elif message["role"] == "tool" %}
        {%- set content = message.content %}
        {%- if content.content is defined %}{%- set content = content.content %}{%- endif %}
        {{- '[TOOL_RESULTS]{"content": ' + content | string + ', ' }}
        {{- '"call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- endif %}
{%- endfor %}
"""

GEMMA = """\
{%- macro spelled(value) -%}
    {%- if value is string -%}<escape>{{ value }}<escape>
    {%- elif value is boolean -%}{{ 'true' if value else 'false' }}
    {%- elif value is mapping -%}
        {{- '{' -}}
        {%- for key, held in value | dictsort -%}
            {{ key }}:{{ spelled(held) }}{{ ',' if not loop.last }}
        {%- endfor -%}
        {{- '}' -}}
    {%- elif value is sequence -%}
        {{- '[' -}}
        {%- for held in value -%}{{ spelled(held) }}{{ ',' if not loop.last }}{%- endfor -%}
        {{- ']' -}}
    {%- else -%}{{ value }}{%- endif -%}
{%- endmacro -%}
{{ bos_token }}
{%- if tools %}
    {{- '<start_of_turn>developer\\n' }}
    {%- for tool in tools %}
        {{- '<declare>declaration:' + tool.function.name + '{description:' }}
        {{- spelled(tool.function.description | default('')) + ',parameters:' }}
        {{- spelled(tool.function.parameters) + '}</declare>' }}
    {%- endfor %}
    {{- '<end_of_turn>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- set role = 'model' if message.role == 'assistant' else message.role %}
    {{- '<start_of_turn>' + role + '\\n' }}
    {%- if message.role == 'tool' %}
        {{- 'response:' ~ message.name ~ '{' ~ spelled(message.content) ~ '}' }}
    {%- else %}
        {{- message.content | default('') | trim }}
    {%- endif %}
    {%- for call in message.tool_calls | default([]) %}
        {{- '<call>call:' + call['function']['name'] + '{' }}
        {%- for key, value in call['function']['arguments'] | dictsort %}
            {{- key + ':' + spelled(value) }}{{ ',' if not loop.last }}
        {%- endfor %}
        {{- '}</call>' }}
    {%- endfor %}
    {{- '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<start_of_turn>model\\n' }}{%- endif %}
"""

DEEPSEEK = """\
{{- bos_token }}
{%- for message in messages %}
    {%- if message['role'] == 'user' %}
        {{- '<User>' + message['content'] }}
    {%- elif message['role'] == 'assistant' and message['tool_calls'] is defined %}
        {{- '<Assistant>' }}
        {%- for tool in message['tool_calls'] %}
            {{- '<call>' + tool['type'] + '<sep>' + tool['function']['name'] + '\\n```json\\n' }}
            {{- tool['function']['arguments'] + '\\n```</call>' }}
        {%- endfor %}
        {{- eos_token }}
    {%- elif message['role'] == 'assistant' %}
        {{- '<Assistant>' + message['content'] + eos_token }}
    {%- elif message['role'] == 'tool' %}
        {{- '<output>' ~ message['content'] ~ '</output>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<Assistant>' }}{%- endif %}
"""

# Joined by `~`, an object would be written as Python writes it.
JOINED = """\
{%- for message in messages %}
    {{- message.role ~ ': ' ~ (message.content | default('')) }}
    {%- for call in message.tool_calls | default([]) %}
        {{- call.function.name ~ '(' ~ call.function.arguments ~ ')' }}
    {%- endfor %}
    {{- '\\n' }}
{%- endfor %}
"""

TEMPLATES = {
    "llama": LLAMA,
    "qwen": QWEN,
    "coder": CODER,
    "mistral": MISTRAL,
    "gemma": GEMMA,
    "deepseek": DEEPSEEK,
    "joined": JOINED,
    "chatml": CHATML,
}
WANT_TEXT = ("deepseek", "joined")
"""Templates whose calls have to have text for arguments."""

ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add numbers.",
        "parameters": {
            "type": "object",
            "properties": {
                "numbers": {
                    "type": "array",
                    "items": {"type": "number"},
                    "description": "At least two.",
                },
                "round": {"type": "boolean", "nullable": True, "description": 'Or "not".'},
            },
            "required": ["numbers"],
        },
    },
}
TOOLS = [WEATHER, ADD]


def call(name: str, arguments: Any, number: int = 1) -> dict[str, Any]:
    return {
        "id": f"call{number:05}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def result(content: Any, name: str = "weather", number: int = 1) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"call{number:05}", "name": name, "content": content}


ARGUMENTS = {"city": "Zürich", "days": [1, 2.5, None], "at": {"b": True, "a": 'x "y" <z>'}}
CONVERSATIONS = (
    Conversation([user("weather?")], tools=TOOLS),
    Conversation([{"role": "system", "content": "Be kind."}, user("weather?")], tools=TOOLS),
    Conversation(
        [user("a"), assistant(None, tool_calls=[call("weather", ARGUMENTS)])], tools=TOOLS
    ),
    Conversation(
        [
            user("weather?"),
            assistant(None, tool_calls=[call("weather", ARGUMENTS)]),
            result("rain"),
            assistant("It rains."),
            user("Thanks"),
        ],
        tools=TOOLS,
    ),
    Conversation(
        [
            user("both"),
            assistant(
                "I look.", tool_calls=[call("weather", {}), call("add", {"numbers": [1, 2]}, 2)]
            ),
            result("sun"),
            result("3", "add", 2),
        ],
        tools=TOOLS,
    ),
    Conversation([user("x"), assistant("", tool_calls=[call("add", {"numbers": []})]), result(7)]),
    Conversation(
        [user("x"), assistant(None, tool_calls=[call("weather", {})]), result({"a": [1]})]
    ),
)
"""Their arguments are objects; what callers pass may be the JSON text of them."""


def spelled(chat: Conversation) -> Conversation:
    """The conversation with arguments as text."""
    messages: list[dict[str, Any]] = json.loads(json.dumps(chat.messages))
    for message in messages:
        for call in message.get("tool_calls") or []:
            function = call["function"]
            function["arguments"] = json.dumps(function["arguments"], ensure_ascii=False)
    return Conversation(messages, chat.tools, chat.variables)
