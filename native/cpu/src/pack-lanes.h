// Four rows' blocks into their lanes of a panel at once: a panel has four columns of each row beside each other, so what four rows
// bring as four words each is turned by 90 degrees and stored by vectors.
#pragma once
#include "pack-block.h"

namespace pg {

constexpr int kPackLanes = 4;

// Written out, so that blocks stay in registers.
template <class Do>
[[gnu::always_inline]] inline void each_lane(Do run) { run(0); run(1); run(2); run(3); }

[[gnu::always_inline]] inline void store(uint8_t* p, Words v) { memcpy(p, &v, 16); }

// word[k] = the k-th word of each lane, from the words of each lane.
[[gnu::always_inline]] inline void turn(Words (&word)[kPackLanes]) {
  const Words ac = __builtin_shufflevector(word[0], word[2], 0, 4, 1, 5), ac2 = __builtin_shufflevector(word[0], word[2], 2, 6, 3, 7);
  const Words bd = __builtin_shufflevector(word[1], word[3], 0, 4, 1, 5), bd2 = __builtin_shufflevector(word[1], word[3], 2, 6, 3, 7);
  word[0] = __builtin_shufflevector(ac, bd, 0, 4, 1, 5);
  word[1] = __builtin_shufflevector(ac, bd, 2, 6, 3, 7);
  word[2] = __builtin_shufflevector(ac2, bd2, 0, 4, 1, 5);
  word[3] = __builtin_shufflevector(ac2, bd2, 2, 6, 3, 7);
}

// Bits [from, from + 4) under `mask` of every code: those of columns 0 to 15 in low nibbles, of 16 to 31 in high ones; turned, so that
// word[k] is groups k and k + 4.
[[gnu::always_inline]] inline void take_bits(Words (&word)[kPackLanes], const Block* lanes, int from, uint8_t mask) {
  each_lane([&](int i) __attribute__((always_inline)) {
    const Bytes low = down(lanes[i].code[0], from) & mask, high = down(lanes[i].code[1], from) & mask;
    word[i] = reinterpret_cast<Words>(low | up(high, 4));
  });
  turn(word);
}

// encoding.h has the layouts; `at` is the first of the lanes.
[[gnu::always_inline]] inline void put_pairs(uint8_t* at, const Block* lanes, int from) {
  Words word[kPackLanes];
  take_bits(word, lanes, from, 3);
  store(at, word[0] | word[2] << 2);
  store(at + kBitPlane, word[1] | word[3] << 2);
}

[[gnu::always_inline]] inline void put_bits(uint8_t* at, const Block* lanes, int from) {
  Words word[kPackLanes];
  take_bits(word, lanes, from, 1);
  store(at, word[0] | word[1] << 1 | word[2] << 2 | word[3] << 3);
}

[[gnu::always_inline]] inline void put_codes(uint8_t* at, Codes codes, const Block* lanes) {
  Words word[kPackLanes];
  switch (low_bits(codes)) {
    case 8:
      for (int half = 0; half < 2; half++) {
        each_lane([&](int i) __attribute__((always_inline)) { word[i] = reinterpret_cast<Words>(lanes[i].code[half]); });
        turn(word);
        each_lane([&](int i) __attribute__((always_inline)) { store(at + (4 * half + i) * kBitPlane, word[i]); });
      }
      return;
    case 4:
      take_bits(word, lanes, 0, 15);
      each_lane([&](int i) __attribute__((always_inline)) { store(at + i * kBitPlane, word[i]); });
      break;
    default: put_pairs(at, lanes, 0);
  }
  if (upper_bits(codes) == 2) put_pairs(at + upper_plane(codes), lanes, upper_from(codes));
  if (upper_bits(codes) == 1) put_bits(at + upper_plane(codes), lanes, upper_from(codes));
}

// at: the factor's place in the block; big: its place in the header; both of the first lane.
[[gnu::always_inline]] inline void put_factor(uint8_t* at, uint8_t* big, Factor factor, const uint16_t (&half)[kPackLanes],
                                              const int8_t (&small)[2][kPackLanes]) {
  if (is_super(factor)) memcpy(big, half, sizeof half);
  switch (factor) {
    case Factor::kHalf:
    case Factor::kBhalf: memcpy(at, half, sizeof half); break;
    case Factor::kSuper: memcpy(at, small[0], kPackLanes); break;
    case Factor::kSuper16:
      for (int64_t i = 0; i < 2; i++) memcpy(at + i * kPanelRows, small[i], kPackLanes);
      break;
    default: break;
  }
}

// Inlined, so that what is known of the encoding when compiling takes no time.
[[gnu::always_inline]] inline void put_lanes(uint8_t* panel, const EncodingSpec& spec, int64_t block, int64_t lane, const Block* from) {
  uint8_t* record = panel + block / record_blocks(spec) * record_bytes(spec);
  uint8_t* codes = record + header_bytes(spec) + block % record_blocks(spec) * block_bytes(spec);
  put_codes(codes + lane * 4, spec.codes, from);
  uint16_t half[2][kPackLanes];
  int8_t small[2][2][kPackLanes];
  each_lane([&](int i) __attribute__((always_inline)) {
    half[0][i] = from[i].half;
    half[1][i] = from[i].half_min;
    for (int j = 0; j < 2; j++) {
      small[0][j][i] = from[i].small[j];
      small[1][j][i] = from[i].small_min[j];
    }
  });
  const auto place = [&](Factor factor) { return lane * (factor == Factor::kHalf || factor == Factor::kBhalf ? 2 : 1); };
  uint8_t* scales = codes + code_bytes(spec.codes);
  uint8_t* minimums = scales + factor_bytes(spec.scale);
  put_factor(scales + place(spec.scale), record + lane * 2, spec.scale, half[0], small[0]);
  put_factor(minimums + place(spec.minimum), record + big_bytes(spec.scale) + lane * 2, spec.minimum, half[1], small[1]);
}

}  // namespace pg
