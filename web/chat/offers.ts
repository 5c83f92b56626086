/** Which models the host offers, remembered for when it cannot be reached. */

export interface Offer {
  readonly name: string;
  readonly url: string;
  readonly family: string;
  readonly quant: string;
  readonly context: number;
  /** Bytes to download by program. */
  readonly bytes: Readonly<Record<string, number>>;
}

const REMEMBERED = "edgewise.offers";

/** The host's list; offline the one it gave last. Empty where there is neither. */
export async function offers(): Promise<{
  readonly offers: readonly Offer[];
  readonly fresh: boolean;
}> {
  try {
    const response = await fetch("/api/bundles", { cache: "no-cache" });
    if (!response.ok) throw new Error(`the host answered ${response.status}`);
    const found = read(await response.json());
    localStorage.setItem(REMEMBERED, JSON.stringify(found));
    return { offers: found, fresh: true };
  } catch {
    return { offers: remembered(), fresh: false };
  }
}

function remembered(): readonly Offer[] {
  try {
    return read({ bundles: JSON.parse(localStorage.getItem(REMEMBERED) ?? "[]") });
  } catch {
    return [];
  }
}

function read(json: unknown): readonly Offer[] {
  const listed: unknown =
    typeof json === "object" && json !== null && "bundles" in json ? json.bundles : [];
  return Array.isArray(listed) ? listed.filter(isOffer) : [];
}

function isOffer(value: unknown): value is Offer {
  const offer = value as Partial<Offer> | null;
  return (
    typeof offer === "object" &&
    typeof offer?.name === "string" &&
    typeof offer.url === "string" &&
    offer.url.startsWith("/bundles/") &&
    typeof offer.bytes === "object"
  );
}

/** Bytes of the smallest download a model can come to. */
export function downloadBytes(offer: Offer): number {
  const sizes = Object.values(offer.bytes);
  return sizes.length > 0 ? Math.min(...sizes) : 0;
}
