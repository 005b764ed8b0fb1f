// Attention over bf16 pages on tiles, for any number of rows: kernels/attention-item.h with other products.
//
// Maths    keys and values are the page's own bf16; q and the probabilities are the sum of two, high + low: 16 bits of each number count.
// Order    a score: steps of 32 dims ascending, of each the high part of q, then the low one; an output: steps of 32 keys at absolute
//          positions ascending, likewise; a pair of keys is one of the first 16 and its like of the last 16 of a step. tiles.h says what
//          a product does. The same for one row and for many.
// Tiling   A tile of 64 keys is packed once for all rows: keys in pairs of dims, values in pairs of keys. 16 packed rows meet 32 keys,
//          or 32 columns of values, at a time: two sums, and five registers in use. While vectors make the probabilities of 16 rows, tiles
//          have the outputs of the 16 before and the scores of the 16 after them to make.
// Masks    a key that a row does not see has the probability 0. Values that are not finite are left out of the products, where they
//          would reach rows that do not see them, and are added row by row.
#include "../kernels/attention-item.h"
#include "../kernels/attention-scores.h"
#include "round-bf16.h"
#include "tile-matmul.h"

namespace pg {
namespace avx512 {
extern const AttentionKernels attention_kernels;
}
namespace PG_NS {
namespace {

constexpr int kParts = 2;                                 // high, low
constexpr int kKeyGroups = kTileKeys / 16;
constexpr int kKeySteps = kTileKeys / (int)kStepCols;
constexpr int64_t kTileBytes = kStepTileBytes;            // of every operand: 16 x 64 bytes

// Registers: two sums, q or probabilities, keys or values.
enum : int { kSum0, kSum1, kA, kB0, kB1 };

TileConfig config_for(int rows) {
  TileConfig config;
  for (int tile = kSum0; tile <= kA; tile++) config.set(tile, rows, 64);
  for (int tile = kB0; tile <= kB1; tile++) config.set(tile, kTileRows, 64);
  return config;
}

// A step: both parts of A by two tiles of B, b_stride apart.
PG_INLINE void add_products(const uint8_t* a, const uint8_t* b, int64_t b_stride) {
  tile_load<kB0>(b, 64);
  tile_load<kA>(a, 64);
  tile_dot_bf16<kSum0, kA, kB0>();
  tile_load<kB1>(b + b_stride, 64);
  tile_dot_bf16<kSum1, kA, kB1>();
  tile_load<kA>(a + kTileBytes, 64);
  tile_dot_bf16<kSum0, kA, kB0>();
  tile_dot_bf16<kSum1, kA, kB1>();
}

// 32 numbers of q as bf16, high parts at `to`, low ones a tile further.
PG_INLINE void store_parts(uint8_t* to, vf first, vf second) {
  const auto store = [&](vf x, int64_t at) {
    const __m512i high = _mm512_and_si512(rounded(x), _mm512_set1_epi32((int)0xffff0000u));
    _mm256_storeu_si256((__m256i*)(to + at), _mm512_cvtepi32_epi16(_mm512_srli_epi32(high, 16)));
    _mm256_storeu_si256((__m256i*)(to + kTileBytes + at), to_bf16(x - (vf)_mm512_castsi512_ps(high)));
  };
  store(first, 0);
  store(second, 32);
}

// 32 probabilities likewise, number i of `first` beside number i of `second`: no shuffle is needed for that. Rounded halfway cases go up.
// NaN stays NaN, since made from bf16 it has ones only in its upper half.
PG_INLINE void store_paired_parts(uint8_t* to, vf first, vf second) {
  const __m512i upper = _mm512_set1_epi32((int)0xffff0000u), half = _mm512_set1_epi32(0x8000);
  const auto near = [&](vf x) { return _mm512_add_epi32(_mm512_castps_si512((__m512)x), half); };
  const auto pairs = [&](__m512i a, __m512i b) { return _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(a, 16), b); };
  const __m512i a = near(first), b = near(second);
  const auto rest = [&](vf x, __m512i x_near) { return x - (vf)_mm512_castsi512_ps(_mm512_and_si512(x_near, upper)); };
  _mm512_storeu_si512(to, pairs(a, b));
  _mm512_storeu_si512(to + kTileBytes, pairs(near(rest(first, a)), near(rest(second, b))));
}

// Lane i: the largest of x[i].
PG_INLINE vf largest_of_each(const vf (&x)[VL]) {
  __m512 fours[4];  // [i]: four numbers of x[i], x[i + 4], x[i + 8], x[i + 12]
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    const auto eights = [&](int at) {
      return _mm512_max_ps(_mm512_shuffle_f32x4(x[at], x[at + 4], 0x44), _mm512_shuffle_f32x4(x[at], x[at + 4], 0xee));
    };
    const __m512 a = eights(i), b = eights(i + 8);
    fours[i] = _mm512_max_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
  }
  const auto twos = [&](int at) {
    const __m512d a = _mm512_castps_pd(fours[at]), b = _mm512_castps_pd(fours[at + 1]);
    return _mm512_max_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
  };
  const __m512 a = twos(0), b = twos(2);
  return _mm512_max_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}

// Bits [from, to) of a tile's keys.
PG_INLINE uint64_t keys_between(int from, int to) {
  const auto below = [](int n) { return n >= kTileKeys ? ~0ull : n <= 0 ? 0 : (1ull << n) - 1; };
  return below(to) & ~below(from);
}

struct Bf16Tile {
  static constexpr bool scaled = false;
  TileScratch& s;
  const KvPool& pool;
  const float softcap;
  const int32_t count;
  const int64_t dim_steps, columns, padded;  // columns: tiles of 16 of the output
  uint8_t* q;       // [row tiles][dim_steps][kParts][16][32]
  uint8_t* keys;    // [kKeyGroups][dim_steps][16 pairs of dims][16 keys][2]
  uint8_t* values;  // [columns][kKeySteps][16 pairs of keys][16][2]
  uint8_t* p;       // [2][kKeySteps][kParts][16][32], by turns: keys 0 16 1 17 .. of a step
  float* scores;    // [2][16][kTileKeys], by turns
  bool is_finite;   // all values of the tile
  const TileScope scope;

  static int64_t room(int32_t q_tile, int32_t key_dim, int32_t value_dim) {
    const int64_t steps = steps_of(key_dim);
    const int64_t row_tiles = round_up(q_tile, kTileRows) / kTileRows;
    return kTileBytes * (row_tiles * steps * kParts + kKeyGroups * steps + value_dim / 16 * kKeySteps + 2 * kKeySteps * kParts +
                         2 * kKeyGroups + row_tiles * value_dim / 16);
  }

  Bf16Tile(TileScratch& scratch, const KvPool& pages, float cap, int32_t rows, uint8_t* rest)
      : s(scratch), pool(pages), softcap(cap), count(rows), dim_steps(steps_of(pages.key_dim)), columns(pages.value_dim / 16),
        padded(pages.value_dim), q(rest), keys(q + round_up(rows, kTileRows) / kTileRows * dim_steps * kParts * kTileBytes),
        values(keys + kKeyGroups * dim_steps * kTileBytes), p(values + columns * kKeySteps * kTileBytes),
        scores((float*)(p + 2 * kKeySteps * kParts * kTileBytes)), is_finite(true), scope(config_for(i_min(rows, kTileRows))) {
    s.out = scores + 2 * kTileRows * kTileKeys;  // [row tiles][16, padded]: tiles are loaded and stored whole
    for (int32_t i = 0; i < count; i++)
      for (int64_t step = 0; step < dim_steps; step++) {
        const float* from = s.q + i * pool.key_dim + step * kStepCols;
        store_parts(q + ((i / kTileRows * dim_steps + step) * kParts * kTileRows + i % kTileRows) * 64, v_load(from), v_load(from + VL));
      }
  }

  // Pairs of dims of 16 keys side by side, for keys [from, to) in whole groups.
  void pack_keys(const TileRows& rows, const TileRows& next, int from, int to) {
    for (int group = from / 16; group < (to + 15) / 16; group++)
      for (int64_t step = 0; step < dim_steps; step++) {
        vf x[VL];
#pragma GCC unroll 16
        for (int i = 0; i < VL; i++) {
          x[i] = v_load((const float*)(rows.keys[group * 16 + i] + step * 64));
          __builtin_prefetch(next.keys[group * 16 + i] + step * 64, 0, 2);
        }
        transpose(x);
        float* to_tile = (float*)(keys + (group * dim_steps + step) * kTileBytes);
#pragma GCC unroll 16
        for (int i = 0; i < VL; i++) v_store(to_tile + i * VL, x[i]);
      }
  }

  // Pairs of keys, 16 apart, of 32 columns at a time; zeros for keys outside [from, to) and for what is not finite.
  void pack_values(const TileRows& rows, const TileRows& next, int from, int to) {
    const __m512i exponent = _mm512_set1_epi16(0x7f80);
    // Quarters of columns such that pairing, which works within lanes, has the first 16 in one vector and the others in the second.
    const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    bool is_infinite = false;
    const auto not_finite = [&](__m512i x) { return _mm512_cmpeq_epi16_mask(_mm512_and_si512(x, exponent), exponent); };
    for (int pair_of_keys = 0; pair_of_keys < kTileKeys / 2; pair_of_keys++) {
      const int step = pair_of_keys / 16, key = step * (int)kStepCols + pair_of_keys % 16;
      const bool has_first = key >= from && key < to, has_second = key + 16 >= from && key + 16 < to;
      for (int64_t column = 0; column < columns; column += 2) {
        __m512i first = _mm512_setzero_si512(), second = first;
        if (has_first) first = _mm512_loadu_si512(rows.values[key] + column * 32);
        if (has_second) second = _mm512_loadu_si512(rows.values[key + 16] + column * 32);
        __builtin_prefetch(next.values[key] + column * 32, 0, 2);
        __builtin_prefetch(next.values[key + 16] + column * 32, 0, 2);
        const __mmask32 bad_first = not_finite(first), bad_second = not_finite(second);
        if (__builtin_expect((bad_first | bad_second) != 0, 0)) {
          is_infinite = true;
          first = _mm512_maskz_mov_epi16(~bad_first, first);
          second = _mm512_maskz_mov_epi16(~bad_second, second);
        }
        first = _mm512_permutexvar_epi64(order, first);
        second = _mm512_permutexvar_epi64(order, second);
        uint8_t* to_tile = values + (column * kKeySteps + step) * kTileBytes + pair_of_keys % 16 * 64;
        _mm512_storeu_si512(to_tile, _mm512_unpacklo_epi16(first, second));
        _mm512_storeu_si512(to_tile + kKeySteps * kTileBytes, _mm512_unpackhi_epi16(first, second));
      }
    }
    is_finite = !is_infinite;
  }

  // Scores of the row tile from `row` on, for the keys of the tile that any of its rows sees, in pairs of groups.
  void make_scores(int32_t row, int32_t tile) {
    float* to = scores_of(row);
    const int32_t last_row = i_min(row + kTileRows, count) - 1;
    // Both bounds grow with the row.
    const int first = i_max(0, s.first[row] - tile) / 32 * 2, last = (i_min(kTileKeys, s.last[last_row] - tile) + 15) / 16;
    const uint8_t* a = q + row / kTileRows * dim_steps * kParts * kTileBytes;
    const int64_t group_bytes = dim_steps * kTileBytes;
    for (int group = first; group < last; group += 2) {
      tile_zero<kSum0>();
      tile_zero<kSum1>();
      for (int64_t step = 0; step < dim_steps; step++)
        add_products(a + step * kParts * kTileBytes, keys + group * group_bytes + step * kTileBytes, group_bytes);
      tile_store<kSum0>(to + group * 16, kTileKeys * 4);
      tile_store<kSum1>(to + group * 16 + 16, kTileKeys * 4);
    }
  }

  // Online softmax of a row tile: scores -> probabilities, as parts in p; maxima and sums moved on, outputs rescaled. All rows take each
  // step together: the chain from a row's scores to its probabilities is longer than its work. The same numbers as SoftmaxStep's.
  // kWhole: every row sees every key.
  template <bool kWhole>
  void make_probabilities(int32_t row, int32_t tile) {
    const int rows = i_min(kTileRows, count - row);
    float* x = scores_of(row);
    uint8_t* parts = probabilities_of(row);
    const vf lowest = v_set(kMinusInfinity);
    uint64_t seen[kTileRows];  // bits of keys
    vf tops[kTileRows];
    for (int r = 0; r < kTileRows; r++) tops[r] = lowest;
    for (int r = 0; r < rows; r++) {
      if (!kWhole) seen[r] = keys_between(s.first[row + r] - tile, s.last[row + r] - tile);
#pragma GCC unroll 4
      for (int v = 0; v < kTileSteps; v++) {
        const __mmask16 lanes = kWhole ? 0xffff : (__mmask16)(seen[r] >> v * VL);
        if (!kWhole && lanes == 0) continue;
        float* at = x + r * kTileKeys + v * VL;
        vf score = v_load(at);
        if (softcap != 0.0f) v_store(at, score = v_set(softcap * kLog2e) * v_tanh(score));
        tops[r] = (vf)_mm512_mask_max_ps(tops[r], lanes, score, tops[r]);
      }
    }
    const __mmask16 all_rows = (__mmask16)((1u << rows) - 1);
    const vf before = (vf)_mm512_mask_loadu_ps(lowest, all_rows, s.maxima + row);
    const vf now = (vf)_mm512_max_ps(largest_of_each(tops), before);
    // All scores -inf: any finite base will do.
    const vf base = (vf)_mm512_mask_mov_ps(now, _mm512_cmp_ps_mask(now, lowest, _CMP_EQ_OQ), _mm512_setzero_ps());
    const __mmask16 risen = _mm512_cmp_ps_mask(now, before, _CMP_NEQ_OQ) & _mm512_cmp_ps_mask(before, lowest, _CMP_NEQ_OQ);
    _mm512_mask_storeu_ps(s.maxima + row, all_rows, now);
    alignas(64) float bases[kTileRows], shrinks[kTileRows];
    v_store(bases, base);
    if (risen != 0) v_store(shrinks, v_exp2(before - base));
    for (uint32_t left = risen; left != 0; left &= left - 1) {
      const int r = __builtin_ctz(left);
      const vf shrink = v_set(shrinks[r]);
      float* sums = s.sums + int64_t{row + r} * VL;
      v_store(sums, v_load(sums) * shrink);
      for (int64_t i = 0; i < padded; i += VL) v_store(s.out + (row + r) * padded + i, v_load(s.out + (row + r) * padded + i) * shrink);
    }
    for (int r = 0; r < rows; r++) {
      vf sum = v_load(s.sums + int64_t{row + r} * VL);
#pragma GCC unroll 2
      for (int step = 0; step < kKeySteps; step++) {
        vf both[2] = {v_set(0.0f), v_set(0.0f)};
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
          const __mmask16 lanes = kWhole ? 0xffff : (__mmask16)(seen[r] >> (2 * step + i) * VL);
          if (!kWhole && lanes == 0) continue;
          float* at = x + r * kTileKeys + (2 * step + i) * VL;
          both[i] = (vf)_mm512_maskz_mov_ps(lanes, v_exp2_clamped(v_load(at) - v_set(bases[r])));
          sum = sum + both[i];
          if (!is_finite) v_store(at, both[i]);
        }
        store_paired_parts(parts + (step * kParts * kTileRows + r) * 64, both[0], both[1]);
      }
      v_store(s.sums + int64_t{row + r} * VL, sum);
    }
  }

  uint8_t* probabilities_of(int32_t row) { return p + row / kTileRows % 2 * kKeySteps * kParts * kTileBytes; }
  float* scores_of(int32_t row) { return scores + row / kTileRows % 2 * kTileRows * kTileKeys; }

  void add_values(int32_t row) {
    const uint8_t* a = probabilities_of(row);
    float* out = s.out + row * padded;
    for (int64_t column = 0; column < columns; column += 2, out += 32) {
      tile_load<kSum0>(out, padded * 4);
      tile_load<kSum1>(out + 16, padded * 4);
      for (int64_t step = 0; step < kKeySteps; step++)
        add_products(a + step * kParts * kTileBytes, values + (column * kKeySteps + step) * kTileBytes, kKeySteps * kTileBytes);
      tile_store<kSum0>(out, padded * 4);
      tile_store<kSum1>(out + 16, padded * 4);
    }
  }

  // Values, and those that pack_values left out.
  void add_outputs(const TileRows& rows, int32_t row, int32_t tile) {
    add_values(row);
    if (is_finite) return;
    for (int32_t r = row; r < i_min(row + kTileRows, count); r++)
      for (int key = i_max(0, s.first[r] - tile); key < i_min(kTileKeys, s.last[r] - tile); key++)
        for (int64_t i = 0; i < padded; i++) {
          const float value = s_from_bf16(((const uint16_t*)rows.values[key])[i]);
          if (value - value != 0.0f) s.out[r * padded + i] += scores_of(row)[(r - row) * kTileKeys + key] * value;
        }
  }

  void run(const TileRows& rows_of_tile, const TileRows& next, int32_t tile, int32_t from, int32_t to, int32_t row_begin,
           int32_t row_end) {
    pack_keys(rows_of_tile, next, from - tile, to - tile);
    pack_values(rows_of_tile, next, from - tile, to - tile);
    const int32_t begin = row_begin / kTileRows * kTileRows;
    make_scores(begin, tile);
    for (int32_t row = begin; row < row_end; row += kTileRows) {
      if (row > begin) add_outputs(rows_of_tile, row - kTileRows, tile);
      if (row + kTileRows < row_end) make_scores(row + kTileRows, tile);
      if (s.first[i_min(row + kTileRows, count) - 1] <= tile && s.last[row] >= tile + kTileKeys) make_probabilities<true>(row, tile);
      else make_probabilities<false>(row, tile);
    }
    add_outputs(rows_of_tile, (row_end - 1) / kTileRows * kTileRows, tile);
  }
};

// By what a pool is, never by a batch: a row has one way to be computed.
bool is_on_tiles(const KvPool& pool) {
  return pool.dtype == KvDtype::bf16 && pool.key_dim % kStepCols == 0 && pool.value_dim % 32 == 0;
}

int64_t room_of_worker(int32_t q_tile, int32_t key_dim, int32_t value_dim) {
  return scratch_bytes(q_tile, key_dim, value_dim) + Bf16Tile::room(q_tile, key_dim, value_dim);
}

void run_item(const AttentionArgs& a, void* scratch, const AttentionUnit& unit, const AttentionUnit* next) {
  if (is_on_tiles(*a.pool)) run_item_of<Bf16Tile>(a, scratch, unit, next);
  else avx512::attention_kernels.run_item(a, scratch, unit, next);
}

// Merging a state is the same whatever made it.
void run_merge(const AttentionArgs& a, int32_t merge, int32_t head) { avx512::attention_kernels.run_merge(a, merge, head); }

}  // namespace

extern const AttentionKernels attention_on_tiles;
const AttentionKernels attention_on_tiles = {room_of_worker, run_item, run_merge};

}  // namespace PG_NS
}  // namespace pg
