/** Characters written by their names, such as `&amp;`. */

const NAMED =
  "amp & lt < gt > quot \" apos ' nbsp \u00a0 copy © reg ® trade ™ hellip … mdash — ndash – " +
  "lsquo ‘ rsquo ’ ldquo “ rdquo ” laquo « raquo » bull • middot · times × divide ÷ minus − " +
  "plusmn ± deg ° le ≤ ge ≥ ne ≠ asymp ≈ larr ← rarr → uarr ↑ darr ↓ harr ↔ euro € pound £ " +
  "cent ¢ yen ¥ sect § para ¶ dagger † infin ∞ radic √ sum ∑ pi π alpha α beta β gamma γ " +
  "delta δ epsilon ε lambda λ mu μ sigma σ theta θ omega ω frac12 ½ frac14 ¼ sup2 ² sup3 ³";

const words = NAMED.split(" ");
const CHARACTERS: ReadonlyMap<string, string> = new Map(
  words.flatMap((name, i) => (i % 2 === 0 ? [[name, words[i + 1] ?? ""] as const] : [])),
);

/** The text that is meant; names that are not known stay as they are. */
export function characters(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(
    /&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|(\w{2,10}));/g,
    (written, decimal?: string, hex?: string, name?: string) => {
      if (name !== undefined) return CHARACTERS.get(name) ?? written;
      const code = Number.parseInt(decimal ?? hex ?? "", decimal === undefined ? 16 : 10);
      return isCharacter(code) ? String.fromCodePoint(code) : "\ufffd";
    },
  );
}

function isCharacter(code: number): boolean {
  return code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
}
