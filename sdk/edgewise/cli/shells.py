"""What `edgewise completion` prints for each shell, from a list of commands.

The scripts run nothing of edgewise: they know its commands, and look for bundles where it does.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """What may complete a word: some choices, files, the names of bundles; or nothing known."""

    choices: tuple[str, ...] = ()
    files: bool = False
    models: bool = False


@dataclass(frozen=True)
class Option:
    """An option, by all its names; ``takes`` is None for one that stands alone."""

    names: tuple[str, ...]
    about: str
    takes: Words | None


@dataclass(frozen=True)
class Command:
    """A command of edgewise, and what its words may be."""

    name: str
    about: str
    options: tuple[Option, ...]
    words: Words


def bash(commands: Sequence[Command]) -> str:
    """The script for bash 4.4 and newer."""
    cases = []
    for command in commands:
        for option in command.options:
            if option.takes is not None:
                patterns = "|".join(f"'{command.name} {name}'" for name in option.names)
                cases.append(f"    {patterns}) {_bash_words(option.takes)}; return ;;")
    names = [
        f"    {command.name}) options={_quoted(n for o in command.options for n in o.names)}"
        f"; [[ $word == -* ]] || {_bash_words(command.words)} ;;"
        for command in commands
    ]
    return _BASH.format(
        commands=_quoted(command.name for command in commands),
        values="\n".join(cases),
        names="\n".join(names),
    )


def _bash_words(words: Words) -> str:
    found = [f"_edgewise_words {_quoted(words.choices)}"] if words.choices else []
    found += ["_edgewise_models"] if words.models else []
    found += ["_edgewise_files"] if words.files else []
    return "{ " + "; ".join([*found, ":"]) + "; }"


_BASH = """\
# Completion of edgewise for bash.
_edgewise_words() {{
    COMPREPLY+=($(compgen -W "$1" -- "$word"))
}}
_edgewise_files() {{
    local found
    compopt -o filenames 2>/dev/null
    while IFS= read -r found; do COMPREPLY+=("$found"); done < <(compgen -f -- "$word")
}}
_edgewise_models() {{
    local bundle name cache=${{XDG_CACHE_HOME:-$HOME/.cache}}
    for bundle in dist/*/bundle.json "$cache"/edgewise/bundles/*/bundle.json; do
        name=${{bundle%/bundle.json}} name=${{name##*/}}
        [[ -f $bundle && $name == "$word"* ]] && COMPREPLY+=("$name")
    done
}}
_edgewise() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} options=
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        _edgewise_words {commands}
        return
    fi
    case "${{COMP_WORDS[1]}} $before" in
{values}
    esac
    case "${{COMP_WORDS[1]}}" in
{names}
    esac
    [[ $word == -* ]] && _edgewise_words "$options"
}}
complete -F _edgewise edgewise
"""


def zsh(commands: Sequence[Command]) -> str:
    """The script for zsh, to be evaluated or to lie in its ``fpath``."""
    described = "\n".join(
        "        " + shlex.quote(f"{c.name}:{_escaped(c.about, ':')}") for c in commands
    )
    cases = "\n".join(
        f"    {command.name}) _arguments -s "
        + " ".join([*map(_zsh_option, command.options), _zsh_rest(command.words)])
        + " ;;"
        for command in commands
    )
    return _ZSH.format(commands=described, cases=cases)


def _zsh_option(option: Option) -> str:
    about = f"[{_escaped(option.about, '[]:')}]"
    takes = "" if option.takes is None else f":value:{_zsh_words(option.takes)}"
    return " ".join(shlex.quote(f"*{name}{about}{takes}") for name in option.names)


def _zsh_rest(words: Words) -> str:
    return shlex.quote(f"*:word:{_zsh_words(words)}")


def _zsh_words(words: Words) -> str:
    if words.choices:
        return f"({' '.join(words.choices)})"
    return "_edgewise_models" if words.models else "_files" if words.files else " "


_ZSH = """\
#compdef edgewise
# Completion of edgewise for zsh.
_edgewise_models() {{
    local -a names
    local cache=${{XDG_CACHE_HOME:-$HOME/.cache}}
    names=(dist/*/bundle.json(N:h:t) $cache/edgewise/bundles/*/bundle.json(N:h:t))
    compadd -a names
    _files
}}
_edgewise() {{
    local -a commands=(
{commands}
    )
    if ((CURRENT == 2)); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    ((CURRENT--))
    case $command in
{cases}
    esac
}}
if [[ $funcstack[1] == _edgewise ]]; then _edgewise "$@"; else compdef _edgewise edgewise; fi
"""


def fish(commands: Sequence[Command]) -> str:
    """The script for fish 3 and newer."""
    lines = [
        f"complete -c edgewise -n __fish_use_subcommand -a {c.name} -d {_fish(c.about)}"
        for c in commands
    ]
    for command in commands:
        here = f"complete -c edgewise -n '__fish_seen_subcommand_from {command.name}'"
        lines += [f"{here} {_fish_option(option)}" for option in command.options]
        if rest := _fish_words(command.words):
            lines.append(f"{here} {rest}")
    return _FISH.format(lines="\n".join(lines))


def _fish_option(option: Option) -> str:
    names = [f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names]
    takes = ""
    if option.takes is not None:
        takes = f"{'-r' if option.takes.files else '-x'} {_fish_words(option.takes)}".rstrip()
    return " ".join(filter(None, (*names, takes, f"-d {_fish(option.about)}")))


def _fish_words(words: Words) -> str:
    if words.choices:
        return f"-a {_fish(' '.join(words.choices))}"
    found = ["-a '(__edgewise_models)'"] if words.models else []
    return " ".join([*found, *(["-F"] if words.files else [])])


def _fish(text: str) -> str:
    """A text in quotes, in which fish knows two escapes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_FISH = """\
# Completion of edgewise for fish.
function __edgewise_models
    set -l cache $HOME/.cache
    set -q XDG_CACHE_HOME; and set cache $XDG_CACHE_HOME
    for bundle in dist/*/bundle.json $cache/edgewise/bundles/*/bundle.json
        string replace -r '.*/([^/]+)/bundle.json$' '$1' $bundle
    end
end
complete -c edgewise -f
{lines}
"""


def _quoted(words: Iterable[str]) -> str:
    return shlex.quote(" ".join(words))


def _escaped(text: str, special: str) -> str:
    for character in f"\\{special}":
        text = text.replace(character, f"\\{character}")
    return text


SHELLS: Mapping[str, Callable[[Sequence[Command]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
"""Who prints the script of which shell."""
