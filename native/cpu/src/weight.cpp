// Weight life: create, append rows from memory or a file, free.
#include "weight.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

#include "context.h"
#include "kernels.h"
#include "memory.h"
#include "pack.h"

using namespace pg;

namespace {

// So that sizes in bytes cannot overflow.
constexpr int64_t kMostRows = int64_t{1} << 31;
constexpr int64_t kMostCols = int64_t{1} << 28;

int32_t append(Context* context, Weight* weight, int32_t dtype, int32_t encoding, int64_t rows, int32_t transposed,
               const uint8_t* source, int64_t source_bytes) {
  if (encoding < 0) encoding = own_encoding(dtype);
  const int64_t cols = weight->cols;
  if (rows < 1 || rows > kMostRows)
    return fail(context, PG_E_ARGUMENT, "a weight has 1 to %lld rows", (long long)kMostRows);
  const PackFn pack = packer(dtype, encoding);
  if (pack == nullptr || (transposed && !is_float(dtype)))
    return fail(context, PG_E_UNSUPPORTED, "dtype %d cannot be packed as encoding %d%s", dtype, encoding,
                transposed ? " when transposed" : "");
  const int64_t expected = source_size(dtype, rows, cols);
  if (expected < 0 || expected != source_bytes)
    return fail(context, PG_E_ARGUMENT, "%lld rows of %lld columns take %lld bytes, %lld were given", (long long)rows,
                (long long)cols, (long long)expected, (long long)source_bytes);
  Segment segment = {};
  segment.encoding = static_cast<Encoding>(encoding);
  segment.first_row = weight->rows;
  segment.rows = rows;
  segment.panels = (rows + kPanelRows - 1) / kPanelRows;
  segment.panel_bytes = panel_size(segment.encoding, cols);
  weight->segments.reserve(weight->segments.size() + 1);  // before there is a block to lose
  segment.block = context->weights.allocate(segment.bytes());
  segment.data = segment.block.data;
  if (segment.data == nullptr)
    return fail(context, PG_E_MEMORY, "the system refused %lld bytes", (long long)segment.bytes());
  const Source from = {source, static_cast<Dtype>(dtype), rows, cols, transposed != 0};
  parallel_for(context->pool, segment.panels,
               [&](int64_t panel, int32_t) { pack(segment.data + panel * segment.panel_bytes, from, panel * kPanelRows); });
  weight->segments.push_back(segment);
  weight->rows += rows;
  return PG_OK;
}

// Makes the panels ones of the form that a weight has where it is only multiplied, each in its place. Returns the bytes of a panel.
int64_t make_multiplied_form(Context* context, Segment& segment, int64_t cols) {
  const MultipliedForm& form = context->kernels->multiplied[segment.encoding];
  if (form.make == nullptr || form.panel_bytes(cols) > segment.panel_bytes) return segment.panel_bytes;
  std::atomic<bool> fits{true};
  if (form.fits != nullptr)
    parallel_for(context->pool, segment.panels, [&](int64_t panel, int32_t) {
      if (fits && !form.fits(segment.data + panel * segment.panel_bytes, cols)) fits = false;
    });
  if (!fits) return segment.panel_bytes;
  std::vector<uint8_t> room(static_cast<size_t>(segment.panel_bytes * context->pool.size()));
  parallel_for(context->pool, segment.panels, [&](int64_t panel, int32_t worker) {
    form.make(segment.data + panel * segment.panel_bytes, cols, room.data() + worker * segment.panel_bytes);
  });
  segment.encoding = form.encoding;
  return form.panel_bytes(cols);
}

}  // namespace

extern "C" {

int32_t pg_weight_create(void* handle, int64_t cols, uint64_t* out_weight) {
  if (cols < 1 || cols > kMostCols || out_weight == nullptr)
    return fail(as_context(handle), PG_E_ARGUMENT, "a weight has 1 to %lld columns", (long long)kMostCols);
  return guarded(as_context(handle), "weight", [&] {
    auto weight = std::make_unique<Weight>();
    weight->cols = cols;
    weight->following.panels.resize(static_cast<size_t>(as_context(handle)->pool.size()));
    *out_weight = reinterpret_cast<uint64_t>(weight.release());
    return PG_OK;
  });
}

int32_t pg_weight_append(void* handle, void* weight, int32_t dtype, int32_t encoding, int64_t rows, int32_t transposed,
                         const void* source, int64_t source_bytes) {
  return guarded(as_context(handle), "weight", [&] {
    return append(as_context(handle), static_cast<Weight*>(weight), dtype, encoding, rows, transposed,
                  static_cast<const uint8_t*>(source), source_bytes);
  });
}

int32_t pg_weight_append_file(void* handle, void* weight, int32_t dtype, int32_t encoding, int64_t rows,
                              int32_t transposed, const char* path, int64_t offset, int64_t source_bytes) {
  const FileMap file(path, offset, source_bytes);
  if (!file.ok()) return fail(as_context(handle), PG_E_FILE, "%s", file.error());
  return pg_weight_append(handle, weight, dtype, encoding, rows, transposed, file.data(), source_bytes);
}

int32_t pg_weight_map_file(void* handle, void* weight, int32_t dtype, int64_t rows, const char* path, int64_t offset,
                           int64_t source_bytes) {
  Context* context = as_context(handle);
  return guarded(context, "weight", [&]() -> int32_t {
    Weight& w = *static_cast<Weight*>(weight);
    const int64_t expected = rows < 1 || rows > kMostRows ? -1 : source_size(dtype, rows, w.cols);
    if (expected < 0 || expected != source_bytes)
      return fail(context, PG_E_ARGUMENT, "%lld rows of %lld columns do not take %lld bytes", (long long)rows,
                  (long long)w.cols, (long long)source_bytes);
    auto file = std::make_shared<const FileMap>(path, offset, source_bytes, false);
    if (!file->ok()) return fail(context, PG_E_FILE, "%s", file->error());
    Segment segment = {};
    segment.encoding = static_cast<Encoding>(own_encoding(dtype));
    segment.first_row = w.rows;
    segment.rows = rows;
    segment.panel_bytes = panel_size(segment.encoding, w.cols);
    segment.file = std::move(file);
    segment.dtype = dtype;
    segment.row_bytes = source_bytes / rows;
    if (segment.panel_bytes > w.room_bytes) {
      w.room.resize(static_cast<size_t>(segment.panel_bytes * context->pool.size()));
      w.room_bytes = segment.panel_bytes;
    }
    w.segments.push_back(std::move(segment));
    w.rows += rows;
    return PG_OK;
  });
}

int32_t pg_weight_only_multiplied(void* handle, void* weight) {
  Context* context = as_context(handle);
  return guarded(context, "weight", [&]() -> int32_t {
    Weight& w = *static_cast<Weight*>(weight);
    Segment* before = nullptr;
    const uint8_t* old_end = nullptr;  // of the segment before
    for (Segment& segment : w.segments) {
      if (segment.file != nullptr) continue;
      const int64_t old_bytes = segment.panel_bytes, bytes = make_multiplied_form(context, segment, w.cols);
      // Close together, one segment behind the other: what is read ahead beyond a panel is the next, and what is left over is at the end.
      uint8_t* const from = segment.data;
      const bool follows = before != nullptr && before->block.chunk == segment.block.chunk && old_end == from;
      if (follows) segment.data = segment.block.data = before->data + before->bytes();
      for (int64_t panel = 0; panel < segment.panels && (segment.data != from || bytes < old_bytes); panel++)
        std::memmove(segment.data + panel * bytes, from + panel * old_bytes, static_cast<size_t>(bytes));
      segment.panel_bytes = bytes;
      old_end = from + segment.panels * old_bytes;
      before = &segment;
    }
    if (before != nullptr) context->weights.shrink(before->block, old_end, before->data + before->bytes());
    return PG_OK;
  });
}

int64_t pg_weight_bytes(const void* handle) {
  int64_t bytes = 0;
  for (const Segment& segment : static_cast<const Weight*>(handle)->segments) bytes += segment.bytes();
  return bytes;
}

int32_t pg_weight_free(void* context, void* handle) {
  Weight* weight = static_cast<Weight*>(handle);
  if (weight == nullptr) return PG_OK;
  for (const Segment& segment : weight->segments) as_context(context)->weights.free(segment.block);
  if (as_context(context)->last_multiplied == weight) as_context(context)->last_multiplied = nullptr;
  delete weight;
  return PG_OK;
}

}  // extern "C"
