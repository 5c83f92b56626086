// Arrays that know their length, and who touched which element since the last barrier.
#pragma once

#include "fibers.h"

namespace emulator {

constexpr uint16_t MANY = 0xffff;  // readers of an element

// Who wrote and read an element last: the stretch between barriers, and the thread.
struct Shadow {
  uint32_t written, read;
  uint16_t writer, reader;
};

template <class Array, class T>
struct Element {  // of an array: a value where it is read, and a place to store one
  Array& array;
  uint32_t index;

  T get() const { return array.load(index); }
  operator T() const { return get(); }
  T operator=(T value) const {
    array.store(index, value);
    return value;
  }
  T operator=(const Element& other) const { return *this = other.get(); }
};

template <class T>
inline void check_index(uint32_t index, uint32_t count, const char* name) {
  if (index >= count) [[unlikely]] {
    fail("%s[%d], which has %u elements", name, int(index), count);
  }
}

// The two accesses of a race: this one, by a thread of the same stretch between barriers.
[[noreturn, gnu::cold, gnu::noinline]] inline void race(const char* name, uint32_t index,
                                                        const char* what, unsigned other) {
  fail("%s %s[%u], which thread %u touches between the same barriers", what, name, index, other);
}

inline void note_read(Shadow& shadow, const char* name, uint32_t index) {
  uint16_t self = uint16_t(thread.x);
  if (shadow.written == machine.epoch && shadow.writer != self) [[unlikely]] {
    race(name, index, "reads", shadow.writer);
  }
  if (shadow.read != machine.epoch) {
    shadow.read = machine.epoch;
    shadow.reader = self;
  } else if (shadow.reader != self) {
    shadow.reader = MANY;
  }
}

inline void note_write(Shadow& shadow, const char* name, uint32_t index) {
  uint16_t self = uint16_t(thread.x);
  if (shadow.written == machine.epoch && shadow.writer != self) [[unlikely]] {
    race(name, index, "writes", shadow.writer);
  }
  if (shadow.read == machine.epoch && shadow.reader != self) [[unlikely]] {
    race(name, index, "writes", shadow.reader);
  }
  shadow.written = machine.epoch;
  shadow.writer = self;
}

// Memory that the threads of a workgroup share. What a workgroup has not written is no value.
template <class T, uint32_t COUNT>
struct Shared {
  const char* name;
  T data[COUNT];
  Shadow shadow[COUNT];

  Element<Shared, T> operator[](int index) { return {*this, uint32_t(index)}; }
  T load(uint32_t index) {
    check_index<T>(index, COUNT, name);
    if (shadow[index].written < machine.block_began) [[unlikely]] {
      fail("reads %s[%u], which nobody has written", name, index);
    }
    note_read(shadow[index], name, index);
    return data[index];
  }
  void store(uint32_t index, T value) {
    check_index<T>(index, COUNT, name);
    note_write(shadow[index], name, index);
    data[index] = value;
  }
};

// An array of one thread's own.
template <class T, uint32_t COUNT>
struct Local {
  const char* name;
  T data[COUNT];
  bool written[COUNT];

  Local(const char* name) : name(name) { std::memset(written, 0, sizeof written); }
  Element<Local, T> operator[](int index) { return {*this, uint32_t(index)}; }
  T load(uint32_t index) {
    check_index<T>(index, COUNT, name);
    if (!written[index]) [[unlikely]] fail("reads %s[%u] before it is written", name, index);
    return data[index];
  }
  void store(uint32_t index, T value) {
    check_index<T>(index, COUNT, name);
    written[index] = true;
    data[index] = value;
  }
};

// An argument that a kernel only reads.
template <class T>
struct Reads {
  const char* name;
  const T* data;
  uint32_t count;

  Element<const Reads, T> operator[](int index) const { return {*this, uint32_t(index)}; }
  T load(uint32_t index) const {
    check_index<T>(index, count, name);
    return data[index];
  }
};

// An argument that a kernel writes. No workgroup may meet another one in it.
template <class T>
struct Writes {
  const char* name;
  T* data;
  uint32_t count;
  Shadow* shadow;

  Element<const Writes, T> operator[](int index) const { return {*this, uint32_t(index)}; }
  T load(uint32_t index) const {
    check_index<T>(index, count, name);
    Shadow& of = shadow[index];
    if (elsewhere(of.written)) [[unlikely]] {
      fail("reads %s[%u], which another workgroup wrote", name, index);
    }
    note_read(of, name, index);
    return data[index];
  }
  void store(uint32_t index, T value) const {
    check_index<T>(index, count, name);
    Shadow& of = shadow[index];
    if (elsewhere(of.written) || elsewhere(of.read)) [[unlikely]] {
      fail("writes %s[%u], which another workgroup touched", name, index);
    }
    note_write(of, name, index);
    data[index] = value;
  }
  static bool elsewhere(uint32_t epoch) {
    return epoch >= machine.launch_began && epoch < machine.block_began;
  }
};

}  // namespace emulator
