// What the kernels of sample.cu share: a row's rule, the order of its tokens, their weights, and the search for a place in that order.
//
// Tokens are ordered by (logit descending, id ascending), which is the ascending order of one 64-bit key. Their weights are fixed-point
// numbers of 40 bits behind the point, 2^40 * 2^x with x = (logit - best logit) * log2(e) / temperature: sums of integers are exact in any
// order, so what is drawn depends on nothing but the row, however many blocks look at it. No double is touched on the way.
//
// Every filter and the draw ask one question of that order: which is the first token at which the running count (top-k) or the running
// weight (top-p, the draw) exceeds a mark? One pass puts all tokens in bins of x, one bin for each thread (`survey`); running sums over bins name
// the bin; a second pass brings the tokens of that bin, or of all bins up to it where they are few, into shared memory and sorts them
// (`collect`). Tokens that share a bin beyond what fits there, a row of equal logits say, are searched by the digits of their keys.
#pragma once
#include "common.cuh"

// A draw and the row of its request: src/core/draws.ts, word for word.
struct Draw { int row, logitRow, position, sample, flags, given, numTop, tokens, numTokens, mask, edited; };
struct Row {
  u32 seedLow, seedHigh;
  float temperature, topP, minP, repetitionPenalty, presencePenalty, frequencyPenalty;
  int topK, first, numPrompt, numBias, numStops;
};
#define ROW_WORDS 13
enum { IS_DRAWN = 1, BIAS = 2, PENALTIES = 4, STOPS = 8 };
#define THREADS 1024
#define BINS THREADS

// What the blocks of a row have found: the complements of the least key and of the bound so far, and how many have come.
struct Found { u64 best; u32 bound; int blocks; };
// The first token of a row, and a logit (the high half of a key) that the row's first `topK` or `numTop` tokens do not fall below.
struct Best { u64 key; u32 bound, pad; };
// The bins of a row that several blocks survey; zero between launches.
struct Totals { u64 weight[BINS], sum; u32 count[BINS]; int blocks, pad; };
struct SampleArgs {
  int* out; int* hostOut;  // by draw: for the next flight's embedding; page-locked memory, for the host: a copy behind the launches would hold up the next flight
  float* logprobs; int* topIds; float* topLogprobs;  // by draw; tops [draw][maxTop]
  const float* logits; const Draw* draws; const int* lists;
  float* edited;       // [edited draws][vocab]
  int* counts;         // [edited draws][vocab], all zero before and after
  int* rows;           // of requests, with the tokens that they are penalised for
  const int* previous; // tokens of the flight ahead: -(i + 1) in a list of tokens is the i-th
  Found* found;        // [row] of sample_rows and report_best with several blocks a row; zero between launches
  Best* best;          // [row][2]: of the edited logits, of those before any edit
  Totals* totals;      // [row] of draw_rows and report_rows with several blocks a row
  i64 stride; int vocab, maxTop;
};

// The words of a draw's row, if it takes anything of it.
__device__ __forceinline__ const int* words_of(const SampleArgs& a, const Draw& draw) {
  return draw.row < 0 ? a.lists - (draw.row + 1) : a.rows + draw.row;
}
__device__ __forceinline__ const Row& row_of(const SampleArgs& a, const Draw& draw) { return *(const Row*)words_of(a, draw); }

// The number in [0, 1) that the draw goes by, as src/core/random.ts has it (Philox 4x32, ten rounds): 53 bits.
__device__ __forceinline__ double uniform_of(const Row& row, const Draw& draw) {
  u32 k0 = row.seedLow, k1 = row.seedHigh, c0 = k0, c1 = k1, c2 = 0, c3 = 0;
  if (draw.sample >= 0) {
    c0 = draw.position, c1 = draw.sample;
    for (int round = 0; round < 10; round++) {
      const u32 high0 = __umulhi(0xd2511f53u, c0), high1 = __umulhi(0xcd9e8d57u, c2), low0 = 0xd2511f53u * c0, low1 = 0xcd9e8d57u * c2;
      c0 = high1 ^ c1 ^ k0, c1 = low1, c2 = high0 ^ c3 ^ k1, c3 = low0;
      k0 += 0x9e3779b9u, k1 += 0xbb67ae85u;
    }
  }
  return (double)((u64)(c0 >> 5) << 26 | c1 >> 6) / 9007199254740992.0;
}

#define NO_KEY ~0ull
#define ANOTHER_BLOCK 0ull  // no logit has this key

__device__ __forceinline__ u32 high_of(float logit) {
  const u32 bits = __float_as_uint(logit);
  if (logit != logit) return 0xffffffffu;  // NaN comes last
  return bits & 0x80000000u ? bits : ~(bits | 0x80000000u);
}
__device__ __forceinline__ u64 key_of(float logit, int id) { return (u64)high_of(logit) << 32 | (u32)id; }
__device__ __forceinline__ float logit_of(u64 key) {
  const u32 high = (u32)(key >> 32);
  return __uint_as_float(high & 0x80000000u ? high : ~high & 0x7fffffffu);
}

#define NEAR_OCTAVES 8.f
// How a row's tokens are weighed and binned. Both fall with the key. Most draws fall near the best token: bins are narrow there.
struct Scale {
  float max, factor;  // x = (logit - max) * factor
  float farBins;      // an octave, beyond the first NEAR_OCTAVES, which have half of all bins
  u32 bound;          // tokens behind it need not be looked at
  bool hasWeightless; // tokens whose weight rounds to 0 count too
  __device__ __forceinline__ float x_of(float logit) const { return logit == max ? 0.f : (logit - max) * factor; }
  __device__ __forceinline__ int bin_of(float x) const {
    const float near = -x * (BINS / 2 / NEAR_OCTAVES), far = (-x - NEAR_OCTAVES) * farBins + BINS / 2;
    return (int)fminf(x > -NEAR_OCTAVES ? near : far, (float)(BINS - 1));
  }
  static __device__ __forceinline__ u64 weight_of(float x) { return x > -41.f ? (u64)(exp2_of(x) * 1099511627776.f) : 0; }
  __device__ __forceinline__ bool takes(float logit, u64 weight) const {
    return logit == logit && high_of(logit) <= bound && (hasWeightless || weight > 0);
  }
};

// 28 KB for a pass over a row and what it found.
struct Search {
  u32 count[BINS], low[BINS], high[BINS];  // a pass: weights in two words, whose atomics are one instruction each
  u64 upTo[BINS];                          // then: weight of the bins so far
  u32 countUpTo[BINS];
  u64 keys[THREADS], upToKey[THREADS];     // tokens of bins [firstBin, lastBin], sorted, and their weights so far
  u64 warps[32];
  u64 sum, through, key;
  int bin, numKeys, digit, isLast;
};

// Inclusive, over the block.
__device__ __forceinline__ u64 scan_block(u64 v, u64* warps) {
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  for (int d = 1; d < 32; d <<= 1) {
    const u64 other = __shfl_up_sync(0xffffffffu, v, d);
    if (lane >= d) v += other;
  }
  __syncthreads();
  if (lane == 31) warps[warp] = v;
  __syncthreads();
  u64 before = lane < warp ? warps[lane] : 0;
  for (int d = 16; d > 0; d >>= 1) before += __shfl_xor_sync(0xffffffffu, before, d);
  return v + before;
}
__device__ __forceinline__ u64 sum_block(u64 v, u64* warps) {
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  __syncthreads();
  if ((threadIdx.x & 31) == 0) warps[threadIdx.x >> 5] = v;
  __syncthreads();
  v = warps[threadIdx.x & 31];
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}
// To a sum of 64 bits in two words.
__device__ __forceinline__ void add_shared(u32* low, u32* high, u64 v) {
  const u32 least = (u32)v, before = atomicAdd(low, least), carry = before + least < before ? 1 : 0;
  const u32 most = (u32)(v >> 32) + carry;
  if (most != 0) atomicAdd(high, most);
}

// Calls visit(logit, id) for ids [begin, end), several loads of each thread at once: one row is bound by latency.
template <class Visit>
__device__ __forceinline__ void each_logit(const float* logits, int begin, int end, Visit visit) {
  constexpr int AT_ONCE = 8;
  for (int id = begin + threadIdx.x; id < end; id += AT_ONCE * THREADS) {
    float logit[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) logit[i] = id + i * THREADS < end ? logits[id + i * THREADS] : __uint_as_float(0x7fc00000u);
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) visit(logit[i], id + i * THREADS);
  }
}

// Bins of the row's tokens, known to the block that comes last; false: this one did not. `sum`: weights of tokens with x >= least, of all of them.
template <bool WEIGHS_BINS>
__device__ __forceinline__ void survey(Search& s, const Scale& scale, const float* logits, int begin, int end, float least, u64& sum) {
  s.count[threadIdx.x] = s.low[threadIdx.x] = s.high[threadIdx.x] = 0;
  __syncthreads();
  sum = 0;
  each_logit(logits, begin, end, [&](float logit, int) {
    const float x = scale.x_of(logit);
    const u64 weight = Scale::weight_of(x);
    if (x >= least) sum += weight;
    if (!scale.takes(logit, weight)) return;
    const int bin = scale.bin_of(x);
    atomicAdd(&s.count[bin], 1u);
    if (WEIGHS_BINS) add_shared(&s.low[bin], &s.high[bin], weight);
  });
  sum = sum_block(sum, s.warps);
}

// Adds what the blocks of a row have found (a number of bin threadIdx.x each), in the one that comes last; false: another one does.
__device__ __forceinline__ bool merge(Search& s, Totals* totals, int parts, u32& count, u64& weight, u64& sum) {
  if (parts == 1) return true;
  Totals& t = *totals;
  if (count > 0) atomicAdd(&t.count[threadIdx.x], count);
  if (weight > 0) atomicAdd(&t.weight[threadIdx.x], weight);
  if (threadIdx.x == 0 && sum > 0) atomicAdd(&t.sum, sum);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    s.isLast = atomicAdd(&t.blocks, 1) == parts - 1;
    __threadfence();
  }
  __syncthreads();
  if (!s.isLast) return false;
  count = atomicExch(&t.count[threadIdx.x], 0u);
  weight = atomicExch(&t.weight[threadIdx.x], 0ull);
  if (threadIdx.x == 0) {
    s.sum = atomicExch(&t.sum, 0ull);
    t.blocks = 0;
  }
  __syncthreads();
  sum = s.sum;
  return true;
}

// Running sums over bins, of which each thread has one.
__device__ __forceinline__ void add_up(Search& s, u32 count, u64 weight) {
  s.upTo[threadIdx.x] = scan_block(weight, s.warps);
  s.countUpTo[threadIdx.x] = (u32)scan_block(count, s.warps);
  __syncthreads();
}

// The tokens of bins [first, last], at most THREADS, sorted, with their weights so far.
__device__ void collect(Search& s, const Scale& scale, const float* logits, int vocab, int first, int last) {
  if (threadIdx.x == 0) s.numKeys = 0;
  __syncthreads();
  each_logit(logits, 0, vocab, [&](float logit, int id) {
    const float x = scale.x_of(logit);
    const int bin = scale.bin_of(x);
    if (bin < first || bin > last || !scale.takes(logit, Scale::weight_of(x))) return;
    s.keys[atomicAdd(&s.numKeys, 1)] = key_of(logit, id);
  });
  __syncthreads();
  const int n = s.numKeys, t = threadIdx.x;
  u64 key = t < n ? s.keys[t] : NO_KEY;
  int size = 2;
  while (size < n) size <<= 1;
  for (int k = 2; k <= size; k <<= 1) {
    for (int j = k >> 1; j > 0; j >>= 1) {
      u64 other;
      if (j >= 32) {
        __syncthreads();
        s.keys[t] = key;
        __syncthreads();
        other = s.keys[t ^ j];
      } else other = __shfl_xor_sync(0xffffffffu, key, j);
      key = ((t & j) == 0) == ((t & k) == 0) ? min(key, other) : max(key, other);
    }
  }
  __syncthreads();
  s.keys[t] = key;
  s.upToKey[t] = scan_block(t < n ? Scale::weight_of(scale.x_of(logit_of(key))) : 0, s.warps);
  __syncthreads();
}

// The same question of one bin with more tokens than fit: a radix descent over keys, eight passes of 8 bits.
__device__ void descend(Search& s, const Scale& scale, const float* logits, int vocab, int bin, u64 mark, bool isWeight, u64& key, u64& through) {
  u64 prefix = 0, before = 0;
  for (int shift = 56; shift >= 0; shift -= 8) {
    s.low[threadIdx.x] = s.high[threadIdx.x] = 0;
    __syncthreads();
    each_logit(logits, 0, vocab, [&](float logit, int id) {
      const float x = scale.x_of(logit);
      const u64 weight = Scale::weight_of(x), k = key_of(logit, id);
      if (scale.bin_of(x) != bin || !scale.takes(logit, weight)) return;
      if (shift < 56 && k >> (shift + 8) != prefix >> (shift + 8)) return;
      const int digit = (int)(k >> shift & 255);
      add_shared(&s.low[digit], &s.high[digit], isWeight ? weight : 1);
    });
    __syncthreads();
    if (threadIdx.x == 0) {
      auto value = [&](int d) { return (u64)s.high[d] << 32 | s.low[d]; };
      int digit = 0;
      while (before + value(digit) <= mark) before += value(digit++);
      s.digit = digit;
      s.through = before + value(digit);
    }
    __syncthreads();
    prefix |= (u64)s.digit << shift;
    through = s.through;
    __syncthreads();
  }
  key = prefix;
}

// Where tokens lie that were collected last.
struct Collected { int first, last; };

// The first token at which the running count or weight exceeds `mark`, less than that of all; `through`: weight up to and with it.
template <bool IS_WEIGHT>
__device__ u64 locate(Search& s, const Scale& scale, const float* logits, int vocab, Collected& have, u64 mark, u64& through) {
  const int t = threadIdx.x;
  auto so_far = [&](int bin) { return bin < 0 ? 0 : IS_WEIGHT ? s.upTo[bin] : s.countUpTo[bin]; };
  __syncthreads();
  if (so_far(t) > mark && so_far(t - 1) <= mark) s.bin = t;
  __syncthreads();
  const int bin = s.bin;
  if (bin < have.first || bin > have.last) {
    // All tokens up to here where they fit: the next question is about one of them.
    have.last = bin;
    have.first = s.countUpTo[bin] <= THREADS ? 0 : bin;
    const u32 before = have.first == 0 ? 0 : s.countUpTo[bin - 1];
    if (s.countUpTo[bin] - before > THREADS) {
      have = {0, -1};
      u64 key, ofBin;
      descend(s, scale, logits, vocab, bin, mark - so_far(bin - 1), IS_WEIGHT, key, ofBin);
      if (!IS_WEIGHT) {
        // Weight up to a token that was found by counting: one more pass.
        u64 sum = 0;
        each_logit(logits, 0, vocab, [&](float logit, int id) {
          const float x = scale.x_of(logit);
          const u64 weight = Scale::weight_of(x);
          if (scale.bin_of(x) == bin && scale.takes(logit, weight) && key_of(logit, id) <= key) sum += weight;
        });
        ofBin = sum_block(sum, s.warps);
      }
      through = (bin == 0 ? 0 : s.upTo[bin - 1]) + ofBin;
      return key;
    }
    collect(s, scale, logits, vocab, have.first, have.last);
  }
  const u64 weightBefore = have.first == 0 ? 0 : s.upTo[have.first - 1], base = so_far(have.first - 1);
  auto running = [&](int i) { return base + (IS_WEIGHT ? i < 0 ? 0 : s.upToKey[i] : (u64)(i + 1)); };
  if (t < s.numKeys && running(t) > mark && running(t - 1) <= mark) {
    s.key = s.keys[t];
    s.through = weightBefore + s.upToKey[t];
  }
  __syncthreads();
  through = s.through;
  return s.key;
}
