// One row to sample: how it is packed, what may be wrong with it, and how it edits logits before the draw. The rule is that of
// src/core/sample-row.ts.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "sample.h"

namespace pg {

// One row to sample, as src/core/sampling-rows.ts writes it. Positions index the call's `lists`; a count of 0 is no list.
struct SamplingRow {
  double uniform;            // the draw, in [0, 1)
  float temperature;         // 0: greedy
  float top_p;               // 1: off
  float min_p;               // 0: off
  float repetition_penalty;  // 1: off; over prompt and answer
  float presence_penalty;    // 0: off; over the answer
  float frequency_penalty;   // 0: off; over the answer
  int32_t top_k;             // 0: off
  int32_t logit_row;         // the row of logits it draws from; several may draw from one
  int32_t given;             // a token to report on instead of drawing one; -1: draw
  int32_t num_top;           // alternatives to report; -1: no log-probabilities
  int32_t tokens;            // position of tokens for penalties
  int32_t num_tokens;
  int32_t history;           // place in the history of num_held tokens before them, behind which they go; -1: there are none
  int32_t num_held;
  int32_t num_prompt;        // so many of both are the prompt's, the others the answer's
  int32_t bias;              // position of pairs: token, f32 bits of what is added to its logit
  int32_t num_bias;
  int32_t forbidden;         // position of tokens that cannot be chosen; those outside the vocabulary are ignored
  int32_t num_forbidden;
  int32_t mask;              // position of a bit per token, the allowed ones set, ceil(vocab / 32) words; -1: none
};
static_assert(sizeof(SamplingRow) == 88, "src/core/sampling-rows.ts writes rows of 88 bytes");

// The tokens that the row brings go to the history: then all of its tokens lie there.
inline void keep_tokens(int32_t* history, const SamplingRow& row, const int32_t* lists) {
  if (row.history < 0) return;
  std::memcpy(history + row.history + row.num_held, lists + row.tokens, sizeof(int32_t) * static_cast<size_t>(row.num_tokens));
}

inline int32_t tokens_of(const SamplingRow& row) { return row.num_held + row.num_tokens; }

// Edits of a row, in the order of the rule. tokens [tokens_of(row)]; `counts` [vocab] is zero before and after.
inline void penalize(float* logits, const SamplingRow& row, const int32_t* tokens, int32_t* counts) {
  const int32_t total = tokens_of(row);
  const double repetition = row.repetition_penalty;
  // Twice the occurrences in the answer; the low bit says that the token has had its penalty.
  for (int32_t i = row.num_prompt; i < total; i++) counts[tokens[i]] += 2;
  for (int32_t i = 0; i < total; i++) {
    const int32_t id = tokens[i];
    const int32_t count = counts[id];
    if ((count & 1) != 0) continue;
    counts[id] = count | 1;
    const double logit = logits[id];
    double edited = logit > 0 ? logit / repetition : logit * repetition;
    if (count > 0) edited -= double{row.presence_penalty} + double{row.frequency_penalty} * (count / 2);
    logits[id] = static_cast<float>(edited);
  }
  for (int32_t i = 0; i < total; i++) counts[tokens[i]] = 0;
}

inline void edit(float* logits, int64_t vocab, const SamplingRow& row, const int32_t* lists, const int32_t* history,
                 int32_t* counts, const SampleKernels& kernels) {
  for (int32_t i = 0; i < row.num_bias; i++) {
    const int32_t* pair = lists + row.bias + 2 * int64_t{i};
    float value;
    std::memcpy(&value, pair + 1, sizeof value);
    logits[pair[0]] += value;
  }
  if (tokens_of(row) > 0) penalize(logits, row, row.history < 0 ? lists + row.tokens : history + row.history, counts);
  for (int32_t i = 0; i < row.num_forbidden; i++)
    if (lists[row.forbidden + i] < vocab) logits[lists[row.forbidden + i]] = -INFINITY;
  if (row.mask >= 0) kernels.apply_mask(logits, vocab, lists + row.mask);
}

inline bool is_edited(const SamplingRow& row) {
  return row.num_bias > 0 || tokens_of(row) > 0 || row.num_forbidden > 0 || row.mask >= 0;
}

// What is wrong with a row's lists, or null.
inline const char* check_row(const SamplingRow& row, int64_t num_logit_rows, int64_t vocab, int64_t max_top, const int32_t* lists,
                             int64_t num_lists, int64_t history_len) {
  const auto is_inside = [&](int64_t at, int64_t count) { return at >= 0 && count >= 0 && at + count <= num_lists; };
  if (row.logit_row < 0 || row.logit_row >= num_logit_rows) return "it draws from a row that has no logits";
  if (row.given >= vocab) return "the given token is outside the vocabulary";
  if (row.num_top > max_top) return "it wants more alternatives than there is room for";
  if (!is_inside(row.tokens, row.num_tokens) || !is_inside(row.bias, 2 * int64_t{row.num_bias}) || !is_inside(row.forbidden, row.num_forbidden) ||
      (row.mask >= 0 && !is_inside(row.mask, (vocab + 31) / 32)))
    return "a list is outside the lists";
  if (row.num_held < 0 || (row.history < 0 && row.num_held > 0) ||
      (row.history >= 0 && row.history + int64_t{row.num_held} + row.num_tokens > history_len))
    return "its tokens are outside the history";
  if (row.num_prompt < 0 || row.num_prompt > int64_t{row.num_held} + row.num_tokens) return "its prompt is longer than its tokens";
  for (int64_t i = 0; i < row.num_tokens; i++)
    if (lists[row.tokens + i] < 0 || lists[row.tokens + i] >= vocab) return "a token is outside the vocabulary";
  for (int64_t i = 0; i < row.num_bias; i++)
    if (lists[row.bias + 2 * i] < 0 || lists[row.bias + 2 * i] >= vocab) return "a biased token is outside the vocabulary";
  for (int64_t i = 0; i < row.num_forbidden; i++)
    if (lists[row.forbidden + i] < 0) return "a forbidden token is negative";
  return nullptr;
}

}  // namespace pg
