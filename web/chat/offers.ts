/** Which models the host offers, remembered for when it cannot be reached. */

import { prefer, preference } from "./preferences.ts";

export interface Offer {
  readonly name: string;
  readonly url: string;
  readonly family: string;
  readonly quant: string;
  /** Most tokens of a conversation. */
  readonly context: number;
  /** SHA-256 of its tokenizer.json, where the host says it. */
  readonly tokenizer?: string;
  /** Bytes to download by program. */
  readonly bytes: Readonly<Record<string, number>>;
}

export interface Offers {
  readonly offers: readonly Offer[];
  /** Whether the host said so just now. */
  readonly fresh: boolean;
  /** Whether the host wants GPUs lent to it. */
  readonly tabs: boolean;
  /** Names of models that the host answers with itself. */
  readonly answers: readonly string[];
}

/** The host's list; offline the one it gave last. Empty where there is neither. */
export async function askForOffers(): Promise<Offers> {
  try {
    const response = await fetch("/api/bundles", { cache: "no-cache" });
    if (!response.ok) throw new Error(`the host answered ${response.status}`);
    const text = await response.text();
    const offers = readOffers(text);
    prefer("edgewise.offers", text);
    return { offers, fresh: true, ...readHost(text) };
  } catch {
    return { offers: remembered(), fresh: false, tabs: false, answers: [] };
  }
}

function remembered(): readonly Offer[] {
  try {
    return readOffers(preference("edgewise.offers") ?? "{}");
  } catch {
    return [];
  }
}

/**
 * The models of a host's answer; what is no model of this host is left out.
 *
 * @throws SyntaxError for what is no JSON.
 */
export function readOffers(text: string): readonly Offer[] {
  const json: unknown = JSON.parse(text);
  const listed: unknown =
    typeof json === "object" && json !== null && "bundles" in json ? json.bundles : [];
  return Array.isArray(listed) ? listed.filter(isOffer) : [];
}

/** What the host does besides offering models. */
function readHost(text: string): Pick<Offers, "tabs" | "answers"> {
  const json: unknown = JSON.parse(text);
  const told = typeof json === "object" && json !== null ? json : {};
  const answers: unknown = "answers" in told ? told.answers : [];
  return {
    tabs: "tabs" in told && told.tabs === true,
    answers: Array.isArray(answers) ? answers.filter((name) => typeof name === "string") : [],
  };
}

function isOffer(value: unknown): value is Offer {
  if (typeof value !== "object" || value === null) return false;
  const { name, url, family, quant, context, bytes } = value as Partial<Offer>;
  return (
    [name, family, quant].every((text) => typeof text === "string") &&
    typeof url === "string" &&
    url.startsWith("/bundles/") &&
    typeof context === "number" &&
    typeof bytes === "object" &&
    bytes !== null &&
    Object.values(bytes).every((count) => typeof count === "number")
  );
}

/** Bytes of the smallest download a model can come to. */
export function downloadBytes({ bytes }: Offer): number {
  const sizes = Object.values(bytes);
  return sizes.length > 0 ? Math.min(...sizes) : 0;
}
