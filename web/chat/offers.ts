/** Which models the host offers, remembered for when it cannot be reached. */

import { prefer, preference } from "./preferences.ts";

export interface Offer {
  readonly name: string;
  readonly url: string;
  readonly family: string;
  readonly quant: string;
  /** Most tokens of a conversation. */
  readonly context: number;
  /** Bytes to download by program. */
  readonly bytes: Readonly<Record<string, number>>;
}

export interface Offers {
  readonly offers: readonly Offer[];
  /** Whether the host said so just now. */
  readonly fresh: boolean;
  /** Whether the host wants GPUs lent to it. */
  readonly tabs: boolean;
}

/** The host's list; offline the one it gave last. Empty where there is neither. */
export async function askForOffers(): Promise<Offers> {
  try {
    const response = await fetch("/api/bundles", { cache: "no-cache" });
    if (!response.ok) throw new Error(`the host answered ${response.status}`);
    const text = await response.text();
    const offers = readOffers(text);
    prefer("edgewise.offers", text);
    return { offers, fresh: true, tabs: wantsTabs(text) };
  } catch {
    return { offers: remembered(), fresh: false, tabs: false };
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

function wantsTabs(text: string): boolean {
  const json: unknown = JSON.parse(text);
  return typeof json === "object" && json !== null && "tabs" in json && json.tabs === true;
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
