/** JSON values in their one spelling, and numbers as exact decimals. */

export type Fields = Readonly<Record<string, unknown>>;

/** Digits after the point that are written without an exponent. */
const PLAIN_PLACES = 20;

export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * A value as `json.dumps(value, ensure_ascii=False)` writes it in Python, numbers as shortest
 * decimals; with `ordered` names are sorted, so that equal values have equal spellings.
 */
export function spelled(value: unknown, ordered = false): string {
  if (Array.isArray(value)) return `[${value.map((item) => spelled(item, ordered)).join(", ")}]`;
  if (isFields(value)) {
    const names = ordered ? Object.keys(value).sort() : Object.keys(value);
    return `{${names.map((n) => `${quoted(n)}: ${spelled(value[n], ordered)}`).join(", ")}}`;
  }
  if (typeof value === "number") return spelledNumber(value);
  return typeof value === "string" ? quoted(value) : JSON.stringify(value);
}

/** A text as JSON has it. */
export function quoted(text: string): string {
  return JSON.stringify(text);
}

/** A number in decimals, without an exponent where that is no longer than it needs to be. */
function spelledNumber(value: number): string {
  const [digits, places] = decimal(value);
  if (places === 0) return String(digits);
  if (places > PLAIN_PLACES) return `${digits}e-${places}`;
  const padded = String(digits < 0n ? -digits : digits).padStart(places + 1, "0");
  return `${digits < 0n ? "-" : ""}${padded.slice(0, -places)}.${padded.slice(-places)}`;
}

/**
 * Digits and how many of them are after the point, of the shortest decimal that is read as the
 * number.
 */
export function decimal(value: number): readonly [bigint, number] {
  if (Number.isInteger(value)) return [BigInt(value), 0];
  const [mantissa = "", exponent = "0"] = String(value).split("e");
  const [whole = "", fraction = ""] = mantissa.split(".");
  return [BigInt(whole + fraction), fraction.length - Number(exponent)];
}

/** A number times `10 ** places`, rounded up or down. */
export function scaled(value: number, places: number, up: boolean): bigint {
  const [digits, after] = decimal(value);
  const unit = 10n ** BigInt(Math.abs(places - after));
  if (after <= places) return digits * unit;
  return up ? -floorOf(-digits, unit) : floorOf(digits, unit);
}

/** How often a positive number is in another, rounded down. */
export function floorOf(value: bigint, unit: bigint): bigint {
  const found = value / unit;
  return found * unit > value ? found - 1n : found;
}

/** How many characters a text has. */
export function lengthOf(text: string): number {
  let pairs = 0;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code >= 0xd800 && code < 0xdc00) pairs += 1;
  }
  return text.length - pairs;
}
