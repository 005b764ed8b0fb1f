// Runs a kernel: block after block, the threads of a block as fibres on one CPU thread.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;
typedef unsigned long long u64;
#define KIND_BF16 1
#include "emulator.h"
#undef blockIdx
#undef gridDim
#undef blockDim
#undef threadIdx

extern "C" void emulator_switch(void** save, void* to);
asm(R"(
.text
.globl emulator_switch
emulator_switch:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
)");

namespace emulator {
struct Copy { void* to; const void* from; bool isWanted; };
struct Scope { int alive = 0, arrived = 0; unsigned generation = 0; };  // a barrier of a warp or of the block
struct Thread {
  void* sp = nullptr;
  char* stack = nullptr;
  Index index;
  bool isDone = false;
  Scope* waitsFor = nullptr;
  unsigned generation = 0;
  std::vector<std::vector<Copy>> groups;
};

const size_t STACK = 128 * 1024;
Thread* current = nullptr;
Index blockIndex, gridSize, blockSize, threadIndex;
static Thread threads[1024];
static Scope block, warps[32], groups[16];
static uint64_t lanes[32][32];
static void* scheduler;
static void (*kernel)(const void*);
static const void* arguments;
static std::vector<u8> sharedMemory;

u8* dynamicShared() { return (u8*)(((uintptr_t)sharedMemory.data() + 1023) / 1024 * 1024); }
uint64_t* exchange() { return lanes[threadIndex.x >> 5]; }
unsigned aliveLanes() {
  unsigned alive = 0;
  const unsigned first = threadIndex.x & ~31u;
  for (unsigned l = 0; l < 32 && first + l < blockSize.x; l++) alive |= (threads[first + l].isDone ? 0u : 1u) << l;
  return alive;
}

static void yield() {
  Thread* me = current;
  emulator_switch(&me->sp, scheduler);
}
void yieldNow() { yield(); }
static void arriveIfComplete(Scope& s) {
  if (s.alive > 0 && s.arrived >= s.alive) { s.arrived = 0; s.generation++; }
}
static void wait(Scope& s) {
  Thread* me = current;
  me->waitsFor = &s;
  me->generation = s.generation;
  s.arrived++;
  arriveIfComplete(s);
  while (s.generation == me->generation) yield();
  me->waitsFor = nullptr;
}
void blockBarrier() { wait(block); }
void groupBarrier(int id, int threads, bool waits) {
  Scope& s = groups[id];
  s.alive = threads;
  if (waits) return wait(s);
  s.arrived++;
  arriveIfComplete(s);
}
void warpBarrier() { wait(warps[threadIndex.x >> 5]); }

static void perform(const Copy& c) {
  if (c.isWanted) memcpy(c.to, c.from, 16);
  else memset(c.to, 0, 16);
}
void copyLater(void* to, const void* from, bool isWanted) {
  if (current->groups.empty()) current->groups.emplace_back();
  current->groups.back().push_back({to, from, isWanted});
}
void copyCommit() {
  if (current->groups.empty()) current->groups.emplace_back();
  current->groups.emplace_back();
}
void copyWait(int pending) {  // the last group is the open one
  auto& groups = current->groups;
  while ((int)groups.size() - 1 > pending) {
    for (const Copy& c : groups.front()) perform(c);
    groups.erase(groups.begin());
  }
}

static void body() {
  kernel(arguments);
  Thread* me = current;
  me->isDone = true;
  block.alive--;
  arriveIfComplete(block);
  Scope& warp = warps[me->index.x >> 5];
  warp.alive--;
  arriveIfComplete(warp);
  for (;;) yield();
}

static void prepare(Thread& t, unsigned i) {
  if (t.stack == nullptr) t.stack = (char*)malloc(STACK);
  t.index = {i, 0, 0};
  t.isDone = false;
  t.groups.clear();
  uintptr_t top = ((uintptr_t)t.stack + STACK) & ~(uintptr_t)15;
  void** sp = (void**)top;
  *--sp = nullptr;  // keeps the stack aligned as after a call
  *--sp = (void*)body;
  for (int r = 0; r < 6; r++) *--sp = nullptr;
  t.sp = sp;
}

static void runBlock(unsigned count) {
  block = {(int)count, 0, 0};
  for (auto& w : warps) w = {};
  for (auto& g : groups) g = {};
  for (unsigned i = 0; i < count; i++) {
    prepare(threads[i], i);
    warps[i >> 5].alive++;
  }
  for (bool isRunning = true; isRunning;) {
    isRunning = false;
    bool moved = false;
    for (unsigned i = 0; i < count; i++) {
      Thread& t = threads[i];
      if (t.isDone) continue;
      isRunning = true;
      if (t.waitsFor != nullptr && t.waitsFor->generation == t.generation) continue;
      moved = true;
      current = &t;
      threadIndex = t.index;
      emulator_switch(&scheduler, t.sp);
    }
    if (isRunning && !moved) { fprintf(stderr, "emulator: threads wait for one another for ever\n"); abort(); }
  }
}

void launch(void* function, const unsigned* grid, unsigned count, unsigned sharedBytes, const void* argument) {
  kernel = (void (*)(const void*))function;
  arguments = argument;
  gridSize = {grid[0], grid[1], grid[2]};
  blockSize = {count, 1, 1};
  if (sharedMemory.size() < sharedBytes + 2048) sharedMemory.resize(sharedBytes + 2048);
  for (unsigned z = 0; z < grid[2]; z++)
    for (unsigned y = 0; y < grid[1]; y++)
      for (unsigned x = 0; x < grid[0]; x++) {
        blockIndex = {x, y, z};
        memset(sharedMemory.data(), 0xff, sharedMemory.size());  // NaN: reading what nobody wrote shows
        runBlock(count);
      }
}
}  // namespace emulator
