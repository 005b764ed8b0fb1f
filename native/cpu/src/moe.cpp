// A mixture of experts: route every row, lay the rows out by expert, multiply by gate and up and then by down, and sum each row's experts in
// ascending rank. Each of these is one job for all experts: one expert alone has too few panels and rows for all threads. An expert's product
// gives a row the same bits whatever rows are beside it, and the sum runs by rank, so a row does not depend on the others.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "parallel-rows.h"
#include "products.h"
#include "route.h"

namespace pg {

// Rows of one expert in a layout that its kernels read.
struct Packing {
  const LayoutSpec* layout;
  RowTiles tiles;
  int64_t place;       // of its first row
  int64_t cols;
  bool all_fields;
  int64_t first_tile;  // among those of all
  int64_t offset;      // in Experts::packed
};

struct Experts {
  Router router;
  std::vector<const Weight*> gate_up;  // [E] of [2*inner, hidden]
  std::vector<const Weight*> down;     // [E] of [hidden, inner]
  const float* gate_up_bias;           // [E, 2*inner] or null
  int64_t gate_up_bias_stride;
  const float* down_bias;  // [E, hidden] or null
  int64_t down_bias_stride;
  int64_t hidden;
  int64_t inner;
  int32_t gate;     // index into RowKernels::gate
  bool is_gated;    // gate_up has gate and up; otherwise up alone, through the activation
  bool scale_input; // a row's weights multiply what its experts read, not what they give
  int64_t max_rows;

  std::vector<int32_t> ids;      // [max_rows, top_k] chosen experts, best first
  std::vector<float> weights;    // [max_rows, top_k]
  std::vector<int32_t> place;    // [max_rows, top_k] row of `results` that holds it
  std::vector<int32_t> first;    // [E+1] rows of `results` by expert
  std::vector<int32_t> members;  // [max_rows * top_k] row of x, by expert
  std::vector<float> factors;    // [max_rows * top_k] of its row of x, by expert; scale_input only
  std::vector<double> work;      // [workers][2 * E]
  Scratch gathered;              // [workers][rows of a tile, hidden]
  Scratch packed;                // x of the products under way, by expert
  Scratch inside;                // [max_rows * top_k, 2*inner]
  Scratch results;               // [max_rows * top_k, hidden]
  // Of the products under way.
  std::vector<Packing> packings;
  std::vector<SegmentWork> works;
  std::vector<GatedHalf> ups;        // their other halves
  std::vector<size_t> packing_of;    // by work
  std::vector<uint8_t> is_ungated;   // [E] gate and up were made one beside the other
};

namespace {

const char* check(const Experts& e) {
  const Router& r = e.router;
  if (r.num_experts < 1 || r.top_k < 1 || r.top_k > r.num_experts || e.inner < 1 || e.max_rows < 1) return "sizes";
  if (r.num_groups < 1 || r.num_groups > kMaxGroups || r.num_experts % r.num_groups != 0) return "groups";
  if (r.topk_group < 1 || r.topk_group > r.num_groups) return "groups";
  if (r.num_groups > 1 && r.top_k > r.topk_group * (r.num_experts / r.num_groups)) return "groups too small for top-k";
  if (static_cast<int32_t>(r.score) < 0 || static_cast<int32_t>(r.score) > 2) return "score";
  if (e.gate < 0 || e.gate > (e.is_gated ? kGateOss : kNumActivations - 1)) return "activation";
  if (r.group_best < 1 || r.group_best > 2) return "the best of a group";
  for (const Weight* w : e.gate_up)
    if (w == nullptr || w->rows != (e.is_gated ? 2 : 1) * e.inner || w->cols != e.hidden) return "the shape of a gate/up weight";
  for (const Weight* w : e.down)
    if (w == nullptr || w->rows != e.hidden || w->cols != e.inner) return "the shape of a down weight";
  for (const std::vector<const Weight*>* weights : {&e.gate_up, &e.down})
    for (const Weight* w : *weights)
      for (const Segment& segment : w->segments)
        if (segment.file != nullptr) return "an expert in a file";
  return nullptr;
}

// Chooses the experts of every row and lays the rows out by expert.
void assign(Context* context, Experts& e, const float* logits, int64_t stride, int64_t n) {
  const int32_t top_k = e.router.top_k, num_experts = e.router.num_experts;
  constexpr int64_t kNumbers = 32;  // as much work as that for each expert: an exponential, and its share of the choice
  each_row(context, n, num_experts * kNumbers, [&](int64_t r, int32_t worker) {
    route(&e.ids[r * top_k], &e.weights[r * top_k], logits + r * stride, e.router, &e.work[size_t{2} * worker * num_experts]);
  });
  std::fill(e.first.begin(), e.first.end(), 0);
  for (int64_t i = 0; i < n * top_k; i++) e.first[e.ids[i] + 1]++;
  for (int32_t x = 0; x < num_experts; x++) e.first[x + 1] += e.first[x];
  // first[x] serves as the write cursor of expert x and ends as the start of x + 1: shifted back below.
  for (int64_t i = 0; i < n * top_k; i++) {
    e.place[i] = e.first[e.ids[i]]++;
    e.members[e.place[i]] = static_cast<int32_t>(i / top_k);
    if (!e.scale_input) continue;
    e.factors[e.place[i]] = e.weights[i];
    e.weights[i] = 1.0f;
  }
  for (int32_t x = num_experts; x > 0; x--) e.first[x] = e.first[x - 1];
  e.first[0] = 0;
}

// The products of all experts with their rows, which are added one after the other and run as two jobs: x is packed, then multiplied.
class Products {
 public:
  Products(Context* context, Experts& e) : context_(context), e_(e) {
    e.packings.clear();
    e.works.clear();
    e.ups.clear();
    e.packing_of.clear();
  }
  // out: of the expert's first row. activation: of gate and up, -1: none. False: they cannot be gated as they are multiplied, nothing was added.
  bool add(int32_t expert, const Weight& weight, float* out, int64_t out_stride, const float* bias, int32_t activation) {
    const Kernels& kernels = *context_->kernels;
    const int64_t n = e_.first[expert + 1] - e_.first[expert];
    const size_t own = e_.packings.size();  // the packings of this expert begin there
    const auto packing_for = [&](const MatmulKernel& kernel) {
      const LayoutSpec* layout = &kernels.layouts[kernel.layout];
      for (size_t i = own; i < e_.packings.size(); i++)
        if (e_.packings[i].layout == layout) return i;
      const RowTiles tiles = tiles_of(*layout, n);
      e_.packings.push_back({layout, tiles, e_.first[expert], weight.cols, needs_all_fields(weight), tiles_, bytes_});
      tiles_ += tiles.count;
      bytes_ += tiles.count * layout->tile_bytes(weight.cols);
      return e_.packings.size() - 1;
    };
    const auto put = [&](const MatmulKernel& kernel, const Gemm& gemm, int64_t panels) {
      if (kernel.run == nullptr) has_all_ = false;
      e_.packing_of.push_back(packing_for(kernel));
      e_.works.push_back({&kernel, gemm, panels, 0, 0, 0, nullptr});
      panels_ += panels;
    };
    if (activation >= 0) {
      GatedProduct product;
      if (!gated_product(&product, kernels, weight, n, activation)) return false;
      product.up.gemm.out = out;
      product.up.gemm.out_stride = out_stride;
      put(*product.kernel, product.gate, product.panels);
      if (product.up.kernel->run == nullptr) has_all_ = false;
      e_.ups.push_back(product.up);
      return true;
    }
    for (const Segment& segment : weight.segments) {
      const MatmulKernel& kernel = kernel_for(kernels, segment.encoding, n);
      Gemm gemm = gemm_of(kernels, kernel, segment, n, weight.cols);
      gemm.out = out + segment.first_row;
      gemm.out_stride = out_stride;
      gemm.bias = bias == nullptr ? nullptr : bias + segment.first_row;
      put(kernel, gemm, segment.panels);
      e_.ups.push_back({});
    }
    return true;
  }
  // Row i of x is that of place i; of place i's member where they are `gathered`.
  int32_t run(const float* x, int64_t stride, bool gathered) {
    if (!has_all_) return fail(context_, PG_E_UNSUPPORTED, "experts: a weight has a form that this instruction set does not have");
    if (!e_.packed.reserve(bytes_)) return fail(context_, PG_E_MEMORY, "experts: the system refused %lld bytes", (long long)bytes_);
    const auto pack_tile = [&](int64_t at, int32_t worker) {
      const auto is_before = [](int64_t tile, const Packing& packing) { return tile < packing.first_tile; };
      const Packing& p = *(std::upper_bound(e_.packings.begin(), e_.packings.end(), at, is_before) - 1);
      const int64_t tile = at - p.first_tile, first = p.place + p.tiles.first(tile), height = p.tiles.height(tile);
      const float* rows = x + first * stride;
      int64_t rows_stride = stride;
      if (gathered) {
        float* own = reinterpret_cast<float*>(e_.gathered.data()) + worker * kMostTileRows * e_.hidden;
        for (int64_t i = 0; i < height; i++) {
          std::memcpy(own + i * e_.hidden, x + e_.members[first + i] * stride, sizeof(float) * static_cast<size_t>(e_.hidden));
          if (e_.scale_input) context_->kernels->rows->scale(own + i * e_.hidden, e_.factors[first + i], e_.hidden);
        }
        rows = own;
        rows_stride = e_.hidden;
      }
      p.layout->pack(e_.packed.data() + p.offset + tile * p.layout->tile_bytes(p.cols), {rows, rows_stride, height, p.cols, 0, p.cols, p.all_fields});
    };
    each_row(context_, tiles_, tiles_ == 0 ? 0 : bytes_ / tiles_, pack_tile);
    // Each work is put in its place again with what is known now.
    Together together(e_.works.data());
    for (size_t i = 0; i < e_.works.size(); i++) {
      const SegmentWork work = e_.works[i];
      GatedHalf& up = e_.ups[i];
      Gemm gemm = work.gemm;
      gemm.x = up.gemm.x = e_.packed.data() + e_.packings[e_.packing_of[i]].offset;
      together.add(*work.kernel, gemm, work.panels, panels_, context_->pool.size(), up.kernel == nullptr ? nullptr : &up);
    }
    together.run(context_);
    return PG_OK;
  }
  static constexpr int64_t kMostTileRows = 32;

 private:
  Context* context_;
  Experts& e_;
  int64_t tiles_ = 0, bytes_ = 0, panels_ = 0;
  bool has_all_ = true;  // there is a kernel for each
};

int32_t run_experts(Context* context, Experts& e, const float* x, int64_t x_stride) {
  const int64_t width = (e.is_gated ? 2 : 1) * e.inner, places = e.first[e.router.num_experts];
  float* inside = reinterpret_cast<float*>(e.inside.data());
  float* results = reinterpret_cast<float*>(e.results.data());
  const auto each_expert = [&](const auto& body) {
    for (int32_t expert = 0; expert < e.router.num_experts; expert++)
      if (e.first[expert + 1] > e.first[expert]) body(expert, e.first[expert]);
  };
  bool has_ungated = false;
  Products first(context, e);
  each_expert([&](int32_t expert, int64_t place) {
    const float* bias = e.gate_up_bias == nullptr ? nullptr : e.gate_up_bias + expert * e.gate_up_bias_stride;
    const Weight& weight = *e.gate_up[expert];
    float* out = inside + place * width;
    e.is_ungated[expert] = !e.is_gated || bias != nullptr || !first.add(expert, weight, out, width, nullptr, e.gate);
    if (e.is_ungated[expert]) first.add(expert, weight, out, width, bias, -1);
    has_ungated = has_ungated || e.is_ungated[expert];
  });
  if (const int32_t status = first.run(x, x_stride, true); status != PG_OK) return status;
  if (has_ungated)
    each_row(context, places, 4 * e.inner, [&](int64_t place) {
      const int64_t expert = std::upper_bound(e.first.begin(), e.first.end(), place) - e.first.begin() - 1;
      float* row = inside + place * width;
      if (!e.is_ungated[expert]) return;
      if (e.is_gated) context->kernels->rows->gate[e.gate](row, row, row + e.inner, e.inner);
      else context->kernels->rows->activate[e.gate](row, row, e.inner);
    });
  Products last(context, e);
  each_expert([&](int32_t expert, int64_t place) {
    const float* bias = e.down_bias == nullptr ? nullptr : e.down_bias + expert * e.down_bias_stride;
    last.add(expert, *e.down[expert], results + place * e.hidden, e.hidden, bias, -1);
  });
  return last.run(inside, width, false);
}

}  // namespace
}  // namespace pg

using namespace pg;

extern "C" {

int32_t pg_experts_create(void* handle, int32_t num_experts, const uint64_t* gate_up, const uint64_t* down,
                          const float* gate_up_bias, int64_t gate_up_bias_stride, const float* down_bias,
                          int64_t down_bias_stride, int64_t hidden, int64_t inner, int32_t gate, int32_t top_k, int32_t score,
                          int32_t normalize, float scale, const float* router_bias, const float* expert_scale, int32_t num_groups,
                          int32_t topk_group, int32_t group_best, int32_t is_gated, int32_t scale_input, int64_t max_rows, uint64_t* out_experts) {
  Context* context = as_context(handle);
  if (num_experts < 1 || num_experts > (1 << 16)) return fail(context, PG_E_ARGUMENT, "experts: %d of them", num_experts);
  return guarded(context, "experts", [&]() -> int32_t {
    auto e = std::make_unique<Experts>();
    e->router = {num_experts,  top_k,      static_cast<RouterScore>(score), normalize, scale, router_bias,
                 expert_scale, num_groups, topk_group,                      group_best};
    e->is_gated = is_gated != 0;
    e->scale_input = scale_input != 0;
    for (int32_t i = 0; i < num_experts; i++) {
      e->gate_up.push_back(reinterpret_cast<const Weight*>(gate_up[i]));
      e->down.push_back(reinterpret_cast<const Weight*>(down[i]));
    }
    e->gate_up_bias = gate_up_bias;
    e->gate_up_bias_stride = gate_up_bias_stride;
    e->down_bias = down_bias;
    e->down_bias_stride = down_bias_stride;
    e->hidden = hidden;
    e->inner = inner;
    e->gate = gate;
    e->max_rows = max_rows;
    if (const char* wrong = check(*e)) return fail(context, PG_E_ARGUMENT, "experts: %s", wrong);
    const size_t places = static_cast<size_t>(max_rows * top_k);
    e->ids.resize(places);
    e->weights.resize(places);
    e->place.resize(places);
    e->members.resize(places);
    e->factors.resize(places);
    e->first.resize(static_cast<size_t>(num_experts) + 1);
    e->work.resize(2 * static_cast<size_t>(num_experts) * static_cast<size_t>(context->pool.size()));
    e->is_ungated.resize(static_cast<size_t>(num_experts));
    const int64_t size = sizeof(float);
    if (!e->gathered.reserve(context->pool.size() * Products::kMostTileRows * hidden * size) ||
        !e->inside.reserve(max_rows * top_k * (is_gated != 0 ? 2 : 1) * inner * size) ||
        !e->results.reserve(max_rows * top_k * hidden * size) ||
        pg_reserve_activations(handle, max_rows, hidden > inner ? hidden : inner) != PG_OK)
      return fail(context, PG_E_MEMORY, "experts: no memory for %lld rows", static_cast<long long>(max_rows));
    *out_experts = reinterpret_cast<uint64_t>(e.release());
    return PG_OK;
  });
}

int32_t pg_experts_free(void* experts) {
  delete static_cast<Experts*>(experts);
  return PG_OK;
}

int32_t pg_mixture_of_experts(void* handle, float* out, int64_t out_stride, const float* x, int64_t x_stride,
                              const float* router_logits, int64_t logits_stride, void* experts, int64_t n) {
  Context* context = as_context(handle);
  Experts& e = *static_cast<Experts*>(experts);
  if (n < 0 || n > e.max_rows || out_stride < e.hidden || x_stride < e.hidden)
    return fail(context, PG_E_ARGUMENT, "experts: %lld rows, room for %lld", static_cast<long long>(n),
                static_cast<long long>(e.max_rows));
  assign(context, e, router_logits, logits_stride, n);
  if (const int32_t status = run_experts(context, e, x, x_stride); status != PG_OK) return status;
  const auto add = context->kernels->rows->add;
  const float* results = reinterpret_cast<const float*>(e.results.data());
  const int32_t top_k = e.router.top_k;
  each_row(context, n, e.hidden * top_k, [&](int64_t r) {
    float* row = out + r * out_stride;
    std::memset(row, 0, sizeof(float) * static_cast<size_t>(e.hidden));
    for (int32_t k = 0; k < top_k; k++)
      add(row, row, results + e.place[r * top_k + k] * e.hidden, e.weights[r * top_k + k], e.hidden);
  });
  return PG_OK;
}

}  // extern "C"
