import { describe, expect, it } from "vitest";
import { markdown } from "../../selftest/markdown.ts";
import type { KernelReport, ProgramReport, Report } from "../../selftest/report.ts";

const KERNEL: KernelReport = {
  kernel: "matvec_q4",
  plans: ["decode"],
  launches: 4,
  repeats: true,
  error: 2e-7,
  bound: 1e-5,
  ok: true,
  against: "reference",
  ns: 12_340,
  bytes: 1_234_000,
  by: "timestamps",
};
const PROGRAM: ProgramReport = {
  program: "webgpu-f16",
  ok: true,
  kernels: [KERNEL],
  agreement: null,
  failure: "",
};

function reported(
  program: Partial<ProgramReport>,
  adapterName = "GPU of a test",
  measured: Partial<Report> = {},
): string {
  const programs = [{ ...PROGRAM, ...program }];
  const report: Report = {
    version: 3,
    edgewise: "0.1.0",
    date: "2026-01-02T03:04:05.000Z",
    browser: "A browser/1.0",
    bundle: "/bundles/demo-q4/",
    adapter: {
      available: true,
      reason: "",
      name: adapterName,
      vendor: "maker",
      architecture: "gen-1",
      features: ["shader-f16"],
      fallback: true,
      limits: {
        maxBufferSize: 1,
        maxStorageBufferBindingSize: 1,
        maxComputeInvocationsPerWorkgroup: 1,
        maxComputeWorkgroupStorageSize: 1,
        maxStorageBuffersPerShaderStage: 1,
      },
      subgroupMinSize: 4,
      subgroupMaxSize: 32,
      key: "",
    },
    environment: {
      features: ["shader-f16", "timestamp-query"],
      languageFeatures: ["packed_4x8_integer_dot_product"],
      limits: { maxBufferSize: 2 ** 28 },
      preferredFormat: "bgra8unorm",
      cores: 8,
      memoryGb: null,
      quota: 5e9,
      usage: 1e6,
    },
    ok: programs.every(({ ok }) => ok),
    programs,
    speed: {
      program: "webgpu-f16",
      promptTokens: 256,
      ttftMs: 81.4,
      prefillTokensPerSecond: 812.3,
      decodeTokens: 63,
      decodeTokensPerSecond: 9.54,
    },
    memory: { weights: 2e6, kv: 1.5e6, work: 1e5, peak: 4e6, loaderPeak: 3e6, pages: 64 },
    ...measured,
  };
  return markdown(report);
}

describe("the report in Markdown", () => {
  it("says what ran: version, browser, adapter, features, language features, limits", () => {
    const text = reported({});
    expect(text).toMatch(/^## edgewise self-test: everything is right\n/);
    expect(text).toContain("| edgewise | 0.1.0 |");
    expect(text).toContain("| Browser | A browser/1.0 |");
    expect(text).toContain("| Adapter | GPU of a test (software) |");
    expect(text).toContain("| Subgroups | 4 to 32 lanes |");
    expect(text).toContain("| Features | shader-f16, timestamp-query |");
    expect(text).toContain("| WGSL language features | packed_4x8_integer_dot_product |");
    expect(text).toContain("| `maxBufferSize` | 268435456 |");
    expect(text).toContain("| `matvec_q4` | 2.0e-7 | 1.0e-5 | yes | 12.3 | 100.0 |");
  });

  it("says how fast the model is, and what memory it takes", () => {
    const text = reported({});
    expect(text).toContain("| Prefill | 812 tokens/s, 256 tokens |");
    expect(text).toContain("| Decode | 9.5 tokens/s, 63 tokens |");
    expect(text).toContain("| Weights | 2 MB |");
    expect(text).toContain("| KV | 1.5 MB, 64 pages |");
    expect(text).toContain("| Peak on the device | 4 MB |");
  });

  it("says what was not measured, and why", () => {
    const unmeasured = { unmeasured: "The GPU | was lost." };
    const untimed = { ...KERNEL, ns: null, by: { not: "it has no shader" } };
    const text = reported({ kernels: [KERNEL, untimed] }, "GPU", {
      speed: unmeasured,
      memory: unmeasured,
    });
    expect(text).toContain("| Speed | not measured: The GPU &#124; was lost. |");
    expect(text).toContain("| Memory | not measured: The GPU &#124; was lost. |");
    expect(text).toContain("| yes | not measured | not measured |");
    expect(text).toContain("1 of them not measured: it has no shader");
    expect(reported({ kernels: [{ ...KERNEL, bytes: null }] })).toContain(
      "| 12.3 | not measured |",
    );
  });

  it("has kernels that are wrong before all others, with their numbers", () => {
    const wrong = { ...KERNEL, kernel: "rms_norm", ok: false, repeats: false, error: 0.5, ns: 1 };
    const text = reported({ ok: false, kernels: [KERNEL, wrong] });
    expect(text).toContain("## edgewise self-test: some results are wrong");
    expect(text).toContain("1 of 2 kernels are wrong:");
    const [before = ""] = text.split("The slowest of 2 kernels");
    expect(before).toContain("| `rms_norm` | 5.0e-1 | 1.0e-5 | no | 0.0 | 1234000.0 |");
    expect(before).not.toContain("matvec_q4");
  });

  it("says where programs disagree, and only there", () => {
    const agreement = {
      with: "webgpu-f32",
      bound: 0.01,
      error: 0.2,
      worst: "3/decode/lm_head",
      compared: 9,
    };
    expect(reported({ ok: false, agreement })).toContain(
      "`3/decode/lm_head` is 2.0e-1 off `webgpu-f32`; 1.0e-2 is allowed.",
    );
    expect(reported({ agreement: { ...agreement, error: 0 } })).not.toContain("webgpu-f32");
  });

  it("keeps what others wrote as text: in its cell, in its block", () => {
    const text = reported({ failure: "```\n# a heading" }, "a | <b>\n@someone");
    expect(text).toContain("| Adapter | a &#124; &#60;b> &#64;someone (software) |");
    expect(text).toContain("````text\n```\n# a heading\n````");
  });

  it("shows no more than twenty kernels that are right, the slowest", () => {
    const kernels = Array.from({ length: 30 }, (_, i) => ({
      ...KERNEL,
      kernel: `kernel_${i}`,
      ns: 1000 * i,
    }));
    const text = reported({ kernels });
    expect(text.match(/`kernel_/g)).toHaveLength(20);
    expect(text).toContain("`kernel_29`");
    expect(text).not.toContain("`kernel_9`");
  });
});
