// Norms and elementwise ops on one row (rows.h). Each reads its inputs once or twice and writes once: bound by memory, or by
// exp where there is one. Sums run in four vectors of lanes joined by one fixed tree, whatever the number of rows.
//
// Scalar twins: src/device/reference/norm.ts and activation.ts.
#include "../rows.h"

#include "simd-math.h"

namespace pg {
namespace PG_NS {
namespace {

// sum over i of term(i, lanes), lanes beyond a row's end must give 0.
template <typename Term>
PG_INLINE float sum_terms(int64_t cols, const Term& term) {
  vf acc[4] = {v_set(0.0f), v_set(0.0f), v_set(0.0f), v_set(0.0f)};
  int64_t i = 0;
  for (; i + 4 * VL <= cols; i += 4 * VL)
    for (int k = 0; k < 4; k++) acc[k] = acc[k] + term(i + k * VL, VL);
  for (int k = 0; i < cols; i += VL, k++) acc[k] = acc[k] + term(i, cols - i < VL ? (int)(cols - i) : VL);
  return v_hsum((acc[0] + acc[1]) + (acc[2] + acc[3]));
}

PG_INLINE float sum_squares(const float* x, int64_t cols) {
  return sum_terms(cols, [&](int64_t i, int lanes) {
    const vf v = v_load_some(x + i, lanes);
    return v * v;
  });
}

void rms_norm(float* out, const float* x, const float* weight, float eps, int64_t cols, int64_t group_cols,
              int64_t weight_step) {
  for (int64_t g = 0; g < cols; g += group_cols, weight += weight_step) {
    const vf factor = v_set(1.0f / __builtin_sqrtf(sum_squares(x + g, group_cols) / (float)group_cols + eps));
    each_step(group_cols, [&](int64_t i, int lanes) {
      v_store_some(out + g + i, v_load_some(x + g + i, lanes) * factor * v_load_some(weight + i, lanes), lanes);
    });
  }
}

void add_rms_norm(float* out, float* residual, const float* x, const float* weight, float eps, int64_t cols) {
  const float squares = sum_terms(cols, [&](int64_t i, int lanes) {
    const vf v = v_load_some(residual + i, lanes) + v_load_some(x + i, lanes);
    v_store_some(residual + i, v, lanes);
    return v * v;
  });
  const vf factor = v_set(1.0f / __builtin_sqrtf(squares / (float)cols + eps));
  each_step(cols, [&](int64_t i, int lanes) {
    v_store_some(out + i, v_load_some(residual + i, lanes) * factor * v_load_some(weight + i, lanes), lanes);
  });
}

void layer_norm_group(float* out, const float* x, const float* weight, const float* bias, float eps, int64_t cols) {
  const float mean = sum_terms(cols, [&](int64_t i, int lanes) { return v_load_some(x + i, lanes); }) / (float)cols;
  const float squares = sum_terms(cols, [&](int64_t i, int lanes) {
    const vf d = v_load_some(x + i, lanes) - v_set(mean);
    return lanes == VL ? d * d : v_select_lanes(d * d, v_set(0.0f), 0, lanes);
  });
  const vf factor = v_set(1.0f / __builtin_sqrtf(squares / (float)cols + eps));
  each_step(cols, [&](int64_t i, int lanes) {
    const vf normed = (v_load_some(x + i, lanes) - v_set(mean)) * factor;
    v_store_some(out + i, normed * v_load_some(weight + i, lanes) + v_load_some(bias + i, lanes), lanes);
  });
}

void layer_norm(float* out, const float* x, const float* weight, const float* bias, float eps, int64_t cols,
                int64_t group_cols, int64_t weight_step) {
  for (int64_t g = 0; g < cols; g += group_cols, weight += weight_step, bias += weight_step)
    layer_norm_group(out + g, x + g, weight, bias, eps, group_cols);
}

void add(float* out, const float* a, const float* b, float scale, int64_t cols) {
  each_step(cols, [&](int64_t i, int lanes) {
    v_store_some(out + i, v_madd(v_load_some(b + i, lanes), v_set(scale), v_load_some(a + i, lanes)), lanes);
  });
}

void scale(float* x, float factor, int64_t cols) {
  each_step(cols, [&](int64_t i, int lanes) { v_store_some(x + i, v_load_some(x + i, lanes) * v_set(factor), lanes); });
}

void softcap(float* x, float cap, int64_t cols) {
  each_step(cols, [&](int64_t i, int lanes) {
    v_store_some(x + i, v_set(cap) * v_tanh(v_load_some(x + i, lanes) / v_set(cap)), lanes);
  });
}

struct Silu {
  PG_INLINE vf of(vf x) { return v_silu(x); }
};
struct GeluTanh {
  PG_INLINE vf of(vf x) { return v_gelu_tanh(x); }
};
struct Gelu {
  PG_INLINE vf of(vf x) { return v_gelu(x); }
};
struct Relu {
  PG_INLINE vf of(vf x) { return v_max(v_set(0.0f), x); }  // this order keeps NaN
};
struct Relu2 {
  PG_INLINE vf of(vf x) { return Relu::of(x) * Relu::of(x); }
};

struct Sigmoid {
  PG_INLINE vf of(vf x) { return v_sigmoid(x); }
};
struct Identity {
  PG_INLINE vf of(vf x) { return x; }
};

template <typename Act>
void gate(float* out, const float* gate, const float* up, int64_t cols) {
  each_step(cols, [&](int64_t i, int lanes) {
    v_store_some(out + i, Act::of(v_load_some(gate + i, lanes)) * v_load_some(up + i, lanes), lanes);
  });
}

template <typename Act>
void activate(float* out, const float* x, int64_t cols) {
  each_step(cols, [&](int64_t i, int lanes) { v_store_some(out + i, Act::of(v_load_some(x + i, lanes)), lanes); });
}

// g = min(gate, 7), u = up clamped to [-7, 7]: (u + 1) g sigmoid(1.702 g).
void gate_oss(float* out, const float* gate, const float* up, int64_t cols) {
  const vf limit = v_set(7.0f);
  each_step(cols, [&](int64_t i, int lanes) {
    const vf g = v_min(limit, v_load_some(gate + i, lanes));
    const vf u = v_min(limit, v_max(v_set(-7.0f), v_load_some(up + i, lanes)));
    v_store_some(out + i, (u + v_set(1.0f)) * (g * v_sigmoid(v_set(1.702f) * g)), lanes);
  });
}

void xielu(float* x, float alpha_p, float alpha_n, float beta, float eps, int64_t cols) {
  each_step(cols, [&](int64_t i, int lanes) {
    const vf v = v_load_some(x + i, lanes);
    const vf above = v * v_madd(v_set(alpha_p), v, v_set(beta));
    const vf exponential = v_exp(v_min(v_set(eps), v)) - v_set(1.0f);
    const vf below = v_madd(v_set(alpha_n), exponential - v, v_set(beta) * v);
    v_store_some(x + i, v_select_less(v_set(0.0f), v, above, below), lanes);
  });
}

void rotate(float* x, const Rotation& r) {
  if (r.interleaved == 0) {
    float* y = x + r.half;
    each_step(r.half, [&](int64_t i, int lanes) {
      const vf a = v_load_some(x + i, lanes);
      const vf b = v_load_some(y + i, lanes);
      const vf cos = v_load_some(r.cos + i, lanes);
      const vf sin = v_load_some(r.sin + i, lanes);
      v_store_some(x + i, a * cos - b * sin, lanes);
      v_store_some(y + i, b * cos + a * sin, lanes);
    });
  } else {
    for (int32_t i = 0; i < r.half; i++) {
      const float a = x[2 * i];
      const float b = x[2 * i + 1];
      x[2 * i] = a * r.cos[i] - b * r.sin[i];
      x[2 * i + 1] = b * r.cos[i] + a * r.sin[i];
    }
  }
}

// One number per head: too few to be worth vectors. A softplus beyond 20 is its argument to the last bit.
void decay_gates(float* decay, float* step, const float* x, const float* bias, const float* rate, float min, float max,
                 int64_t cols) {
  for (int64_t i = 0; i < cols; i++) {
    const float raised = x[i] + bias[i];
    float dt = raised > 20.0f ? raised : (float)__builtin_log1p(__builtin_exp((double)raised));
    dt = dt < min ? min : dt > max ? max : dt;
    step[i] = dt;
    decay[i] = (float)__builtin_exp((double)(rate[i] * dt));
  }
}

// value = element * scale with scale = max |x| / 127. A row that is not finite becomes NaN as a whole.
void write_int8(int8_t* row, float* scale, const float* x, int32_t dim) {
  vf top = v_set(0.0f);
  vf poison = v_set(0.0f);  // x * 0: NaN where x is not finite
  each_step(dim, [&](int64_t i, int lanes) {
    const vf v = v_load_some(x + i, lanes);
    top = v_max(v_abs(v), top);
    poison = poison + v * v_set(0.0f);
  });
  const float largest = v_hmax(top);
  const float finite = v_hsum(poison);
  *scale = largest / 127.0f + finite;
  if (!(*scale > 0.0f)) {
    for (int32_t i = 0; i < dim; i++) row[i] = *scale == 0.0f ? 0 : 1;
    return;
  }
  float rounded[VL];
  each_step(dim, [&](int64_t i, int lanes) {
    // The quotient may round to just above 127 when the scale itself was rounded down.
    const vf q = v_round(v_load_some(x + i, lanes) / v_set(*scale));
    v_store(rounded, v_min(v_set(127.0f), v_max(v_set(-127.0f), q)));
    for (int k = 0; k < lanes; k++) row[i + k] = (int8_t)rounded[k];
  });
}

// value = code * scale * 256 with the least power of two that brings all codes within 448 (RowFp8). Beyond 448 * 2^7, where the bf16
// kernels of GPUs end, numbers are cut off. A row that is not finite becomes NaN as a whole.
void write_fp8(uint8_t* row, float* scale, const float* x, int32_t dim) {
  uint32_t top = 0;  // bits of the largest magnitude
  for (int32_t i = 0; i < dim; i++) {
    const uint32_t rest = s_bits(x[i]) & 0x7fffffffu;
    top = rest > top ? rest : top;
  }
  int32_t exponent = (int32_t)(top >> 23) - 127 - 8 + ((top & 0x7fffff) > 0x600000);  // 448 = 1.75 * 2^8
  exponent = exponent < -100 ? -100 : exponent > 7 ? 7 : exponent;
  *scale = top >= 0x7f800000u ? s_from_bits(0x7fc00000u) : s_from_bits((uint32_t)(exponent + 8 + 127) << 23);
  const float inverse = s_from_bits((uint32_t)(127 - exponent) << 23);
  for (int32_t i = 0; i < dim; i++) row[i] = s_to_e4m3(x[i] * inverse);
}

void write_head(uint8_t* row, float* scale, KvDtype dtype, const float* x, int32_t dim) {
  switch (dtype) {
    case KvDtype::f32: memcpy(row, x, sizeof(float) * dim); break;
    case KvDtype::f16: {
      uint16_t* halves = (uint16_t*)row;
      int32_t i = 0;
      for (; i + VL <= dim; i += VL) v_store_f16(halves + i, v_load(x + i));
      for (; i < dim; i++) halves[i] = s_to_f16(x[i]);
      break;
    }
    case KvDtype::bf16:
      for (int32_t i = 0; i < dim; i++) ((uint16_t*)row)[i] = s_to_bf16(x[i]);
      break;
    case KvDtype::i8: write_int8((int8_t*)row, scale, x, dim); break;
    case KvDtype::fp8: write_fp8(row, scale, x, dim); break;
  }
}

}  // namespace

extern const RowKernels row_kernels;
const RowKernels row_kernels = {
    rms_norm,
    add_rms_norm,
    layer_norm,
    add,
    scale,
    softcap,
    {gate<Silu>, gate<GeluTanh>, gate<Gelu>, gate<Relu>, gate<Relu2>, gate<Sigmoid>, gate<Identity>, gate_oss},
    {activate<Silu>, activate<GeluTanh>, activate<Gelu>, activate<Relu>, activate<Relu2>, activate<Sigmoid>,
     activate<Identity>},
    xielu,
    rotate,
    decay_gates,
    write_head,
};

}  // namespace PG_NS
}  // namespace pg
