import { describe, expect, it } from "vitest";
import { howToGetWebGpu } from "../../chat/advice.ts";

const MOZILLA = "Mozilla/5.0";
const CHROME = "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36";

describe("how to get WebGPU", () => {
  it.each([
    [`${MOZILLA} (X11; Linux x86_64) ${CHROME}`, /^Use Chrome or Edge.*chrome:\/\/flags/],
    [`${MOZILLA} (Windows NT 10.0; Win64; x64) ${CHROME}`, /^Use Chrome or Edge 121.*settings\.$/],
    [`${MOZILLA} (Linux; Android 10; K) ${CHROME}`, /Android 12/],
    [`${MOZILLA} (X11; Linux x86_64; rv:135.0) Gecko/20100101 Firefox/135.0`, /^Use Firefox/],
    [`${MOZILLA} (Macintosh) AppleWebKit/605.1.15 Version/17.5 Safari/605.1.15`, /Safari 26/],
    [`${MOZILLA} (iPhone) AppleWebKit/605.1.15 CriOS/120.0 Safari/604.1`, /iOS 26/],
  ])("is said to %s", (userAgent, advice) => {
    expect(howToGetWebGpu(userAgent, true)).toMatch(advice);
  });

  it("needs a secure page before anything else", () => {
    expect(howToGetWebGpu(CHROME, false)).toContain("https://");
  });
});
