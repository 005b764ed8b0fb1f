// The choice of a token for each sampling row, by the rule of src/core/sample-row.ts, so that only tokens leave the device.
// A block of 1024 threads per row; the best logit of few rows is looked for by several blocks each, of which the last goes on.
//
// Weights w = 2^40 * exp((logit - max) / temperature) are rounded to integers: sums of integers are exact in any order, so the
// result depends on nothing but the row. Candidates are ordered by (logit descending, id ascending), which is the ascending order
// of one 64-bit key. Every filter and the draw itself ask one question of that order: which is the first candidate at which the
// running count (top-k) or the running weight (top-p, the draw) reaches a mark? A radix descent answers it without sorting: eight
// passes of 8 bits, each a histogram over the row's survivors, which lies in L2.
#include "common.cuh"

// A sampling row: src/core/sampling-rows.ts, word for word. Lists (tokens, biases, masks) are offsets into one array.
struct Rule {
  double uniform;
  float temperature, topP, minP, repetitionPenalty, presencePenalty, frequencyPenalty;
  int topK, logitRow, given, numTop, tokens, numTokens, history, numHeld, numPrompt, bias, numBias, forbidden, numForbidden, mask;
};
// What the blocks of a row have found: the complement of the least key so far, and how many have come.
struct Found { u64 best; int blocks, pad; };
struct SampleArgs {
  int* out; int* hostOut;  // by row: for the next flight's embedding; page-locked memory, for the host: a copy behind the launches would hold up the next flight
  float* logprobs; int* topIds; float* topLogprobs;  // by row; tops [row][maxTop]
  const float* logits; const Rule* rules; const int* lists;
  float* edited;       // [edited rows][vocab]
  int* counts;         // [edited rows][vocab], all zero before and after
  const int* editedOf; // [row] its row of `edited`, or -1
  int* history;        // tokens that rows have left for penalties
  const int* previous; // tokens of the flight ahead: -(i + 1) in a list of tokens is the i-th
  Found* found;        // [row] of sample_rows with several blocks a row; zero between launches
  i64 stride; int vocab, maxTop;
};

#define THREADS 1024
#define ANOTHER_BLOCK 0ull  // no logit has this key

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

// The row's logits with bias, penalties, forbidden tokens and mask, in this order (src/core/sample-row.ts).
KERNEL(THREADS, edit_rows, SampleArgs) {
  const int row = blockIdx.x, vocab = a.vocab;
  if (a.editedOf[row] < 0) return;
  const Rule& rule = a.rules[row];
  const float* logits = a.logits + rule.logitRow * a.stride;
  float* edited = a.edited + (i64)a.editedOf[row] * vocab;
  int* counts = a.counts + (i64)a.editedOf[row] * vocab;
  for (int id = threadIdx.x; id < vocab; id += THREADS) edited[id] = logits[id];
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 0; i < rule.numBias; i++)
      edited[a.lists[rule.bias + 2 * i]] += __int_as_float(a.lists[rule.bias + 2 * i + 1]);
  }
  __syncthreads();
  // What the row brings goes behind what it has left. Each token that occurs is penalised once: who takes its count away does it.
  const int numTokens = rule.numHeld + rule.numTokens, SEEN = 1 << 30;
  int* kept = a.history + rule.history;
  auto token_at = [&](int i) {
    if (i < rule.numHeld) return kept[i];
    const int token = a.lists[rule.tokens + i - rule.numHeld];
    return token < 0 ? a.previous[-token - 1] : token;
  };
  for (int i = threadIdx.x; i < numTokens; i += THREADS) {
    const int token = token_at(i);
    if (i >= rule.numHeld && rule.history >= 0) kept[i] = token;
    if (token < 0) continue;  // the flight ahead has found none: this row is dropped
    atomicOr(counts + token, SEEN);
    if (i >= rule.numPrompt) atomicAdd(counts + token, 1);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < numTokens; i += THREADS) {
    const int id = token_at(i), count = id < 0 ? 0 : atomicExch(counts + id, 0);
    if (count == 0) continue;
    const double logit = edited[id];
    double v = logit > 0. ? logit / rule.repetitionPenalty : logit * rule.repetitionPenalty;
    if (count & ~SEEN) v -= (double)rule.presencePenalty + (double)rule.frequencyPenalty * (count & ~SEEN);
    edited[id] = (float)v;
  }
  __syncthreads();
  const float none = __uint_as_float(0xff800000u);
  for (int i = threadIdx.x; i < rule.numForbidden; i += THREADS) {
    const int id = a.lists[rule.forbidden + i];
    if (id < vocab) edited[id] = none;
  }
  __syncthreads();
  if (rule.mask >= 0)
    for (int id = threadIdx.x; id < vocab; id += THREADS)
      if (!(a.lists[rule.mask + (id >> 5)] >> (id & 31) & 1)) edited[id] = none;
}

// The log-probability of the row's token and the most probable ones, of the logits before any edit.
KERNEL(THREADS, report_rows, SampleArgs) {
  __shared__ u64 scratch[32];
  __shared__ double sums[32];
  const int row = blockIdx.x, vocab = a.vocab, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const Rule& rule = a.rules[row];
  if (rule.numTop < 0) return;
  const float* logits = a.logits + rule.logitRow * a.stride;
  // The least key that follows `after`: the next most probable token.
  auto next_key = [&](u64 after, bool isFirst) -> u64 {
    u64 least = ~0ull;
    for (int id = threadIdx.x; id < vocab; id += THREADS) {
      const float logit = logits[id];
      const u64 key = key_of(logit, id);
      if (logit == logit && (isFirst || key > after)) least = min(least, key);
    }
    for (int d = 16; d > 0; d >>= 1) least = min(least, __shfl_xor_sync(0xffffffffu, least, d));
    __syncthreads();
    if (lane == 0) scratch[warp] = least;
    __syncthreads();
    for (int w = 0; w < THREADS / 32; w++) least = min(least, scratch[w]);
    return least;
  };
  u64 key = next_key(0, true);
  const double max = key == ~0ull ? 0. : (double)logits[(u32)key];
  double sum = 0.;
  for (int id = threadIdx.x; id < vocab; id += THREADS) {
    const double w = exp((double)logits[id] - max);
    if (w == w) sum += w;
  }
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (lane == 0) sums[warp] = sum;
  __syncthreads();
  sum = 0.;
  for (int w = 0; w < THREADS / 32; w++) sum += sums[w];
  const double logTotal = max + log(sum);
  const float none = __uint_as_float(0xff800000u);
  if (threadIdx.x == 0) {
    const int token = a.out[row];
    a.logprobs[row] = token < 0 ? none : (float)(logits[token] - logTotal);
  }
  for (int i = 0; i < rule.numTop; i++) {
    if (threadIdx.x == 0) {
      const bool isThere = key != ~0ull;
      a.topIds[(i64)row * a.maxTop + i] = isThere ? (int)(u32)key : -1;
      a.topLogprobs[(i64)row * a.maxTop + i] = isThere ? (float)(logits[(u32)key] - logTotal) : none;
    }
    if (i + 1 < rule.numTop && key != ~0ull) key = next_key(key, false);
  }
}

__device__ __forceinline__ void put_token(const SampleArgs& a, int row, int token) {
  a.out[row] = token;
  a.hostOut[row] = token;
}

// The least key of ids [first, end), known to all threads.
__device__ __forceinline__ u64 least_key(const float* logits, int first, int end, u64* scratch) {
  u64 least = ~0ull;
  constexpr int AT_ONCE = 16;  // numbers a thread asks for before it looks at the first: one row is bound by latency
  for (int id = first + threadIdx.x; id < end; id += AT_ONCE * THREADS) {
    float logit[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) logit[i] = id + i * THREADS < end ? logits[id + i * THREADS] : __uint_as_float(0x7fc00000u);
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) if (logit[i] == logit[i]) least = min(least, key_of(logit[i], id + i * THREADS));
  }
  for (int d = 16; d > 0; d >>= 1) least = min(least, __shfl_xor_sync(0xffffffffu, least, d));
  if ((threadIdx.x & 31) == 0) scratch[threadIdx.x >> 5] = least;
  __syncthreads();
  for (int w = 0; w < THREADS / 32; w++) least = min(least, scratch[w]);
  return least;
}

KERNEL(THREADS, sample_rows, SampleArgs) {
  __shared__ Search search;
  __shared__ u64 scratch[32];
  __shared__ u64 best;
  const int row = blockIdx.x, vocab = a.vocab, parts = gridDim.y;
  const Rule& rule = a.rules[row];
  if (rule.given >= 0) {
    if (threadIdx.x == 0 && blockIdx.y == 0) put_token(a, row, rule.given);
    return;
  }
  const float* logits = a.editedOf[row] >= 0 ? a.edited + (i64)a.editedOf[row] * vocab : a.logits + rule.logitRow * a.stride;
  const float temperature = rule.temperature;

  // Greedy: the least key.
  const int part = (vocab + parts - 1) / parts, begin = blockIdx.y * part;
  const u64 least = least_key(logits, begin, min(begin + part, vocab), scratch);
  if (threadIdx.x == 0) {
    best = least;
    if (parts > 1) {
      Found& found = a.found[row];
      atomicMax(&found.best, ~least);
      __threadfence();
      const bool isLast = atomicAdd(&found.blocks, 1) == parts - 1;
      __threadfence();
      best = isLast ? ~atomicExch(&found.best, 0ull) : ANOTHER_BLOCK;
      if (isLast) found.blocks = 0;
    }
  }
  __syncthreads();
  if (best == ANOTHER_BLOCK) return;
  const int bestId = best == ~0ull ? 0 : (int)(u32)best;
  const float max = logits[bestId];
  // Greedy, or no finite logit to draw from; -1: every token is forbidden.
  if (temperature == 0.f || best == ~0ull || fabsf(max) == __uint_as_float(0x7f800000u)) {
    if (threadIdx.x == 0) put_token(a, row, max == __uint_as_float(0xff800000u) ? -1 : bestId);
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
    if (threadIdx.x == 0) put_token(a, row, (int)(u32)key);
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
  if (lane == 0) put_token(a, row, answer >= 0 ? answer : lastDrawn);
}
