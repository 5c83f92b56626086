/** Pages of a pack are fetched where that should be over sooner than computing them, and waited for no longer than that. */

import { describe, expect, test } from "vitest";
import { patience, presumedPrefill, type Speeds } from "../../kv/pack-choice.ts";

/** Eight pages, which take 128 ms to compute. */
const GROUP = { tokens: 128, network: 800_000, store: 0 };
const speeds = (more: Partial<Speeds> = {}): Speeds => ({
  prefill: 1000,
  network: 10_000,
  store: 100_000,
  ...more,
});

describe("pages are", () => {
  test("fetched where the network is quicker, and given up after the time that computing takes", () => {
    expect(patience(GROUP, speeds())).toBe(128);
  });

  test.each([
    ["the network is slower", GROUP, speeds({ network: 1000 })],
    ["nothing comes over it", GROUP, speeds({ network: 0 })],
    ["the device is quicker", GROUP, speeds({ prefill: 20_000 })],
    ["the store is slower", { tokens: 128, network: 0, store: 800_000 }, speeds({ store: 1000 })],
    ["both together are slower", { ...GROUP, store: 10_000_000 }, speeds()],
  ])("computed where %s", (_, wanted, how) => {
    expect(patience(wanted, how)).toBeNull();
  });

  test("tried where nobody knows how fast they come", () => {
    expect(patience(GROUP, speeds({ network: null }))).toBe(128);
    expect(patience({ tokens: 128, network: 0, store: 8e9 }, speeds({ store: null }))).toBe(128);
  });

  test("read from the store without a network", () => {
    expect(patience({ tokens: 128, network: 0, store: 800_000 }, speeds({ network: 0 }))).toBe(128);
  });

  test("waited for as long as nobody sees it, however fast the device is", () => {
    expect(patience({ tokens: 16, network: 10, store: 0 }, speeds({ prefill: 1e5 }))).toBe(20);
  });
});

test("a device that has computed nothing is taken for what is known of it, or of who made the pack", () => {
  expect(presumedPrefill(128, 250, 0)).toBe(512);
  expect(presumedPrefill(128, 250, 3000)).toBe(3000);
  expect(presumedPrefill(128, 250, 90)).toBe(512);
});
