import { expect, it } from "vitest";
import { schemeOf } from "../../selftest/launch.ts";

it("knows from a kernel's name how it reads weights", () => {
  expect(schemeOf("matvec_q4_store_512x256_x16_m1_r0_8_o512_0")).toBe("q4");
  expect(schemeOf("matmul_q4a_store_128_96x96_t16_o96_0")).toBe("q4a");
  expect(schemeOf("embed_iq4_nl_320x64_from0_n128")).toBe("iq4_nl");
  expect(schemeOf("embed_q6_nl_16384x576_from0_n512")).toBe("q6_nl");
  const table = "embed_q6_nl_16384x576_from0_q5_nl_32768x576_from16384_n512";
  expect([0, 1, 2].map((part) => schemeOf(table, part))).toEqual(["q6_nl", "q5_nl", undefined]);
  expect(schemeOf("matvec_q5_nl_add_576x1536_x16_m1_r0_8_o576_0")).toBe("q5_nl");
  expect(schemeOf("matmul_q4_nl_store_128_96x96_t16_o96_0")).toBe("q4_nl");
  expect(schemeOf("serial_mxfp4_swiglu_64x96_x8_m4_r0_8_o32_0_b")).toBe("mxfp4");
  expect(schemeOf("matmul_f16_add_128_96x96_t16_o96_0")).toBe("f16");
  expect(schemeOf("rms_norm_512x256_e1p000em05_s")).toBeUndefined();
});
