// More than 32 tokens of a mixture of experts (experts-grouped.cuh): blockIdx.x has the rows of a tile, blockIdx.y is the unit.
#pragma once
#include "experts-grouped.cuh"
#include "matmul-tile.cuh"

struct ExpertTileArgs { TileArgs product; Units units; };

template <int FORMAT, int BN, int W_STEPS, int W_STAGES, int X_STAGES>
__device__ __forceinline__ void expert_tile(const ExpertTileArgs& a) {
  if ((int)blockIdx.y >= *a.units.numUnits) return;
  const Unit unit = a.units.units[blockIdx.y];
  TileArgs product = a.product;
  product.w = (const u8*)a.units.weights[unit.expert];
  if (product.epilogue.bias != nullptr) product.epilogue.bias += unit.expert * a.units.biasStride;
  tile_matmul<FORMAT, BN, 2, W_STEPS, W_STAGES, X_STAGES>(
      product, [&](int) { return TilePlace{(int)blockIdx.x, unit.first, unit.count, (unit.count + 7) / 8}; });
}

#define EXPERT_TILE(FORMAT, name, BN, W_STEPS, W_STAGES, X_STAGES) \
  KERNEL(384, expert_tile_##name##_##BN, ExpertTileArgs) { expert_tile<FORMAT, BN, W_STEPS, W_STAGES, X_STAGES>(a); }
// Rings as those of the table in src/device/cuda/matmul.ts with two warpgroups.
#define EXPERT_TILES(FORMAT, name) \
  EXPERT_TILE(FORMAT, name, 256, 2, 3, 4) EXPERT_TILE(FORMAT, name, 192, 2, 3, 5) EXPERT_TILE(FORMAT, name, 128, 2, 3, 6) EXPERT_TILE(FORMAT, name, 64, 2, 4, 6)
