"""Grammars that people write, in GBNF and in Lark."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.grammar.nodes import Grammar, Literal, Node, Repeat, Rule, to_json
from edgewise_runtime.grammar.written import lower_grammar, syntax_of
from tests.runtime.grammar.drawing import drawn
from tests.runtime.grammar.grammars import (
    BOMBS,
    GBNF,
    LARK,
    RECURSIVE,
    UNSUPPORTED,
    UNSUPPORTED_REGEX,
    WRONG,
    WRONG_REGEX,
)
from tests.runtime.grammar.recognise import accepts
from tests.runtime.grammar.spelling import as_gbnf, as_lark, random_rules


def refused(text: str) -> EdgewiseError:
    with pytest.raises(EdgewiseError) as error:
        lower_grammar(text)
    assert len(str(error.value)) < 1000
    return error.value


TAKEN = {
    ("a list", GBNF["a list"]): (
        ["ab", "a, b", "[a, [b]], c"],
        ["", "a,b", "a, ", "[a", "A", "[]"],
    ),
    ("rules over lines", GBNF["rules over lines"]): (["a", "b", "c"], ["", "ab"]),
    ("counts", GBNF["counts"]): (["aaabb\n", "aaabbbbccdéeff"], ["aabb.", "aaabb", "aaabbccc."]),
    ("classes", GBNF["classes"]): (
        ["x_]é-^"[:5] + "x", "éZc😀+a"],
        ['"_]é-x', "x?]é-x", "x_d😀-x"],
    ),
    ("arithmetic", GBNF["arithmetic"]): (["1+2=3\n", "(1-2)*3=4\n5=5\n"], ["1+2=3", "1+=3\n"]),
    ("json in GBNF", GBNF["json"]): (
        ['{"a": [1, 2.5e7, "\\u00e9\\n"]}', "{}", '{"a":{"b":null}}\n  '],
        ["[]", '{"a" 1}', '{"a": 01}', '{"a": "\n"}'],
    ),
    ("terminals and rules", LARK["terminals and rules"]): (
        ["ab", "ab,(c,d)"],
        ["", "a b", "A", "(a"],
    ),
    ("what may be missing", LARK["what may be missing"]): (
        ["a", "ab", "abcde", "af"],
        ["ac", "aef", ""],
    ),
    ("counts in Lark", LARK["counts"]): (["aaabbc", "aaabbbbcdcee"], ["aabbc", "aaabc", "aaabb"]),
    ("case", LARK["case"]): (["letxkey1", "LeTzYKEY1"], ["letaKey1", "letx"]),
    ("expressions", LARK["expressions"]): (["ba\nb/1.5x!", "xya b/7y!"], ["/a.b/1x!", "ba.b/1.x!"]),
    ("shapes of trees", LARK["shapes of trees"]): (["ab", "cbb"], ["a", "b"]),
    ("what is ignored", LARK["what is ignored"]): (
        ["[]", " [ 1 ,\n2 ] ", "ab = 1", "ccc=1#x\n", "#\n[1]#"],
        ["a b=1", "[1 2]", "c c=1", "[1,]"],
    ),
    ("ignored by itself", LARK["ignored by itself"]): (
        ["ab", " a\t\tb x", "xxaxb"],
        ["a", "ayb"],
    ),
    ("json in Lark", LARK["json"]): (
        ['{"a" : [1, -2.5e+7, "\\n"]}', " [ ] ", '"x"', "null"],
        ["", "{a: 1}", "[1,]", "tr ue"],
    ),
    ("calculator", LARK["calculator"]): (["x = 1 + 2*(3-y)", "-4"], ["1 = 2", "2*", "1\n"]),
}


@pytest.mark.parametrize(("name", "text"), TAKEN, ids=lambda value: value[:40].split("\n")[0])
def test_a_grammar_takes_its_texts_and_no_others(name: str, text: str) -> None:
    grammar = lower_grammar(text)
    taken, others = TAKEN[name, text]
    assert [each for each in taken if not accepts(grammar, each)] == []
    assert [each for each in others if accepts(grammar, each)] == []


@pytest.mark.parametrize(
    ("terminal", "taken", "others"),
    [
        ("SIGNED_NUMBER", ["1", "-1.", ".5", "+1e5", "1.5E-3"], ["", ".", "1e", "--1"]),
        ("FLOAT", ["1.", "1e5", ".5e1"], ["1", "-1.0"]),
        ("ESCAPED_STRING", ['""', '"a\\"b"', '"\\\\"'], ['"', '"a"b"', '"\\"', '"\n"']),
        ("C_COMMENT", ["/**/", "/***/", "/* a * b\n/ **/"], ["/*/", "/* */ */", "/**"]),
        ("NEWLINE", ["\n", "\r\n\n"], ["", "\r"]),
        ("CNAME", ["_a1", "B"], ["1a", ""]),
    ],
)
def test_terminals_of_common_are_what_lark_has(
    terminal: str, taken: list[str], others: list[str]
) -> None:
    grammar = lower_grammar(f"%import common.{terminal}\nstart: {terminal}")
    assert [each for each in taken if not accepts(grammar, each)] == []
    assert [each for each in others if accepts(grammar, each)] == []


@pytest.mark.parametrize("text", GBNF.values(), ids=GBNF)
def test_gbnf_is_known_by_its_first_rule(text: str) -> None:
    assert syntax_of(text) == "gbnf"


@pytest.mark.parametrize("text", LARK.values(), ids=LARK)
def test_lark_is_known_by_its_first_item(text: str) -> None:
    assert syntax_of(text) == "lark"


def test_a_syntax_may_be_named() -> None:
    assert refused_in(GBNF["one text"], "lark") == refused_in(LARK["one text"], "gbnf")


def refused_in(text: str, syntax: str) -> str:
    with pytest.raises(EdgewiseError) as error:
        lower_grammar(text, "lark" if syntax == "lark" else "gbnf")
    return error.value.code


@pytest.mark.parametrize("spell", [as_gbnf, as_lark])
def test_a_grammar_written_down_and_read_takes_the_same_texts(
    spell: Callable[[Grammar], str],
) -> None:
    for seed in range(60):
        random = Random(seed)
        rules = random_rules(random)
        read = lower_grammar(spell(rules))
        for _ in range(3):
            text = drawn(rules, rules.rules[rules.root], random)
            other = drawn(read, read.rules[read.root], random)
            assert accepts(read, text), (seed, text)
            assert accepts(rules, other), (seed, other)


def test_only_rules_that_the_first_one_comes_to_are_kept_and_names_stay_apart() -> None:
    grammar = lower_grammar('root ::= A-b a.b\nA-b ::= "1"\na.b ::= "2" _a\n_a ::= "3"\nx ::= "4"')
    assert list(grammar.rules) == ["root", "a_b", "a_b_2", "r_a"]
    assert grammar.root == "root"


def test_a_name_with_a_number_is_not_another_rules() -> None:
    grammar = lower_grammar('root ::= a A a_2\na ::= "1"\nA ::= "2"\na_2 ::= "3"')
    assert [to_json(node) for node in grammar.rules.values()][1:] == [
        ["literal", "1"],
        ["literal", "2"],
        ["literal", "3"],
    ]


def test_what_is_ignored_is_repeated_in_one_way() -> None:
    grammar = lower_grammar('%import common.WS\n%ignore WS\nstart: "a"')
    ignored = grammar.rules["ignored"]
    assert isinstance(ignored, Repeat)
    assert not isinstance(ignored.item, Repeat | Rule)


@pytest.mark.parametrize("text", UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_refused_by_name_is(text: str) -> None:
    assert refused(text).code == "unsupported.grammar"


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_no_grammar_is(text: str) -> None:
    assert refused(text).code == "input.grammar"


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_too_large_is(text: str) -> None:
    assert refused(text).code == "input.grammar"


@pytest.mark.parametrize("text", UNSUPPORTED_REGEX.values(), ids=UNSUPPORTED_REGEX)
def test_an_expression_that_is_refused_in_a_grammar_says_where(text: str) -> None:
    error = refused(text)
    assert error.code == "unsupported.regex"
    assert error.message.startswith("Line 1, column 8 of the grammar: The regular expression")


def test_an_expression_that_is_wrong_in_a_grammar_keeps_its_code() -> None:
    assert refused(WRONG_REGEX["a class without an end"]).code == "input.regex"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('root ::= "é" |\n  ( other', "Line 2, column 10"),
        ('root ::= "é日😀" &', "Line 1, column 16"),
        ('root ::= a\n\na ::= "\\uD800"', "Line 3, column 8"),
        ("start: A\n\n  %foo\nA: /x/", "Line 3, column 3"),
        ('start: "a"\n  | b', "Line 2, column 5"),
    ],
)
def test_errors_say_the_line_and_the_column(text: str, place: str) -> None:
    assert refused(text).message.startswith(f"{place} of the grammar: ")


@given(st.text(st.sampled_from('ab:=()[]{}|*+?".,-~/%<>\\\n #A1'), max_size=24))
def test_anything_is_a_grammar_or_an_error_of_ours(text: str) -> None:
    for start in ("", "root ::= ", "start: "):
        try:
            grammar = lower_grammar(start + text)
        except EdgewiseError:
            continue
        json.dumps({name: to_json(node) for name, node in grammar.rules.items()})
        used = {name for node in grammar.rules.values() for name in references(node)}
        assert used <= set(grammar.rules)


def references(node: Node) -> list[str]:
    written = json.dumps(to_json(node))
    return [part.split('"')[0] for part in written.split('["rule", "')[1:]]


@pytest.mark.parametrize(("name", "text"), RECURSIVE.items(), ids=RECURSIVE)
def test_rules_that_begin_with_themselves_or_never_end_are_refused(name: str, text: str) -> None:
    error = refused(text)
    assert error.code == "input.grammar"
    assert ("has no text that ends" if "never" in name else "begin with itself") in error.message


def test_long_chains_of_rules_are_gone_through_once() -> None:
    count = 1000
    chain = "".join(f"a{i} ::= b* a{i + 1} | a{i + 1}\n" for i in range(count))
    text = f'root ::= a0\nb ::= "b"?\n{chain}a{count} ::= "x"'
    assert len(lower_grammar(text, "gbnf").rules) == count + 3
    assert "begin with itself" in refused(text.replace('"x"', '"x" | root')).message


def test_an_empty_text_is_nothing() -> None:
    grammar = lower_grammar(GBNF["nothing"])
    assert accepts(grammar, "")
    assert not accepts(grammar, " ")
    assert lower_grammar(GBNF["one text"]).rules["root"] == Literal("abc")
