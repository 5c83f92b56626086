// What CUDA C has that C++ does not, as far as our kernels use it; on one thread of the host.
#pragma once

#include <cmath>

#include "memory.h"
#include "numbers.h"

#define EDGEWISE_EMULATED
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __align__(bytes) alignas(bytes)
#define threadIdx emulator::thread
#define blockIdx emulator::block

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

inline unsigned __float_as_uint(float a) { return bits_of<unsigned>(a); }
inline int __float_as_int(float a) { return bits_of<int>(a); }
inline float __uint_as_float(unsigned a) { return bits_of<float>(a); }
inline float __int_as_float(int a) { return bits_of<float>(a); }

inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }

inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float rsqrtf(float a) { return float(1.0 / std::sqrt(double(a))); }

// Towards zero; what is out of range is the nearest that is not, and NaN 0.
inline int __float2int_rz(float a) {
  if (a != a) return 0;
  if (a >= 2147483648.0f) return 2147483647;
  return a < -2147483648.0f ? -2147483647 - 1 : int(a);
}
inline unsigned __float2uint_rz(float a) {
  if (!(a > 0.0f)) return 0;
  return a >= 4294967296.0f ? 4294967295u : unsigned(a);
}

inline int __dp4a(int a, int b, int sum) {
  for (int i = 0; i < 32; i += 8) sum += int(int8_t(a >> i)) * int(int8_t(b >> i));
  return sum;
}

inline void __syncthreads(int line = __builtin_LINE()) { emulator::barrier(line); }

inline unsigned __shfl_xor_sync(unsigned mask, unsigned value, unsigned lanes,
                                int line = __builtin_LINE()) {
  unsigned source = (emulator::thread.x % emulator::LANES) ^ lanes;
  return emulator::exchange(mask, value, source, line);
}
inline int __shfl_xor_sync(unsigned mask, int value, unsigned lanes, int line = __builtin_LINE()) {
  return int(__shfl_xor_sync(mask, unsigned(value), lanes, line));
}
inline float __shfl_xor_sync(unsigned mask, float value, unsigned lanes,
                             int line = __builtin_LINE()) {
  return __uint_as_float(__shfl_xor_sync(mask, __float_as_uint(value), lanes, line));
}

// What the prelude has in PTX (targets/cuda/prelude.py).
struct ew_half {
  unsigned short bits;
};
struct ew_half2 {
  unsigned int bits;
};
inline float ew_float(ew_half a) { return bits_of<_Float16>(a.bits); }
inline ew_half ew_to_half(float a) { return {bits_of<unsigned short>(_Float16(a))}; }

inline ew_half2 ew_fma(ew_half2 a, ew_half2 b, ew_half2 c) {
  unsigned low = half_fma(a.bits, b.bits, c.bits);
  return {low | unsigned(half_fma(a.bits >> 16, b.bits >> 16, c.bits >> 16)) << 16};
}
inline ew_half2 ew_mul(ew_half2 a, ew_half2 b) { return ew_fma(a, b, {0x80008000u}); }

// The fragments as the PTX ISA lays them out (Matrix Fragments for mma.m16n8k16). Products are
// exact, and so nearly are sums: how a GPU rounds inside is not said anywhere.
struct Fragments {
  uint4 a;
  uint2 b;
};
inline Fragments fragments[emulator::MOST_THREADS];

inline float4 ew_mma(uint4 a, uint2 b, float4 c, int line = __builtin_LINE()) {
  const unsigned lane = emulator::thread.x % emulator::LANES, group = lane / 4, place = lane % 4;
  const Fragments* warp = fragments + (emulator::thread.x - lane);
  fragments[emulator::thread.x] = {a, b};
  emulator::exchange(0xffffffffu, 0, lane, line);  // All have brought theirs,
  double rows[2][16], columns[2][16];
  auto halves = [](double* to, unsigned word) {
    to[0] = double(float(bits_of<_Float16>((unsigned short)word)));
    to[1] = double(float(bits_of<_Float16>((unsigned short)(word >> 16))));
  };
  for (unsigned t = 0; t < 4; ++t) {
    const uint4& own = warp[group * 4 + t].a;
    halves(&rows[0][2 * t], own.x);
    halves(&rows[1][2 * t], own.y);
    halves(&rows[0][2 * t + 8], own.z);
    halves(&rows[1][2 * t + 8], own.w);
    for (unsigned n = 0; n < 2; ++n) {
      const uint2& other = warp[(place * 2 + n) * 4 + t].b;
      halves(&columns[n][2 * t], other.x);
      halves(&columns[n][2 * t + 8], other.y);
    }
  }
  emulator::exchange(0xffffffffu, 0, lane, line);  // and all have taken what they need.
  auto dot = [&](unsigned m, unsigned n, float sum) {
    double total = sum;
    for (unsigned k = 0; k < 16; ++k) total += rows[m][k] * columns[n][k];
    return float(total);
  };
  return {dot(0, 0, c.x), dot(0, 1, c.y), dot(1, 0, c.z), dot(1, 1, c.w)};
}
