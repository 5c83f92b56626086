"""Rules that are alike become one, and the texts stay the same."""

from __future__ import annotations

from edgewise_runtime.grammar.merging import merged
from edgewise_runtime.grammar.nodes import Choice, Grammar, Literal, Node, Rule, Sequence
from tests.runtime.grammar.recognise import accepts


def listed(name: str, item: str, sign: str = ",") -> Node:
    """Items with a sign behind each."""
    more = Sequence((Rule(item), Literal(sign), Rule(name)))
    return Choice((more, Literal(".")))


def test_rules_that_refer_to_themselves_and_are_alike_are_one() -> None:
    rules = {
        "root": Sequence((Rule("a"), Rule("b"))),
        "a": listed("a", "x"),
        "b": listed("b", "y"),
        "x": Choice((Literal("1"), Sequence((Literal("("), Rule("a"), Literal(")"))))),
        "y": Choice((Literal("1"), Sequence((Literal("("), Rule("b"), Literal(")"))))),
    }
    made = merged(Grammar(rules, "root"))
    assert list(made.rules) == ["root", "a", "x"]
    assert made.rules["root"] == Sequence((Rule("a"), Rule("a")))
    for text in ("..", "1,.1,1,.", "(1,.),..", "1,", "(1,).."):
        assert accepts(made, text) == accepts(Grammar(rules, "root"), text)


def test_rules_that_differ_far_away_stay_apart() -> None:
    rules = {
        "root": Choice((Rule("a"), Rule("b"))),
        "a": Sequence((Literal("a"), Rule("c"))),
        "b": Sequence((Literal("a"), Rule("d"))),
        "c": Sequence((Literal("c"), Rule("e"))),
        "d": Sequence((Literal("c"), Rule("f"))),
        "e": Literal("e"),
        "f": Literal("f"),
    }
    assert merged(Grammar(rules, "root")) == Grammar(rules, "root")


def test_rules_that_differ_too_far_away_all_stay() -> None:
    rules: dict[str, Node] = {f"r{i}": Rule(f"r{i + 1}") for i in range(100)}
    rules["r100"] = Literal("x")
    assert merged(Grammar(rules, "r0")) == Grammar(rules, "r0")


def test_the_root_may_be_one_of_those_that_are_alike() -> None:
    rules: dict[str, Node] = {"a": Literal("x"), "root": Literal("x")}
    assert merged(Grammar(rules, "root")) == Grammar({"a": Literal("x")}, "a")
