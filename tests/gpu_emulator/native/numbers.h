// Numbers that no language of GPUs may round otherwise.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

template <class To, class From>
inline To bits_of(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// a + b as a float whose last bit is odd where it is not exact: rounding that to a half rounds once.
inline float odd_sum(double a, double b) {
  double sum = a + b, back = sum - a, rest = (a - (sum - back)) + (b - back);
  uint64_t wide = bits_of<uint64_t>(sum);
  if (std::isfinite(sum) && rest != 0.0 && !(wide & 1)) {
    wide += (rest > 0) == (sum > 0) ? 1 : -1;
    sum = bits_of<double>(wide);
  }
  float narrow = float(sum);
  uint32_t bits = bits_of<uint32_t>(narrow);
  if (std::isfinite(narrow) && double(narrow) != sum && !(bits & 1)) {
    bits += std::fabs(double(narrow)) < std::fabs(sum) ? 1 : -1;
  }
  return bits_of<float>(bits);
}
inline unsigned short half_fma(unsigned a, unsigned b, unsigned c) {
  auto number = [](unsigned bits) { return double(float(bits_of<_Float16>((unsigned short)(bits)))); };
  return bits_of<unsigned short>(_Float16(odd_sum(number(a) * number(b), number(c))));
}
