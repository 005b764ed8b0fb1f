// The choice of a token for each draw, by the rule of src/core/sample-row.ts, so that only tokens leave the device.
//
//   edit_rows     logits with bias, penalties, forbidden tokens and mask, of rows that have any
//   sample_rows   the best token: the answer of greedy rows
//   draw_rows     the draw of the others, filtered or not (sample.cuh)
//   report_best, report_rows   log-probabilities of the token and of the most probable ones, of the logits before any edit
//
// Blocks of 1024 threads; few rows have several blocks each (blockIdx.y), which share the vocabulary, and the one that comes last goes on.
// Traffic: a row is read once by sample_rows, and twice more where it is drawn through a filter.
#include "sample.cuh"

// The row's logits with bias, penalties, forbidden tokens and mask, in this order (src/core/sample-row.ts). A block edits the ids of its part.
KERNEL(THREADS, edit_rows, SampleArgs) {
  const Draw& draw = a.draws[blockIdx.x];
  const int parts = gridDim.y;
  if (draw.edited < 0) return;
  const float* logits = a.logits + draw.logitRow * a.stride;
  float* edited = a.edited + (i64)draw.edited * a.vocab;
  int* counts = a.counts + (i64)draw.edited * a.vocab;
  const int part = (a.vocab + parts - 1) / parts, begin = blockIdx.y * part, end = min(begin + part, a.vocab);
  auto is_mine = [&](int id) { return id >= begin && id < end; };
  const float none = __uint_as_float(0xff800000u);
  // The mask first: nothing that is added makes -infinity anything else.
  const int* mask = draw.mask < 0 ? nullptr : a.lists + draw.mask;
  each_logit(logits, begin, end, [&](float logit, int id) {
    if (id < end) edited[id] = mask == nullptr || (mask[id >> 5] >> (id & 31) & 1) ? logit : none;
  });
  __syncthreads();
  if ((draw.flags & (BIAS | PENALTIES | STOPS)) == 0) return;
  const Row& row = row_of(a, draw);
  const int* bias = words_of(a, draw) + ROW_WORDS;
  const int* stops = bias + 2 * row.numBias;
  // Who finds a token first in the list adds all that the list says of it, in order.
  const int numBias = draw.flags & BIAS ? row.numBias : 0;
  for (int i = threadIdx.x; i < numBias; i += THREADS) {
    const int id = bias[2 * i];
    bool isFirst = is_mine(id);
    for (int j = 0; j < i && isFirst; j++) isFirst = bias[2 * j] != id;
    if (!isFirst) continue;
    float v = edited[id];
    for (int j = i; j < numBias; j++) if (bias[2 * j] == id) v += __int_as_float(bias[2 * j + 1]);
    edited[id] = v;
  }
  __syncthreads();
  // What the draw lists goes behind what its row has. Each token that occurs is penalised once: who takes its count away does it.
  const int numTokens = draw.flags & PENALTIES ? draw.position - row.first : 0, numHeld = numTokens - draw.numTokens, SEEN = 1 << 30;
  int* kept = const_cast<int*>(stops) + row.numStops;
  auto token_at = [&](int i) {
    if (i < numHeld) return kept[i];
    const int token = a.lists[draw.tokens + i - numHeld];
    return token < 0 ? a.previous[-token - 1] : token;
  };
  for (int i = threadIdx.x; i < numTokens; i += THREADS) {
    const int token = token_at(i);
    if (i >= numHeld && draw.row >= 0 && blockIdx.y == 0) kept[i] = token;
    if (!is_mine(token)) continue;  // negative: the flight ahead has found none, and this draw is dropped
    atomicOr(counts + token, SEEN);
    if (i >= row.numPrompt) atomicAdd(counts + token, 1);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < numTokens; i += THREADS) {
    const int id = token_at(i), count = is_mine(id) ? atomicExch(counts + id, 0) : 0;
    if (count == 0) continue;
    const float logit = edited[id];
    // One rounding of what the reference computes in doubles: of a product or a quotient alone that is the float operation.
    if ((count & ~SEEN) == 0) {
      edited[id] = logit > 0.f ? __fdiv_rn(logit, row.repetitionPenalty) : __fmul_rn(logit, row.repetitionPenalty);
      continue;
    }
    double v = logit > 0.f ? (double)logit / row.repetitionPenalty : (double)logit * row.repetitionPenalty;
    v -= (double)row.presencePenalty + (double)row.frequencyPenalty * (count & ~SEEN);
    edited[id] = (float)v;
  }
  __syncthreads();
  const int numStops = draw.flags & STOPS ? row.numStops : 0;
  for (int i = threadIdx.x; i < numStops; i += THREADS) {
    const int id = stops[i];
    if (is_mine(id)) edited[id] = none;
  }
}

__device__ __forceinline__ void put_token(const SampleArgs& a, int row, int token) {
  a.out[row] = token;
  a.hostOut[row] = token;
}

// The best token of a row, and a bound of its first `most`, known to all threads of the block that comes last; false: another one does.
// Each of 32 warps has a best token of its own: none of the first 32 of all falls below the worst of those. So with threads and 1024.
__device__ __forceinline__ bool find_best(const SampleArgs& a, int row, const float* logits, int most, Best& found) {
  __shared__ u64 least[32];
  __shared__ u32 worst[32];
  __shared__ u64 best;
  __shared__ u32 bound;
  const int parts = gridDim.y, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int part = (a.vocab + parts - 1) / parts, begin = blockIdx.y * part;
  u64 key = NO_KEY;
  each_logit(logits, begin, min(begin + part, a.vocab), [&](float logit, int id) { if (logit == logit) key = min(key, key_of(logit, id)); });
  u32 mine = (u32)(key >> 32);
  for (int d = 16; d > 0; d >>= 1) {
    key = min(key, __shfl_xor_sync(0xffffffffu, key, d));
    mine = max(mine, __shfl_xor_sync(0xffffffffu, mine, d));
  }
  if (lane == 0) {
    least[warp] = key;
    worst[warp] = most > 32 ? mine : (u32)(key >> 32);
  }
  __syncthreads();
  key = least[lane];
  mine = worst[lane];
  for (int d = 16; d > 0; d >>= 1) {
    key = min(key, __shfl_xor_sync(0xffffffffu, key, d));
    mine = max(mine, __shfl_xor_sync(0xffffffffu, mine, d));
  }
  if (most > THREADS) mine = 0xffffffffu;
  if (threadIdx.x == 0) {
    best = key;
    bound = mine;
    if (parts > 1) {
      Found& all = a.found[row];
      atomicMax(&all.best, ~key);
      atomicMax(&all.bound, ~mine);
      __threadfence();
      const bool isLast = atomicAdd(&all.blocks, 1) == parts - 1;
      __threadfence();
      best = isLast ? ~atomicExch(&all.best, 0ull) : ANOTHER_BLOCK;
      if (isLast) {
        bound = ~atomicExch(&all.bound, 0u);
        all.blocks = 0;
      }
    }
  }
  __syncthreads();
  found = {best, bound, 0};
  return best != ANOTHER_BLOCK;
}

KERNEL(THREADS, sample_rows, SampleArgs) {
  const int row = blockIdx.x;
  const Draw& draw = a.draws[row];
  if (draw.given >= 0) {
    if (threadIdx.x == 0 && blockIdx.y == 0) put_token(a, row, draw.given);
    return;
  }
  const bool isEdited = draw.edited >= 0, isDrawn = draw.flags & IS_DRAWN;
  const float* logits = isEdited ? a.edited + (i64)draw.edited * a.vocab : a.logits + draw.logitRow * a.stride;
  Best best;
  if (!find_best(a, row, logits, isDrawn ? max(row_of(a, draw).topK, draw.numTop) : draw.numTop, best) || threadIdx.x > 0) return;
  a.best[2 * row] = best;
  if (!isEdited) a.best[2 * row + 1] = best;
  const int id = best.key == NO_KEY ? 0 : (int)(u32)best.key;
  const float max = logits[id];
  // Greedy, or no finite logit to draw from; -1: no logit is above -infinity.
  if (!isDrawn || best.key == NO_KEY || fabsf(max) == __uint_as_float(0x7f800000u))
    put_token(a, row, max > __uint_as_float(0xff800000u) ? id : -1);
}

KERNEL(THREADS, draw_rows, SampleArgs) {
  __shared__ Search s;
  const int row = blockIdx.x, vocab = a.vocab, parts = gridDim.y, t = threadIdx.x;
  const Draw& draw = a.draws[row];
  if (draw.given >= 0 || (draw.flags & IS_DRAWN) == 0) return;
  const Row& rule = row_of(a, draw);
  const Best best = a.best[2 * row];
  const float max = logit_of(best.key);
  if (best.key == NO_KEY || fabsf(max) == __uint_as_float(0x7f800000u)) return;
  const float* logits = draw.edited >= 0 ? a.edited + (i64)draw.edited * vocab : a.logits + draw.logitRow * a.stride;
  const bool isFiltered = rule.topK > 0 || rule.topP < 1.f || rule.minP > 0.f;
  const Scale scale = {max, fminf(LOG2E / rule.temperature, 1e30f), 15.5f, rule.topK > 0 ? best.bound : 0xffffffffu, false};
  auto mark_of = [&](u64 total) { return min((u64)(uniform_of(rule, draw) * (double)total), total - 1); };

  if (!isFiltered) {
    // Ids ascending: BINS runs of ids, each a warp's, of which the draw falls into one.
    const int run = ((vocab + BINS - 1) / BINS + 31) & ~31, lane = t & 31, perPart = (BINS + parts - 1) / parts;
    const int first = blockIdx.y * perPart, end = min(first + perPart, BINS);
    s.upTo[t] = 0;
    __syncthreads();
    for (int r = first + (t >> 5); r < end; r += 4 * 32) {
      u64 sums[4] = {0, 0, 0, 0};
#pragma unroll 4
      for (int i = lane; i < run; i += 32) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
          const i64 id = (i64)(r + 32 * j) * run + i;
          if (r + 32 * j < end && id < vocab) sums[j] += Scale::weight_of(scale.x_of(logits[id]));
        }
      }
#pragma unroll
      for (int j = 0; j < 4; j++) {
        for (int d = 16; d > 0; d >>= 1) sums[j] += __shfl_xor_sync(0xffffffffu, sums[j], d);
        if (lane == 0 && r + 32 * j < end) s.upTo[r + 32 * j] = sums[j];
      }
    }
    __syncthreads();
    u32 none = 0;
    u64 weight = s.upTo[t], sum = 0;
    if (!merge(s, a.totals + row, parts, none, weight, sum)) return;
    add_up(s, 0, weight);
    const u64 target = mark_of(s.upTo[BINS - 1]);
    if (s.upTo[t] > target && s.upTo[t] - weight <= target) s.bin = t;
    __syncthreads();
    const int bin = s.bin;
    u64 before = bin == 0 ? 0 : s.upTo[bin - 1];
    for (int i = 0; i < run; i += THREADS) {
      const i64 id = (i64)bin * run + i + t;
      const u64 w = i + t < run && id < vocab ? Scale::weight_of(scale.x_of(logits[id])) : 0;
      const u64 upTo = before + scan_block(w, s.warps);
      if (upTo > target && upTo - w <= target) put_token(a, row, (int)id);
      before += sum_block(w, s.warps);
    }
    return;
  }

  // Filters are leading parts of the order, so the least of their weights is that of what all of them keep.
  const int part = (vocab + parts - 1) / parts, begin = blockIdx.y * part;
  const float least = rule.minP > 0.f ? log2f(rule.minP) : -__uint_as_float(0x7f800000u);
  u64 sum;
  survey<true>(s, scale, logits, begin, min(begin + part, vocab), least, sum);
  u32 count = s.count[t];
  u64 weight = (u64)s.high[t] << 32 | s.low[t];
  if (!merge(s, a.totals + row, parts, count, weight, sum)) return;
  add_up(s, count, weight);
  Collected have = {0, -1};
  u64 mass = s.upTo[BINS - 1], through;
  if (rule.topK > 0 && s.countUpTo[BINS - 1] > (u32)rule.topK) {
    locate<false>(s, scale, logits, vocab, have, (u64)rule.topK - 1, through);
    mass = through;
  }
  if (rule.topP < 1.f) {
    // The smallest leading set whose weight reaches p of the whole: at mark - 1 the sum first exceeds, hence reaches, the mark.
    const u64 mark = (u64)ceil((double)rule.topP * (double)mass);
    locate<true>(s, scale, logits, vocab, have, mark > 0 ? mark - 1 : 0, through);
    mass = min(mass, through);
  }
  if (rule.minP > 0.f) mass = min(mass, sum);
  const u64 key = locate<true>(s, scale, logits, vocab, have, mark_of(mass), through);
  if (t == 0) put_token(a, row, (int)(u32)key);
}

// The best token of rows whose report is not about the logits that they draw from.
KERNEL(THREADS, report_best, SampleArgs) {
  const int row = blockIdx.x;
  const Draw& draw = a.draws[row];
  if (draw.numTop < 0 || (draw.given < 0 && draw.edited < 0)) return;
  Best best;
  if (find_best(a, row, a.logits + draw.logitRow * a.stride, draw.numTop, best) && threadIdx.x == 0) a.best[2 * row + 1] = best;
}

// The log-probability of the row's token and the most probable ones, of the logits before any edit.
KERNEL(THREADS, report_rows, SampleArgs) {
  __shared__ Search s;
  const int row = blockIdx.x, vocab = a.vocab, parts = gridDim.y, t = threadIdx.x;
  const Draw& draw = a.draws[row];
  if (draw.numTop < 0) return;
  const float* logits = a.logits + draw.logitRow * a.stride;
  const Best best = a.best[2 * row + 1];
  const Scale scale = {logit_of(best.key), LOG2E, 2.f, best.bound, true};
  const int part = (vocab + parts - 1) / parts, begin = blockIdx.y * part;
  u64 sum;
  survey<false>(s, scale, logits, begin, min(begin + part, vocab), -__uint_as_float(0x7f800000u), sum);
  u32 count = s.count[t];
  u64 none = 0;
  if (!merge(s, a.totals + row, parts, count, none, sum)) return;
  add_up(s, count, 0);
  // The best one's weight is 2^40, so this is the logarithm of all weights beside it, small ones kept.
  // Where that one is infinite, no log-probability is a number.
  const bool isFinite = fabsf(scale.max) < __uint_as_float(0x7f800000u);
  const float rest = isFinite ? log1pf((float)(i64)(sum - (1ull << 40)) / 1099511627776.f) : __uint_as_float(0x7fc00000u);
  auto report = [&](float logit) { return logit - scale.max - rest; };
  const float none1 = __uint_as_float(0xff800000u);
  if (t == 0) {
    const int token = a.out[row];
    a.logprobs[row] = token < 0 ? none1 : report(logits[token]);
  }
  const int numTop = min(draw.numTop, (int)s.countUpTo[BINS - 1]);
  Collected have = {0, -1};
  u64 through, last = 0;
  if (numTop > 0) last = locate<false>(s, scale, logits, vocab, have, (u64)numTop - 1, through);
  auto put = [&](int i, u64 key) {
    a.topIds[(i64)row * a.maxTop + i] = key == NO_KEY ? -1 : (int)(u32)key;
    a.topLogprobs[(i64)row * a.maxTop + i] = key == NO_KEY ? none1 : report(logit_of(key));
  };
  if (have.first == 0 && have.last >= 0) {
    if (t < numTop) put(t, s.keys[t]);
  } else {  // more tokens share a bin than fit: one by one
    for (int i = 0; i < numTop; i++) {
      const u64 key = i == numTop - 1 ? last : locate<false>(s, scale, logits, vocab, have, (u64)i, through);
      if (t == 0) put(i, key);
    }
  }
  if (t >= numTop && t < draw.numTop) put(t, NO_KEY);
}
