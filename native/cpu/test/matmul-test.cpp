// Weights, matmul and embed with every dtype and odd sizes on exactly sized buffers, and arguments that must be refused.
#include <cstring>

#include "step.h"

#define REFUSED(call) CHECK((call) != PG_OK)

TEST(weights_and_matmul) {
  CHECK_OK(pg_reserve_activations(context, 32, 256));
  // dtype, columns per block, bytes per block; numbers as in src/encoding.h.
  const int64_t dtypes[][3] = {{0, 1, 4},      {1, 1, 2},      {2, 1, 2},      {3, 1, 1},     {4, 1, 1},      {5, 32, 34},
                               {6, 32, 18},    {7, 32, 20},    {8, 32, 22},    {9, 32, 24},   {10, 256, 84},  {11, 256, 110},
                               {12, 256, 144}, {13, 256, 176}, {14, 256, 210}, {15, 32, 18},  {16, 256, 136}, {17, 32, 17},
                               {18, 64, 36},   {19, 256, 66},  {20, 256, 74},  {21, 256, 82}, {22, 256, 98},  {23, 256, 110},
                               {24, 256, 50},  {25, 256, 56},  {26, 256, 54},  {27, 256, 66}, {28, 128, 18},  {29, 64, 18}};
  for (const auto& [dtype, block, block_bytes] : dtypes) {
    for (const int64_t rows : {1, 31, 33, 65}) {
      const int64_t cols = block == 1 ? 45 : block == 32 ? 96 : block == 64 ? 192 : 256;
      // The exact number of bytes, at an odd address: reading one too many is caught.
      const int64_t bytes = rows * cols / block * block_bytes;
      std::vector<uint8_t> source(static_cast<size_t>(bytes) + 1, 0x11);
      uint64_t weight = 0;
      CHECK_OK(pg_weight_create(context, cols, &weight));
      void* handle = reinterpret_cast<void*>(weight);
      const int32_t code = static_cast<int32_t>(dtype);
      CHECK_OK(pg_weight_append(context, handle, code, -1, rows, 0, source.data() + 1, bytes));
      REFUSED(pg_weight_append(context, handle, code, -1, rows, 0, source.data() + 1, bytes - 1));
      // Floats: a second segment, quantised at load; transposed ones too.
      if (block == 1) {
        const std::vector<uint8_t> more(static_cast<size_t>(3 * cols * block_bytes), 0x22);
        CHECK_OK(pg_weight_append(context, handle, code, 3, 3, 0, more.data(), 3 * cols * block_bytes));
        CHECK_OK(pg_weight_append(context, handle, code, 4, 3, 1, more.data(), 3 * cols * block_bytes));
      }
      const int64_t width = block == 1 ? rows + 6 : rows;
      for (const int64_t n : {1, 2, 3, 6, 7, 13, 15, 29}) {
        std::vector<float> x(static_cast<size_t>(n * cols), 0.25f), out(static_cast<size_t>(n * width), 1.0f);
        std::vector<float> bias(static_cast<size_t>(width), 0.5f);
        CHECK_OK(pg_matmul(context, out.data(), width, x.data(), cols, handle, n, bias.data(), 2.0f, n % 2));
        REFUSED(pg_matmul(context, out.data(), width - 1, x.data(), cols, handle, n, nullptr, 1.0f, 0));
      }
      std::vector<float> row(static_cast<size_t>(2 * cols));
      TestStep ids(context);
      ids.tokens({0, static_cast<int32_t>(rows) - 1});
      ids.positions[1] = static_cast<int32_t>(rows) - 1;  // the table is looked up by position too
      CHECK_OK(ids.stage());
      CHECK_OK(pg_embed(context, row.data(), cols, handle, ids.step(), 1.0f));
      if (width > 1) CHECK_OK(pg_add_positions(context, row.data(), cols, handle, ids.step()));  // positions 0 and 1
      ids.input_of[1] = static_cast<int32_t>(width);
      CHECK_OK(ids.stage());
      REFUSED(pg_embed(context, row.data(), cols, handle, ids.step(), 1.0f));
      CHECK_OK(pg_weight_free(context, handle));
    }
  }
}

TEST(hostile_arguments) {
  uint64_t out = 0;
  REFUSED(pg_weight_create(context, 0, &out));
  REFUSED(pg_alloc(context, -1, &out));
  REFUSED(pg_alloc(context, int64_t{1} << 62, &out));
  uint64_t weight = 0;
  CHECK_OK(pg_weight_create(context, 32, &weight));
  void* handle = reinterpret_cast<void*>(weight);
  const uint8_t none[4] = {};
  REFUSED(pg_weight_append(context, handle, 99, -1, 1, 0, none, 4));
  REFUSED(pg_weight_append(context, handle, 0, 99, 1, 0, none, 4));
  REFUSED(pg_weight_append(context, handle, 0, -1, int64_t{1} << 60, 0, none, 4));
  REFUSED(pg_weight_append_file(context, handle, 0, -1, 1, 0, "/no/such/file", 0, 128));
  char text[8];
  CHECK_OK(pg_last_error(context, text, sizeof text));
  CHECK(std::strlen(text) == 7);  // cut to the room there is
  CHECK_OK(pg_weight_free(context, handle));
  double peak = 0;
  REFUSED(pg_measure_peak(context, 9, &peak));
  REFUSED(pg_run_peak(context, 9, nullptr, 0, &peak));
}
