// The products of a mixture of experts on Hopper: those of matmul-stream.cuh and matmul-tile.cuh, for units of a list that the device has
// made (experts.cu). A unit is an expert's tokens, or as many of them as a tile holds; blocks beyond the list end at once.
//
// Few tokens: a unit's operand is a piece of its own in strip order, of 8, 16 or 32 places. Up to 8 tokens a unit has a place for every token,
// chosen or not, since the tensor cores take 8 as fast as one: all units read the tokens' own operand. Many: places of all
// experts lie behind each other in tile order, each expert's from a multiple of 8 on.
#pragma once
#include "common.cuh"

struct Unit { int expert, first, count, pad; };  // first: a place in the list of pairs

struct Units {
  const u64* weights;     // [expert] its matrix
  const Unit* units;
  const int* numUnits;
  i64 biasStride;
};
