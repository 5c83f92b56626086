import { describe, expect, it } from "vitest";
import { downloadBytes, readOffers } from "../../chat/offers.ts";

const OFFER = {
  name: "demo-q4",
  url: "/bundles/demo-q4/",
  family: "llama",
  quant: "q4",
  context: 1024,
  bytes: { "webgpu-f16": 300, "webgpu-f32": 200 },
  programs: ["webgpu-f16", "webgpu-f32"],
};
const read = (bundles: unknown) => readOffers(JSON.stringify({ version: 1, bundles }));

describe("the host's models", () => {
  it("are read from its answer", () => {
    expect(read([OFFER])).toEqual([OFFER]);
    expect(downloadBytes(OFFER)).toBe(200);
  });

  it.each([
    ["nothing", null],
    ["no name", { ...OFFER, name: undefined }],
    ["a page of somebody else", { ...OFFER, url: "https://example.com/bundles/x/" }],
    ["sizes that are none", { ...OFFER, bytes: { "webgpu-f16": "300" } }],
    ["no sizes", { ...OFFER, bytes: null }],
  ])("are left out where they have %s", (_, offer) => {
    expect(read([OFFER, offer])).toEqual([OFFER]);
  });

  it.each(["{}", "[]", "null", '{"bundles": 3}'])("are none in %s", (text) => {
    expect(readOffers(text)).toEqual([]);
  });

  it("cost nothing to download where no program says what", () => {
    expect(downloadBytes({ ...OFFER, bytes: {} })).toBe(0);
  });
});
