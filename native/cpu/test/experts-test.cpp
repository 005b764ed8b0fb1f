// A mixture of experts on router logits that are not finite: a row chooses every expert at most once, so what is gathered for an expert fits
// the room for all rows, and the other rows keep their bits.
#include <cstring>

#include "check.h"

namespace {

constexpr int32_t kExperts = 8, kTopK = 4;
constexpr int64_t kHidden = 32, kInner = 32, kRows = 9;

uint64_t weight_of(void* context, int64_t rows, int64_t cols, Random& random) {
  const std::vector<float> numbers = random.numbers(rows * cols);
  uint64_t weight = 0;
  CHECK_OK(pg_weight_create(context, cols, &weight));
  CHECK_OK(pg_weight_append(context, reinterpret_cast<void*>(weight), 0, -1, rows, 0, reinterpret_cast<const uint8_t*>(numbers.data()),
                            rows * cols * 4));
  return weight;
}

}  // namespace

TEST(experts_of_logits_that_are_not_finite) {
  Random random(36);
  std::vector<uint64_t> gate_up, down;
  for (int32_t e = 0; e < kExperts; e++) {
    gate_up.push_back(weight_of(context, 2 * kInner, kHidden, random));
    down.push_back(weight_of(context, kHidden, kInner, random));
  }
  const std::vector<float> x = random.numbers(kRows * kHidden);
  for (int32_t score = 0; score < 3; score++)
    for (const int32_t groups : {1, 4}) {
      uint64_t handle = 0;
      CHECK_OK(pg_experts_create(context, kExperts, gate_up.data(), down.data(), nullptr, 0, nullptr, 0, kHidden, kInner, 0, kTopK, score, 1,
                                 1.0f, nullptr, nullptr, groups, groups == 1 ? 1 : 2, 2, 1, 0, kRows, &handle));
      void* experts = reinterpret_cast<void*>(handle);
      for (const float wrong : {NAN, INFINITY, -INFINITY}) {
        // All rows but the last are wrong: in all of their logits, or in every second one.
        std::vector<float> logits = random.numbers(kRows * kExperts), out(kRows * kHidden), alone(kHidden);
        for (int64_t i = 0; i < (kRows - 1) * kExperts; i++)
          if (i / kExperts % 2 == 0 || i % 2 == 0) logits[i] = wrong;
        CHECK_OK(pg_mixture_of_experts(context, out.data(), kHidden, x.data(), kHidden, logits.data(), kExperts, experts, kRows));
        const int64_t last = kRows - 1;
        CHECK_OK(pg_mixture_of_experts(context, alone.data(), kHidden, &x[last * kHidden], kHidden, &logits[last * kExperts], kExperts, experts, 1));
        CHECK(std::memcmp(alone.data(), &out[last * kHidden], sizeof(float) * kHidden) == 0);
      }
      CHECK_OK(pg_experts_free(experts));
    }
  for (const uint64_t weight : gate_up) CHECK_OK(pg_weight_free(context, reinterpret_cast<void*>(weight)));
  for (const uint64_t weight : down) CHECK_OK(pg_weight_free(context, reinterpret_cast<void*>(weight)));
}
