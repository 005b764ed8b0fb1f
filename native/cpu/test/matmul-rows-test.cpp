// A row's result is the same bits alone and beside any number of others, in every dtype and at odd sizes; it is right within what
// the rounding of x allows; and the instruction sets with fused multiply-add agree on integer weights, but for what amx sums over spans (amx/span-matmul.h).
#include <array>
#include <cstring>
#include <map>

#include "step.h"

namespace {

struct Dtype {
  int32_t code;  // of src/encoding.h
  int64_t block_cols, block_bytes;
  std::vector<int64_t> halves;  // where a block has its f16 factors
};

const std::vector<Dtype>& dtypes() {
  static const std::vector<Dtype> all = {
      {0, 1, 4, {}},          {1, 1, 2, {}},         {2, 1, 2, {}},         {5, 32, 34, {0}},       {6, 32, 18, {0}},
      {7, 32, 20, {0, 2}},    {8, 32, 22, {0}},      {9, 32, 24, {0, 2}},   {10, 256, 84, {80, 82}}, {11, 256, 110, {108}},
      {12, 256, 144, {0, 2}}, {13, 256, 176, {0, 2}}, {14, 256, 210, {208}}, {15, 32, 18, {0}},      {16, 256, 136, {0}},
      {17, 32, 17, {}},       {19, 256, 66, {0}},    {20, 256, 74, {0}},    {21, 256, 82, {0}},     {22, 256, 98, {0}},
      {23, 256, 110, {0}},    {24, 256, 50, {0}},    {25, 256, 56, {}},     {26, 256, 54, {52}},    {27, 256, 66, {64}},
      {28, 128, 18, {0}},     {29, 64, 18, {0}}};
  return all;
}

/** The bytes of the first rows: the smallest and largest codes, whose sums are the largest that must fit. */
constexpr std::array<uint8_t, 6> kExtremes = {0xff, 0x00, 0x80, 0x7f, 0x77, 0x88};

/** Codes of four to eight bits, which amx multiplies by int8 tiles over spans of 256 columns. */
bool is_span(int32_t dtype) { return (dtype >= 5 && dtype <= 9) || (dtype >= 12 && dtype <= 17); }

std::vector<uint8_t> random_source(const Dtype& dtype, int64_t rows, int64_t cols, Random& random) {
  std::vector<uint8_t> bytes(static_cast<size_t>(rows * cols / dtype.block_cols * dtype.block_bytes));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.next() >> 13);
  const size_t row_bytes = bytes.size() / static_cast<size_t>(rows);
  for (size_t r = 0; dtype.block_cols > 1 && r < kExtremes.size(); r++) std::memset(&bytes[r * row_bytes], kExtremes[r], row_bytes);
  for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(dtype.block_bytes)) {
    uint8_t* block = bytes.data() + at;
    const auto put_half = [&](int64_t offset) {  // 2^-6 .. 2^-4, either sign
      const uint16_t half = static_cast<uint16_t>((random.next() & 0x83ff) | 0x2400 | (random.next() & 0x400));
      std::memcpy(block + offset, &half, 2);
    };
    const float number = random.number();
    for (const int64_t offset : dtype.halves) put_half(offset);
    if (dtype.code == 1) put_half(0);
    if (dtype.code == 0) std::memcpy(block, &number, 4);
    if (dtype.code == 2) std::memcpy(block, reinterpret_cast<const uint8_t*>(&number) + 2, 2);
    if (dtype.code == 25)  // iq1_m: a quarter of the f16 in each of four words
      for (int64_t i = 0, half = 0x2400 | (random.next() & 0x7ff); i < 4; i++)
        block[49 + 2 * i] = static_cast<uint8_t>((block[49 + 2 * i] & 0x0f) | (half >> (4 * i) & 15) << 4);
    if (dtype.code == 17) block[0] = static_cast<uint8_t>(120 + block[0] % 4);
  }
  return bytes;
}

}  // namespace

TEST(rows_do_not_depend_on_each_other) {
  static std::map<int32_t, std::vector<float>> by_vectors;  // dtype -> what the instruction sets with FMA agree on
  constexpr int64_t kRows = 41;
  CHECK_OK(pg_reserve_activations(context, 67, 2080));
  for (const Dtype& dtype : dtypes()) {
    // bf16, q8_0 and q4_0: more columns than tiles take at once and than one thread packs, and not a whole number of groups of them.
    const int64_t cols = dtype.code == 2 ? 1101 : dtype.code == 5 || dtype.code == 6 ? 2080 : dtype.block_cols == 1 ? 109 : dtype.block_cols == 32 ? 416 : 512;
    Random random(static_cast<uint32_t>(31 + dtype.code));
    const std::vector<uint8_t> source = random_source(dtype, kRows, cols, random);
    uint64_t weight = 0;
    CHECK_OK(pg_weight_create(context, cols, &weight));
    void* handle = reinterpret_cast<void*>(weight);
    CHECK_OK(pg_weight_append(context, handle, dtype.code, -1, kRows, 0, source.data(), static_cast<int64_t>(source.size())));
    constexpr int64_t kMost = 67;
    std::vector<float> x = random.numbers(kMost * cols);
    for (int64_t c = 0; c < cols; c++) x[c] = 1.0f, x[11 * cols + c] = -1.0f;  // the largest integers of x
    std::vector<float> alone(kMost * kRows), together(kMost * kRows);
    for (int64_t r = 0; r < kMost; r++)
      CHECK_OK(pg_matmul(context, &alone[r * kRows], kRows, &x[r * cols], cols, handle, 1, nullptr, 1.0f, 0));
    for (const int64_t n : {2, 3, 7, 8, 9, 15, 16, 17, 28, 29, 35, 67}) {
      std::fill(together.begin(), together.end(), -1.0f);
      CHECK_OK(pg_matmul(context, together.data(), kRows, x.data(), cols, handle, n, nullptr, 1.0f, 0));
      for (int64_t i = 0; i < n * kRows; i++) CHECK(std::memcmp(&alone[i], &together[i], 4) == 0);
      for (int64_t i = n * kRows; i < kMost * kRows; i++) CHECK(together[i] == -1.0f);
    }
    // Against the dequantised rows, as embed gives them.
    std::vector<int32_t> ids(kRows);
    for (int32_t r = 0; r < kRows; r++) ids[r] = r;
    std::vector<float> dense(kRows * cols);
    TestStep step(context);
    step.tokens(ids);
    CHECK_OK(step.stage());
    CHECK_OK(pg_embed(context, dense.data(), cols, handle, step.step(), 1.0f));
    const bool has_spans = has_tiles(context) && is_span(dtype.code);
    for (int64_t r = 0; r < kMost; r += 11)  // every row alone runs the same code
      // Spans round weights of one code alone all alike, to units made for the largest code: src/device/cpu/matmul.test.ts computes that.
      for (int64_t j = has_spans ? kExtremes.size() : 0; j < kRows; j++) {
        double sum = 0, size = 0;
        const float *a = &x[r * cols], *b = &dense[j * cols];
        for (int64_t c = 0; c < cols; c++) {
          const double product = double{a[c]} * b[c];
          sum += product;
          size += std::fabs(product);
        }
        const bool is_rounded = has_tiles(context) && dtype.code == 2;  // tiles: x to bf16
        const double allowed = (is_rounded ? 2e-3 : dtype.block_cols == 1 ? 2e-5 : 1e-2) * size + 1e-6;
        CHECK(std::fabs(alone[r * kRows + j] - sum) <= allowed);
      }
    const bool fuses = pg_isa(context) != 1;
    if (fuses && !has_spans && dtype.block_cols > 1) {
      if (by_vectors.count(dtype.code) == 0) by_vectors[dtype.code] = alone;
      CHECK(by_vectors[dtype.code] == alone);
    }
    // From a weight that is only multiplied, which may have another form then.
    if (dtype.code == 5 || dtype.code == 6) {
      CHECK_OK(pg_weight_only_multiplied(context, handle));
      for (const int64_t n : {1, 3, 4, 16, 17, 41}) {
        CHECK_OK(pg_matmul(context, together.data(), kRows, x.data(), cols, handle, n, nullptr, 1.0f, 0));
        for (int64_t i = 0; i < n * kRows; i++) CHECK(std::memcmp(&alone[i], &together[i], 4) == 0);
      }
      CHECK((pg_embed(context, dense.data(), cols, handle, step.step(), 1.0f) == PG_OK) != has_tiles(context));
      if (has_tiles(context)) {
        uint64_t other = 0;
        CHECK_OK(pg_context_create(1, 3, &other));
        void* avx512 = reinterpret_cast<void*>(other);
        CHECK(pg_reserve_activations(avx512, 1, cols) == PG_OK);
        CHECK(pg_matmul(avx512, together.data(), kRows, x.data(), cols, handle, 1, nullptr, 1.0f, 0) == PG_E_UNSUPPORTED);
        CHECK_OK(pg_context_free(avx512));
      }
    }
    CHECK_OK(pg_weight_free(context, handle));
  }
}
