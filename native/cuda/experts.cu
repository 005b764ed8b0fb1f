// Mixtures of experts: the router's choice, the order of tokens by expert, the gated activation between the two matmuls, and the
// weighted sum. The matmuls are those of experts-stream.cuh and experts-tile.cuh on Hopper, else of matmul-strip.cuh and matmul-f32.cu.
//
// Pairs (token, rank) are listed by expert, each expert's run padded to `padding` places. The order within an expert is that in which threads
// came, and nothing depends on it: a pair's arithmetic does not know its place, and sums over ranks ascend. No float atomics anywhere.
#include "experts-grouped.cuh"

#define MAX_EXPERTS 512
#define MAX_TOPK 64
#define ROUTE_WARPS 4
#define SLOTS (MAX_EXPERTS / 32)

struct RouteArgs {
  const float* logits; const float* bias; const float* expertScale; int* ids; float* weights;  // ids, weights: [n, topK]
  i64 stride; int n, numExperts, topK, score, normalize, numGroups, topkGroup, groupBest; float scale; int pad;
};

// Ascending numbers as ascending integers; 0 is less than any of them.
__device__ __forceinline__ u64 ordered(double v) {
  union { double number; u64 bits; } as = {v};
  return as.bits >> 63 ? ~as.bits : as.bits | 1ull << 63;
}
__device__ __forceinline__ double number_of(u64 key) {
  union { u64 bits; double number; } as = {key >> 63 ? key & ~(1ull << 63) : ~key};
  return as.number;
}
__device__ __forceinline__ double warp_sum_double(double v) {
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}
// Apart: long code in several places would cost more than the calls.
static __device__ __noinline__ double exp_of(double x) { return exp(x); }

// What a warp needs to choose a token's experts. The largest key is the best choice, the lowest expert on ties; 0: not to be chosen (any more).
struct RouteRoom {
  u64 keys[MAX_EXPERTS];
  double scores[MAX_TOPK];
  int ids[MAX_TOPK];
};

// The largest of the warp's keys, each lane's own, and the lowest number that has it.
__device__ __forceinline__ int warp_best(u64 key, int number) {
  const u32 high = __reduce_max_sync(0xffffffffu, (u32)(key >> 32));
  const u32 low = __reduce_max_sync(0xffffffffu, (u32)(key >> 32) == high ? (u32)key : 0u);
  const bool isBest = key == ((u64)high << 32 | low);
  return 0x7fffffff - (int)__reduce_max_sync(0xffffffffu, isBest ? 0x7fffffffu - number : 0u);
}

// A warp per token, expert e in lane e % 32. Scores in f64, so that near ties fall as the reference's; where the logits' own order is the
// scores', no score is computed but those of the chosen.
__device__ __forceinline__ void route_token(const RouteArgs& a, int t, RouteRoom& room) {
  const int lane = threadIdx.x & 31, E = a.numExperts;
  const float* logits = a.logits + t * a.stride;
  const bool isPlain = a.bias == nullptr && a.numGroups <= 1 && a.score != 2;
  const float infinity = __uint_as_float(0x7f800000u);
  double most = -1e300, sum = 1.;
  if (a.score == 0) {
    float top = -infinity;
    bool isBroken = false;
    for (int e = lane; e < E; e += 32) {
      isBroken |= !(logits[e] < infinity);
      top = fmaxf(top, logits[e]);
    }
    top = warp_max(top);
    most = top;
    // Shares of all: where the chosen are normalised the sum cancels. A logit that is no number leaves no share one.
    if (__ballot_sync(0xffffffffu, isBroken) != 0 || top == -infinity) sum = __uint_as_float(0x7fc00000u);
    else if (!a.normalize || !isPlain) {
      double mine = 0.;
#pragma unroll 1
      for (int e = lane; e < E; e += 32) mine += exp_of(logits[e] - most);
      sum = warp_sum_double(mine);
    }
  }
  auto score = [&](int e) -> double {
    if (a.score == 0) return exp_of(logits[e] - most) / sum;           // softmax over all
    if (a.score == 2) return 1. / (1. + exp_of(-(double)logits[e]));   // sigmoid
    return logits[e];                                                  // softmax over the chosen, later
  };
#pragma unroll 1
  for (int e = lane; e < E; e += 32) {
    const double c = isPlain ? (double)logits[e] : score(e) + (a.bias == nullptr ? 0. : (double)a.bias[e]);
    room.keys[e] = ordered(c > -1e300 ? c + 0. : -1e300);  // NaN and -infinity count as less than any other; no zero is negative
  }
  __syncwarp();
  u32 open = 0xffffffffu, rest = 0;  // bits of experts lane + 32 i: in a group that may be chosen from, in another
  if (a.numGroups > 1) {
    const int size = E / a.numGroups;
    open = 0;
    u32 taken = 0;  // of groups lane + 32 i
    for (int chosen = 0; chosen < a.topkGroup; chosen++) {
      u64 best = 0;
      int bestGroup = MAX_EXPERTS;
      for (int g = lane; g < a.numGroups; g += 32) {
        if (taken >> (g >> 5) & 1) continue;
        u64 first = 0, second = 0;
        for (int e = g * size; e < (g + 1) * size; e++) {
          const u64 c = room.keys[e];
          if (c > first) { second = first; first = c; } else if (c > second) second = c;
        }
        const u64 key = ordered(number_of(first) + (size > 1 && a.groupBest > 1 ? number_of(second) : 0.));
        if (key > best) { best = key; bestGroup = g; }
      }
      bestGroup = warp_best(best, bestGroup);
      if (bestGroup % 32 == lane) taken |= 1u << (bestGroup >> 5);
      for (int i = 0; i < SLOTS; i++) if (lane + 32 * i < E && (lane + 32 * i) / size == bestGroup) open |= 1u << i;
    }
    rest = ~open;  // should the open ones be used up
  }
#pragma unroll 1
  for (int i = 0; i < a.topK; i++) {
    u64 best = 0;
    int id = MAX_EXPERTS;
    for (int pass = 0; pass < 2; pass++) {
      const u32 from = pass == 0 ? open : rest;
      for (int e = lane, j = 0; e < E; e += 32, j++) if (from >> j & 1 && room.keys[e] > best) { best = room.keys[e]; id = e; }
      if (rest == 0 || __ballot_sync(0xffffffffu, best > 0) != 0) break;
    }
    id = warp_best(best, id);
    if (id % 32 == lane) room.keys[id] = 0;
    if (lane == 0) room.ids[i] = id;
    __syncwarp();
  }
  int* ids = a.ids + (i64)t * a.topK;
  float* weights = a.weights + (i64)t * a.topK;
  double chosenMost = -1e300, chosenSum = 0., sumOf = 0.;
#pragma unroll 1
  for (int i = lane; i < a.topK; i += 32) {
    ids[i] = room.ids[i];
    room.scores[i] = score(room.ids[i]);
    chosenMost = fmax(chosenMost, room.scores[i]);
  }
  if (a.score == 1) {
    for (int d = 16; d > 0; d >>= 1) chosenMost = fmax(chosenMost, __shfl_xor_sync(0xffffffffu, chosenMost, d));
#pragma unroll 1
    for (int i = lane; i < a.topK; i += 32) {
      room.scores[i] = exp_of(room.scores[i] - chosenMost);
      chosenSum += room.scores[i];
    }
    chosenSum = warp_sum_double(chosenSum);
  }
  for (int i = lane; i < a.topK; i += 32) {
    const double weight = a.score == 1 ? room.scores[i] / chosenSum : room.scores[i];
    room.scores[i] = weight;
    sumOf += weight;
  }
  sumOf = a.normalize ? warp_sum_double(sumOf) + 1e-20 : 1.;
  for (int i = lane; i < a.topK; i += 32) {
    const double own = a.expertScale == nullptr ? 1. : (double)a.expertScale[room.ids[i]];
    weights[i] = (float)(room.scores[i] / sumOf * (a.scale * own));
  }
}

KERNEL(32 * ROUTE_WARPS, route, RouteArgs) {
  __shared__ RouteRoom rooms[ROUTE_WARPS];
  const int warp = threadIdx.x >> 5, t = blockIdx.x * ROUTE_WARPS + warp;
  if (t < a.n) route_token(a, t, rooms[warp]);
}

// The same of up to 8 tokens, and the list of their units, by one block of a warp for each: an expert's place for token t is the t-th of its
// unit, chosen or not, so that the tokens' own operand is every unit's.
struct RouteFewArgs {
  RouteArgs route; int* placeOf; Unit* units; int* numUnits;
  int padding, pad;  // places of a unit
};
KERNEL(256, route_few, RouteFewArgs) {
  DYNAMIC_SHARED(rooms);  // a RouteRoom for each warp
  __shared__ u32 chosen[MAX_EXPERTS / 32];
  const RouteArgs& r = a.route;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, pairs = r.n * r.topK;
  if (warp == 0 && lane < MAX_EXPERTS / 32) chosen[lane] = 0;
  RouteRoom* const all = (RouteRoom*)rooms;
  route_token(r, warp, all[warp]);
  __syncthreads();
  for (int i = lane; i < r.topK; i += 32) atomicOr(&chosen[all[warp].ids[i] >> 5], 1u << (all[warp].ids[i] & 31));
  __syncthreads();
  auto unit_of = [&](int e) {
    int before = __popc(chosen[e >> 5] & ((1u << (e & 31)) - 1));
    for (int w = 0; w < e >> 5; w++) before += __popc(chosen[w]);
    return before;
  };
  for (int i = lane; i < r.topK; i += 32) a.placeOf[warp * r.topK + i] = unit_of(all[warp].ids[i]) * a.padding + warp;
  for (int e = threadIdx.x; e < r.numExperts; e += blockDim.x)
    if (chosen[e >> 5] >> (e & 31) & 1) a.units[unit_of(e)] = {e, unit_of(e) * a.padding, r.n, 0};
  if (threadIdx.x == 0) *a.numUnits = unit_of(MAX_EXPERTS - 1) + (int)(chosen[MAX_EXPERTS / 32 - 1] >> 31);
}

struct OrderArgs {
  const int* ids; int* range; int* count; int* pairOf; int* placeOf;  // range [E+1] padded starts, count [E], placeOf [n*topK]
  Unit* units; int* numUnits;
  int n, topK, numExperts, padding, unitTokens, pad;
};
// One block: counts by expert, their running sums, then each pair takes the next place of its expert. Units are an expert's tokens, `unitTokens`
// at most.
#define ORDER_THREADS 1024
KERNEL(ORDER_THREADS, order_by_expert, OrderArgs) {
  __shared__ int counts[MAX_EXPERTS], next[MAX_EXPERTS], sums[2][MAX_EXPERTS / 32];
  const int t = threadIdx.x, lane = t & 31, warp = t >> 5, pairs = a.n * a.topK;
  if (t < MAX_EXPERTS) counts[t] = 0;
  __syncthreads();
  auto each_pair = [&](auto visit) {
    constexpr int AT_ONCE = 8;
    for (int p = t; p < pairs; p += AT_ONCE * ORDER_THREADS) {
      int e[AT_ONCE];
#pragma unroll
      for (int i = 0; i < AT_ONCE; i++) e[i] = p + i * ORDER_THREADS < pairs ? a.ids[p + i * ORDER_THREADS] : -1;
#pragma unroll
      for (int i = 0; i < AT_ONCE; i++) if (e[i] >= 0) visit(p + i * ORDER_THREADS, e[i]);
    }
  };
  each_pair([&](int, int e) { atomicAdd(&counts[e], 1); });
  __syncthreads();
  const int count = t < a.numExperts ? counts[t] : 0;
  const int places = (count + a.padding - 1) / a.padding * a.padding, units = (count + a.unitTokens - 1) / a.unitTokens;
  int start = places, firstUnit = units;
  for (int d = 1; d < 32; d <<= 1) {
    const int p = __shfl_up_sync(0xffffffffu, start, d), u = __shfl_up_sync(0xffffffffu, firstUnit, d);
    if (lane >= d) { start += p; firstUnit += u; }
  }
  if (lane == 31 && t < MAX_EXPERTS) { sums[0][warp] = start; sums[1][warp] = firstUnit; }
  __syncthreads();
  for (int w = 0; w < min(warp, MAX_EXPERTS / 32); w++) { start += sums[0][w]; firstUnit += sums[1][w]; }
  start -= places;
  firstUnit -= units;
  if (t < a.numExperts) {
    next[t] = a.range[t] = start;
    a.count[t] = count;
    for (int u = 0; u < units; u++)
      a.units[firstUnit + u] = {t, start + u * a.unitTokens, min(a.unitTokens, count - u * a.unitTokens), 0};
    for (int i = count; i < places; i++) a.pairOf[start + i] = -1;
  }
  if (t == a.numExperts - 1) {
    a.range[a.numExperts] = start + places;
    *a.numUnits = firstUnit + units;
  }
  __syncthreads();
  each_pair([&](int p, int e) {
    const int place = atomicAdd(&next[e], 1);
    a.pairOf[place] = p;
    a.placeOf[p] = place;
  });
}

struct GatherPairsArgs {
  const float* x; float* out; const int* pairOf; const int* range; const float* weights;  // weights null: not on the inputs
  Operand operand; i64 xStride, outStride; int topK, numExperts, cols, paddedCols;
  int piece, pad;  // places of an operand of its own; 0: there is one for all
};
// The inputs of the listed pairs, as f32 rows or as an operand, zeros at padded columns; 8 columns a thread. Padded places are nobody's.
KERNEL(256, gather_pairs, GatherPairsArgs) {
  const int place = blockIdx.x, k = 8 * (blockIdx.y * blockDim.x + threadIdx.x);
  if (k >= a.paddedCols || place >= a.range[a.numExperts]) return;
  const int pair = a.pairOf[place];
  if (pair < 0) return;
  const float* x = a.x + (i64)(pair / a.topK) * a.xStride;
  const float factor = a.weights == nullptr ? 1.f : a.weights[pair];
  float v[8];
#pragma unroll
  for (int i = 0; i < 8; i++) v[i] = 0.f;
  if (k + 7 < a.cols && (((u64)a.x | a.xStride * 4) & 15) == 0) {
    const Quad low = *(const Quad*)(x + k), high = *(const Quad*)(x + k + 4);
#pragma unroll
    for (int i = 0; i < 4; i++) { v[i] = factor * low.v[i]; v[4 + i] = factor * high.v[i]; }
  } else for (int i = 0; i < 8; i++) if (k + i < a.cols) v[i] = factor * x[k + i];
  if (a.operand.data == nullptr) {
#pragma unroll
    for (int i = 0; i < 8; i++) if (k + i < a.cols) a.out[place * a.outStride + k + i] = v[i];
    return;
  }
  Operand operand = a.operand;
  int t = place;
  if (a.piece > 0) {
    operand.data += (u64)(place / a.piece) * a.piece * a.paddedCols;
    t = place % a.piece;
  }
  operand_put4(operand, t, k, Quad{{v[0], v[1], v[2], v[3]}});
  operand_put4(operand, t, k + 4, Quad{{v[4], v[5], v[6], v[7]}});
}

struct ExpertGateArgs {
  const float* gateUp; float* out; const int* range; Operand operand;
  i64 gateUpStride, outStride; int inner, paddedInner, activation, numExperts, isGated, pad;
};
// Where the product did not do it.
KERNEL(256, expert_gate, ExpertGateArgs) {
  const int place = blockIdx.x, k = 2 * (blockIdx.y * blockDim.x + threadIdx.x);
  if (k >= a.paddedInner || place >= a.range[a.numExperts]) return;
  const float* row = a.gateUp + place * a.gateUpStride;
  auto value = [&](int c) -> float {
    if (c >= a.inner) return 0.f;
    const float gate = row[c], up = a.isGated ? row[a.inner + c] : 1.f;
    return gated(a.activation, gate, up);
  };
  if (a.operand.data != nullptr) operand_put2(a.operand, place, k, value(k), value(k + 1));
  else {
    if (k < a.inner) a.out[place * a.outStride + k] = value(k);
    if (k + 1 < a.inner) a.out[place * a.outStride + k + 1] = value(k + 1);
  }
}

struct CombineArgs {
  float* out; const float* y; const int* placeOf; const float* weights;
  i64 outStride, yStride; int topK, cols;
};
// 4 columns a thread; all of a pair's addresses are known before the first number comes.
KERNEL(256, combine_experts, CombineArgs) {
  const int t = blockIdx.x, c = 4 * (blockIdx.y * blockDim.x + threadIdx.x);
  if (c >= a.cols) return;
  const bool isWide = c + 3 < a.cols && ((a.yStride | a.outStride) & 3) == 0 && (((u64)a.out | (u64)a.y) & 15) == 0;
  Quad sum = {{0.f, 0.f, 0.f, 0.f}};
#pragma unroll 8
  for (int i = 0; i < a.topK; i++) {
    const i64 pair = (i64)t * a.topK + i;
    const float weight = a.weights == nullptr ? 1.f : a.weights[pair];
    const float* y = a.y + a.placeOf[pair] * a.yStride + c;
    Quad v;
    if (isWide) v = *(const Quad*)y;
    else for (int j = 0; j < 4; j++) v.v[j] = c + j < a.cols ? y[j] : 0.f;
#pragma unroll
    for (int j = 0; j < 4; j++) sum.v[j] = fmaf(weight, v.v[j], sum.v[j]);
  }
  float* out = a.out + t * a.outStride + c;
  if (isWide) *(Quad*)out = sum;
  else for (int j = 0; j < 4; j++) if (c + j < a.cols) out[j] = sum.v[j];
}
