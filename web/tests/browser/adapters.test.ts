import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { AdapterName } from "./launch.ts";
import { openSession, type Session } from "./session.ts";

const ADAPTERS: readonly { adapter: AdapterName; width: number; half: boolean }[] = [
  { adapter: "swiftshader", width: 4, half: false },
  { adapter: "lavapipe", width: 8, half: true },
];

describe.each(ADAPTERS)("the test bed's $adapter", ({ adapter, width, half }) => {
  let session: Session;

  beforeAll(async () => {
    session = await openSession(adapter);
  });
  afterAll(() => session?.close());

  it(`has subgroups of ${width} and ${half ? "" : "no "}float16, in an isolated page`, async () => {
    const page = await session.page();
    await page.goto(`${session.proxy.url}/test/library.html`);
    const found = await page.evaluate(async () => {
      const adapter = await navigator.gpu.requestAdapter();
      return {
        features: [...(adapter?.features ?? [])],
        width: adapter?.info.subgroupMaxSize,
        isolated: crossOriginIsolated,
      };
    });
    expect(found).toMatchObject({ width, isolated: true });
    expect(found.features).toContain("subgroups");
    expect(found.features).toContain("timestamp-query");
    expect(found.features.includes("shader-f16")).toBe(half);
  });
});
