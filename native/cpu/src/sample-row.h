// One token to sample: how the draw and its request's row are packed, what may be wrong with them, and how they edit logits before the
// choice. The rule is that of src/core/sample-row.ts.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "random.h"
#include "sample.h"

namespace pg {

// How a request is sampled, as src/core/draws.ts writes it. Behind it: biases (a token, f32 bits of what is added to its logit), tokens that
// end its answer, tokens that penalties are about.
struct Row {
  int32_t seed_low;
  int32_t seed_high;
  float temperature;
  float top_p;               // 1: off
  float min_p;               // 0: off
  float repetition_penalty;  // 1: off; over prompt and answer
  float presence_penalty;    // 0: off; over the answer
  float frequency_penalty;   // 0: off; over the answer
  int32_t top_k;             // 0: off
  int32_t first;             // position of the first token that penalties are about
  int32_t num_prompt;        // so many from there on are the prompt's, the others the answer's
  int32_t num_bias;
  int32_t num_stops;
};
static_assert(sizeof(Row) == 52, "src/core/draws.ts writes rows of 13 words");
constexpr int64_t kRowWords = sizeof(Row) / sizeof(int32_t);

// What is drawn in this step. A count of 0 is no list.
struct Draw {
  int32_t row;         // place of its row in the device's rows; -(i + 1): in the lists, from i on
  int32_t logit_row;   // the row of logits it draws from; several may draw from one
  int32_t position;    // of the token that is drawn
  int32_t sample;      // which sample of its call; -1: the row's seed is the random number itself
  int32_t flags;       // what it takes of its row
  int32_t given;       // a token to report on instead of drawing one; -1: draw
  int32_t num_top;     // alternatives to report; -1: no log-probabilities
  int32_t tokens;      // position in the lists of the last penalised tokens, those that its row has not
  int32_t num_tokens;
  int32_t mask;        // position of a bit per token, the allowed ones set, ceil(vocab / 32) words; -1: none
  int32_t edited;      // for devices that keep a copy of edited logits; -1: they are not edited
};
static_assert(sizeof(Draw) == 44, "src/core/draws.ts writes draws of 11 words");
enum : int32_t { kIsDrawn = 1, kBias = 2, kPenalties = 4, kStops = 8 };

// A draw with its row, where it takes anything of it.
struct DrawOf {
  const Draw& draw;
  const int32_t* words;  // of the row, or null
  Row row;

  DrawOf(const Draw& d, const int32_t* lists, const int32_t* rows)
      : draw(d), words(d.flags == 0 ? nullptr : d.row < 0 ? lists + (-(int64_t{d.row} + 1)) : rows + d.row), row{} {
    if (words != nullptr) std::memcpy(&row, words, sizeof row);
  }
  bool takes(int32_t flag) const { return (draw.flags & flag) != 0; }
  int64_t stops_at() const { return kRowWords + 2 * int64_t{row.num_bias}; }
  int64_t tokens_at() const { return stops_at() + row.num_stops; }
  int32_t num_penalised() const { return draw.position - row.first; }
};

// The tokens that a draw lists go to its row: then all that it penalises lie there.
inline void keep_tokens(int32_t* rows, const Draw& draw, const int32_t* lists) {
  if (draw.row < 0 || draw.num_tokens == 0) return;
  const DrawOf of(draw, lists, rows);
  std::memcpy(rows + draw.row + of.tokens_at() + of.num_penalised() - draw.num_tokens, lists + draw.tokens,
              sizeof(int32_t) * static_cast<size_t>(draw.num_tokens));
}

// Edits of a draw, in the order of the rule. tokens [num_penalised()]; `counts` [vocab] is zero before and after.
inline void penalize(float* logits, const DrawOf& of, const int32_t* tokens, int32_t* counts) {
  const Row& row = of.row;
  const int32_t total = of.num_penalised();
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

inline void edit(float* logits, int64_t vocab, const DrawOf& of, const int32_t* lists, int32_t* counts, const SampleKernels& kernels) {
  if (of.takes(kBias)) {
    for (int32_t i = 0; i < of.row.num_bias; i++) {
      const int32_t* pair = of.words + kRowWords + 2 * int64_t{i};
      float value;
      std::memcpy(&value, pair + 1, sizeof value);
      logits[pair[0]] += value;
    }
  }
  if (of.takes(kPenalties)) penalize(logits, of, of.draw.row < 0 ? lists + of.draw.tokens : of.words + of.tokens_at(), counts);
  if (of.takes(kStops)) {
    const int32_t* stops = of.words + of.stops_at();
    for (int32_t i = 0; i < of.row.num_stops; i++)
      if (stops[i] < vocab) logits[stops[i]] = -INFINITY;
  }
  if (of.draw.mask >= 0) kernels.apply_mask(logits, vocab, lists + of.draw.mask);
}

inline bool is_edited(const Draw& draw) { return (draw.flags & (kBias | kPenalties | kStops)) != 0 || draw.mask >= 0; }

// What is wrong with a draw or its row, or null.
inline const char* check_draw(const Draw& draw, int64_t num_logit_rows, int64_t vocab, int64_t max_top, const int32_t* lists,
                              int64_t num_lists, const int32_t* rows, int64_t rows_len) {
  const auto is_inside = [&](int64_t at, int64_t count) { return at >= 0 && count >= 0 && at + count <= num_lists; };
  if (draw.logit_row < 0 || draw.logit_row >= num_logit_rows) return "it draws from a row that has no logits";
  if (draw.given >= vocab) return "the given token is outside the vocabulary";
  if (draw.num_top > max_top) return "it wants more alternatives than there is room for";
  if (!is_inside(draw.tokens, draw.num_tokens) || (draw.mask >= 0 && !is_inside(draw.mask, (vocab + 31) / 32)))
    return "a list is outside the lists";
  for (int64_t i = 0; i < draw.num_tokens; i++)
    if (lists[draw.tokens + i] < 0 || lists[draw.tokens + i] >= vocab) return "a token is outside the vocabulary";
  if (draw.num_tokens != 0 && (draw.flags & kPenalties) == 0) return "it lists tokens and penalises none";
  if (draw.flags == 0) return nullptr;
  const int64_t room = draw.row < 0 ? num_lists - (-(int64_t{draw.row} + 1)) : rows_len - draw.row;
  if (room < kRowWords) return "its row is outside the rows";
  const DrawOf of(draw, lists, rows);
  if (of.row.num_bias < 0 || of.row.num_stops < 0 || of.tokens_at() > room) return "its row is outside the rows";
  for (int64_t i = 0; i < of.row.num_bias; i++)
    if (of.words[kRowWords + 2 * i] < 0 || of.words[kRowWords + 2 * i] >= vocab) return "a biased token is outside the vocabulary";
  for (int64_t i = 0; i < of.row.num_stops; i++)
    if (of.words[of.stops_at() + i] < 0) return "a forbidden token is negative";
  if (!of.takes(kPenalties)) return nullptr;
  const int64_t total = of.num_penalised();
  if (total < draw.num_tokens || (draw.row < 0 ? total != draw.num_tokens : of.tokens_at() + total > room))
    return "its tokens are outside its row";
  if (of.row.num_prompt < 0 || of.row.num_prompt > total) return "its prompt is longer than its tokens";
  return nullptr;
}

}  // namespace pg
