// Mixtures of experts: the router's choice, the order of tokens by expert, the gated activation between the two matmuls, and the
// weighted sum. The matmuls are those of matmul-strip.cu and matmul-f32.cu, one expert per blockIdx.z.
//
// Pairs (token, rank) are listed by expert, each expert's run padded to 8 places, in ascending (token, rank) within an expert: the
// list depends on the batch, the arithmetic of a pair does not. Sums over ranks ascend. No float atomics anywhere.
#include "common.cuh"

#define MAX_EXPERTS 512
#define MAX_TOPK 64

struct RouteArgs {
  const float* logits; const float* bias; const float* expertScale; int* ids; float* weights;  // ids, weights: [n, topK]
  i64 stride; int n, numExperts, topK, score, normalize, numGroups, topkGroup, groupBest; float scale; int pad;
};

// A thread per token: experts are few. Scores in f64, like the reference, so that near ties fall the same way.
KERNEL(64, route, RouteArgs) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x, E = a.numExperts;
  if (t >= a.n) return;
  const float* logits = a.logits + t * a.stride;
  double most = -1e300, sum = 0.;
  for (int e = 0; e < E; e++) most = fmax(most, (double)logits[e]);
  if (a.score == 0) for (int e = 0; e < E; e++) sum += exp(logits[e] - most);
  auto score = [&](int e) -> double {
    if (a.score == 0) return exp(logits[e] - most) / sum;           // softmax over all
    if (a.score == 2) return 1. / (1. + exp(-(double)logits[e]));   // sigmoid
    return logits[e];                                               // softmax over the chosen, later
  };
  auto choice = [&](int e) -> double {  // NaN and -infinity count as less than any other
    const double c = score(e) + (a.bias == nullptr ? 0. : (double)a.bias[e]);
    return c > -1e300 ? c : -1e300;
  };
  u32 open[MAX_EXPERTS / 32];  // groups that may be chosen from, then experts not yet chosen
  const int size = E / a.numGroups;
  for (int w = 0; w < MAX_EXPERTS / 32; w++) open[w] = 0;
  if (a.numGroups > 1) {
    u32 taken[MAX_EXPERTS / 32];
    for (int w = 0; w < MAX_EXPERTS / 32; w++) taken[w] = 0;
    for (int i = 0; i < a.topkGroup; i++) {
      int bestGroup = -1;
      double bestScore = 0.;
      for (int g = 0; g < a.numGroups; g++) {
        if (taken[g >> 5] >> (g & 31) & 1) continue;
        double first = -1e300, second = -1e300;
        for (int e = g * size; e < (g + 1) * size; e++) {
          double c = choice(e);
          if (c > first) { second = first; first = c; } else if (c > second) second = c;
        }
        double s = first + (size > 1 && a.groupBest > 1 ? second : 0.);
        if (bestGroup < 0 || s > bestScore) { bestGroup = g; bestScore = s; }
      }
      taken[bestGroup >> 5] |= 1u << (bestGroup & 31);
      for (int e = bestGroup * size; e < (bestGroup + 1) * size; e++) open[e >> 5] |= 1u << (e & 31);
    }
  } else {
    for (int e = 0; e < E; e++) open[e >> 5] |= 1u << (e & 31);
  }
  int* ids = a.ids + (i64)t * a.topK;
  float* weights = a.weights + (i64)t * a.topK;
  double chosenSum = 0., chosenMost = -1e300;
  for (int i = 0; i < a.topK; i++) {
    int best = -1;
    double bestChoice = 0.;
    for (int pass = 0; pass < 2 && best < 0; pass++) {  // second pass: the open groups are used up, any expert is left
      for (int e = 0; e < E; e++) {
        const bool isOpen = open[e >> 5] >> (e & 31) & 1;
        bool isChosen = false;
        for (int j = 0; j < i; j++) isChosen |= ids[j] == e;
        if (isChosen || (pass == 0 && !isOpen)) continue;
        double c = choice(e);
        if (best < 0 || c > bestChoice) { best = e; bestChoice = c; }
      }
    }
    ids[i] = best;
    double s = score(best);
    chosenMost = fmax(chosenMost, s);
    weights[i] = (float)s;
  }
  if (a.score == 1) {
    for (int i = 0; i < a.topK; i++) chosenSum += exp(score(ids[i]) - chosenMost);
    for (int i = 0; i < a.topK; i++) weights[i] = (float)(exp(score(ids[i]) - chosenMost) / chosenSum);
  }
  double sumOf = 1.;
  if (a.normalize) {
    sumOf = 1e-20;
    for (int i = 0; i < a.topK; i++) sumOf += weights[i];
  }
  for (int i = 0; i < a.topK; i++) {
    const double own = a.expertScale == nullptr ? 1. : (double)a.expertScale[ids[i]];
    weights[i] = (float)(weights[i] / sumOf * (a.scale * own));
  }
}

struct OrderArgs {
  const int* ids; int* range; int* count; int* pairOf; int* placeOf;  // range [E+1] padded starts, count [E], placeOf [n*topK]
  int n, topK, numExperts, pad;
};
// One block. Thread e places the pairs of expert e, in ascending order.
KERNEL(MAX_EXPERTS, order_by_expert, OrderArgs) {
  __shared__ int counts[MAX_EXPERTS], starts[MAX_EXPERTS + 1];
  const int e = threadIdx.x, pairs = a.n * a.topK;
  int count = 0;
  if (e < a.numExperts) for (int p = 0; p < pairs; p++) count += a.ids[p] == e;
  counts[e] = count;
  __syncthreads();
  if (e == 0) {
    int at = 0;
    for (int i = 0; i < a.numExperts; i++) { starts[i] = at; at += (counts[i] + 7) & ~7; }
    starts[a.numExperts] = at;
  }
  __syncthreads();
  if (e >= a.numExperts) return;
  a.range[e] = starts[e];
  a.count[e] = count;
  if (e == 0) a.range[a.numExperts] = starts[a.numExperts];
  int at = starts[e];
  for (int p = 0; p < pairs; p++) {
    if (a.ids[p] != e) continue;
    a.pairOf[at] = p;
    a.placeOf[p] = at++;
  }
  for (; at < starts[e] + ((count + 7) & ~7); at++) a.pairOf[at] = -1;
}

struct GatherPairsArgs {
  const float* x; float* out; const int* pairOf; const int* range; const float* weights;  // weights null: not on the inputs
  Operand operand; i64 xStride, outStride; int topK, numExperts, cols, paddedCols;
};
// The inputs of the listed pairs, as f32 rows or as a strip operand (zeros at padded places and columns).
KERNEL(256, gather_pairs, GatherPairsArgs) {
  const int place = blockIdx.x, k = 2 * (blockIdx.y * blockDim.x + threadIdx.x);
  if (k >= a.paddedCols || place >= a.range[a.numExperts]) return;
  const int pair = a.pairOf[place];
  const float* x = pair < 0 ? nullptr : a.x + (i64)(pair / a.topK) * a.xStride;
  const float factor = a.weights == nullptr || pair < 0 ? 1.f : a.weights[pair];
  const float v0 = x != nullptr && k < a.cols ? factor * x[k] : 0.f, v1 = x != nullptr && k + 1 < a.cols ? factor * x[k + 1] : 0.f;
  if (a.operand.data != nullptr) operand_put2(a.operand, place, k, v0, v1);
  else {
    if (k < a.cols) a.out[place * a.outStride + k] = v0;
    if (k + 1 < a.cols) a.out[place * a.outStride + k + 1] = v1;
  }
}

struct ExpertGateArgs {
  const float* gateUp; float* out; const int* range; Operand operand;
  i64 gateUpStride, outStride; int inner, paddedInner, activation, numExperts, isGated, pad;
};
// activation 7 is gpt-oss's; others are codes of `activate`.
KERNEL(256, expert_gate, ExpertGateArgs) {
  const int place = blockIdx.x, k = 2 * (blockIdx.y * blockDim.x + threadIdx.x);
  if (k >= a.paddedInner || place >= a.range[a.numExperts]) return;
  const float* row = a.gateUp + place * a.gateUpStride;
  auto value = [&](int c) -> float {
    if (c >= a.inner) return 0.f;
    const float gate = row[c], up = a.isGated ? row[a.inner + c] : 1.f;
    return a.activation == 7 ? gated_oss(gate, up) : activate(a.activation, gate) * up;
  };
  if (a.operand.data != nullptr) operand_put2(a.operand, place, k, value(k), value(k + 1));
  else {
    if (k < a.inner) a.out[place * a.outStride + k] = value(k);
    if (k + 1 < a.inner) a.out[place * a.outStride + k + 1] = value(k + 1);
  }
}

struct CombineArgs {
  float* out; const float* y; const int* placeOf; const float* weights;
  i64 outStride, yStride; int topK, cols;
};
KERNEL(256, combine_experts, CombineArgs) {
  const int t = blockIdx.x, c = blockIdx.y * blockDim.x + threadIdx.x;
  if (c >= a.cols) return;
  float sum = 0.f;
  for (int i = 0; i < a.topK; i++) {
    const i64 pair = (i64)t * a.topK + i;
    sum = fmaf(a.weights == nullptr ? 1.f : a.weights[pair], a.y[a.placeOf[pair] * a.yStride + c], sum);
  }
  a.out[t * a.outStride + c] = sum;
}
