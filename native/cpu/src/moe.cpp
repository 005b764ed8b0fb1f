// A mixture of experts: route every row, gather the rows of each expert, run it as two matmuls with a gate between, and sum
// each row's experts in ascending rank. An expert's matmul gives a row the same bits whatever rows are beside it, and the sum
// runs by rank, so a row does not depend on the others.
#include <cstring>
#include <memory>
#include <vector>

#include "parallel-rows.h"
#include "route.h"
#include "weight.h"

namespace pg {

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
  std::vector<double> work;      // [2 * E]
  Scratch gathered;              // [max_rows, hidden]
  Scratch inside;                // [max_rows, 2*inner]
  Scratch results;               // [max_rows * top_k, hidden]
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
  return nullptr;
}

// Chooses the experts of every row and lays the rows out by expert.
void assign(Experts& e, const float* logits, int64_t stride, int64_t n) {
  const int32_t top_k = e.router.top_k;
  std::fill(e.first.begin(), e.first.end(), 0);
  for (int64_t r = 0; r < n; r++) {
    route(&e.ids[r * top_k], &e.weights[r * top_k], logits + r * stride, e.router, e.work.data());
    for (int32_t k = 0; k < top_k; k++) e.first[e.ids[r * top_k + k] + 1]++;
  }
  for (int32_t x = 0; x < e.router.num_experts; x++) e.first[x + 1] += e.first[x];
  // first[x] serves as the write cursor of expert x and ends as the start of x + 1: shifted back below.
  for (int64_t i = 0; i < n * top_k; i++) {
    e.place[i] = e.first[e.ids[i]]++;
    e.members[e.place[i]] = static_cast<int32_t>(i / top_k);
    if (!e.scale_input) continue;
    e.factors[e.place[i]] = e.weights[i];
    e.weights[i] = 1.0f;
  }
  for (int32_t x = e.router.num_experts; x > 0; x--) e.first[x] = e.first[x - 1];
  e.first[0] = 0;
}

int32_t run_expert(Context* context, Experts& e, int32_t expert, const float* x, int64_t x_stride) {
  const int32_t begin = e.first[expert];
  const int64_t count = e.first[expert + 1] - begin;
  if (count == 0) return PG_OK;
  float* gathered = reinterpret_cast<float*>(e.gathered.data());
  float* inside = reinterpret_cast<float*>(e.inside.data());
  float* results = reinterpret_cast<float*>(e.results.data()) + begin * e.hidden;
  each_row(context, count, e.hidden, [&](int64_t i) {
    std::memcpy(gathered + i * e.hidden, x + e.members[begin + i] * x_stride, sizeof(float) * static_cast<size_t>(e.hidden));
    if (e.scale_input) context->kernels->rows->scale(gathered + i * e.hidden, e.factors[begin + i], e.hidden);
  });
  const float* up_bias = e.gate_up_bias == nullptr ? nullptr : e.gate_up_bias + expert * e.gate_up_bias_stride;
  const float* down_bias = e.down_bias == nullptr ? nullptr : e.down_bias + expert * e.down_bias_stride;
  const int64_t width = (e.is_gated ? 2 : 1) * e.inner;
  int32_t status = PG_E_UNSUPPORTED;
  if (e.is_gated && up_bias == nullptr)
    status = pg_gated_matmul(context, inside, width, gathered, e.hidden, e.gate_up[expert], count, e.gate, nullptr, 0);
  if (status == PG_E_UNSUPPORTED) {
    status = pg_matmul(context, inside, width, gathered, e.hidden, e.gate_up[expert], count, up_bias, 1.0f, 0);
    each_row(context, status == PG_OK ? count : 0, 4 * e.inner, [&](int64_t i) {
      float* row = inside + i * width;
      if (e.is_gated) context->kernels->rows->gate[e.gate](row, row, row + e.inner, e.inner);
      else context->kernels->rows->activate[e.gate](row, row, e.inner);
    });
  }
  if (status != PG_OK) return status;
  return pg_matmul(context, results, e.hidden, inside, width, e.down[expert], count, down_bias, 1.0f, 0);
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
    e->work.resize(2 * static_cast<size_t>(num_experts));
    const int64_t size = sizeof(float);
    if (!e->gathered.reserve(max_rows * hidden * size) || !e->inside.reserve(max_rows * 2 * inner * size) ||
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
  assign(e, router_logits, logits_stride, n);
  for (int32_t expert = 0; expert < e.router.num_experts; expert++) {
    const int32_t status = run_expert(context, e, expert, x, x_stride);
    if (status != PG_OK) return status;
  }
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
