"""What a text of CUDA C begins with: functions of vectors, which the language has no operators for,
and float16 without NVIDIA's header, which NVRTC takes longer to read than a kernel.

Each piece can stand in a text twice. Where ``EDGEWISE_EMULATED`` is defined, whoever defines it has
functions of the same names for those that are PTX here; what each gives is said beside it.
"""

from __future__ import annotations

VECTORS = """\
#ifndef EDGEWISE_VECTORS
#define EDGEWISE_VECTORS
#define EW __device__ __forceinline__
#define EW_LANES(T, F) make_##T(F(a.x, b.x), F(a.y, b.y), F(a.z, b.z), F(a.w, b.w))
#define EW_OPERATOR(T, O) EW T operator O(T a, T b) { \\
  return make_##T(a.x O b.x, a.y O b.y, a.z O b.z, a.w O b.w); }
EW_OPERATOR(float4, +)
EW_OPERATOR(float4, -)
EW_OPERATOR(float4, *)
EW_OPERATOR(float4, /)
EW_OPERATOR(uint4, +)
EW_OPERATOR(uint4, -)
EW_OPERATOR(uint4, *)
EW_OPERATOR(uint4, &)
EW_OPERATOR(uint4, |)
EW_OPERATOR(uint4, ^)
EW_OPERATOR(uint4, <<)
EW_OPERATOR(uint4, >>)
EW float4 ew_min(float4 a, float4 b) { return EW_LANES(float4, fminf); }
EW float4 ew_max(float4 a, float4 b) { return EW_LANES(float4, fmaxf); }
EW float2 ew_splat2(float a) { return make_float2(a, a); }
EW float4 ew_splat(float a) { return make_float4(a, a, a, a); }
EW uint4 ew_splat(unsigned int a) { return make_uint4(a, a, a, a); }
EW float4 ew_join(float2 a, float2 b) { return make_float4(a.x, a.y, b.x, b.y); }
EW float4 ew_fma(float4 a, float4 b, float4 c) {
  return make_float4(__fmaf_rn(a.x, b.x, c.x), __fmaf_rn(a.y, b.y, c.y),
                     __fmaf_rn(a.z, b.z, c.z), __fmaf_rn(a.w, b.w, c.w)); }
EW float4 ew_exp2(float4 a) { return make_float4(exp2f(a.x), exp2f(a.y), exp2f(a.z), exp2f(a.w)); }
EW float4 ew_round(float4 a) { return make_float4(rintf(a.x), rintf(a.y), rintf(a.z), rintf(a.w)); }
EW float4 ew_abs(float4 a) { return make_float4(fabsf(a.x), fabsf(a.y), fabsf(a.z), fabsf(a.w)); }
EW uint4 ew_bits(float4 a) {
  return make_uint4(__float_as_uint(a.x), __float_as_uint(a.y),
                    __float_as_uint(a.z), __float_as_uint(a.w)); }
EW float4 ew_bits(uint4 a) {
  return make_float4(__uint_as_float(a.x), __uint_as_float(a.y),
                     __uint_as_float(a.z), __uint_as_float(a.w)); }
EW uint4 ew_uints(float4 a) {
  return make_uint4(__float2uint_rz(a.x), __float2uint_rz(a.y),
                    __float2uint_rz(a.z), __float2uint_rz(a.w)); }
EW float4 ew_floats(uint4 a) {
  return make_float4((float)a.x, (float)a.y, (float)a.z, (float)a.w); }
#endif
"""
"""Functions of float2, float4 and uint4, lane by lane."""

HALVES = """\
#ifndef EDGEWISE_HALVES
#define EDGEWISE_HALVES
#define EW_HALF __device__ __forceinline__
#ifndef EDGEWISE_EMULATED
struct ew_half { unsigned short bits; };
struct ew_half2 { unsigned int bits; };
// The float of a half, exactly.
EW_HALF float ew_float(ew_half a) {
  float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(a.bits)); return f; }
// The half nearest to a float, of two the even one.
EW_HALF ew_half ew_to_half(float a) {
  ew_half h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(a)); return h; }
// a * b + c of two halves each, each rounded once.
EW_HALF ew_half2 ew_fma(ew_half2 a, ew_half2 b, ew_half2 c) {
  ew_half2 d; asm("fma.rn.f16x2 %0, %1, %2, %3;"
    : "=r"(d.bits) : "r"(a.bits), "r"(b.bits), "r"(c.bits)); return d; }
// a * b of two halves each, never part of a fused operation: a * b + -0 is a * b to the last bit.
EW_HALF ew_half2 ew_mul(ew_half2 a, ew_half2 b) {
  ew_half2 d; asm("{ .reg .b32 z; mov.b32 z, 0x80008000; fma.rn.f16x2 %0, %1, %2, z; }"
    : "=r"(d.bits) : "r"(a.bits), "r"(b.bits)); return d; }
#endif
struct __align__(8) ew_half4 { ew_half2 low, high; };
EW_HALF ew_half ew_lane(ew_half2 a, int i) {
  ew_half h; h.bits = (unsigned short)(i ? a.bits >> 16 : a.bits); return h; }
EW_HALF ew_half ew_lane(ew_half4 a, int i) { return ew_lane(i < 2 ? a.low : a.high, i & 1); }
EW_HALF ew_half2 ew_pair(ew_half a, ew_half b) {
  ew_half2 h; h.bits = a.bits | (unsigned int)b.bits << 16; return h; }
EW_HALF ew_half2 ew_pair(ew_half a) { return ew_pair(a, a); }
EW_HALF ew_half4 ew_four(ew_half a, ew_half b, ew_half c, ew_half d) {
  ew_half4 h; h.low = ew_pair(a, b); h.high = ew_pair(c, d); return h; }
EW_HALF ew_half4 ew_four(ew_half a) { return ew_four(a, a, a, a); }
EW_HALF float2 ew_float(ew_half2 a) {
  return make_float2(ew_float(ew_lane(a, 0)), ew_float(ew_lane(a, 1))); }
EW_HALF float4 ew_float(ew_half4 a) {
  return make_float4(ew_float(ew_lane(a, 0)), ew_float(ew_lane(a, 1)),
                     ew_float(ew_lane(a, 2)), ew_float(ew_lane(a, 3))); }
EW_HALF ew_half2 ew_to_half(float2 a) { return ew_pair(ew_to_half(a.x), ew_to_half(a.y)); }
EW_HALF ew_half4 ew_to_half(float4 a) {
  return ew_four(ew_to_half(a.x), ew_to_half(a.y), ew_to_half(a.z), ew_to_half(a.w)); }
EW_HALF float2 ew_unpack(unsigned int a) { ew_half2 h; h.bits = a; return ew_float(h); }
EW_HALF unsigned int ew_pack(float2 a) { return ew_to_half(a).bits; }
#endif
"""
"""float16 and vectors of two and four."""
