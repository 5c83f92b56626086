import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Report } from "../../selftest/report.ts";
import { FULL } from "../suite.ts";
import type { AdapterName } from "./launch.ts";
import { WAIT } from "./paths.ts";
import { openSession, type Session } from "./session.ts";

interface Case {
  readonly adapter: AdapterName;
  readonly bundle: string;
  /** Only this one, where the adapter takes its time to compile. */
  readonly program?: string;
  readonly programs: readonly string[];
}

/** It has every kind of kernel that the others have: the landing suite takes it. */
const WHOLE = {
  adapter: "lavapipe",
  bundle: "tiny-mixed-kv8",
  program: "webgpu-f16-subgroups-kv8",
  programs: ["webgpu-f16-subgroups-kv8"],
} as const satisfies Case;
const OTHERS: readonly Case[] = [
  {
    adapter: "swiftshader",
    bundle: "tiny-q8",
    program: "webgpu-f32-subgroups",
    programs: ["webgpu-f32-subgroups"],
  },
  {
    adapter: "lavapipe",
    bundle: "tiny-q8",
    programs: ["webgpu-f16", "webgpu-f16-subgroups", "webgpu-f32"],
  },
];
const CASES = FULL ? [WHOLE, ...OTHERS] : [WHOLE];

describe.each(CASES)(
  "the self-test of $bundle on $adapter",
  ({ adapter, bundle, program = "", programs }) => {
    let session: Session;
    let page: Page;
    let report: Report;

    beforeAll(async () => {
      session = await openSession(adapter);
      page = await session.page();
      await page.goto(pageOf(session, bundle, program));
      report = await finished(page);
    });
    afterAll(() => session?.close());

    it("finds every kernel of every program right", () => {
      const wrong = report.programs.flatMap(({ program, failure, agreement, kernels }) => [
        ...(failure ? [`${program}: ${failure}`] : []),
        ...(agreement && agreement.error > agreement.bound
          ? [`${program}: ${agreement.worst} is ${agreement.error} off`]
          : []),
        ...kernels
          .filter(({ ok }) => !ok)
          .map(({ kernel, error }) => `${program}/${kernel} ${error}`),
      ]);
      expect(wrong).toEqual([]);
      expect(report.ok).toBe(true);
    });

    it("runs the programs that fit, and most kernels against a reference", () => {
      expect(report.programs.map(({ program }) => program)).toEqual(
        expect.arrayContaining([...programs]),
      );
      const floats = report.programs.filter(({ program }) => !program.includes("a8"));
      const kernels = floats.flatMap((program) => program.kernels);
      const referenced = kernels.filter(({ against }) => against === "reference");
      expect(referenced.length).toBeGreaterThan(0.7 * kernels.length);
      const names = referenced.map(({ kernel }) => kernel.split("_", 1)[0]);
      expect(names).toEqual(expect.arrayContaining(["draw", "record", "logprobs"]));
      // One that joins attention's segments has a reference, too.
      expect(referenced.map(({ kernel }) => kernel)).toContainEqual(
        expect.stringContaining("_joined_"),
      );
    });

    it("puts a report in Markdown on the clipboard at a click", async () => {
      await session.browser.context.grantPermissions(["clipboard-read", "clipboard-write"], {
        origin: session.proxy.url,
      });
      await page.getByTestId("copy").click();
      await page.getByTestId("copied").getByText("Copied.").waitFor();
      const copied = await page.evaluate(() => navigator.clipboard.readText());
      expect(copied).toContain("self-test: everything is right");
      expect(copied).toContain(`| Browser | ${report.browser} |`);
      expect(copied).toContain("`maxComputeWorkgroupStorageSize`");
      for (const { program } of report.programs) expect(copied).toContain(`\`${program}\`: right`);
    });

    it("times every kernel, and knows what most of them move", () => {
      for (const { kernels } of report.programs) {
        for (const { kernel, ns } of kernels) expect(ns, kernel).toBeGreaterThan(0);
        const moving = kernels.filter(({ bytes }) => bytes !== null && bytes > 0);
        expect(moving.length).toBeGreaterThan(0.9 * kernels.length);
      }
    });

    it("measures how fast the model reads and writes, and its memory", async () => {
      const { speed, memory } = report;
      expect(speed).toMatchObject({ program: expect.stringMatching(/^webgpu-/) });
      expect("program" in speed && speed.prefillTokensPerSecond).toBeGreaterThan(0);
      expect("program" in speed && speed.decodeTokensPerSecond).toBeGreaterThan(0);
      expect("weights" in memory && memory.peak).toBeGreaterThan(
        "weights" in memory ? memory.weights + memory.kv : 0,
      );
      const shown = await page.getByTestId("measured").textContent();
      expect(shown).toMatch(/Prefill\d.*tokens\/s.*Decode\d.*Weights.*KV.*Peak/);
    });
  },
);

it("times by submissions where there are no timestamps, and says what it cannot measure", async () => {
  const { adapter, bundle, program } = WHOLE;
  const session = await openSession(adapter);
  try {
    const page = await session.page();
    await page.addInitScript(() => {
      const { requestDevice } = GPUAdapter.prototype;
      GPUAdapter.prototype.requestDevice = function (descriptor = {}) {
        const asked = [...(descriptor.requiredFeatures ?? [])];
        const requiredFeatures = asked.filter((name) => name !== "timestamp-query");
        return requestDevice.call(this, { ...descriptor, requiredFeatures });
      };
      // Nothing runs but the page itself.
      Worker.prototype.postMessage = () => {
        throw new DOMException("No worker runs here.", "DataCloneError");
      };
    });
    await page.goto(pageOf(session, bundle, program));
    const report = await finished(page);
    expect(report.ok).toBe(true);
    expect(report.speed).toEqual({ unmeasured: expect.stringContaining("No worker runs here.") });
    expect(report.memory).toEqual(report.speed);
    const kernels = report.programs.flatMap((one) => one.kernels);
    for (const { kernel, ns, by } of kernels) {
      expect(by, kernel).toBe("submits");
      expect(ns, kernel).toBeGreaterThan(0);
    }
  } finally {
    await session.close();
  }
});

it("names the kernel that computes something else", async () => {
  const { adapter, bundle, program } = WHOLE;
  const session = await openSession(adapter);
  try {
    const page = await session.page();
    await page.addInitScript(() => {
      const { createShaderModule } = GPUDevice.prototype;
      GPUDevice.prototype.createShaderModule = function (descriptor) {
        const code = descriptor.code.replace(/sqrt\(/g, "abs(");
        return createShaderModule.call(this, { ...descriptor, code });
      };
    });
    await page.goto(pageOf(session, bundle, program));
    const report = await finished(page);
    expect(await page.getByTestId("verdict").textContent()).toContain("wrong");
    const wrong = report.programs.flatMap(({ kernels }) => kernels.filter(({ ok }) => !ok));
    expect(wrong.map(({ kernel }) => kernel.split("_", 2).join("_"))).toContain("rms_norm");
    expect(wrong.every(({ kernel }) => /norm|_n1em06_/.test(kernel))).toBe(true);
  } finally {
    await session.close();
  }
});

/** The address that runs the self-test, of one program or of all that fit. */
function pageOf({ proxy }: Session, bundle: string, program: string): string {
  return `${proxy.url}/selftest?bundle=/bundles/${bundle}/&program=${program}&run`;
}

/** The report, once there is one; an error that the page shows instead. */
async function finished(page: Page): Promise<Report> {
  const report = page.getByTestId("report");
  await page.waitForFunction(
    () =>
      document.querySelector("[data-testid=report]")?.textContent !== "" ||
      document.querySelector("[data-testid=status].bad"),
    undefined,
    WAIT,
  );
  expect(await page.locator("[data-testid=status].bad").allTextContents()).toEqual([]);
  return JSON.parse((await report.textContent()) ?? "");
}
