// The recurrent kernels (linear-attention.h), a block of kCols columns of the state at a time.
//
// Delta rule: one pass a token. The rows are brought up to date with the token before, and multiplied by this token's key and query on
// the way; out, which is of the state after the token, needs no second pass:
//
//   S = g' S + k' u'^T;   a = S^T k;   b = S^T q;   then  u = r (v - g a),   out = g b + (k . q) u + skip v
//
// Otherwise u is known beforehand, and two tokens share a pass. What bounds both is loads and stores of L1, not arithmetic: so blocks are
// as wide as registers allow, since every key and query is loaded once for a row of the block, and the delta rule loads those of four rows at
// once where one instruction spreads them.
//
// Order: sums over keys ascend in one chain for every column; k . q runs in VL partial sums, added by a tree. S depends on nothing but its tokens. So the
// bits do not depend on how a row is cut into steps.
//
// Scalar twin: src/device/reference/recurrent.ts.
#include "../linear-attention.h"

#include "simd-math.h"

namespace pg {
namespace PG_NS {
namespace {

#if PG_ISA == 3
constexpr int32_t kCols = 64;  // S of 128 keys takes 32 KiB
#else
constexpr int32_t kCols = 32;
#endif
constexpr int kVectors = kCols / VL;
constexpr int32_t kLine = 16;      // numbers of a cache line
constexpr int32_t kConvAhead = 2;  // tokens

// The block: rows `stride` apart, kCols of each.
struct Rows {
  float* at;
  int64_t stride;
};

// Rows padded with zeros to kCols.
void load_block(const Rows& block, const LinearAttentionWork& w) {
  for (int32_t i = 0; i < w.key_dim; i++) {
    float* row = block.at + i * block.stride;
    const float* from = w.state + (int64_t)i * w.value_dim;
    const int32_t kept = w.starts ? 0 : w.cols;
    if (kept == kCols) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; v++) v_store(row + v * VL, v_load(from + v * VL));
    } else {
      for (int32_t c = 0; c < kept; c++) row[c] = from[c];
      for (int32_t c = kept; c < kCols; c++) row[c] = 0.0f;
    }
  }
}

void store_block(const Rows& block, const LinearAttentionWork& w) {
  for (int32_t i = 0; i < w.key_dim; i++) {
    const float* row = block.at + i * block.stride;
    float* to = w.state + (int64_t)i * w.value_dim;
    if (w.cols == kCols) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; v++) v_store(to + v * VL, v_load(row + v * VL));
    } else {
      for (int32_t c = 0; c < w.cols; c++) to[c] = row[c];
    }
  }
}

// A token: what it reads, and what it adds to the state.
struct Token {
  const float* k;
  const float* q;
  const float* later_k;  // of the token in its place in the next pass
  const float* later_q;
  float decay;
  vf u[kVectors];
  vf value[kVectors];
};

// Tokens lie far apart, each on pages of its own, so nothing but this fetches them in time: what token t + ahead reads and writes is fetched
// while t is worked on, its values here and its key and query along the rows of the pass.
template <int Ahead>
void read_token(Token& token, const LinearAttentionWork& w, int32_t t) {
  const int32_t later = t + Ahead < w.tokens ? t + Ahead : t;
  token.k = w.k + t * w.k_stride;
  token.q = w.q + t * w.q_stride;
  token.later_k = w.k + later * w.k_stride;
  token.later_q = w.q + later * w.q_stride;
  token.decay = w.decay[t * w.decay_stride];
  __builtin_prefetch(w.decay + later * w.decay_stride, 0);
  __builtin_prefetch(w.rate + later * w.rate_stride, 0);
  for (int c = 0; c < kCols; c += kLine) {
    __builtin_prefetch(w.v + later * w.v_stride + c, 0);
    __builtin_prefetch(w.out + later * w.out_stride + c, 1);
  }
  const float* v = w.v + t * w.v_stride;
#pragma GCC unroll 8
  for (int i = 0; i < kVectors; i++) {
    const int left = w.cols - i * VL;
    token.value[i] = left >= VL ? v_load(v + i * VL) : left > 0 ? v_load_some(v + i * VL, left) : v_set(0.0f);
    token.u[i] = v_set(w.rate[t * w.rate_stride]) * token.value[i];
  }
}

PG_INLINE void fetch_later(const Token& token, int32_t i) {
  __builtin_prefetch(token.later_k + i, 0);
  __builtin_prefetch(token.later_q + i, 0);
}

void write_out(const LinearAttentionWork& w, int32_t t, const Token& token, const vf* out) {
  float* to = w.out + t * w.out_stride;
#pragma GCC unroll 8
  for (int i = 0; i < kVectors; i++) {
    const int left = w.cols - i * VL;
    const vf result = v_madd(v_set(w.skip), token.value[i], out[i]);
    if (left >= VL) v_store(to + i * VL, result);
    else if (left > 0) v_store_some(to + i * VL, result, left);
  }
}

// What the tokens add, and their sums over the rows so far.
template <int Tokens>
struct StateSpaceSums {
  vf u[Tokens][kVectors], by_query[Tokens][kVectors];
};

template <int Tokens>
PG_INLINE void state_space_row(StateSpaceSums<Tokens>& sums, float* row, const Token* tokens, int32_t i) {
  vf s[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; v++) s[v] = v_load(row + v * VL);
#pragma GCC unroll 2
  for (int t = 0; t < Tokens; t++) {
    const vf key = v_set(tokens[t].k[i]), query = v_set(tokens[t].q[i]), decay = v_set(tokens[t].decay);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; v++) {
      s[v] = v_madd(s[v], decay, key * sums.u[t][v]);
      sums.by_query[t][v] = v_madd(s[v], query, sums.by_query[t][v]);
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; v++) v_store(row + v * VL, s[v]);
}

// S = g S + k u^T of each of the tokens in turn; out[t] = S^T q after it.
template <int Tokens>
PG_INLINE void state_space_pass(const Rows& block, const Token* tokens, int32_t key_dim, vf (*out)[kVectors]) {
  StateSpaceSums<Tokens> sums;
#pragma GCC unroll 2
  for (int t = 0; t < Tokens; t++)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; v++) {
      sums.u[t][v] = tokens[t].u[v];
      sums.by_query[t][v] = v_set(0.0f);
    }
  int32_t i = 0;
  for (; i + 4 <= key_dim; i += 4) {
#pragma GCC unroll 2
    for (int t = 0; t < Tokens; t++) fetch_later(tokens[t], i);
    float* row = block.at + i * block.stride;
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) state_space_row<Tokens>(sums, row + r * block.stride, tokens, i + r);
  }
  for (; i < key_dim; i++) state_space_row<Tokens>(sums, block.at + i * block.stride, tokens, i);
#pragma GCC unroll 2
  for (int t = 0; t < Tokens; t++)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; v++) out[t][v] = sums.by_query[t][v];
}

void state_space(const Rows& block, const LinearAttentionWork& w) {
  Token tokens[2];
  vf out[2][kVectors];
  int32_t t = 0;
  for (; t + 2 <= w.tokens; t += 2) {
    for (int i = 0; i < 2; i++) read_token<2>(tokens[i], w, t + i);
    state_space_pass<2>(block, tokens, w.key_dim, out);
    for (int i = 0; i < 2; i++) write_out(w, t + i, tokens[i], out[i]);
  }
  if (t == w.tokens) return;
  read_token<2>(tokens[0], w, t);
  state_space_pass<1>(block, tokens, w.key_dim, out);
  write_out(w, t, tokens[0], out[0]);
}

#if PG_ISA == 3
// Four numbers, to be spread over all lanes one by one.
typedef __m512 Quad;
PG_INLINE Quad quad_at(const float* p) { return _mm512_broadcast_f32x4(_mm_loadu_ps(p)); }
template <int I>
PG_INLINE vf spread(Quad four) { return _mm512_permute_ps(four, I * 0x55); }
#else
typedef const float* Quad;
PG_INLINE Quad quad_at(const float* p) { return p; }
template <int I>
PG_INLINE vf spread(Quad four) { return v_set(four[I]); }
#endif

// Sums over the rows so far, and what the token before adds.
struct DeltaSums {
  vf u[kVectors], by_key[kVectors], by_query[kVectors];
  vf decay;
};

template <bool Updates, bool Dots>
PG_INLINE void delta_row(DeltaSums& sums, float* row, vf key_before, vf key, vf query) {
  vf s[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; v++) s[v] = v_load(row + v * VL);
  if constexpr (Updates)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; v++) {
      s[v] = v_madd(s[v], sums.decay, key_before * sums.u[v]);
      v_store(row + v * VL, s[v]);
    }
  if constexpr (Dots)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; v++) {
      sums.by_key[v] = v_madd(s[v], key, sums.by_key[v]);
      sums.by_query[v] = v_madd(s[v], query, sums.by_query[v]);
    }
}

// Updates: the rows are brought up to date with the token `before`. Dots: a and b are their sums by the key and the query of `token`.
template <bool Updates, bool Dots>
PG_INLINE void delta_pass(const Rows& block, const Token& before, const Token& token, int32_t key_dim, vf* a, vf* b) {
  DeltaSums sums;
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; v++) {
    if constexpr (Updates) sums.u[v] = before.u[v];
    sums.by_key[v] = sums.by_query[v] = v_set(0.0f);
  }
  sums.decay = v_set(before.decay);
  // What a pass does not use it does not read: the keys of `token` stand in for those of no token before.
  const float* key_before = Updates ? before.k : token.k;
  int32_t i = 0;
  for (; i + 4 <= key_dim; i += 4) {
    if constexpr (Dots) fetch_later(token, i);
    float* row = block.at + i * block.stride;
    const Quad p = quad_at(key_before + i), k = quad_at(token.k + i), q = quad_at(token.q + i);
    delta_row<Updates, Dots>(sums, row, spread<0>(p), spread<0>(k), spread<0>(q));
    delta_row<Updates, Dots>(sums, row + block.stride, spread<1>(p), spread<1>(k), spread<1>(q));
    delta_row<Updates, Dots>(sums, row + 2 * block.stride, spread<2>(p), spread<2>(k), spread<2>(q));
    delta_row<Updates, Dots>(sums, row + 3 * block.stride, spread<3>(p), spread<3>(k), spread<3>(q));
  }
  for (; i < key_dim; i++)
    delta_row<Updates, Dots>(sums, block.at + i * block.stride, v_set(key_before[i]), v_set(token.k[i]), v_set(token.q[i]));
  if constexpr (Dots)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; v++) {
      a[v] = sums.by_key[v];
      b[v] = sums.by_query[v];
    }
}

float dot(const float* k, const float* q, int32_t size) {
  vf sum = v_set(0.0f);
  int32_t i = 0;
  for (; i + VL <= size; i += VL) sum = v_madd(v_load(k + i), v_load(q + i), sum);
  alignas(64) float lanes[VL];
  v_store(lanes, sum);
  for (int c = 0; i < size; i++, c++) lanes[c] += k[i] * q[i];
  for (int half = VL / 2; half > 0; half /= 2)
    for (int c = 0; c < half; c++) lanes[c] += lanes[c + half];
  return lanes[0];
}

void delta_rule(const Rows& block, const LinearAttentionWork& w) {
  Token before = {}, token;
  for (int32_t t = 0; t < w.tokens; t++) {
    read_token<1>(token, w, t);
    // Before the pass, so that its latency hides behind the first rows.
    const vf along = v_set(dot(token.k, token.q, w.key_dim));
    vf a[kVectors], b[kVectors];
    if (t == 0) delta_pass<false, true>(block, before, token, w.key_dim, a, b);
    else delta_pass<true, true>(block, before, token, w.key_dim, a, b);
    const vf decay = v_set(token.decay), rate = v_set(w.rate[t * w.rate_stride]);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; v++) {
      token.u[v] = rate * (token.value[v] - decay * a[v]);
      b[v] = v_madd(along, token.u[v], decay * b[v]);
    }
    write_out(w, t, token, b);
    before = token;
  }
  delta_pass<true, false>(block, before, token, w.key_dim, nullptr, nullptr);
}

// A step reads and writes each state once, however many tokens it has: the block is copied to the stack, stays in L1 over all of them, and
// goes back. One token alone works on the state where it lies.
void linear_attention(const LinearAttentionWork& w) {
  alignas(64) float copy[kMaxStateKeys * kCols];
  const bool in_place = w.tokens == 1 && w.cols == kCols && !w.starts;
  const Rows block = in_place ? Rows{w.state, w.value_dim} : Rows{copy, kCols};
  if (!in_place) load_block(block, w);
  const auto run = [&](const LinearAttentionWork& some) { (w.is_delta ? delta_rule : state_space)(block, some); };
  if (w.kept == w.tokens) {
    run(w);
    if (!in_place) store_block(block, w);
    return;
  }
  LinearAttentionWork kept = w, guessed = w;
  kept.tokens = w.kept;
  guessed.tokens = w.tokens - w.kept;
  guessed.out += w.kept * w.out_stride;
  guessed.q += w.kept * w.q_stride;
  guessed.k += w.kept * w.k_stride;
  guessed.v += w.kept * w.v_stride;
  guessed.decay += w.kept * w.decay_stride;
  guessed.rate += w.kept * w.rate_stride;
  run(kept);
  store_block(block, w);
  run(guessed);
}

// Token by token, so that rows are read in order; a tap that lies before the row is in the state, oldest first. A token's piece is too
// short for the processor to see what comes: the rows of the token after next are fetched meanwhile. Taps: 0 when known at run time only.
template <int Taps, bool Silu>
void conv_tokens(const ShortConvWork& w) {
  static constexpr float kZeros[kConvCols] = {};
  const int32_t taps = Taps == 0 ? w.kernel : Taps, history = taps - 1;
  const auto input = [&](int32_t at) {
    return at >= 0 ? w.x + at * w.x_stride : w.starts ? kZeros : w.state + (at + history) * w.state_stride;
  };
  for (int32_t t = 0; t < w.tokens; t++) {
    const float* from[kMaxTaps];
    for (int32_t j = 0; j < taps; j++) from[j] = input(t - history + j);
    float* out = w.out + t * w.out_stride;
    const int32_t later = t + kConvAhead < w.tokens ? kConvAhead : 0;
    each_step(w.cols, [&](int64_t col, int lanes) {
      __builtin_prefetch(w.x + (t + later) * w.x_stride + col, 0);
      __builtin_prefetch(out + later * w.out_stride + col, 1);
      vf sum = w.bias == nullptr ? v_set(0.0f) : v_load_some(w.bias + col, lanes);
#pragma GCC unroll 4
      for (int32_t j = 0; j < taps; j++)
        sum = v_madd(v_load_some(w.weight + j * w.weight_stride + col, lanes), v_load_some(from[j] + col, lanes), sum);
      v_store_some(out + col, Silu ? v_silu(sum) : sum, lanes);
    });
  }
  // Ascending: each place is read before it is written, since inputs only move towards the front.
  for (int32_t j = 0; j < history; j++) {
    const float* from = input(w.kept - history + j);
    float* to = w.state + j * w.state_stride;
    each_step(w.cols, [&](int64_t col, int lanes) { v_store_some(to + col, v_load_some(from + col, lanes), lanes); });
  }
}

void short_conv(const ShortConvWork& w) {
  if (w.kernel == 4) (w.silu ? conv_tokens<4, true> : conv_tokens<4, false>)(w);
  else (w.silu ? conv_tokens<0, true> : conv_tokens<0, false>)(w);
}

}  // namespace

extern const RecurrentKernels recurrent_kernels;
const RecurrentKernels recurrent_kernels = {kCols, linear_attention, short_conv};

}  // namespace PG_NS
}  // namespace pg
