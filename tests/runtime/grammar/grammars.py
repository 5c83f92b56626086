"""Grammars that the tests of both languages lower."""

from __future__ import annotations

from random import Random

GBNF = {
    "one text": 'root ::= "abc"',
    "nothing": 'root ::= ""',
    "an empty alternative": 'root ::= "a" |\n',
    "a list": """\
# A list of words, or of lists.
root ::= item (", " item)* # at least one
item ::= [a-z]+ | "[" root "]"
""",
    "rules over lines": 'root ::=\n  "a"\n  | b\n  | (\n "c" )\n\nb\n::= "b"',
    "counts": 'root ::= "a"{3} "b"{2,} "c"{ 0 , 2 } [d]{0,1} . "e"? "f"*',
    "classes": 'root ::= [^"\\\\\\x7F\\x00-\\x1F] [a-zA-Z_-] [\\]\\[\\-a-c] '
    "[\\u00e9\\U0001F600] [-+] [^^]",
    "escapes": 'root ::= "\\n\\r\\t\\"\\\\\\x41\\u00e9\\U0001F600\\[é日"',
    "names": "root ::= A-b a-B a.b _x\nA-b ::= [1]\na-B ::= [2]\na.b ::= [3]\n_x ::= [4]\n",
    "arithmetic": """\
root  ::= (expr "=" term "\\n")+
expr  ::= term ([-+*/] term)*
term  ::= num | "(" expr ")"
num   ::= [0-9]+
other ::= expr
""",
    "json": """\
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws
array  ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\\"" ([^"\\\\\\x7F\\x00-\\x1F] | "\\\\" (["\\\\bfnrt] | "u" [0-9a-fA-F]{4}))* "\\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws     ::= | " " | "\\n" [ \\t]{0,20}
""",
}
LARK = {
    "one text": 'start: "abc"',
    "an empty alternative": 'start: "a" |',
    "terminals and rules": """\
// Words.
start: word ("," word)* -> words
?word: WORD | "(" start ")" # or more
WORD: LETTER+
LETTER: "a".."z"
""",
    "what may be missing": 'start: "a" ["b" ["c"]] "d"? [ "e" | "f" ]',
    "counts": 'start: "a" ~ 3 "b"~2..4 ("c" | "d")+ "e"*',
    "case": 'start: "let"i /[x-z]+/i KEY\nKEY: "key1"i',
    "expressions": r'start: /[^\/"]+/ /a.b/s "/" /\d+(\.\d+)?/u /x|y/ "!"',
    "shapes of trees": """\
!start.2: _a b
_a.-1: "a"
    | "c"
?b: "b" -> x
  | "b" "b" -> y
""",
    "what is ignored": """\
%import common.WS
%import common (INT, SH_COMMENT)
%ignore WS
%ignore SH_COMMENT
start: "[" [INT ("," INT)*] "]" | pair
pair: KEY "=" INT
KEY: "a" "b" | /c+/
""",
    "ignored by itself": '%ignore " "\n%ignore /\\t+/ | "x"*\nstart: "a" "b"',
    "imports under other names": '%import common.SIGNED_NUMBER -> N\nstart: N (" " N)*',
    "every terminal of common": "".join(
        f"%import common.{name}\n"
        for name in (
            "DIGIT HEXDIGIT INT SIGNED_INT DECIMAL FLOAT SIGNED_FLOAT NUMBER SIGNED_NUMBER "
            "ESCAPED_STRING LCASE_LETTER UCASE_LETTER LETTER WORD CNAME WS_INLINE WS CR LF NEWLINE "
            "SH_COMMENT CPP_COMMENT C_COMMENT SQL_COMMENT"
        ).split()
    )
    + "start: INT | SIGNED_INT FLOAT | SIGNED_FLOAT NUMBER | ESCAPED_STRING WORD | CNAME NEWLINE"
    " | C_COMMENT CPP_COMMENT | HEXDIGIT LCASE_LETTER UCASE_LETTER SQL_COMMENT CR LF WS_INLINE",
    "escapes": r'start: "\n\t\\\"\x41\u00e9é" "\u0030".."\x39"',
    "json": """\
?start: value
?value: object | array | string | SIGNED_NUMBER -> number | "true" | "false" | "null"
array  : "[" [value ("," value)*] "]"
object : "{" [pair ("," pair)*] "}"
pair   : string ":" value
string : ESCAPED_STRING
%import common.ESCAPED_STRING
%import common.SIGNED_NUMBER
%import common.WS
%ignore WS
""",
    "calculator": """\
?start: sum | NAME "=" sum -> assign
?sum: product (("+" | "-") product)*
?product: atom ("*" atom)*
?atom: NUMBER | "-" atom | NAME | "(" sum ")"
%import common.CNAME -> NAME
%import common.NUMBER
%import common.WS_INLINE
%ignore WS_INLINE
""",
}
UNSUPPORTED = {
    "a look-ahead": 'root ::= (= "a") "b"',
    "tags": 'root ::= TagDispatch(("a", b))',
    "a token by its name": "root ::= <think> .",
    "a token by its number": "root ::= !<[12]> .",
    "an escape that is not known": 'root ::= "\\q"',
    "a template": "start: list{x}\n",
    "a template's definition": 'list{x}: x\nstart: "a"',
    "a directive": '%declare A\nstart: "a"',
    "an override": '%override a: "b"\nstart: "a"',
    "an import from elsewhere": "%import python.NAME\nstart: NAME",
    "an import from a file": "%import .other.NAME\nstart: NAME",
    "an import that common lacks": "%import common.NAME\nstart: NAME",
    "a special token": "start: <|eot|>",
    "a flag": "start: /a/m",
    "a flag that spreads an expression": "start: /a b/x",
    "case of other letters": 'start: "é"i',
    "an escape of Lark's": 'start: "\\d"',
}
UNSUPPORTED_REGEX = {"a look-ahead": "start: /a(?=b)/", "an anchor": "start: /a$/"}
WRONG = {
    "no grammar": "hello world",
    "an empty text": "",
    "only a comment": "# nothing",
    "no colons": 'root = "a"',
    "a text without an end": 'root ::= "a',
    "a class without an end": "root ::= [a",
    "a group without an end": 'root ::= ("a"',
    "a group that was not opened": 'root ::= "a")',
    "a repetition of nothing": "root ::= *",
    "a repetition of a repetition": 'root ::= "a"+*',
    "a least above its most": 'root ::= "a"{3,2}',
    "a range the wrong way": "root ::= [z-a]",
    "an empty class": "root ::= []",
    "a class of nothing": "root ::= [^\\x00-\\U0010FFFF]",
    "no character": 'root ::= "\\uD800"',
    "beyond the last character": 'root ::= "\\U00110000"',
    "a rule that is not there": "root ::= other",
    "a rule twice": 'root ::= "a"\nroot ::= "b"',
    "no root": 'other ::= "a"',
    "no start": 'other: "a"',
    "a terminal that is not there": "start: OTHER",
    "a rule twice in Lark": 'start: "a"\nstart: "b"',
    "an import twice": "%import common.WS\n%import common.WS\nstart: WS",
    "a rule in a terminal": 'start: A\nA: b\nb: "x"',
    "a name of both": 'start: aB\naB: "x"',
    "a shape for a terminal": 'start: A\n?A: "x"',
    "a range of longer texts": 'start: "ab".."z"',
    "a range the wrong way in Lark": 'start: "z".."a"',
    "a range of any case": 'start: "a"i.."z"',
    "a group without an end in Lark": 'start: ["a")',
    "a count without a number": 'start: "a" ~ b',
    "an alias without a name": 'start: "a" ->',
    "a priority without a number": 'start.x: "a"',
    "a terminal without a colon": 'start: "a"\n%ignore " "\nB "c"',
    "an import without a name": "%import common\nstart: WS",
}
RECURSIVE = {
    "a rule that begins with itself": 'root ::= root "a" | "b"',
    "a rule that is itself": 'root ::= root | "a"',
    "rules that begin with one another": 'root ::= "x" a\na ::= b\nb ::= ("c"* | a) "d" | "e"',
    "one that begins with itself after nothing": 'root ::= ws root "a" | "b"\nws ::= " "*',
    "one that begins with itself repeated": 'start: "-"? start+ "a" | "b"',
    "one that begins with itself after what is ignored": '%ignore " "\nstart: start "a" | "b"',
    "a rule that never ends": 'root ::= "a" root',
    "rules that never end": 'root ::= "x" | "y" a\na ::= "(" b+ ")"\nb ::= "[" a "]" | "{" b "}"',
}
WRONG_REGEX = {"a class without an end": "start: /[a/"}
BOMBS = {
    "groups in groups": "root ::= " + "(" * 61 + '"a"' + ")" * 61,
    "groups that never end": "root ::= " + "(" * 100_000,
    "what may be missing in what may be missing": "start: " + "[" * 61 + '"a"' + "]" * 61,
    "too many characters": "root ::= " + '"a" ' * 40_000,
    "a count that is too large": 'root ::= "a"{100001}',
    "an endless count": 'root ::= "a"{' + "9" * 5000 + "}",
    "counts of counts": 'root ::= (("a"{500}){500}){500}',
    "counts of many": 'start: ("a"~300 "b"~300)~400',
    "texts that never end": "root ::= " + '"\\' * 60_000,
    "classes that never end": "root ::= " + "[" * 120_000,
    "tokens that never end": "start: " + "<" * 120_000,
    "expressions that never end": "start: " + "/\\" * 60_000,
    "signs that are no names": "start: " + "?" * 120_000,
    "an endless count in Lark": 'start: "a" ~ ' + "9" * 5000,
}
_SHARED = (
    '"a"',
    '"b" ',
    " a",
    " | ",
    "* ",
    "+ ",
    "? ",
    ' ("a" | a)',
    ' ("b"',
    ")",
    " ",
    '"\\x41"',
    "# c\n",
)
_PIECES = {
    "gbnf": ("[a-c]", "[^a]", "{2}", "{1,2}", " . ", "[ab-]", "\nb ::= ", " b", '""', "é"),
    "lark": (
        *(" A", "~ 2", "~ 1..2", "/a+/", "/b|c/i", '"k"i', ' ["b"]', '"a".."c"', " -> x\n", " INT"),
        *('\n%ignore " "\n', "\n%import common.INT\n", "\nA: ", "\n?b: ", " b", "/[/"),
    ),
}
_STARTS = {"gbnf": 'root ::= a a\na ::= "c"', "lark": 'start: a A\na: "c"'}
_ENDS = {"gbnf": '\nb ::= "d"', "lark": '\nb: A\nA: "e"'}


def random_grammar(random: Random) -> str:
    """Pieces at random between a beginning and an end; some are no grammars."""
    syntax = random.choice(["gbnf", "lark"])
    pieces = random.choices((*_SHARED, *_PIECES[syntax]), k=random.randint(1, 5))
    end = _ENDS[syntax] if random.random() < 0.8 else ""
    return f"{_STARTS[syntax]}{''.join(pieces)}{end}"
