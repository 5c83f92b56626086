"""Shaders of a bundle, up to where a driver has compiled them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random

from edgewise_runtime.devices.wgpu.adapter import choose_adapter
from edgewise_runtime.devices.wgpu.gpu import Gpu
from edgewise_runtime.devices.wgpu.wgsl import check_shader
from tests.fuzz.case import Files, Format
from tests.fuzz.mutate import texts

FILE = "kernel.wgsl"

_SUMS = """\
struct Args { rows: u32, scale: f32 }
@group(0) @binding(0) var<storage, read> x : array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> y : array<f32>;
@group(0) @binding(2) var<uniform> args : Args;
var<workgroup> shared_sums : array<f32, 64>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group : vec3<u32>, @builtin(local_invocation_index) t : u32) {
  var kept : array<f32, 8>;
  var sum : f32 = 0.0;
  for (var i : u32 = t; i < args.rows; i = i + 64u) {
    let v : vec4<f32> = x[group.x * args.rows + i];
    sum = fma(v.x, args.scale, sum + dot(v.yzw, vec3<f32>(1.0, 0.5, 0.25)));
    kept[i % 8u] = sum;
  }
  shared_sums[t] = sum;
  workgroupBarrier();
  if (t == 0u) {
    var all : f32 = bitcast<f32>(0x3f800000u);
    for (var i : u32 = 0u; i < 64u; i++) { all += shared_sums[i]; }
    y[group.x] = select(all, kept[group.y & 7u], group.z > 0u);
  }
}
"""
_HALVES = """\
enable f16;
@group(0) @binding(0) var<storage, read> codes : array<u32>;
@group(0) @binding(1) var<storage, read_write> y : array<vec2<f16>>;
@compute @workgroup_size(32, 2, 1)
fn main(@builtin(global_invocation_id) id : vec3<u32>, @builtin(subgroup_size) width : u32) {
  let word : u32 = codes[id.x];
  let both : vec2<f32> = unpack2x16float(word);
  let sum : f32 = subgroupAdd(both.x * both.y);
  if (id.y < width) { y[id.x] = vec2<f16>(f16(sum), f16(subgroupShuffleXor(both.x, 1u))); }
}
"""
_WORDS = (
    *(
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "<",
        ">",
        ";",
        ",",
        ":",
        "=",
        "-",
        "!",
        "&",
        "*",
        "+ x[0].x",
        "@",
    ),
    *(
        "f32(",
        "vec4<f32>(",
        "array<",
        "array<f32, 60000>",
        "atomic<u32>",
        "mat4x4<f32>",
        "if (true) {",
    ),
    *(
        "for (;;) {",
        "for (var k : u32 = 0u; k < 9u; k++) {",
        "fn f() -> f32 { return f(); }",
        "let a = ",
    ),
    *(
        "var<private> p : ",
        "var<workgroup> w : array<vec4<f32>, 1024>;",
        "struct S { a : S }",
        "discard;",
    ),
    *(
        "@workgroup_size(65535, 65535, 65535)",
        "@binding(4294967295)",
        "@align(1073741824)",
        "@size(1)",
    ),
    *(
        "workgroupBarrier();",
        "subgroupBarrier();",
        "textureLoad(",
        "ptr<function, f32>",
        "bitcast<f32>(",
    ),
    *(
        "0x7fffffff",
        "4294967296u",
        "1e39f",
        "0x1p-149f",
        "1.0h",
        "-2147483648i",
        "1 << 33u",
        "/ 0u",
        "%",
    ),
    *(
        "override n : u32 = 4;",
        "alias A = array<f32, 4>;",
        "const c = 1;",
        "switch (t) {",
        "loop {",
        "//",
    ),
    *(
        "enable f16;",
        "enable subgroups;",
        "diagnostic(off, derivative_uniformity);",
        "requires x;",
        "_ =",
    ),
)


def _mutate(rng: Random, files: Files) -> Files:
    text = texts.damaged(rng, files[FILE].decode(), _WORDS)
    return {FILE: text.encode("utf-8", "surrogatepass")}


@cache
def _gpu() -> Gpu:
    return Gpu(choose_adapter(None))


def _seeds() -> Sequence[Files]:
    return [{FILE: text.encode()} for text in (_SUMS, _HALVES)]


def _use(folder: Path, files: Files) -> None:
    text = check_shader(FILE, (folder / FILE).read_bytes())
    gpu = _gpu()
    with gpu.errors("The kernel does not compile"):
        module = gpu.device.create_shader_module(code=text)
        stage = {"module": module, "entry_point": "main"}
        gpu.device.create_compute_pipeline(layout="auto", compute=stage)


SHADER = Format(_seeds, _mutate, _use)
