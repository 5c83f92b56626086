"""What a text of MSL begins with, and functions for what its library has no word for."""

from __future__ import annotations

HEADER = """\
#include <metal_stdlib>
using namespace metal;
#if __METAL_VERSION__ >= 320
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
#endif
"""
"""Before every text. Compilers of before Metal 3.2 are told so by whoever calls them."""

FUNCTIONS = """\
// Towards zero; what is out of range is the nearest that is not, and NaN 0.
inline int ew_int(float a) {
  return a != a ? 0 : a >= 2147483648.0f ? 2147483647
       : a < -2147483648.0f ? -2147483647 - 1 : int(a); }
inline uint ew_uint(float a) {
  return !(a > 0.0f) ? 0u : a >= 4294967296.0f ? 4294967295u : uint(a); }
inline uint2 ew_uint(float2 a) { return uint2(ew_uint(a.x), ew_uint(a.y)); }
inline uint4 ew_uint(float4 a) {
  return uint4(ew_uint(a.x), ew_uint(a.y), ew_uint(a.z), ew_uint(a.w)); }
inline float2 ew_unpack(uint a) { return float2(as_type<half2>(a)); }
inline uint ew_pack(float2 a) { return as_type<uint>(half2(a)); }
// Never part of a fused operation: a * b + -0 is a * b to the last bit.
inline half2 ew_mul(half2 a, half2 b) { return fma(a, b, half2(-0.0h)); }
inline int ew_dot_int8(uint a, uint b) {
  int4 c = int4(as_type<char4>(a)) * int4(as_type<char4>(b));
  return c.x + c.y + c.z + c.w; }
"""
"""Where one of them is used."""
