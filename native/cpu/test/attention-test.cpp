// The page pool, append and attention on exactly sized buffers: odd dims, page sizes, chunks, all KV types.
#include "step.h"

namespace {

struct Shape {
  int32_t heads, kv_heads, key_dim, value_dim, page_size, dtype;
};

struct Row {
  int32_t start, query_len;
};

// One batch over its own pool, attended with whole items of q_tile packed rows, or one part per chunk when `split`.
void run(void* context, const Shape& s, const std::vector<Row>& rows, int32_t q_tile, int32_t kv_chunk, int32_t window, bool split,
         float tolerance) {
  Random random(static_cast<uint32_t>(s.key_dim * 31 + s.page_size));
  const int32_t group = s.heads / s.kv_heads;
  TestStep step(context);
  step.page_size = s.page_size;
  std::vector<int32_t>& positions = step.positions;
  std::vector<int32_t>& qo = step.qo_indptr;
  std::vector<int32_t>& kv = step.kv_indptr;
  std::vector<int32_t>& pages = step.kv_indices;
  std::vector<int32_t> slots;
  int32_t next_page = 1;
  for (const Row& row : rows) {
    const int32_t context_len = row.start + row.query_len;
    const int32_t count = (context_len + s.page_size - 1) / s.page_size;
    for (int32_t i = 0; i < count; i++) pages.push_back(next_page + count - 1 - i);
    next_page += count;
    for (int32_t p = 0; p < context_len; p++) {
      const int32_t page = pages[static_cast<size_t>(kv.back() + p / s.page_size)];
      slots.push_back(page * s.page_size + p % s.page_size);
    }
    for (int32_t p = row.start; p < context_len; p++) positions.push_back(p);
    kv.push_back(static_cast<int32_t>(pages.size()));
    qo.push_back(static_cast<int32_t>(positions.size()));
  }
  const int64_t tokens = static_cast<int64_t>(positions.size());
  const int64_t written = static_cast<int64_t>(slots.size());
  const std::vector<float> k = random.numbers(written * s.kv_heads * s.key_dim);
  const std::vector<float> v = random.numbers(written * s.kv_heads * s.value_dim);
  const std::vector<float> q = random.numbers(tokens * s.heads * s.key_dim);
  std::vector<float> out(static_cast<size_t>(tokens * s.heads * s.value_dim), NAN);

  uint64_t handle = 0;
  CHECK_OK(pg_kv_pool_create(context, next_page, s.page_size, 2, s.kv_heads, s.key_dim, s.value_dim, 0, s.dtype, &handle));
  void* pool = reinterpret_cast<void*>(handle);
  TestStep append(context);
  append.page_size = s.page_size;
  append.tokens(std::vector<int32_t>(slots.size()));
  append.slots = slots;
  CHECK_OK(append.stage());
  CHECK_OK(pg_rotary_append(context, nullptr, 0, 0, k.data(), s.kv_heads * s.key_dim, v.data(), s.kv_heads * s.value_dim, nullptr,
                            nullptr, 0, 0, append.step(), 0, pool, 1));
  append.slots.back() = next_page * s.page_size;
  CHECK_OK(append.stage());
  CHECK(pg_rotary_append(context, nullptr, 0, 0, k.data(), s.kv_heads * s.key_dim, v.data(), s.kv_heads * s.value_dim, nullptr,
                         nullptr, 0, 0, append.step(), 0, pool, 1) == PG_E_ARGUMENT);

  std::vector<int32_t> item_row, item_q, item_start, item_end, item_partial, merge_row, merge_q, merge_first, merge_count;
  int32_t partials = 0;
  for (int32_t r = 0; r < static_cast<int32_t>(rows.size()); r++) {
    const int32_t packed = rows[static_cast<size_t>(r)].query_len * group;
    for (int32_t start = 0; start < packed; start += q_tile) {
      const int32_t last = std::min(start + q_tile, packed) - 1;
      const int32_t end = rows[static_cast<size_t>(r)].start + last / group + 1;
      const int32_t chunks = (end + kv_chunk - 1) / kv_chunk;
      const bool parts = split && chunks > 1;
      if (parts) {
        merge_row.push_back(r);
        merge_q.push_back(start);
        merge_first.push_back(partials);
        merge_count.push_back(chunks);
      }
      for (int32_t c = 0; c < (parts ? chunks : 1); c++) {
        item_row.push_back(r);
        item_q.push_back(start);
        item_start.push_back(parts ? c * kv_chunk : 0);
        item_end.push_back(parts ? std::min(end, (c + 1) * kv_chunk) : end);
        item_partial.push_back(parts ? partials++ : -1);
      }
    }
  }
  std::vector<int32_t> item_valid(item_row.size(), 1);
  std::vector<int32_t>& plan = step.plan;
  const int32_t most_ahead = window > 0 ? window : 1 << 30;
  plan = {0, window, 0, most_ahead, group, q_tile, kv_chunk, static_cast<int32_t>(item_row.size()), partials,
          static_cast<int32_t>(merge_row.size())};
  for (const auto* part : {&item_row, &item_q, &item_start, &item_end, &item_partial, &item_valid, &merge_row, &merge_q,
                           &merge_first, &merge_count})
    plan.insert(plan.end(), part->begin(), part->end());
  const float scale = 1.0f / std::sqrt(static_cast<float>(s.key_dim));
  step.slots.assign(positions.size(), 0);
  CHECK_OK(step.stage());
  CHECK_OK(pg_attention(context, out.data(), s.heads * s.value_dim, q.data(), s.heads * s.key_dim, step.step(), 0, 0, pool, 1, s.heads,
                        scale, 0.0f, nullptr));
  CHECK(pg_attention(context, out.data(), s.heads * s.value_dim, q.data(), s.heads * s.key_dim, step.step(), 0, 1, pool, 1, s.heads,
                     scale, 0.0f, nullptr) == PG_E_ARGUMENT);
  CHECK(pg_kv_pool_free(pool) == PG_OK);

  // The textbook softmax in double.
  int64_t first_key = 0;
  int64_t t = 0;
  for (const Row& row : rows) {
    for (int32_t p = row.start; p < row.start + row.query_len; p++, t++)
      for (int32_t h = 0; h < s.heads; h++) {
        const int32_t from = window > 0 && p - window + 1 > 0 ? p - window + 1 : 0;
        std::vector<double> expected(static_cast<size_t>(s.value_dim), 0.0);
        double sum = 0;
        const float* query = &q[static_cast<size_t>((t * s.heads + h) * s.key_dim)];
        double* total = expected.data();
        for (int32_t key = from; key <= p; key++) {
          const int64_t kv_row = (first_key + key) * s.kv_heads + h / group;
          const float *keys = &k[static_cast<size_t>(kv_row * s.key_dim)], *values = &v[static_cast<size_t>(kv_row * s.value_dim)];
          double dot = 0;
          for (int32_t d = 0; d < s.key_dim; d++) dot += double{query[d]} * keys[d];
          const double weight = std::exp(dot * scale);
          sum += weight;
          for (int32_t d = 0; d < s.value_dim; d++) total[d] += weight * values[d];
        }
        for (int32_t d = 0; d < s.value_dim; d++) {
          const float got = out[static_cast<size_t>((t * s.heads + h) * s.value_dim + d)];
          CHECK(std::fabs(got - expected[static_cast<size_t>(d)] / sum) <= tolerance);
        }
      }
    first_key += row.start + row.query_len;
  }
}

constexpr float kTolerance[] = {1e-5f, 2e-3f, 1e-2f, 2e-2f};

}  // namespace

TEST(attention_of_all_kv_types_and_odd_shapes) {
  const std::vector<Row> rows{{0, 19}, {70, 1}, {60, 6}, {0, 1}};
  const int32_t dims[][2] = {{16, 16}, {7, 3}, {40, 20}, {64, 32}, {80, 48}, {129, 65}};
  for (const auto& dim : dims)
    for (int32_t dtype = 0; dtype < 4; dtype++)
      for (const int32_t page_size : {1, 16})
        run(context, {6, 2, dim[0], dim[1], page_size, dtype}, rows, 16, 64, 0, dtype % 2 == 1, kTolerance[dtype]);
}

TEST(attention_of_windows_tall_tiles_and_odd_chunks) {
  const std::vector<Row> rows{{0, 90}, {33, 40}, {129, 1}};
  for (const int32_t window : {0, 1, 50})
    for (const int32_t kv_chunk : {20, 64, 1000})
      for (const int32_t dtype : {0, 2})
        run(context, {2, 2, dtype == 0 ? 24 : 32, dtype == 0 ? 24 : 32, 8, dtype}, rows, 96, kv_chunk, window, kv_chunk == 20, kTolerance[dtype]);
}

TEST(pages_are_copied_whole) {
  for (int32_t dtype = 0; dtype < 4; dtype++) {
    uint64_t handle = 0;
    CHECK_OK(pg_kv_pool_create(context, 3, 4, 2, 1, 5, 3, 0, dtype, &handle));
    void* pool = reinterpret_cast<void*>(handle);
    CHECK(pg_kv_page_bytes(4, 2, 1, 5, 3, 0, dtype) % 64 == 0);
    CHECK_OK(pg_copy_page(context, pool, 1, 2));
    CHECK(pg_copy_page(context, pool, 1, 3) == PG_E_ARGUMENT);
    CHECK(pg_copy_page(context, pool, -1, 0) == PG_E_ARGUMENT);
    const int64_t bytes = pg_kv_page_bytes(4, 2, 1, 5, 3, 0, dtype);
    std::vector<uint8_t> sent(2 * bytes), got(2 * bytes);
    for (size_t i = 0; i < sent.size(); i++) sent[i] = static_cast<uint8_t>(i * 7 + dtype);
    const int32_t pages[] = {2, 1}, outside[] = {1, 3};
    CHECK_OK(pg_write_pages(context, pool, pages, 2, sent.data()));
    CHECK_OK(pg_read_pages(context, got.data(), pool, pages, 2));
    CHECK(sent == got);
    CHECK(pg_write_pages(context, pool, outside, 2, sent.data()) == PG_E_ARGUMENT);
    CHECK(pg_read_pages(context, got.data(), pool, outside, 2) == PG_E_ARGUMENT);
    CHECK(pg_kv_pool_free(pool) == PG_OK);
  }
  uint64_t handle = 0;
  CHECK(pg_kv_pool_create(context, 0, 4, 2, 1, 5, 3, 0, 0, &handle) == PG_E_ARGUMENT);
  CHECK(pg_kv_pool_create(context, 1 << 30, 4, 2, 1, 5, 3, 0, 0, &handle) == PG_E_ARGUMENT);
  CHECK(pg_kv_pool_create(context, 4, 4, 2, 1, 5000, 3, 0, 0, &handle) == PG_E_ARGUMENT);
  CHECK(pg_kv_pool_create(context, 4, 4, 2, 1, 5, 3, 0, 9, &handle) == PG_E_ARGUMENT);
  CHECK(pg_kv_pool_create(context, 4, 4, 2, 1, 3, 5, 1, 0, &handle) == PG_E_ARGUMENT);  // a latent value within its key
}
