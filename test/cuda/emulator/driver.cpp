// The CUDA driver's and NVRTC's functions that the cuda device calls, over the emulator: memory is malloc's, a graph is a list of what to run,
// with copies of the arguments. What is queued on a stream is done as late as can be, when somebody waits for it, so that a wait that
// is missing shows.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <array>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace emulator {
int enqueue(void* stream, std::function<void()> run);
void launch(void* function, const unsigned* grid, unsigned threads, unsigned sharedBytes, const void* arguments);
}

struct Launch {
  void* function;
  unsigned grid[3], threads, sharedBytes;
  std::array<unsigned char, 512> arguments;
};
typedef std::vector<std::function<void()>> Graph;
static Graph* capture = nullptr;
struct Stream {
  uint64_t done = 0;  // operations so far
  double freeMs = 0;  // when an idle one comes to the end of what it has
  std::deque<std::function<void()>> queue;
  void runUntil(uint64_t count) {
    while (done < count && !queue.empty()) {
      queue.front()();
      queue.pop_front();
      done++;
    }
  }
};
static std::set<Stream*> streams;
// EMULATED_IDLE=MICROSECONDS: nothing is run and no memory is touched, each graph only takes so long. What is left is the host's part of a
// step (bench/host-time).
static const bool isIdle = getenv("EMULATED_IDLE") != nullptr;
static const double graphMs = isIdle ? atof(getenv("EMULATED_IDLE")) / 1000 : 0;
static double nowMs() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
template <class Run> static int queueOn(void* stream, Run&& run) {
  if (isIdle) return 0;
  ((Stream*)stream)->queue.push_back(run);
  return 0;
}
static void runAll() {
  for (Stream* stream : streams) stream->runUntil(UINT64_MAX);
}
struct Event {
  Stream* stream = nullptr;
  uint64_t count = 0;
  std::shared_ptr<double> ms = std::make_shared<double>(0);  // the clock when it was reached
  void wait() {
    if (isIdle && *ms > nowMs()) std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(*ms - nowMs()));
    if (stream != nullptr) stream->runUntil(count);
  }
};
// On the stream, or into the graph that is being captured.
int emulator::enqueue(void* stream, std::function<void()> run) {
  if (capture == nullptr) return queueOn(stream, run);
  capture->push_back(run);
  return 0;
}
static int copyOn(void* stream, void* to, const void* from, size_t n) {
  return queueOn(stream, [=] { memmove(to, from, n); });
}
static const uint64_t MEMORY = isIdle ? 64ull << 30 : 8ull << 30;

extern "C" {
int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int* v) { *v = 13000; return 0; }
int cuDeviceGetCount(int* n) { *n = 1; return 0; }
int cuDeviceGet(int* d, int i) { *d = i; return i == 0 ? 0 : 101; }
int cuDeviceGetName(char* out, int n, int) { snprintf(out, n, "CPU emulator"); return 0; }
int cuDeviceGetAttribute(int* v, int which, int) {
  *v = which == 75 ? (getenv("EMULATED_SM_80") != nullptr ? 8 : 9) : which == 76 ? 0 : which == 16 ? (getenv("EMULATED_SMS") != nullptr ? atoi(getenv("EMULATED_SMS")) : 132) : which == 97 ? 232448 : 0;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** c, int) { *c = (void*)8; return 0; }
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxSetCurrent(void*) { return 0; }
int cuMemGetInfo_v2(uint64_t* free, uint64_t* total) { *free = *total = MEMORY; return 0; }
int cuMemAlloc_v2(void** p, size_t n) { return posix_memalign(p, 256, n) == 0 ? 0 : 2; }
int cuMemFree_v2(void* p) { runAll(); free(p); return 0; }
int cuMemHostAlloc(void** p, size_t n, unsigned) {
  if (posix_memalign(p, 4096, n) != 0) return 2;
  if (isIdle) memset(*p, 0, n);  // tokens that nobody samples
  return 0;
}
int cuMemFreeHost(void* p) { runAll(); free(p); return 0; }
int cuMemcpyHtoDAsync_v2(void* to, const void* from, size_t n, void* s) { return copyOn(s, to, from, n); }
int cuMemcpyDtoHAsync_v2(void* to, const void* from, size_t n, void* s) { return copyOn(s, to, from, n); }
int cuMemcpyDtoDAsync_v2(void* to, const void* from, size_t n, void* s) { return copyOn(s, to, from, n); }
int cuMemsetD8Async(void* to, int v, size_t n, void* s) { return queueOn(s, [=] { memset(to, v, n); }); }
int cuStreamCreate(void** s, unsigned) { *s = *streams.insert(new Stream()).first; return 0; }
int cuStreamDestroy_v2(void* s) { runAll(); streams.erase((Stream*)s); delete (Stream*)s; return 0; }
int cuStreamSynchronize(void* s) { ((Stream*)s)->runUntil(UINT64_MAX); return 0; }
int cuStreamWaitEvent(void* s, void* e, unsigned) {
  Event event = *(Event*)e;  // as it was recorded last
  return queueOn(s, [event]() mutable { event.wait(); });
}
int cuEventCreate(void** e, unsigned) { *e = new Event(); return 0; }
int cuEventDestroy_v2(void* e) { delete (Event*)e; return 0; }
int cuEventRecord(void* e, void* s) {
  Stream* stream = (Stream*)s;
  Event& event = *(Event*)e = {stream, stream->done + stream->queue.size() + 1};
  auto ms = event.ms;
  *ms = stream->freeMs = std::max(stream->freeMs, nowMs());
  return queueOn(s, [ms] { *ms = nowMs(); });
}
int cuEventQuery(void* e) {
  const Event& event = *(Event*)e;
  return (isIdle ? *event.ms <= nowMs() : event.stream->done >= event.count) ? 0 : 600;
}
int cuEventSynchronize(void* e) { ((Event*)e)->wait(); return 0; }
int cuEventElapsedTime(float* ms, void* from, void* to) { *ms = (float)(*((Event*)to)->ms - *((Event*)from)->ms); return 0; }
int cuModuleLoadData(void** m, const void*) { *m = (void*)32; return 0; }
int cuModuleUnload(void*) { return 0; }
int cuModuleGetFunction(void** f, void*, const char* name) {
  static void* self = dlopen(getenv("PAGODA_CUDA_DRIVER"), RTLD_NOW);
  *f = dlsym(self, name);
  return *f != nullptr ? 0 : 500;
}
int cuModuleGetGlobal_v2(void**, size_t*, void*, const char*) { return 500; }
int cuFuncSetAttribute(void*, int, int) { return 0; }
int cuGetErrorName(int, const char** out) { *out = "CUDA_ERROR_EMULATED"; return 0; }
int cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned, unsigned, unsigned shared, void* s, void** params, void*) {
  if (bx > 1024 || gy > 65535 || gz > 65535 || shared > 232448 || gx * gy * gz == 0) return 1;
  if (isIdle) return 0;
  Launch l = {f, {gx, gy, gz}, bx, shared, {}};
  memcpy(l.arguments.data(), params[0], 512);
  return emulator::enqueue(s, [l] { emulator::launch(l.function, l.grid, l.threads, l.sharedBytes, l.arguments.data()); });
}
struct Config { unsigned grid[3], block[3], sharedBytes; void* stream; void* attributes; unsigned numAttributes; };
int cuLaunchKernelEx(const Config* c, void* f, void** params, void** extra) {
  return cuLaunchKernel(f, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2], c->sharedBytes, c->stream, params, extra);
}
int cuStreamBeginCapture_v2(void*, int) { capture = new Graph(); return 0; }
int cuStreamEndCapture(void*, void** g) { *g = capture; capture = nullptr; return 0; }
int cuGraphInstantiateWithFlags(void** e, void* g, uint64_t) { *e = new Graph(*(Graph*)g); return 0; }
int cuGraphLaunch(void* e, void* s) {
  ((Stream*)s)->freeMs = std::max(((Stream*)s)->freeMs, nowMs()) + graphMs;
  for (const auto& run : *(Graph*)e) queueOn(s, std::function<void()>(run));
  return 0;
}
int cuGraphDestroy(void* g) { delete (Graph*)g; return 0; }
int cuGraphExecDestroy(void* e) { delete (Graph*)e; return 0; }

int nvrtcCreateProgram(void** p, const char*, const char*, int, void*, void*) { *p = (void*)40; return 0; }
int nvrtcCompileProgram(void*, int, const char**) { return 0; }
int nvrtcGetProgramLogSize(void*, size_t* n) { *n = 1; return 0; }
int nvrtcGetProgramLog(void*, char* out) { *out = 0; return 0; }
int nvrtcGetCUBINSize(void*, size_t* n) { *n = 1; return 0; }
int nvrtcGetCUBIN(void*, char* out) { *out = 0; return 0; }
int nvrtcGetPTXSize(void*, size_t* n) { *n = 1; return 0; }
int nvrtcGetPTX(void*, char* out) { *out = 0; return 0; }
int nvrtcDestroyProgram(void**) { return 0; }
int nvrtcVersion(int* major, int* minor) { *major = 13; *minor = 0; return 0; }
}
