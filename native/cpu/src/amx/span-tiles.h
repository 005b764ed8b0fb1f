// Up to so many row tiles span-some-rows.cpp runs what span-many-rows.cpp would.
#pragma once
#include "span-matmul.h"

namespace pg {
namespace PG_NS {

constexpr int64_t kSomeTiles = 2;
template <int E>
void some_rows_gemm(const Gemm& g, int64_t panel_begin, int64_t panel_end, int64_t tile_begin, int64_t tile_end);

}  // namespace PG_NS
}  // namespace pg
