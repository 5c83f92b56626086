/** JSON (RFC 8259) that comes in pieces: where a value ends, and where it is none. As in Python's `calls/json_scanner.py`. */

/** Arrays and objects in each other; deeper values count as malformed. */
export const MAX_DEPTH = 64;

const SPACE = " \t\n\r";
const DIGITS = "0123456789";
const ESCAPES = '"\\/bfnrt';
const HEX = "0123456789abcdefABCDEF";
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON's strings have none
const PLAIN = /[^"\\\x00-\x1f]*/y;
const WORDS: Readonly<Record<string, string>> = { t: "rue", f: "alse", n: "ull" };
const CLOSING: Readonly<Record<string, string>> = { "{": "}", "[": "]" };
/** By what has been read of a number: characters that may follow, and what has been read then. */
const NUMBER: Readonly<Record<string, readonly (readonly [string, string])[]>> = {
  "-": [
    ["0", "0"],
    ["123456789", "1"],
  ],
  "0": [
    [".", "."],
    ["eE", "e"],
  ],
  "1": [
    [DIGITS, "1"],
    [".", "."],
    ["eE", "e"],
  ],
  ".": [[DIGITS, "f"]],
  f: [
    [DIGITS, "f"],
    ["eE", "e"],
  ],
  e: [
    ["+-", "s"],
    [DIGITS, "x"],
  ],
  s: [[DIGITS, "x"]],
  x: [[DIGITS, "x"]],
};
const WHOLE = "01fx";

type Want = "value" | "first value" | "key" | "first key" | "colon" | "comma";

/** Reads one JSON value, white space before it included, and nothing after it. */
export class JsonScanner {
  /** The value is complete. */
  done = false;
  /** What came is no JSON, or deeper than `MAX_DEPTH`. */
  failed = false;
  private readonly open: string[] = [];
  private want: Want = "value";
  private inside: "" | "string" | "escape" | "hex" | "word" | "number" = "";
  private isKey = false;
  /** Of a word; of \u one character per digit. */
  private left = "";
  private number = "";

  /** Read on in a text from a place; return the place up to which it was read. */
  push(text: string, from: number): number {
    let at = from;
    while (at < text.length && !this.done && !this.failed) {
      if (this.inside === "string") {
        PLAIN.lastIndex = at;
        at += PLAIN.exec(text)?.[0].length ?? 0;
        if (at === text.length) break;
      }
      at += this.step(text.charAt(at));
    }
    return at;
  }

  /** Nothing follows: a number that stands alone is complete. */
  finish(): void {
    if (this.inside === "number" && this.open.length === 0 && WHOLE.includes(this.number)) {
      this.done = true;
    }
  }

  /** How many characters were read, 0 or 1. */
  private step(character: string): number {
    switch (this.inside) {
      case "string":
        return this.inString(character);
      case "escape":
        return this.inEscape(character);
      case "hex":
        if (!HEX.includes(character)) return this.fail();
        this.left = this.left.slice(1);
        this.inside = this.left ? "hex" : "string";
        return 1;
      case "word":
        if (character !== this.left.charAt(0)) return this.fail();
        this.left = this.left.slice(1);
        if (!this.left) this.endValue();
        return 1;
      case "number":
        return this.inNumber(character);
      default:
        return this.between(character);
    }
  }

  private inString(character: string): number {
    if (character === "\\") {
      this.inside = "escape";
    } else if (character !== '"') {
      return this.fail();
    } else if (this.isKey) {
      this.inside = "";
      this.want = "colon";
    } else {
      this.endValue();
    }
    return 1;
  }

  private inEscape(character: string): number {
    if (character === "u") {
      this.inside = "hex";
      this.left = "0000";
    } else if (ESCAPES.includes(character)) {
      this.inside = "string";
    } else {
      return this.fail();
    }
    return 1;
  }

  private inNumber(character: string): number {
    for (const [characters, then] of NUMBER[this.number] ?? []) {
      if (characters.includes(character)) {
        this.number = then;
        return 1;
      }
    }
    if (!WHOLE.includes(this.number)) return this.fail();
    this.endValue();
    return 0;
  }

  private between(character: string): number {
    const { want } = this;
    const innermost = this.open.at(-1) ?? "";
    if (SPACE.includes(character)) return 1;
    if (character === '"' && want !== "colon" && want !== "comma") {
      this.inside = "string";
      this.isKey = want === "key" || want === "first key";
    } else if ((want === "value" || want === "first value") && character !== "]") {
      return this.beginValue(character);
    } else if (want === "colon" && character === ":") {
      this.want = "value";
    } else if (want === "comma" && character === ",") {
      this.want = innermost === "{" ? "key" : "value";
    } else if (
      (want === "comma" || want === "first key" || want === "first value") &&
      character === CLOSING[innermost]
    ) {
      this.open.pop();
      this.endValue();
    } else {
      return this.fail();
    }
    return 1;
  }

  private beginValue(character: string): number {
    const word = WORDS[character];
    if (character in CLOSING) {
      if (this.open.length === MAX_DEPTH) return this.fail();
      this.open.push(character);
      this.want = character === "{" ? "first key" : "first value";
    } else if (word !== undefined) {
      this.inside = "word";
      this.left = word;
    } else if (character === "-" || DIGITS.includes(character)) {
      this.inside = "number";
      this.number = "-0".includes(character) ? character : "1";
    } else {
      return this.fail();
    }
    return 1;
  }

  private endValue(): void {
    this.inside = "";
    this.want = "comma";
    this.done = this.open.length === 0;
  }

  private fail(): number {
    this.failed = true;
    return 0;
  }
}

/** Whether a text is one JSON value and nothing else, and begins with certain characters. */
export function isJson(text: string, begins = ""): boolean {
  const scanner = new JsonScanner();
  const end = scanner.push(text, 0);
  scanner.finish();
  return scanner.done && end === text.length && text.startsWith(begins);
}

const SHORT: Readonly<Record<string, string>> = {
  '"': '\\"',
  "\\": "\\\\",
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
};
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON's strings have none
const BEYOND = /["\\\x00-\x1f]/g;

/** A text as it stands between the quotes of a JSON string. */
export function escaped(text: string): string {
  return text.replace(
    BEYOND,
    (found) => SHORT[found] ?? `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
