// The choice of a token from each row of logits, by the rule of src/core/choose-token.ts, so that only token ids leave the device.
// A block of 1024 threads per row.
//
// Weights w = 2^40 * exp((logit - max) / temperature) are rounded to integers: sums of integers are exact in any order, so the
// result depends on nothing but the row. Candidates are ordered by (logit descending, id ascending), which is the ascending order
// of one 64-bit key. Every filter and the draw itself ask one question of that order: which is the first candidate at which the
// running count (top-k) or the running weight (top-p, the draw) reaches a mark? A radix descent answers it without sorting: eight
// passes of 8 bits, each a histogram over the row's survivors, which lies in L2.
#include "common.cuh"

struct Rule {
  double uniform; float temperature; int topK; float topP, minP;
};
struct SampleArgs {
  int* out; const float* logits; const Rule* rules; i64 stride; int vocab, pad;
};

#define THREADS 1024

// Descending logits, then ascending ids, as ascending keys; NaN comes last.
__device__ __forceinline__ u64 key_of(float logit, int id) {
  u32 bits = __float_as_uint(logit);
  u32 ascending = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  if (logit != logit) ascending = 0;
  return ((u64)(~ascending) << 32) | (u32)id;
}
__device__ __forceinline__ u64 weight_of(float logit, float max, float temperature) {
  double w = exp(((double)logit - max) / temperature);
  return w == w ? (u64)rint(w * 1099511627776.0) : 0;  // a NaN logit is never drawn
}

struct Search {
  u64 histogram[256];
  u64 below;  // count or weight of the keys before the found one
  int digit;
};

// The first key, ascending, at which the running sum of `value(id)` over keys <= limit exceeds `mark`; the last key with any value
// when it never does. `isWeight` chooses between counting candidates and adding weights.
__device__ u64 find_key(Search& s, const float* logits, int vocab, u64 limit, u64 mark, bool isWeight, float max, float temperature) {
  u64 prefix = 0, before = 0;
  for (int shift = 56; shift >= 0; shift -= 8) {
    if (threadIdx.x < 256) s.histogram[threadIdx.x] = 0;
    __syncthreads();
    for (int id = threadIdx.x; id < vocab; id += THREADS) {
      const float logit = logits[id];
      const u64 key = key_of(logit, id);
      if (key > limit || (shift < 56 && (key >> (shift + 8)) != (prefix >> (shift + 8)))) continue;
      const u64 value = isWeight ? weight_of(logit, max, temperature) : 1;
      if (value > 0) atomicAdd(&s.histogram[(key >> shift) & 255], value);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int last = 0, digit = -1;
      u64 sum = before;
      for (int b = 0; b < 256; b++) {
        if (s.histogram[b] == 0) continue;
        last = b;
        if (sum + s.histogram[b] > mark) { digit = b; break; }
        sum += s.histogram[b];
      }
      if (digit < 0) { digit = last; sum -= s.histogram[last]; }
      s.digit = digit;
      s.below = sum;
    }
    __syncthreads();
    prefix |= (u64)s.digit << shift;
    before = s.below;
    __syncthreads();
  }
  return prefix;
}

__device__ u64 block_sum_u64(u64 v, u64* scratch) {
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  __syncthreads();
  if ((threadIdx.x & 31) == 0) scratch[threadIdx.x >> 5] = v;
  __syncthreads();
  u64 sum = 0;
  for (int w = 0; w < THREADS / 32; w++) sum += scratch[w];
  return sum;
}

KERNEL(THREADS, sample_rows, SampleArgs) {
  __shared__ Search search;
  __shared__ u64 scratch[32];
  __shared__ u64 best;
  const int row = blockIdx.x, vocab = a.vocab;
  const float* logits = a.logits + row * a.stride;
  const Rule rule = a.rules[row];
  const float temperature = rule.temperature;

  // Greedy: the least key.
  u64 least = ~0ull;
  for (int id = threadIdx.x; id < vocab; id += THREADS) {
    const float logit = logits[id];
    if (logit == logit) least = min(least, key_of(logit, id));
  }
  for (int d = 16; d > 0; d >>= 1) least = min(least, __shfl_xor_sync(0xffffffffu, least, d));
  if ((threadIdx.x & 31) == 0) scratch[threadIdx.x >> 5] = least;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 0; w < THREADS / 32; w++) least = min(least, scratch[w]);
    best = least;
  }
  __syncthreads();
  const int bestId = best == ~0ull ? 0 : (int)(u32)best;
  const float max = logits[bestId];
  // A row of one finite logit or none, or greedy.
  if (temperature == 0.f || best == ~0ull || fabsf(max) == __uint_as_float(0x7f800000u)) {
    if (threadIdx.x == 0) a.out[row] = max == __uint_as_float(0xff800000u) ? 0 : bestId;
    return;
  }
  u64 total = 0;
  for (int id = threadIdx.x; id < vocab; id += THREADS) total += weight_of(logits[id], max, temperature);
  total = block_sum_u64(total, scratch);

  const int topK = rule.topK;
  const double topP = rule.topP;
  const float minP = rule.minP;
  u64 limit = ~0ull;  // the last candidate's key
  if (topK > 0 && topK < vocab) {
    limit = find_key(search, logits, vocab, limit, (u64)topK - 1, false, max, temperature);
    total = 0;
    for (int id = threadIdx.x; id < vocab; id += THREADS)
      if (key_of(logits[id], id) <= limit) total += weight_of(logits[id], max, temperature);
    total = block_sum_u64(total, scratch);
  }
  if (topP < 1.) {
    // The smallest leading set whose weight reaches p of the whole: at mark - 1 the sum first exceeds, hence reaches, the mark.
    const u64 mark = (u64)ceil(topP * (double)total);
    limit = find_key(search, logits, vocab, limit, mark > 0 ? mark - 1 : 0, true, max, temperature);
  }
  const u64 floor = (u64)ceil((double)minP * 1099511627776.0);  // the best one's weight is 2^40
  const bool isFiltered = topK > 0 || topP < 1. || minP > 0.f;
  total = 0;
  for (int id = threadIdx.x; id < vocab; id += THREADS) {
    const u64 w = weight_of(logits[id], max, temperature);
    if (key_of(logits[id], id) <= limit && w >= floor) total += w;
  }
  total = block_sum_u64(total, scratch);
  const u64 target = (u64)(rule.uniform * (double)total);
  if (isFiltered) {
    const u64 key = find_key(search, logits, vocab, limit, target, true, max, temperature);
    if (threadIdx.x == 0) a.out[row] = (int)(u32)key;
    return;
  }
  // Unfiltered: ids ascending. Each warp sums a run of ids, the runs are scanned, one warp walks its own.
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int run = (vocab + THREADS - 1) / THREADS * 32, first = warp * run;
  u64 mine = 0;
  for (int id = first + lane; id < min(first + run, vocab); id += 32) mine += weight_of(logits[id], max, temperature);
  for (int d = 16; d > 0; d >>= 1) mine += __shfl_xor_sync(0xffffffffu, mine, d);
  __syncthreads();
  if (lane == 0) scratch[warp] = mine;
  __syncthreads();
  u64 sum = 0;
  int chosen = 0;
  for (; chosen < THREADS / 32 - 1 && sum + scratch[chosen] <= target; chosen++) sum += scratch[chosen];
  if (warp != chosen) return;
  int answer = -1, lastDrawn = bestId;
  for (int base = chosen * run; base < min(chosen * run + run, vocab) && answer < 0; base += 32) {
    const int id = base + lane;
    const u64 w = id < vocab ? weight_of(logits[id], max, temperature) : 0;
    u64 upTo = w;  // inclusive scan
    for (int d = 1; d < 32; d <<= 1) {
      const u64 other = __shfl_up_sync(0xffffffffu, upTo, d);
      if (lane >= d) upTo += other;
    }
    const u32 drawn = __ballot_sync(0xffffffffu, w > 0), over = __ballot_sync(0xffffffffu, w > 0 && sum + upTo > target);
    if (drawn != 0) lastDrawn = base + 31 - __clz(drawn);
    if (over != 0) answer = base + __ffs(over) - 1;
    sum += __shfl_sync(0xffffffffu, upTo, 31);
  }
  if (lane == 0) a.out[row] = answer >= 0 ? answer : lastDrawn;
}
