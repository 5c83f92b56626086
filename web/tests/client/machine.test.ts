/** What browsers say about the machine they run on, by what theirs said. */

import { expect, test } from "vitest";
import { machineOf, type Told } from "../../client/machine.ts";

const MAC =
  "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) " +
  "Version/18.0 Safari/605.1.15";
const CASES: readonly [string, Told, boolean, number | null][] = [
  [
    "Chrome on a phone",
    {
      userAgent: "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 Chrome/140 Mobile Safari",
      userAgentData: { mobile: true },
      deviceMemory: 4,
    },
    true,
    4,
  ],
  [
    "Chrome on an Android tablet",
    {
      userAgent: "Mozilla/5.0 (Linux; Android 10; K) Chrome/140",
      userAgentData: { mobile: false },
    },
    true,
    null,
  ],
  [
    "Safari on an iPhone",
    { userAgent: "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Mobile/15E148 Safari" },
    true,
    null,
  ],
  ["Safari on an iPad", { userAgent: MAC, platform: "MacIntel", maxTouchPoints: 5 }, true, null],
  ["Safari on a Mac", { userAgent: MAC, platform: "MacIntel", maxTouchPoints: 0 }, false, null],
  [
    "Chrome on Windows with a touch screen",
    {
      userAgent: "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/140 Safari",
      userAgentData: { mobile: false },
      platform: "Win32",
      maxTouchPoints: 10,
      deviceMemory: 8,
    },
    false,
    8,
  ],
  [
    "Firefox on a phone",
    { userAgent: "Mozilla/5.0 (Android 14; Mobile; rv:141.0) Gecko/141.0 Firefox/141.0" },
    true,
    null,
  ],
];

test.each(CASES)("%s", (_, told, handheld, gigabytes) => {
  expect(machineOf(told)).toEqual({ handheld, gigabytes });
});
