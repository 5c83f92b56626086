// What Metal Shading Language has that C++ does not, as far as our kernels use it; on one thread of
// the host.
#pragma once

#include <cmath>

#include "memory.h"
#include "numbers.h"

#define __METAL_VERSION__ 320

namespace metal {

using uint = unsigned;
using ushort = unsigned short;
using half = _Float16;
using uint3 = emulator::Index;

inline half operator""h(long double a) { return half(a); }

// Hidden friends: an element of an array converts to a vector where one is asked for.
#define OPERATOR2(O) \
  friend vec2 operator O(vec2 a, vec2 b) { return {T(a.x O b.x), T(a.y O b.y)}; }
#define OPERATOR4(O) \
  friend vec4 operator O(vec4 a, vec4 b) { \
    return {T(a.x O b.x), T(a.y O b.y), T(a.z O b.z), T(a.w O b.w)}; }
#define OPERATORS(E) E(+) E(-) E(*) E(/) E(&) E(|) E(^) E(<<) E(>>)

template <class T>
struct alignas(2 * sizeof(T)) vec2 {
  T x, y;
  vec2() = default;
  vec2(T a) : x(a), y(a) {}
  vec2(T x, T y) : x(x), y(y) {}
  template <class U>
  explicit vec2(const vec2<U>& a) : x(T(a.x)), y(T(a.y)) {}
  template <class A, class U>
  explicit vec2(const emulator::Element<A, vec2<U>>& a) : vec2(a.get()) {}
  OPERATORS(OPERATOR2)
};

template <class T>
struct alignas(4 * sizeof(T)) vec4 {
  T x, y, z, w;
  vec4() = default;
  vec4(T a) : x(a), y(a), z(a), w(a) {}
  vec4(T x, T y, T z, T w) : x(x), y(y), z(z), w(w) {}
  vec4(vec2<T> a, vec2<T> b) : x(a.x), y(a.y), z(b.x), w(b.y) {}
  template <class U>
  explicit vec4(const vec4<U>& a) : x(T(a.x)), y(T(a.y)), z(T(a.z)), w(T(a.w)) {}
  template <class A, class U>
  explicit vec4(const emulator::Element<A, vec4<U>>& a) : vec4(a.get()) {}
  OPERATORS(OPERATOR4)
};

using float2 = vec2<float>;
using float4 = vec4<float>;
using half2 = vec2<half>;
using half4 = vec4<half>;
using uint2 = vec2<uint>;
using uint4 = vec4<uint>;
using int4 = vec4<int>;
using char4 = vec4<int8_t>;

template <class To, class From>
inline To as_type(From a) {
  return bits_of<To>(a);
}
template <class To, class Array, class T>
inline To as_type(const emulator::Element<Array, T>& a) {
  return bits_of<To>(a.get());
}

inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline uint min(uint a, uint b) { return a < b ? a : b; }
inline uint max(uint a, uint b) { return a > b ? a : b; }

#define LANES1(NAME) \
  inline float2 NAME(float2 a) { return {NAME(a.x), NAME(a.y)}; } \
  inline float4 NAME(float4 a) { return {NAME(a.x), NAME(a.y), NAME(a.z), NAME(a.w)}; }
#define LANES2(NAME) \
  inline float2 NAME(float2 a, float2 b) { return {NAME(a.x, b.x), NAME(a.y, b.y)}; } \
  inline float4 NAME(float4 a, float4 b) { \
    return {NAME(a.x, b.x), NAME(a.y, b.y), NAME(a.z, b.z), NAME(a.w, b.w)}; }

inline float rint(float a) { return std::rint(a); }
inline float fabs(float a) { return std::fabs(a); }
inline float fmin(float a, float b) { return std::fmin(a, b); }
inline float fmax(float a, float b) { return std::fmax(a, b); }
LANES1(rint)
LANES1(fabs)
LANES2(fmin)
LANES2(fmax)

inline float fma(float a, float b, float c) { return std::fma(a, b, c); }
inline float2 fma(float2 a, float2 b, float2 c) {
  return {fma(a.x, b.x, c.x), fma(a.y, b.y, c.y)};
}
inline float4 fma(float4 a, float4 b, float4 c) {
  return {fma(a.x, b.x, c.x), fma(a.y, b.y, c.y), fma(a.z, b.z, c.z), fma(a.w, b.w, c.w)};
}
inline half fma(half a, half b, half c) {
  auto bits = [](half one) { return unsigned(bits_of<ushort>(one)); };
  return bits_of<half>(half_fma(bits(a), bits(b), bits(c)));
}
inline half2 fma(half2 a, half2 b, half2 c) { return {fma(a.x, b.x, c.x), fma(a.y, b.y, c.y)}; }

namespace precise {
inline float exp2(float a) { return std::exp2(a); }
inline float sqrt(float a) { return std::sqrt(a); }
inline float rsqrt(float a) { return float(1.0 / std::sqrt(double(a))); }
LANES1(exp2)
}  // namespace precise

inline uint simd_shuffle_xor(uint value, ushort lanes, int line = __builtin_LINE()) {
  return emulator::exchange(~0u, value, (emulator::thread.x % emulator::LANES) ^ lanes, line);
}
inline int simd_shuffle_xor(int value, ushort lanes, int line = __builtin_LINE()) {
  return int(simd_shuffle_xor(uint(value), lanes, line));
}
inline float simd_shuffle_xor(float value, ushort lanes, int line = __builtin_LINE()) {
  return bits_of<float>(simd_shuffle_xor(bits_of<uint>(value), lanes, line));
}

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
inline mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(int(a) | int(b)); }
inline void threadgroup_barrier(mem_flags, int line = __builtin_LINE()) { emulator::barrier(line); }

}  // namespace metal
