// A gated product gives the bits of the product and the gate one after the other, on exactly sized buffers, in every form a weight of gate and
// up can have; what it cannot do it refuses without touching the output.
#include <algorithm>
#include <cstring>

#include "check.h"

namespace {

struct Part {
  int32_t dtype;  // of src/encoding.h
  int64_t rows;
};

constexpr int64_t kMostRows = 150;

// Numbers that every dtype takes: bytes of blocks are codes, and their f16 factors, which come first, are small.
std::vector<uint8_t> source_of(int32_t dtype, int64_t rows, int64_t cols, Random& random) {
  const int64_t block_cols = dtype == 2 ? 1 : 32, block_bytes = dtype == 2 ? 2 : dtype == 5 ? 34 : 18;
  std::vector<uint8_t> bytes(static_cast<size_t>(rows * cols / block_cols * block_bytes));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.next() >> 13);
  for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(block_bytes)) {
    const uint16_t number = static_cast<uint16_t>((random.next() & 0x80ff) | (dtype == 2 ? 0x3d00 : 0x2400));
    std::memcpy(bytes.data() + at, &number, 2);
  }
  return bytes;
}

struct Gated {
  std::vector<Part> parts;
  int64_t cols;
  bool can_gate;
};

}  // namespace

TEST(gated_matmul) {
  CHECK_OK(pg_reserve_activations(context, kMostRows, 576));
  const Gated cases[] = {
      {{{5, 75}, {5, 75}}, 576, true},   // a last panel that is not whole
      {{{6, 75}, {6, 75}}, 544, true},   // spans and blocks in odd numbers
      {{{2, 300}, {2, 300}}, 97, true},  // more panels than run in turns
      {{{5, 192}}, 576, true},           // both halves in one segment
      {{{5, 150}}, 576, false},          // where no panel begins with the second
      {{{5, 60}, {5, 90}}, 576, false},
      {{{5, 50}, {5, 50}, {5, 50}}, 576, false},
  };
  for (const Gated& gated : cases) {
    Random random(static_cast<uint32_t>(gated.cols));
    uint64_t weight = 0;
    CHECK_OK(pg_weight_create(context, gated.cols, &weight));
    void* handle = reinterpret_cast<void*>(weight);
    int64_t rows = 0;
    for (const Part& part : gated.parts) {
      const std::vector<uint8_t> source = source_of(part.dtype, part.rows, gated.cols, random);
      CHECK_OK(pg_weight_append(context, handle, part.dtype, -1, part.rows, 0, source.data(), static_cast<int64_t>(source.size())));
      rows += part.rows;
    }
    CHECK_OK(pg_weight_only_multiplied(context, handle));
    const int64_t inner = rows / 2;
    for (const int64_t n : {1, 2, 3, 4, 8, 16, 17, 32, 33, 70, 150}) {
      const std::vector<float> x = random.numbers(n * gated.cols);
      std::vector<float> both(static_cast<size_t>(n * rows)), expected(static_cast<size_t>(n * inner)), out(expected.size(), 7.0f);
      const int32_t activation = static_cast<int32_t>(n % 7);
      const int32_t status = pg_gated_matmul(context, out.data(), inner, x.data(), gated.cols, handle, n, activation, nullptr, 0);
      if (!gated.can_gate) {
        CHECK(status == PG_E_UNSUPPORTED);
        CHECK(out[0] == 7.0f && out.back() == 7.0f);
        continue;
      }
      CHECK_OK(status);
      CHECK_OK(pg_matmul(context, both.data(), rows, x.data(), gated.cols, handle, n, nullptr, 1.0f, 0));
      CHECK_OK(pg_gated_activation(context, expected.data(), inner, both.data(), rows, both.data() + inner, rows, activation, n, inner));
      CHECK(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)) == 0);
      if (inner % 32 == 0) {
        // Of two adapters with several rows each, and one with a row of its own.
        std::vector<double> items;
        std::vector<uint64_t> low_ranks;
        const int64_t parts = std::min<int64_t>(n, 3);
        for (int64_t i = 0; i < parts; i++) {
          for (const int64_t first : {int64_t{0}, inner}) {
            const int64_t rank = 3 + 5 * i, row = i * n / parts, end = (i + 1) * n / parts;
            const std::vector<float> a = random.numbers(rank * gated.cols), b = random.numbers(inner * rank);
            uint64_t low_rank = 0;
            CHECK_OK(pg_low_rank_create(context, rank, gated.cols, inner, a.data(), b.data(), &low_rank));
            low_ranks.push_back(low_rank);
            for (const double number : {static_cast<double>(low_rank), double(row), double(end - row), double(first), 0.25}) items.push_back(number);
          }
        }
        const int64_t count = static_cast<int64_t>(low_ranks.size());
        CHECK_OK(pg_gated_matmul(context, out.data(), inner, x.data(), gated.cols, handle, n, activation, items.data(), count));
        CHECK_OK(pg_low_rank(context, both.data(), rows, x.data(), gated.cols, items.data(), count));
        CHECK_OK(pg_gated_activation(context, expected.data(), inner, both.data(), rows, both.data() + inner, rows, activation, n, inner));
        CHECK(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)) == 0);
        items[3] = 7;  // begins within a panel
        CHECK(pg_gated_matmul(context, out.data(), inner, x.data(), gated.cols, handle, n, activation, items.data(), count) == PG_E_UNSUPPORTED);
        for (const uint64_t low_rank : low_ranks) CHECK_OK(pg_low_rank_free(context, reinterpret_cast<void*>(low_rank)));
      }
      CHECK(pg_gated_matmul(context, out.data(), inner - 1, x.data(), gated.cols, handle, n, activation, nullptr, 0) == PG_E_ARGUMENT);
      CHECK(pg_gated_matmul(context, out.data(), inner, x.data(), gated.cols, handle, n, 8, nullptr, 0) == PG_E_ARGUMENT);
    }
    const std::vector<float> x = random.numbers((kMostRows + 1) * gated.cols);
    std::vector<float> out(static_cast<size_t>((kMostRows + 1) * inner));
    CHECK(pg_gated_matmul(context, out.data(), inner, x.data(), gated.cols, handle, kMostRows + 1, 0, nullptr, 0) != PG_OK);
    CHECK_OK(pg_weight_free(context, handle));
  }
}
