// bf16 that is only multiplied gives the bits it gave before, in three quarters of the bytes where its upper bytes allow (amx/bf12.h).
#include <cstring>

#include "check.h"

namespace {

struct Bf16Case {
  int64_t rows, cols;
  // Numbers of the first panel whose upper byte is none of those that all others have: 16, or 14 where rows end within a panel, since
  // the zeros beyond them count.
  int64_t others;
  bool can_shrink;
};

constexpr int64_t kMostTokens = 530;

// 32 rows are a panel; as in a file, [rows][cols].
std::vector<uint16_t> bf16_source(const Bf16Case& c, Random& random) {
  std::vector<uint16_t> numbers(static_cast<size_t>(c.rows * c.cols));
  for (uint16_t& number : numbers) {
    const uint32_t upper = 0x38 + random.next() % (c.rows % 32 == 0 ? 8 : 7) + (random.next() % 2 << 7);
    number = static_cast<uint16_t>(upper << 8 | (random.next() & 0xff));
  }
  // From both ends of the panel, which the first and the last of its numbers are.
  const int64_t panel = std::min<int64_t>(c.rows, 32) * c.cols;
  for (int64_t i = 0; i < c.others; i++) {
    uint16_t& number = numbers[static_cast<size_t>(i % 2 == 0 ? i / 2 * 3 : panel - 1 - i / 2 * 3)];
    number = static_cast<uint16_t>((random.next() & 0x81ff) | 0x4000 | (i % 16 << 9));
  }
  return numbers;
}

}  // namespace

TEST(bf16_that_is_only_multiplied) {
  // Its own: others count on how much room theirs has.
  uint64_t own = 0;
  CHECK_OK(pg_context_create(3, pg_isa(context), &own));
  context = reinterpret_cast<void*>(own);
  CHECK_OK(pg_reserve_activations(context, kMostTokens, 544));
  const Bf16Case cases[] = {
      {32, 32, 0, true},     {75, 64, 1, true},   {300, 288, 2, true},   // a last chunk of one step
      {64, 544, 68, true},   {64, 544, 69, false},  // one number in 256, and one more
      {20, 544, 30, true},   {40, 100, 0, false},   // a last step that is not whole
  };
  for (const Bf16Case& c : cases) {
    Random random(static_cast<uint32_t>(c.cols + c.others));
    uint64_t weight = 0;
    CHECK_OK(pg_weight_create(context, c.cols, &weight));
    void* handle = reinterpret_cast<void*>(weight);
    const std::vector<uint16_t> source = bf16_source(c, random);
    CHECK_OK(pg_weight_append(context, handle, 2, -1, c.rows, 0, source.data(), static_cast<int64_t>(source.size()) * 2));
    const std::vector<float> x = random.numbers(kMostTokens * c.cols), bias = random.numbers(c.rows);
    const int64_t bytes = pg_weight_bytes(handle);
    std::vector<std::vector<float>> expected;
    const int64_t counts[] = {1, 2, 8, 16, 17, 32, 33, 70, kMostTokens};
    const auto multiply = [&](int64_t n) {
      std::vector<float> out(static_cast<size_t>(n * c.rows));
      CHECK_OK(pg_matmul(context, out.data(), c.rows, x.data(), c.cols, handle, n, bias.data(), 0.5f, 0));
      return out;
    };
    for (const int64_t n : counts) expected.push_back(multiply(n));
    CHECK_OK(pg_weight_only_multiplied(context, handle));
    const bool shrinks = pg_weight_bytes(handle) < bytes;
    CHECK(shrinks == (has_tiles(context) && c.can_shrink));
    if (shrinks && c.cols > 32) CHECK(pg_weight_bytes(handle) * 100 < bytes * 80);
    size_t at = 0;
    for (const int64_t n : counts) {
      const std::vector<float> out = multiply(n), &before = expected[at++];
      CHECK(std::memcmp(out.data(), before.data(), out.size() * sizeof(float)) == 0);
    }
    CHECK_OK(pg_weight_free(context, handle));
  }
  CHECK_OK(pg_context_free(context));
}

TEST(stacked_weights_close_up) {
  uint64_t own = 0;
  CHECK_OK(pg_context_create(2, pg_isa(context), &own));
  context = reinterpret_cast<void*>(own);
  constexpr int64_t kCols = 96, kTokens = 9;
  CHECK_OK(pg_reserve_activations(context, kTokens, kCols));
  Random random(7);
  // bf16 that shrinks, blocks, bf16 that does not and, since rows end within a panel, has zeros behind it.
  const std::vector<uint16_t> first = bf16_source({64, kCols, 3, true}, random), last = bf16_source({50, kCols, 40, false}, random);
  std::vector<uint8_t> blocks(static_cast<size_t>(40 * kCols / 32 * 34));
  for (size_t i = 0; i < blocks.size(); i++) blocks[i] = static_cast<uint8_t>(i % 34 == 1 ? 0x24 : random.next() >> 9);
  const std::vector<float> x = random.numbers(kTokens * kCols);
  const auto make = [&] {
    uint64_t weight = 0;
    CHECK_OK(pg_weight_create(context, kCols, &weight));
    void* handle = reinterpret_cast<void*>(weight);
    CHECK_OK(pg_weight_append(context, handle, 2, -1, 64, 0, first.data(), static_cast<int64_t>(first.size()) * 2));
    CHECK_OK(pg_weight_append(context, handle, 5, -1, 40, 0, blocks.data(), static_cast<int64_t>(blocks.size())));
    CHECK_OK(pg_weight_append(context, handle, 2, -1, 50, 0, last.data(), static_cast<int64_t>(last.size()) * 2));
    return handle;
  };
  const auto multiply = [&](void* handle) {
    std::vector<float> out(static_cast<size_t>(kTokens * 154));
    CHECK_OK(pg_matmul(context, out.data(), 154, x.data(), kCols, handle, kTokens, nullptr, 1.0f, 0));
    return out;
  };
  // The first keeps its form; each of the others is made where the one before left room.
  std::vector<void*> weights;
  for (int i = 0; i < 4; i++) {
    weights.push_back(make());
    if (i > 0) CHECK_OK(pg_weight_only_multiplied(context, weights.back()));
  }
  const std::vector<float> expected = multiply(weights[0]);
  for (void* handle : weights) {
    const std::vector<float> out = multiply(handle);
    CHECK(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)) == 0);
  }
  for (void* handle : weights) CHECK_OK(pg_weight_free(context, handle));
  CHECK_OK(pg_context_free(context));
}
