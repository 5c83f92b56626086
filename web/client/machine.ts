/** What a browser tells about how much memory there may be. */

export interface Machine {
  /** A phone or a tablet, whose memory everything that runs has to share. */
  readonly handheld: boolean;
  /** Gigabytes of memory, rounded; null where the browser does not say, as Safari and Firefox do not. */
  readonly gigabytes: number | null;
}

/** What is looked at of a page's `navigator`; browsers have some of it. */
export interface Told {
  readonly userAgent: string;
  readonly platform?: string;
  readonly maxTouchPoints?: number;
  readonly deviceMemory?: number;
  readonly userAgentData?: { readonly mobile: boolean };
}

const HANDHELD = /Android|iPhone|iPad|iPod|Mobile/;

export function machineOf(told: Told): Machine {
  // An iPad says that it is a Mac; no Mac has a touch screen.
  const iPad = told.platform === "MacIntel" && (told.maxTouchPoints ?? 0) > 1;
  const mobile = told.userAgentData?.mobile ?? false;
  return {
    handheld: mobile || iPad || HANDHELD.test(told.userAgent),
    gigabytes: told.deviceMemory ?? null,
  };
}
