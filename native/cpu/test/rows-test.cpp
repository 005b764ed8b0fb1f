// Row ops, rotary, experts and sampling on exactly sized buffers: every tail length, and rows enough for several workers.
#include "step.h"

#include "../src/sample-row.h"

namespace {

constexpr int64_t kSizes[][2] = {{1, 1}, {2, 3}, {3, 15}, {5, 17}, {1, 64}, {7, 65}, {40, 700}};

bool near(double got, double expected) { return std::fabs(got - expected) <= 2e-5 * (1 + std::fabs(expected)); }

}  // namespace

TEST(norms) {
  for (const auto& size : kSizes) {
    const int64_t n = size[0], cols = size[1];
    Random random(7);
    const std::vector<float> x = random.numbers(n * cols), w = random.numbers(cols), b = random.numbers(cols);
    std::vector<float> out(x.size()), residual = x, normed(x.size());
    CHECK_OK(pg_rms_norm(context, out.data(), cols, x.data(), cols, w.data(), cols, 1e-5f, n, cols, cols));
    CHECK_OK(pg_add_rms_norm(context, normed.data(), cols, residual.data(), cols, x.data(), cols, w.data(), 1e-5f, n, cols));
    for (int64_t r = 0; r < n; r++) {
      double squares = 0;
      for (int64_t c = 0; c < cols; c++) squares += double{x[r * cols + c]} * x[r * cols + c];
      for (int64_t c = 0; c < cols; c++) {
        const size_t i = static_cast<size_t>(r * cols + c);
        CHECK(near(out[i], x[i] / std::sqrt(squares / cols + 1e-5) * w[c]));
        CHECK(residual[i] == 2 * x[i]);
        CHECK(near(normed[i], 2 * x[i] / std::sqrt(4 * squares / cols + 1e-5) * w[c]));
      }
    }
    CHECK_OK(pg_layer_norm(context, out.data(), cols, x.data(), cols, w.data(), b.data(), cols, 1e-5f, n, cols, cols));
  }
  std::vector<float> x(12, 1.0f);
  CHECK(pg_rms_norm(context, x.data(), 12, x.data(), 12, x.data(), 5, 1e-5f, 1, 12, 5) == PG_E_ARGUMENT);
}

TEST(elementwise) {
  for (const auto& size : kSizes) {
    const int64_t n = size[0], cols = size[1];
    Random random(8);
    const std::vector<float> a = random.numbers(n * cols), b = random.numbers(n * cols);
    std::vector<float> out(a.size()), x = a;
    CHECK_OK(pg_add(context, out.data(), cols, a.data(), cols, b.data(), cols, 0.5f, n, cols));
    for (size_t i = 0; i < out.size(); i++) CHECK(near(out[i], a[i] + 0.5 * b[i]));
    CHECK_OK(pg_scale(context, x.data(), cols, 30.0f, n, cols));
    CHECK_OK(pg_softcap(context, x.data(), cols, 5.0f, n, cols));
    for (size_t i = 0; i < x.size(); i++) CHECK(near(x[i], 5 * std::tanh(30.0 * a[i] / 5)));
    for (int32_t kind = 0; kind < 5; kind++) {
      CHECK_OK(pg_activation(context, out.data(), cols, a.data(), cols, kind, n, cols));
      CHECK_OK(pg_gated_activation(context, x.data(), cols, a.data(), cols, b.data(), cols, kind, n, cols));
      for (size_t i = 0; i < x.size(); i++) CHECK(near(x[i], double{out[i]} * b[i]));
    }
    for (size_t i = 0; i < out.size(); i++) {
      const double relu = a[i] > 0 ? a[i] : 0;
      CHECK(near(out[i], relu * relu));  // kind 4 ran last
    }
  }
  CHECK(pg_activation(context, nullptr, 1, nullptr, 1, 9, 1, 1) == PG_E_ARGUMENT);
}

TEST(rotary_turns_pairs) {
  for (const int32_t interleaved : {0, 1})
    for (const int32_t half : {1, 5, 32}) {
      const int64_t tokens = 9, heads = 3, dim = 2 * half + 4;
      Random random(9);
      std::vector<float> x = random.numbers(tokens * heads * dim);
      const std::vector<float> before = x;
      std::vector<float> inv(half), cos(tokens * half), sin(tokens * half);
      for (int32_t i = 0; i < half; i++) inv[i] = std::pow(10000.0f, -float(i) / half);
      TestStep step(context);
      step.tokens(std::vector<int32_t>(tokens));
      std::vector<int32_t>& positions = step.positions;
      for (int32_t& position : positions) position *= 100;
      CHECK_OK(step.stage());
      CHECK_OK(pg_rotary_table(context, cos.data(), sin.data(), step.step(), inv.data(), half, 1.0f));
      CHECK_OK(pg_rotary(context, x.data(), heads * dim, tokens, heads, dim, 4, cos.data(), sin.data(), half, interleaved));
      for (int64_t t = 0; t < tokens; t++)
        for (int64_t h = 0; h < heads; h++)
          for (int32_t i = 0; i < half; i++) {
            const int64_t base = (t * heads + h) * dim + 4;
            const int64_t first = base + (interleaved ? 2 * i : i), second = base + (interleaved ? 2 * i + 1 : i + half);
            const double angle = positions[t] * inv[i];
            CHECK(near(x[first], before[first] * std::cos(angle) - before[second] * std::sin(angle)));
            CHECK(near(x[second], before[second] * std::cos(angle) + before[first] * std::sin(angle)));
          }
      CHECK(pg_rotary(context, x.data(), heads * dim, tokens, heads, dim, 5, cos.data(), sin.data(), half, 0) == PG_E_ARGUMENT);
    }
}

TEST(experts_sum_by_rank) {
  constexpr int32_t kExperts = 4, kTopK = 2;
  constexpr int64_t kHidden = 20, kInner = 12, kRows = 9;
  Random random(10);
  std::vector<uint64_t> up(kExperts), down(kExperts);
  const auto load = [&](uint64_t* handle, int64_t rows, int64_t cols) {
    const std::vector<float> values = random.numbers(rows * cols);
    CHECK_OK(pg_weight_create(context, cols, handle));
    CHECK_OK(pg_weight_append(context, reinterpret_cast<void*>(*handle), 0, -1, rows, 0, values.data(), rows * cols * 4));
  };
  for (int32_t e = 0; e < kExperts; e++) {
    load(&up[e], 2 * kInner, kHidden);
    load(&down[e], kHidden, kInner);
  }
  uint64_t handle = 0;
  CHECK_OK(pg_experts_create(context, kExperts, up.data(), down.data(), nullptr, 0, nullptr, 0, kHidden, kInner, 0, kTopK, 0, 1,
                             1.0f, nullptr, nullptr, 1, 1, 2, 1, 0, kRows, &handle));
  void* experts = reinterpret_cast<void*>(handle);
  const std::vector<float> x = random.numbers(kRows * kHidden), logits = random.numbers(kRows * kExperts);
  std::vector<float> all(kRows * kHidden), one(kHidden);
  CHECK_OK(pg_mixture_of_experts(context, all.data(), kHidden, x.data(), kHidden, logits.data(), kExperts, experts, kRows));
  for (int64_t r = 0; r < kRows; r++) {
    CHECK_OK(pg_mixture_of_experts(context, one.data(), kHidden, &x[r * kHidden], kHidden, &logits[r * kExperts], kExperts,
                                   experts, 1));
    for (int64_t c = 0; c < kHidden; c++) CHECK(one[c] == all[r * kHidden + c]);
  }
  CHECK(pg_mixture_of_experts(context, all.data(), kHidden, x.data(), kHidden, logits.data(), kExperts, experts, kRows + 1) ==
        PG_E_ARGUMENT);
  CHECK(pg_experts_free(experts) == PG_OK);
  CHECK(pg_experts_create(context, kExperts, up.data(), down.data(), nullptr, 0, nullptr, 0, kHidden, kInner + 1, 0, kTopK, 0, 1,
                          1.0f, nullptr, nullptr, 1, 1, 2, 1, 0, kRows, &handle) == PG_E_ARGUMENT);
  for (int32_t e = 0; e < kExperts; e++) {
    CHECK_OK(pg_weight_free(context, reinterpret_cast<void*>(up[e])));
    CHECK_OK(pg_weight_free(context, reinterpret_cast<void*>(down[e])));
  }
}

TEST(sampling_of_every_size_of_vocabulary) {
  for (const int64_t vocab : {1, 7, 255, 256, 257, 1000}) {
    Random random(11);
    const int64_t n = 12;
    std::vector<float> logits = random.numbers(n * vocab);
    if (vocab > 7) logits[3] = NAN, logits[5] = -INFINITY;
    // Rows of a bias of +0, and a token: half of them on the device, of 16 words each, half in the lists.
    constexpr int32_t kRoom = 16;
    std::vector<int32_t> out(n, -1), top_ids(n * 3), rows(kRoom * n, -1), lists{0};
    std::vector<float> logprobs(n), top_logprobs(n * 3);
    std::vector<pg::Draw> draws(n);
    for (int32_t r = 0; r < n; r++) {
      pg::Row row = {};
      row.seed_low = row.seed_high = r == 7 ? -1 : r << 28;
      row.temperature = 0.1f;
      row.top_k = r % 3 == 1 ? 5 : 0;
      row.top_p = r % 3 == 2 ? 0.5f : 1.0f;
      row.min_p = r % 5 == 4 ? 0.3f : 0.0f;
      row.repetition_penalty = 1.0f;
      row.num_prompt = row.num_bias = r % 2;
      int32_t words[kRoom] = {};
      std::memcpy(words, &row, sizeof row);
      pg::Draw& draw = draws[r];
      draw = {r % 3 == 0 ? kRoom * r : -static_cast<int32_t>(lists.size()) - 1, r, r % 2, r < 9 ? -1 : r, 0, -1, r % 3, 0, r % 2, -1, -1};
      draw.flags = (r % 4 == 0 ? 0 : pg::kIsDrawn) | (r % 2 == 0 ? 0 : pg::kBias | pg::kPenalties);
      if (r % 3 == 0) std::memcpy(rows.data() + kRoom * r, words, sizeof row + 8 * (r % 2));
      else lists.insert(lists.end(), words, words + kRoom);
    }
    const int32_t mask_at = static_cast<int32_t>(lists.size());
    lists.insert(lists.end(), (vocab + 31) / 32, -1);
    for (int32_t r = 1; r < n; r += 2) draws[r].mask = mask_at;
    const auto sample = [&] {
      return pg_sample(context, out.data(), logprobs.data(), top_ids.data(), top_logprobs.data(), 3, logits.data(), vocab, n, vocab,
                       draws.data(), n, lists.data(), static_cast<int64_t>(lists.size()), rows.data(), kRoom * n);
    };
    CHECK_OK(sample());
    CHECK(rows[kRoom * 3 + 15] == lists[0] && rows[15] == -1);
    const auto refuses = [&](int32_t r, int32_t pg::Draw::*field, int32_t value) {
      const pg::Draw draw = draws[r];
      draws[r].*field = value;
      CHECK(sample() == PG_E_ARGUMENT);
      draws[r] = draw;
    };
    refuses(3, &pg::Draw::row, static_cast<int32_t>(kRoom * n) - 12);  // past the rows
    refuses(3, &pg::Draw::position, 1 + kRoom * 9);                    // its tokens are
    refuses(1, &pg::Draw::position, 2);                                // a brought row has all its tokens in the lists
    refuses(2, &pg::Draw::num_tokens, 1);                              // penalises none
    refuses(1, &pg::Draw::mask, mask_at + 1);                          // past the lists
    refuses(1, &pg::Draw::num_top, 4);
    CHECK_OK(sample());
    for (int64_t r = 0; r < n; r++) {
      CHECK(out[r] >= 0 && out[r] < vocab);
      CHECK(vocab == 1 || logits[r * vocab + out[r]] == logits[r * vocab + out[r]]);  // never NaN
    }
  }
}
