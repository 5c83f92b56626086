// A CUDA driver without a GPU: NVIDIA's part of what CudaDevice runs on, for tests.
//
// Memory is the process's own. A stream only notes what it is asked for and does it when somebody
// waits, so whoever reads too early reads what was there before. A module is a real fatbin, looked
// at as drivers do; what its kernels compute comes from NAME.so in a folder, which the emulator made
// of the same CUDA C (`build.py` beside this folder), and how many arguments from NAME.arguments.
//
//   EDGEWISE_EMULATED_GPUS     compute capabilities, such as 90,75; default 90
//   EDGEWISE_EMULATED_MEMORY   bytes of each; default 8 GiB
//   EDGEWISE_EMULATED_VERSION  of CUDA; default 12090
//   EDGEWISE_EMULATED_KERNELS  the folder

#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace {

enum Error {
  OK = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NO_DEVICE = 100,
  INVALID_DEVICE = 101,
  INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201,
  NO_BINARY = 209,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  ILLEGAL_ADDRESS = 700,
  CAPTURE_UNSUPPORTED = 900,
  CAPTURE_MISSING = 900 + 4,
};

using Launch = int (*)(void **, const uint64_t *, void **, unsigned, unsigned, uint64_t, char *, char *,
                       size_t);
using Step = std::function<int()>;

struct Graph {
  std::vector<Step> steps;
};

struct Stream {
  std::vector<Step> waiting;
  Graph *capturing = nullptr;
};

struct Context {
  int device = 0;
  int failed = OK;
  std::map<uint64_t, size_t> memory;
  std::map<uint64_t, size_t> pinned;
  std::set<void *> made;  // streams, events, modules, graphs
  std::set<Stream *> streams;
};

struct Kernel {
  std::string name;
  Launch launch;
  size_t arguments;
};

struct Module {
  std::string names;
  std::map<std::string, std::unique_ptr<Kernel>> kernels;
};

constexpr size_t STACKS = 1024 * (64 << 10);  // bytes, of build.py
constexpr size_t SHADOW = 12;                 // bytes for two of a buffer's, of native/memory.h

std::recursive_mutex one_at_a_time;
std::set<Context *> contexts;
thread_local Context *current = nullptr;
size_t taken = 0;
long fail_after = -1;
int fail_with = OK;
long counts[3];  // kernels executed, graphs launched, waits

const char *setting(const char *name, const char *otherwise) {
  const char *found = std::getenv(name);
  return found && *found ? found : otherwise;
}

std::vector<int> gpus() {
  std::vector<int> found;
  const std::string text = setting("EDGEWISE_EMULATED_GPUS", "90");
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find(',', at);
    if (end == std::string::npos) end = text.size();
    if (text[at] != '-') found.push_back(std::stoi(text.substr(at, end - at)));
    at = end + 1;
  }
  return found;
}

size_t memory_of_all() {
  return std::strtoull(setting("EDGEWISE_EMULATED_MEMORY", "8589934592"), nullptr, 10);
}

// What every call but a few begins with: the thread's context, or why there is none.
int here(Context *&context) {
  context = current;
  if (!context || !contexts.count(context)) return INVALID_CONTEXT;
  return context->failed;
}

// Fresh zeroed memory, which takes room only where it is used.
void *zeros(size_t size) {
  return mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

bool inside(const std::map<uint64_t, size_t> &pieces, uint64_t address, size_t size) {
  auto next = pieces.upper_bound(address);
  if (next == pieces.begin()) return false;
  --next;
  return address - next->first + size <= next->second;
}

int wait_for(Context *context, Stream *stream) {
  if (stream->capturing) return CAPTURE_UNSUPPORTED;
  ++counts[2];
  std::vector<Step> steps;
  steps.swap(stream->waiting);
  for (auto &step : steps) {
    if (context->failed) return context->failed;
    if (fail_after >= 0 && fail_after-- == 0) return context->failed = fail_with;
    if (int error = step()) return context->failed = error;
  }
  return OK;
}

// What frees memory waits for whoever still uses it.
void wait_for_all(Context *context) {
  for (auto *stream : context->streams)
    if (!stream->waiting.empty()) wait_for(context, stream);
}

int ask(Stream *stream, Step step) {
  (stream->capturing ? stream->capturing->steps : stream->waiting).push_back(std::move(step));
  return OK;
}

// The image that a driver would choose of a fatbin: of the same major version and not newer, the
// newest; else PTX of the same or an older one.
int choose(const uint8_t *data, int arch, std::string &names) {
  uint32_t magic;
  uint64_t rest;
  std::memcpy(&magic, data, 4);
  std::memcpy(&rest, data + 8, 8);
  if (magic != 0xBA55ED50) return INVALID_IMAGE;
  const uint8_t *at = data + 16, *end = at + rest;
  int best = -1;
  std::string code;
  bool ptx = false;
  while (at < end) {
    uint16_t kind;
    uint32_t header, of;
    uint64_t size;
    std::memcpy(&kind, at, 2);
    std::memcpy(&header, at + 4, 4);
    std::memcpy(&size, at + 8, 8);
    std::memcpy(&of, at + 28, 4);
    std::string image(reinterpret_cast<const char *>(at + header), size);
    if (kind == 2) {
      code = image;  // kernels are the same in all
      if (int(of) <= arch && int(of) / 10 == arch / 10 && int(of) > best) best = of;
    } else if (kind == 1 && int(of) <= arch) {
      ptx = true;
    }
    at += header + size;
  }
  if (best < 0 && !ptx) return NO_BINARY;
  names = code;
  return OK;
}

}  // namespace

#define CALL extern "C" __attribute__((visibility("default"))) int
#define ALONE std::lock_guard<std::recursive_mutex> alone(one_at_a_time)
#define IN_CONTEXT   \
  ALONE;             \
  Context *context;  \
  if (int error = here(context)) return error

// For tests: let the step after so many more of a stream fail for good; what there is; what was done.
CALL emulated_fail(long after, int error) {
  fail_after = after, fail_with = error;
  return OK;
}

CALL emulated_left(long *contexts_left, long *memory, long *pinned, long *made) {
  ALONE;
  *contexts_left = contexts.size(), *memory = *pinned = *made = 0;
  for (auto *context : contexts) {
    *memory += context->memory.size();
    *pinned += context->pinned.size();
    *made += context->made.size();
  }
  return OK;
}

CALL emulated_counts(long *kernels, long *graphs, long *waits) {
  *kernels = counts[0], *graphs = counts[1], *waits = counts[2];
  return OK;
}

CALL cuInit(unsigned) { return gpus().empty() && std::getenv("EDGEWISE_EMULATED_GPUS") ? NO_DEVICE : OK; }

CALL cuDriverGetVersion(int *version) {
  *version = std::atoi(setting("EDGEWISE_EMULATED_VERSION", "12090"));
  return OK;
}

CALL cuDeviceGetCount(int *count) {
  *count = gpus().size();
  return OK;
}

CALL cuDeviceGet(int *device, int index) {
  if (index < 0 || index >= int(gpus().size())) return INVALID_DEVICE;
  *device = index;
  return OK;
}

CALL cuDeviceGetName(char *name, int length, int device) {
  std::snprintf(name, length, "Emulated GPU %d", device);
  return OK;
}

CALL cuDeviceGetAttribute(int *value, int which, int device) {
  const int arch = gpus()[device];
  if (which == 75) *value = arch / 10;
  else if (which == 76) *value = arch % 10;
  else if (which == 16) *value = 4;
  else return INVALID_VALUE;
  return OK;
}

CALL cuDeviceTotalMem_v2(size_t *bytes, int) {
  *bytes = memory_of_all();
  return OK;
}

CALL cuCtxCreate_v2(Context **made, unsigned, int device) {
  ALONE;
  current = *made = new Context;
  current->device = device;
  contexts.insert(current);
  return OK;
}

CALL cuCtxDestroy_v2(Context *context) {
  ALONE;
  if (!contexts.erase(context)) return INVALID_CONTEXT;
  for (auto &[address, size] : context->memory) std::free(reinterpret_cast<void *>(address)), taken -= size;
  for (auto &[address, size] : context->pinned) std::free(reinterpret_cast<void *>(address));
  delete context;
  return OK;
}

CALL cuCtxSetCurrent(Context *context) {
  ALONE;
  if (context && !contexts.count(context)) return INVALID_CONTEXT;
  current = context;
  return OK;
}

CALL cuMemGetInfo_v2(size_t *free, size_t *total) {
  IN_CONTEXT;
  *total = memory_of_all();
  *free = *total - taken;
  return OK;
}

CALL cuMemAlloc_v2(uint64_t *address, size_t size) {
  IN_CONTEXT;
  if (!size) return INVALID_VALUE;
  if (taken + size > memory_of_all()) return OUT_OF_MEMORY;
  void *made = std::aligned_alloc(256, (size + 255) / 256 * 256);
  std::memset(made, 0xA5, size);
  *address = reinterpret_cast<uint64_t>(made);
  context->memory[*address] = size, taken += size;
  return OK;
}

CALL cuMemFree_v2(uint64_t address) {
  IN_CONTEXT;
  auto found = context->memory.find(address);
  if (found == context->memory.end()) return INVALID_VALUE;
  wait_for_all(context);
  taken -= found->second;
  context->memory.erase(found);
  std::free(reinterpret_cast<void *>(address));
  return OK;
}

CALL cuMemHostAlloc(void **made, size_t size, unsigned) {
  IN_CONTEXT;
  if (!size) return INVALID_VALUE;
  *made = std::malloc(size);
  std::memset(*made, 0x5A, size);
  context->pinned[reinterpret_cast<uint64_t>(*made)] = size;
  return OK;
}

CALL cuMemFreeHost(void *memory) {
  IN_CONTEXT;
  wait_for_all(context);
  if (!context->pinned.erase(reinterpret_cast<uint64_t>(memory))) return INVALID_VALUE;
  std::free(memory);
  return OK;
}

CALL cuMemsetD8Async(uint64_t to, uint8_t value, size_t size, Stream *stream) {
  IN_CONTEXT;
  if (!inside(context->memory, to, size)) return INVALID_VALUE;
  return ask(stream, [=] { return std::memset(reinterpret_cast<void *>(to), value, size), OK; });
}

CALL cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, Stream *stream) {
  IN_CONTEXT;
  if (!size || !inside(context->memory, to, size)) return INVALID_VALUE;
  void *target = reinterpret_cast<void *>(to);
  // Of pinned memory the GPU reads what is there when it comes to it; of other the driver has a copy.
  if (inside(context->pinned, reinterpret_cast<uint64_t>(from), size))
    return ask(stream, [=] { return std::memcpy(target, from, size), OK; });
  const auto *bytes = static_cast<const uint8_t *>(from);
  auto copy = std::make_shared<std::vector<uint8_t>>(bytes, bytes + size);
  return ask(stream, [=] { return std::memcpy(target, copy->data(), size), OK; });
}

CALL cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, Stream *stream) {
  IN_CONTEXT;
  if (!size || !inside(context->memory, from, size)) return INVALID_VALUE;
  ask(stream, [=] { return std::memcpy(to, reinterpret_cast<void *>(from), size), OK; });
  if (inside(context->pinned, reinterpret_cast<uint64_t>(to), size)) return OK;
  return wait_for(context, stream);
}

CALL cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, Stream *stream) {
  IN_CONTEXT;
  if (!inside(context->memory, from, size) || !inside(context->memory, to, size)) return INVALID_VALUE;
  return ask(stream, [=] {
    return std::memcpy(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), size), OK;
  });
}

struct Copy2D {
  size_t from_x, from_y;
  unsigned from_type;
  const void *from_host;
  uint64_t from_device;
  void *from_array;
  size_t from_pitch, to_x, to_y;
  unsigned to_type;
  void *to_host;
  uint64_t to_device;
  void *to_array;
  size_t to_pitch, width, height;
};

CALL cuMemcpy2DAsync_v2(const Copy2D *asked, Stream *stream) {
  IN_CONTEXT;
  const Copy2D copy = *asked;
  if (copy.from_type != 2 || copy.to_type != 1 || copy.from_x || copy.from_y || copy.to_x || copy.to_y)
    return INVALID_VALUE;
  if (copy.width > copy.from_pitch || copy.width > copy.to_pitch) return INVALID_VALUE;
  if (!inside(context->memory, copy.from_device, (copy.height - 1) * copy.from_pitch + copy.width))
    return INVALID_VALUE;
  ask(stream, [=] {
    for (size_t row = 0; row < copy.height; ++row)
      std::memcpy(static_cast<char *>(copy.to_host) + row * copy.to_pitch,
                  reinterpret_cast<char *>(copy.from_device) + row * copy.from_pitch, copy.width);
    return OK;
  });
  return wait_for(context, stream);
}

CALL cuModuleLoadData(Module **made, const uint8_t *data) {
  IN_CONTEXT;
  std::string names;
  if (int error = choose(data, gpus()[context->device], names)) return error;
  *made = new Module{names, {}};
  context->made.insert(*made);
  return OK;
}

CALL cuModuleUnload(Module *module) {
  IN_CONTEXT;
  wait_for_all(context);
  if (!context->made.erase(module)) return INVALID_HANDLE;
  delete module;
  return OK;
}

CALL cuModuleGetFunction(Kernel **found, Module *module, const char *name) {
  IN_CONTEXT;
  if (!context->made.count(module)) return INVALID_HANDLE;
  if (module->names.find(std::string(".text.") + name + '\0') == std::string::npos) return NOT_FOUND;
  auto &kernel = module->kernels[name];
  if (!kernel) {
    const std::string path = std::string(setting("EDGEWISE_EMULATED_KERNELS", ".")) + '/' + name;
    void *library = dlopen((path + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
    void *launch = library ? dlsym(library, "launch") : nullptr;
    std::FILE *file = std::fopen((path + ".arguments").c_str(), "r");
    size_t arguments = 0;
    if (!launch || !file || std::fscanf(file, "%zu", &arguments) != 1) {
      std::fprintf(stderr, "The emulated driver lacks %s.so or %s.arguments.\n", path.c_str(), name);
      return NOT_FOUND;
    }
    std::fclose(file);
    kernel.reset(new Kernel{name, reinterpret_cast<Launch>(launch), arguments});
  }
  *found = kernel.get();
  return OK;
}

// Bytes from an address to the end of the piece of memory that it is in, 0 outside of all.
size_t rest_of(const Context *context, uint64_t address) {
  auto next = context->memory.upper_bound(address);
  if (next == context->memory.begin()) return 0;
  --next;
  return address - next->first < next->second ? next->first + next->second - address : 0;
}

int execute(Context *context, const Kernel *kernel, std::vector<uint64_t> values, unsigned x, unsigned y) {
  static char *stacks = static_cast<char *>(zeros(STACKS));
  std::vector<void *> data, shadows;
  std::vector<uint64_t> sizes;
  for (uint64_t value : values) {
    const size_t size = rest_of(context, value);
    if (!size) return ILLEGAL_ADDRESS;
    data.push_back(reinterpret_cast<void *>(value));
    sizes.push_back(size);
    shadows.push_back(zeros(size * (SHADOW / 2)));
  }
  char message[500] = "";
  const int failed = kernel->launch(data.data(), sizes.data(), shadows.data(), x, y, 0, stacks, message,
                                    sizeof message);
  for (size_t i = 0; i < shadows.size(); ++i) munmap(shadows[i], sizes[i] * (SHADOW / 2));
  if (failed) std::fprintf(stderr, "%s: %s\n", kernel->name.c_str(), message);
  ++counts[0];
  return failed ? int(ILLEGAL_ADDRESS) : int(OK);
}

CALL cuLaunchKernel(Kernel *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                    unsigned bz, unsigned shared, Stream *stream, void **arguments, void **extra) {
  IN_CONTEXT;
  if (!gx || !gy || gz != 1 || gx > 0x7FFFFFFF || gy > 65535) return INVALID_VALUE;
  if (!bx || by != 1 || bz != 1 || bx > 1024 || shared || extra) return INVALID_VALUE;
  std::vector<uint64_t> values;
  for (size_t i = 0; i < kernel->arguments; ++i)
    values.push_back(*static_cast<uint64_t *>(arguments[i]));
  return ask(stream, [=] { return execute(context, kernel, values, gx, gy); });
}

CALL cuStreamCreate(Stream **made, unsigned) {
  IN_CONTEXT;
  context->made.insert(*made = new Stream);
  context->streams.insert(*made);
  return OK;
}

CALL cuStreamDestroy_v2(Stream *stream) {
  IN_CONTEXT;
  context->streams.erase(stream);
  return context->made.erase(stream) ? (delete stream, OK) : INVALID_HANDLE;
}

CALL cuStreamSynchronize(Stream *stream) {
  IN_CONTEXT;
  return wait_for(context, stream);
}

CALL cuStreamBeginCapture_v2(Stream *stream, int) {
  IN_CONTEXT;
  if (stream->capturing) return CAPTURE_UNSUPPORTED;
  stream->capturing = new Graph;
  return OK;
}

CALL cuStreamEndCapture(Stream *stream, Graph **made) {
  IN_CONTEXT;
  if (!stream->capturing) return CAPTURE_MISSING;
  context->made.insert(*made = stream->capturing);
  stream->capturing = nullptr;
  return OK;
}

CALL cuGraphInstantiateWithFlags(Graph **made, Graph *graph, uint64_t) {
  IN_CONTEXT;
  if (!context->made.count(graph)) return INVALID_HANDLE;
  context->made.insert(*made = new Graph(*graph));
  return OK;
}

CALL cuGraphLaunch(Graph *graph, Stream *stream) {
  IN_CONTEXT;
  if (!context->made.count(graph)) return INVALID_HANDLE;
  for (auto &step : graph->steps) ask(stream, step);
  ++counts[1];
  return OK;
}

CALL cuGraphDestroy(Graph *graph) {
  IN_CONTEXT;
  return context->made.erase(graph) ? (delete graph, OK) : INVALID_HANDLE;
}

CALL cuGraphExecDestroy(Graph *graph) { return cuGraphDestroy(graph); }

// An event is over when all is that its stream was asked for; that is later than it could be.
CALL cuEventCreate(Stream ***made, unsigned) {
  IN_CONTEXT;
  context->made.insert(*made = new Stream *(nullptr));
  return OK;
}

CALL cuEventRecord(Stream **event, Stream *stream) {
  IN_CONTEXT;
  *event = stream;
  return OK;
}

CALL cuEventSynchronize(Stream **event) {
  IN_CONTEXT;
  return *event ? wait_for(context, *event) : OK;
}

CALL cuEventElapsedTime(float *milliseconds, Stream **, Stream **) {
  *milliseconds = 1;
  return OK;
}

CALL cuEventDestroy_v2(Stream **event) {
  IN_CONTEXT;
  return context->made.erase(event) ? (delete event, OK) : INVALID_HANDLE;
}

CALL cuGetErrorName(int, const char **name) {
  *name = "an error";
  return OK;
}

CALL cuGetErrorString(int error, const char **words) {
  static const std::map<int, const char *> known = {
      {INVALID_VALUE, "invalid argument"},
      {OUT_OF_MEMORY, "out of memory"},
      {NO_DEVICE, "no CUDA-capable device is detected"},
      {INVALID_IMAGE, "device kernel image is invalid"},
      {INVALID_CONTEXT, "invalid device context"},
      {NO_BINARY, "no kernel image is available for execution on the device"},
      {INVALID_HANDLE, "invalid resource handle"},
      {NOT_FOUND, "named symbol not found"},
      {ILLEGAL_ADDRESS, "an illegal memory access was encountered"},
      {719, "unspecified launch failure"},
      {803, "system has unsupported display driver / cuda driver combination"},
  };
  auto found = known.find(error);
  *words = found == known.end() ? nullptr : found->second;
  return found == known.end() ? int(INVALID_VALUE) : int(OK);
}
