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
#define EW_OPERATOR(S, O) \\
  EW S##2 operator O(S##2 a, S##2 b) { return make_##S##2(a.x O b.x, a.y O b.y); } \\
  EW S##4 operator O(S##4 a, S##4 b) { \\
    return make_##S##4(a.x O b.x, a.y O b.y, a.z O b.z, a.w O b.w); }
EW_OPERATOR(float, +)
EW_OPERATOR(float, -)
EW_OPERATOR(float, *)
EW_OPERATOR(float, /)
EW_OPERATOR(uint, +)
EW_OPERATOR(uint, -)
EW_OPERATOR(uint, *)
EW_OPERATOR(uint, &)
EW_OPERATOR(uint, |)
EW_OPERATOR(uint, ^)
EW_OPERATOR(uint, <<)
EW_OPERATOR(uint, >>)
#define EW_EACH(NAME, R, S, F) \\
  EW R##2 NAME(S##2 a) { return make_##R##2(F(a.x), F(a.y)); } \\
  EW R##4 NAME(S##4 a) { return make_##R##4(F(a.x), F(a.y), F(a.z), F(a.w)); }
EW_EACH(ew_exp2, float, float, exp2f)
EW_EACH(ew_round, float, float, rintf)
EW_EACH(ew_abs, float, float, fabsf)
EW_EACH(ew_bits, uint, float, __float_as_uint)
EW_EACH(ew_bits, float, uint, __uint_as_float)
EW_EACH(ew_uints, uint, float, __float2uint_rz)
EW_EACH(ew_floats, float, uint, (float))
#define EW_PAIRS(NAME, F) \\
  EW float2 NAME(float2 a, float2 b) { return make_float2(F(a.x, b.x), F(a.y, b.y)); } \\
  EW float4 NAME(float4 a, float4 b) { \\
    return make_float4(F(a.x, b.x), F(a.y, b.y), F(a.z, b.z), F(a.w, b.w)); }
EW_PAIRS(ew_min, fminf)
EW_PAIRS(ew_max, fmaxf)
EW float2 ew_fma(float2 a, float2 b, float2 c) {
  return make_float2(__fmaf_rn(a.x, b.x, c.x), __fmaf_rn(a.y, b.y, c.y)); }
EW float4 ew_fma(float4 a, float4 b, float4 c) {
  return make_float4(__fmaf_rn(a.x, b.x, c.x), __fmaf_rn(a.y, b.y, c.y),
                     __fmaf_rn(a.z, b.z, c.z), __fmaf_rn(a.w, b.w, c.w)); }
EW float2 ew_splat2(float a) { return make_float2(a, a); }
EW uint2 ew_splat2(unsigned int a) { return make_uint2(a, a); }
EW float4 ew_splat4(float a) { return make_float4(a, a, a, a); }
EW uint4 ew_splat4(unsigned int a) { return make_uint4(a, a, a, a); }
EW float4 ew_join(float2 a, float2 b) { return make_float4(a.x, a.y, b.x, b.y); }
EW uint4 ew_join(uint2 a, uint2 b) { return make_uint4(a.x, a.y, b.x, b.y); }
#endif
"""
"""Functions of vectors of float and of unsigned int, lane by lane."""

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

MATRICES = """\
#ifndef EDGEWISE_MATRICES
#define EDGEWISE_MATRICES
#ifndef EDGEWISE_EMULATED
// c + a b by a warp, of two halves in each word of a and b.
__device__ __forceinline__ float4 ew_mma(uint4 a, uint2 b, float4 c) {
  float4 d;
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
    "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
    : "=f"(d.x), "=f"(d.y), "=f"(d.z), "=f"(d.w)
    : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y),
      "f"(c.x), "f"(c.y), "f"(c.z), "f"(c.w));
  return d; }
#endif
#endif
"""
"""Tensor cores (PTX ISA, mma.m16n8k16; from sm_80 on)."""
