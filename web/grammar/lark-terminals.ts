/**
 * Terminals that Lark's grammars import from `common`, as regular expressions of ours.
 *
 * What a text in quotes or a comment in C is ends at the first quote, or asterisk and slash, that closes it; the
 * dynamic lexer of Lark's Earley parser may take a later one (lark, grammars/common.lark).
 */

const INT = "[0-9]+";
const DECIMAL = "(?:[0-9]+\\.[0-9]*|\\.[0-9]+)";
const EXPONENT = "[eE][+-]?[0-9]+";
const FLOAT = `(?:${INT}${EXPONENT}|${DECIMAL}(?:${EXPONENT})?)`;
const NUMBER = `(?:${FLOAT}|${INT})`;

export const COMMON: ReadonlyMap<string, string> = new Map([
  ["DIGIT", "[0-9]"],
  ["HEXDIGIT", "[0-9A-Fa-f]"],
  ["INT", INT],
  ["SIGNED_INT", `[+-]?${INT}`],
  ["DECIMAL", DECIMAL],
  ["FLOAT", FLOAT],
  ["SIGNED_FLOAT", `[+-]?${FLOAT}`],
  ["NUMBER", NUMBER],
  ["SIGNED_NUMBER", `[+-]?${NUMBER}`],
  ["ESCAPED_STRING", '"(?:[^"\\\\\\n]|\\\\[^\\n])*"'],
  ["LCASE_LETTER", "[a-z]"],
  ["UCASE_LETTER", "[A-Z]"],
  ["LETTER", "[A-Za-z]"],
  ["WORD", "[A-Za-z]+"],
  ["CNAME", "[A-Za-z_][A-Za-z0-9_]*"],
  ["WS_INLINE", "[ \\t]+"],
  ["WS", "[ \\t\\f\\r\\n]+"],
  ["CR", "\\r"],
  ["LF", "\\n"],
  ["NEWLINE", "(?:\\r?\\n)+"],
  ["SH_COMMENT", "#[^\\n]*"],
  ["CPP_COMMENT", "//[^\\n]*"],
  ["C_COMMENT", "/\\*[^*]*\\*+(?:[^*/][^*]*\\*+)*/"],
  ["SQL_COMMENT", "--[^\\n]*"],
]);
