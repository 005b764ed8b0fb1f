// Attention over bf16 pages on tiles, for any number of rows: kernels/attention-item.h with other products.
//
// Maths    keys and values are the page's own bf16; q and the probabilities are the sum of two, high + low: 16 bits of each number count.
// Order    a score: steps of 32 dims ascending, of each the high part of q, then the low one; an output: steps of 32 keys at absolute
//          positions ascending, likewise. tiles.h says what a product does. The same for one row and for many.
// Tiling   A tile of 64 keys is packed once for all rows: keys in pairs of dims, values in pairs of keys. 16 packed rows meet 32 keys,
//          or 32 columns of values, at a time: two sums, and five registers in use.
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

// 32 numbers as bf16, high parts at `to`, low ones a tile further.
PG_INLINE void store_parts(uint8_t* to, vf first, vf second) {
  const auto store = [&](vf x, int64_t at) {
    const __m512i high = _mm512_and_si512(rounded(x), _mm512_set1_epi32((int)0xffff0000u));
    _mm256_storeu_si256((__m256i*)(to + at), _mm512_cvtepi32_epi16(_mm512_srli_epi32(high, 16)));
    _mm256_storeu_si256((__m256i*)(to + kTileBytes + at), to_bf16(x - (vf)_mm512_castsi512_ps(high)));
  };
  store(first, 0);
  store(second, 32);
}

PG_INLINE int within_vector(int key, int v) { return i_max(0, i_min(VL, key - v * VL)); }

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
  uint8_t* p;       // [kKeySteps][kParts][16][32]
  bool is_finite;   // all values of the tile
  const TileScope scope;

  static int64_t room(int32_t q_tile, int32_t key_dim, int32_t value_dim) {
    const int64_t steps = steps_of(key_dim);
    const int64_t row_tiles = round_up(q_tile, kTileRows) / kTileRows;
    return kTileBytes * (row_tiles * steps * kParts + kKeyGroups * steps + value_dim / 16 * kKeySteps + kKeySteps * kParts +
                         row_tiles * value_dim / 16);
  }

  Bf16Tile(TileScratch& scratch, const KvPool& pages, float cap, int32_t rows, uint8_t* rest)
      : s(scratch), pool(pages), softcap(cap), count(rows), dim_steps(steps_of(pages.key_dim)), columns(pages.value_dim / 16),
        padded(pages.value_dim), q(rest), keys(q + round_up(rows, kTileRows) / kTileRows * dim_steps * kParts * kTileBytes),
        values(keys + kKeyGroups * dim_steps * kTileBytes), p(values + columns * kKeySteps * kTileBytes), is_finite(true),
        scope(config_for(i_min(rows, kTileRows))) {
    s.out = (float*)(p + kKeySteps * kParts * kTileBytes);  // [row tiles][16, padded]: tiles are loaded and stored whole
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

  // Pairs of keys of 16 columns; zeros for keys outside [from, to) and for what is not finite.
  void pack_values(const TileRows& rows, const TileRows& next, int from, int to) {
    const __m512i exponent = _mm512_set1_epi16(0x7f80);
    __mmask32 infinite = 0;
    for (int key = 0; key < kTileKeys; key += 2)
      for (int64_t column = 0; column < columns; column++) {
        const auto load = [&](int j) {
          if (j < from || j >= to) return _mm512_setzero_si512();
          __builtin_prefetch(next.values[j] + column * 32, 0, 2);
          return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)(rows.values[j] + column * 32)));
        };
        const __m512i pair = _mm512_or_si512(load(key), _mm512_slli_epi32(load(key + 1), 16));
        const __mmask32 bad = _mm512_cmpeq_epi16_mask(_mm512_and_si512(pair, exponent), exponent);
        infinite |= bad;
        uint8_t* to_tile = values + (column * kKeySteps + key / kStepCols) * kTileBytes + key % kStepCols / 2 * 64;
        _mm512_storeu_si512(to_tile, _mm512_maskz_mov_epi16(~bad, pair));
      }
    is_finite = infinite == 0;
  }

  // scores [16, kTileKeys] of the row tile from `row` on, for pairs of the key groups [first, last).
  void make_scores(int32_t row, int first, int last) {
    const uint8_t* a = q + row / kTileRows * dim_steps * kParts * kTileBytes;
    const int64_t group_bytes = dim_steps * kTileBytes;
    for (int group = first / 2 * 2; group < last; group += 2) {
      tile_zero<kSum0>();
      tile_zero<kSum1>();
      for (int64_t step = 0; step < dim_steps; step++)
        add_products(a + step * kParts * kTileBytes, keys + group * group_bytes + step * kTileBytes, group_bytes);
      tile_store<kSum0>(s.scores + group * 16, kTileKeys * 4);
      tile_store<kSum1>(s.scores + group * 16 + 16, kTileKeys * 4);
    }
  }

  void add_values(int32_t row) {
    float* out = s.out + row * padded;
    for (int64_t column = 0; column < columns; column += 2, out += 32) {
      tile_load<kSum0>(out, padded * 4);
      tile_load<kSum1>(out + 16, padded * 4);
      for (int64_t step = 0; step < kKeySteps; step++)
        add_products(p + step * kParts * kTileBytes, values + (column * kKeySteps + step) * kTileBytes, kKeySteps * kTileBytes);
      tile_store<kSum0>(out, padded * 4);
      tile_store<kSum1>(out + 16, padded * 4);
    }
  }

  // What pack_values left out.
  void add_infinite(const TileRows& rows, int32_t row, const float* scores, int from, int to) {
    for (int key = from; key < to; key++)
      for (int64_t i = 0; i < padded; i++) {
        const float value = s_from_bf16(((const uint16_t*)rows.values[key])[i]);
        if (value - value != 0.0f) s.out[row * padded + i] += scores[key] * value;
      }
  }

  void run(const TileRows& rows_of_tile, const TileRows& next, int32_t tile, int32_t from, int32_t to, int32_t row_begin,
           int32_t row_end) {
    const SoftmaxStep softmax{softcap, nullptr, nullptr};
    pack_keys(rows_of_tile, next, from - tile, to - tile);
    pack_values(rows_of_tile, next, from - tile, to - tile);
    for (int32_t row = row_begin / kTileRows * kTileRows; row < row_end; row += kTileRows) {
      const int rows = i_min(kTileRows, count - row);
      // Both bounds grow with the row, so the rows need the keys from the first one's first to the last one's last.
      make_scores(row, i_max(0, s.first[row] - tile) / 16, (i_min(kTileKeys, s.last[row + rows - 1] - tile) + 15) / 16);
      for (int r = 0; r < rows; r++) {
        float* scores = s.scores + r * kTileKeys;
        const int first = i_max(0, s.first[row + r] - tile), last = i_min(kTileKeys, s.last[row + r] - tile);
        softmax.run(scores, first, last, s.maxima[row + r], s.sums + int64_t{row + r} * VL, s.out + (row + r) * padded,
                    (int)columns);
        const auto seen = [&](int v) {
          const int lanes_from = within_vector(first, v), lanes_to = within_vector(last, v);
          return _mm512_maskz_loadu_ps((__mmask16)(((1u << lanes_to) - 1) & ~((1u << lanes_from) - 1)), scores + v * VL);
        };
        for (int step = 0; step < kKeySteps; step++)
          store_parts(p + (step * kParts * kTileRows + r) * 64, seen(2 * step), seen(2 * step + 1));
      }
      add_values(row);
      if (is_finite) continue;
      for (int r = 0; r < rows; r++)
        add_infinite(rows_of_tile, row + r, s.scores + r * kTileKeys, i_max(0, s.first[row + r] - tile),
                     i_min(kTileKeys, s.last[row + r] - tile));
    }
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
