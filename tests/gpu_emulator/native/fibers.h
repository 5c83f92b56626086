// The threads of a workgroup as fibers of one thread of the host, which take turns at barriers and
// exchanges between lanes, in an order that a seed decides.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>

#if !defined(__x86_64__) || defined(EMULATOR_UCONTEXT)
#include <ucontext.h>
#endif

namespace emulator {

constexpr unsigned LANES = 32, MOST_THREADS = 1024;
constexpr size_t STACK = 64 << 10;  // bytes of a fiber's
constexpr uint32_t ELSEWHERE = 0x7fc01234;  // a NaN
constexpr uint64_t CANARY = 0x9e3779b97f4a7c15ull;

struct Index {
  unsigned x, y, z;
};

#if defined(__x86_64__) && !defined(EMULATOR_UCONTEXT)
// What a call keeps, of the calling convention's registers, lies on the stack of who is not running.
extern "C" void emulator_switch(void** from, void* to);
asm(R"(
.text
.local emulator_switch
.type emulator_switch, @function
emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulator_switch, .-emulator_switch
)");

struct Context {
  void* stack = nullptr;

  void begin(char* memory, void (*body)()) {
    void** top = reinterpret_cast<void**>(memory + STACK);
    *--top = nullptr;  // the stack is aligned as a call leaves it
    *--top = reinterpret_cast<void*>(body);
    top -= 6;
    std::memset(top, 0, 6 * sizeof(void*));
    stack = top;
  }
};

inline void change(Context& from, Context& to) { emulator_switch(&from.stack, to.stack); }
#else
struct Context {
  ucontext_t state;

  void begin(char* memory, void (*body)()) {
    getcontext(&state);
    state.uc_stack.ss_sp = memory;
    state.uc_stack.ss_size = STACK;
    state.uc_link = nullptr;
    makecontext(&state, body, 0);
  }
};

inline void change(Context& from, Context& to) { swapcontext(&from.state, &to.state); }
#endif

struct Lane {  // what a thread brings to an exchange, and what it gets
  uint32_t mask, source, value, result;
  int line;
};

// One launch at a time in a process.
struct Machine {
  unsigned threads, arrived, finished, ready;
  int line;  // where threads wait for each other
  uint32_t warp[MOST_THREADS / LANES];  // lanes of each that wait in an exchange
  uint16_t queue[MOST_THREADS];
  Lane lanes[MOST_THREADS];
  Context fibers[MOST_THREADS], host;
  uint32_t epoch, block_began, launch_began;  // stretches between barriers, counted
  uint64_t seed, random;
  const void* kernel;
  void (*body)(const void*);
  char* message;
  size_t room;
  bool failed;
};

inline Machine machine;
inline Index thread, block;

inline uint32_t random_below(uint32_t count) {
  machine.random ^= machine.random << 13;
  machine.random ^= machine.random >> 7;
  machine.random ^= machine.random << 17;
  return uint32_t((machine.random >> 32) * count >> 32);
}

// Ends the launch: what is wrong becomes the message, with who did it.
[[noreturn, gnu::noinline, gnu::cold]] inline void fail(const char* format, ...) {
  int used = std::snprintf(machine.message, machine.room, "workgroup (%u, %u), thread %u: ",
                           block.x, block.y, thread.x);
  va_list rest;
  va_start(rest, format);
  std::vsnprintf(machine.message + used, machine.room - used, format, rest);
  va_end(rest);
  machine.failed = true;
  change(machine.fibers[thread.x], machine.host);
  __builtin_unreachable();
}

// The next thread that can run: seed 0 takes the lowest, 1 the highest, others any.
inline unsigned take() {
  unsigned place = 0;
  if (machine.seed > 1) {
    place = random_below(machine.ready);
  } else {
    for (unsigned i = 1; i < machine.ready; ++i) {
      bool lower = machine.queue[i] < machine.queue[place];
      if (lower == (machine.seed == 0)) place = i;
    }
  }
  unsigned taken = machine.queue[place];
  machine.queue[place] = machine.queue[--machine.ready];
  return taken;
}

// Lets another thread run; comes back when this one can go on.
[[gnu::noinline]] inline void wait() {
  unsigned self = thread.x;
  if (machine.ready == 0) {
    if (machine.arrived) {
      fail("%u of %u threads wait at the barrier in line %d, to which the others do not come",
           machine.arrived, machine.threads, machine.line);
    }
    unsigned waiting = 0;
    while (!(machine.warp[waiting / LANES] >> waiting % LANES & 1)) ++waiting;
    fail("ends while thread %u waits in line %d for lanes that do not come", waiting,
         machine.lanes[waiting].line);
  }
  unsigned next = take();
  if (next == self) return;
  thread.x = next;
  change(machine.fibers[self], machine.fibers[next]);
}

inline void barrier(int line) {
  if (machine.arrived && machine.line != line) {
    fail("comes to the barrier in line %d while others wait at line %d", line, machine.line);
  }
  machine.line = line;
  if (++machine.arrived == machine.threads) {
    machine.arrived = 0;
    ++machine.epoch;
    for (unsigned t = 0; t < machine.threads; ++t) machine.queue[t] = uint16_t(t);
    machine.ready = machine.threads;
  }
  wait();
}

// The value of the lane `source`, once all lanes of the mask have come with theirs.
inline uint32_t exchange(uint32_t mask, uint32_t value, uint32_t source, int line) {
  unsigned lane = thread.x % LANES, first = thread.x - lane, number = thread.x / LANES;
  Lane* lanes = machine.lanes + first;
  lanes[lane] = {mask, source, value, 0, line};
  uint32_t before = machine.warp[number];
  if (!(mask >> lane & 1)) fail("is not of the mask %08x in line %d", mask, line);
  for (unsigned i = 0; i < LANES; ++i) {
    if (mask >> i & 1 && first + i >= machine.threads) {
      fail("the mask %08x in line %d has lanes that are no threads", mask, line);
    }
    if (before >> i & 1 && (lanes[i].mask != mask || lanes[i].line != line)) {
      fail("exchanges in line %d while thread %u does in line %d", line, first + i, lanes[i].line);
    }
  }
  machine.warp[number] = before | 1u << lane;
  if (machine.warp[number] == mask) {
    machine.warp[number] = 0;
    for (unsigned i = 0; i < LANES; ++i) {
      if (!(mask >> i & 1)) continue;
      uint32_t from = lanes[i].source;
      if (from < LANES && !(mask >> from & 1)) {
        fail("asks in line %d for lane %u, which does not take part", line, from);
      }
      // Of another warp there is no value, and nothing may depend on what there is instead.
      lanes[i].result = from < LANES ? lanes[from].value : ELSEWHERE;
      machine.queue[machine.ready++] = uint16_t(first + i);
    }
  }
  wait();
  return machine.lanes[first + lane].result;
}

inline void run_thread() {
  machine.body(machine.kernel);
  if (++machine.finished == machine.threads) {
    change(machine.fibers[thread.x], machine.host);
  }
  wait();  // somebody else goes on, and nobody comes back
  __builtin_unreachable();
}

// Every workgroup of a launch, one after the other. 0, or -1 with a message.
inline int run(unsigned x, unsigned y, unsigned threads, uint64_t seed, char* stacks,
               const void* kernel, void (*body)(const void*), char* message, size_t room) {
  machine.threads = threads;
  machine.seed = seed;
  machine.random = (seed + 1) * CANARY;
  machine.kernel = kernel;
  machine.body = body;
  machine.message = message;
  machine.room = room;
  machine.failed = false;
  machine.launch_began = ++machine.epoch;
  unsigned blocks = x * y;
  // Workgroups come in another order with every seed: forwards, backwards, or from anywhere.
  unsigned begin = seed > 1 ? random_below(blocks) : 0;
  for (unsigned i = 0; i < blocks; ++i) {
    unsigned place = (i + begin) % blocks;
    if (seed % 2) place = blocks - 1 - place;
    block = {place % x, place / x, 0};
    machine.block_began = ++machine.epoch;
    machine.arrived = machine.finished = 0;
    std::memset(machine.warp, 0, sizeof machine.warp);
    for (unsigned t = 0; t < threads; ++t) {
      char* memory = stacks + t * STACK;
      std::memcpy(memory, &CANARY, sizeof CANARY);
      machine.fibers[t].begin(memory, run_thread);
      machine.queue[t] = uint16_t(t);
    }
    machine.ready = threads;
    thread = {take(), 0, 0};
    change(machine.host, machine.fibers[thread.x]);
    if (machine.failed) return -1;
    for (unsigned t = 0; t < threads; ++t) {
      if (std::memcmp(stacks + t * STACK, &CANARY, sizeof CANARY)) {
        std::snprintf(message, room, "thread %u needs more than %zu bytes of stack", t, STACK);
        return -1;
      }
    }
  }
  return 0;
}

}  // namespace emulator
