/** How WebGPU is had in a browser, by its user agent string; the first that matches. */
const ADVICE: readonly (readonly [RegExp, string])[] = [
  [/iPhone|iPad/, "Update to iOS 26 or newer, whose browsers have WebGPU."],
  [
    /Firefox/,
    "Use Firefox 141 or newer on Windows, 145 or newer on macOS, or Chrome or Edge 121 or newer.",
  ],
  [/^(?!.*Chrom).*Safari/, "Update to Safari 26 or newer, or use Chrome or Edge."],
  [/Android/, "Use Chrome 121 or newer on Android 12 or newer."],
  [
    /Linux/,
    "Use Chrome or Edge 121 or newer, and turn hardware acceleration on in its settings. On Linux " +
      "also turn on “Unsafe WebGPU Support” and “Vulkan” at chrome://flags.",
  ],
  [/./, "Use Chrome or Edge 121 or newer, and turn hardware acceleration on in its settings."],
];

export function howToGetWebGpu(userAgent: string, secure: boolean): string {
  if (!secure) return "Ask whoever runs the host for an address that begins with https://.";
  return ADVICE.find(([browser]) => browser.test(userAgent))?.[1] ?? "";
}
