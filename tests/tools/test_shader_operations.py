"""Operations of a shader are counted as often as a thread does them."""

from __future__ import annotations

import pytest

from tools.shader_operations import operations

KERNEL = """enable f16;
@group(0) @binding(0) var<storage, read> b0_x_ptr : array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> b1_out_ptr : array<f32>;
struct PODArgs {{
  packGridDimX: u32
}}
var<workgroup> v_9 : array<vec4<f16>, 8>;
@compute @workgroup_size(4, 1, 1)
fn it(
  @builtin(local_invocation_id) threadIdx : vec3<u32>
) {{
  if (blockIdx.z * gridDim.x + blockIdx.x > podArgs.packGridDimX) {{ return; }}
  var v : array<vec4<f32>, 2>;
  let v_1 : i32 = i32(threadIdx.x);
  let v_2 : u32 = 7u;
  let v_3 : vec4<f32> = vec4<f32>(1.000000e+00f);
{}
}}
"""


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("v[0i] = fma(v_3, vec4<f32>(-2.500000e-01f), v[1i]);", {"fma": 4}),
        ("v[0i] = ((v_3 * v_3) + vec4<f32>((v_3)[0]));", {"float": 8}),
        ("let v_4 : u32 = (((v_2>>4u) & 15u) | 1258291200u);", {"integer": 3}),
        ("let v_4 : vec4<f32> = b0_x_ptr[((v_1 * 4i) + 1i)];", {"load": 1, "index": 2}),
        ("let v_4 : vec4<f16> = v_9[(v_1 & 7i)];", {"shared load": 1, "index": 1}),
        ("let v_4 : vec2<f32> = unpack2x16float(v_2);", {"float": 2}),
        ("let v_4 : vec4<f32> = bitcast<vec4<f32>>(vec4<u32>(v_2, v_2, v_2, v_2));", {}),
        ("let v_4 : vec4<f16> = vec4<f16>(v_3);", {"float": 4}),
        ("b1_out_ptr[v_1] = (v_3)[0];", {"store": 1}),
    ],
)
def test_each_lane_is_an_operation_and_places_are_found_apart(
    line: str, counts: dict[str, int]
) -> None:
    assert operations(KERNEL.format(line)) == counts


def test_two_float16_are_one_operation() -> None:
    lines = "let v_4 : vec4<f16> = v_9[0i];\nlet v_5 : vec4<f16> = (v_4 * v_4);"
    assert operations(KERNEL.format(lines)) == {"shared load": 1, "half": 2}


def test_loops_count_as_often_as_they_run_and_conditions_as_if_they_held() -> None:
    lines = """
    for (var v_4 : i32 = 0i; v_4 < 3i; v_4++) {
      if (v_4 < 2i) {
        v[0i] = fma(v_3, v_3, v[0i]);
      } else {
        for (var v_5 : i32 = 1i; v_5 < 5i; v_5++) {
          v[0i] = fma(v_3, v_3, v[1i]);
        }
      }
    }
    v[1i] = fma(v_3, v_3, v[1i]);"""
    found = operations(KERNEL.format(lines))
    assert found["fma"] == 4 * (3 + 3 * 4 + 1)
    assert found["index"] == 3
