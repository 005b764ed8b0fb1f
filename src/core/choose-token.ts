// The choice of one token from one row of logits: the rule every device follows (native kernels are tested against this).
//
//   greedy (temperature 0)   the highest logit, the lowest id on ties; NaN never wins
//   otherwise                p = softmax(logits / temperature), in f64
//     top-k                  the k highest logits, ties to the lower id
//     then top-p             the smallest leading set of those whose share of their sum reaches p
//     then min-p             of those, the ones with p >= minP * the largest p
//     then XTC               of those whose share reaches the threshold, all but the least probable one are left out
//     draw                   the first candidate, in that descending order, whose running sum exceeds uniform * total;
//                            with no filter at all the candidates are in id order, so that nothing is sorted

export interface ChoiceRule {
  readonly temperature: number;
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  /** Of XTC; more than 1, or omitted: nothing is left out. */
  readonly xtcThreshold?: number;
}

export function chooseToken(logits: Float32Array, rule: ChoiceRule, uniform: number): number {
  const best = argmax(logits);
  if (rule.temperature === 0) return best;
  const max = logits[best]!;
  // A row without one finite logit has no distribution to draw from.
  if (!Number.isFinite(max)) return best;
  if (rule.topK === 0 && rule.topP >= 1 && rule.minP <= 0)
    return drawUnfiltered(
      rule.xtcThreshold === undefined ? logits : withoutTop(logits, max, rule),
      max,
      rule.temperature,
      uniform,
    );
  return drawFiltered(logits, max, rule, uniform);
}

/** Index of the highest logit, the lowest on ties. NaN never wins; where none is above -infinity, 0. */
export function argmax(logits: Float32Array): number {
  let best = 0;
  let max = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < logits.length; i++) {
    if (logits[i]! > max) {
      max = logits[i]!;
      best = i;
    }
  }
  return best;
}

function weight(logit: number, max: number, temperature: number): number {
  const w = Math.exp((logit - max) / temperature);
  return Number.isNaN(w) ? 0 : w; // a NaN logit is never drawn
}

function drawUnfiltered(logits: Float32Array, max: number, temperature: number, uniform: number): number {
  let total = 0;
  for (let i = 0; i < logits.length; i++) total += weight(logits[i]!, max, temperature);
  const target = uniform * total;
  let sum = 0;
  let last = 0;
  for (let i = 0; i < logits.length; i++) {
    const w = weight(logits[i]!, max, temperature);
    if (w === 0) continue;
    sum += w;
    last = i;
    if (sum > target) return i;
  }
  return last; // only when rounding leaves sum at target
}

/** The logits without those that XTC leaves out. */
function withoutTop(logits: Float32Array, max: number, { temperature, xtcThreshold = 2 }: ChoiceRule): Float32Array {
  let total = 0;
  for (let i = 0; i < logits.length; i++) total += weight(logits[i]!, max, temperature);
  const left = logits.slice();
  let least = -1; // of those that are left out; not by sorting, for a threshold of 0 takes the whole vocabulary
  for (let i = 0; i < logits.length; i++) {
    if (!(weight(logits[i]!, max, temperature) >= xtcThreshold * total && logits[i]! > Number.NEGATIVE_INFINITY))
      continue;
    if (least < 0 || logits[i]! <= logits[least]!) least = i;
    left[i] = Number.NEGATIVE_INFINITY;
  }
  if (least >= 0) left[least] = logits[least]!;
  return left;
}

function drawFiltered(logits: Float32Array, max: number, rule: ChoiceRule, uniform: number): number {
  const { temperature } = rule;
  const ids = sortedCandidates(logits, max, rule);
  const weights = new Float64Array(ids.length);
  let total = 0;
  for (let i = 0; i < ids.length; i++) {
    weights[i] = weight(logits[ids[i]!]!, max, temperature);
    total += weights[i]!;
  }
  // Without top-k the candidates are a leading part of the vocabulary, but top-p is a share of the whole of it.
  let whole = total;
  if (rule.topK === 0) {
    whole = 0;
    for (let i = 0; i < logits.length; i++) whole += weight(logits[i]!, max, temperature);
  }
  let count = ids.length;
  if (rule.topP < 1) {
    let sum = 0;
    for (count = 0; count < ids.length && sum < rule.topP * whole; count++) sum += weights[count]!;
  }
  while (count > 1 && weights[count - 1]! < rule.minP) count--; // the best one's weight is 1
  if (count === 0) count = 1; // topP 0: the best one

  total = 0;
  for (let i = 0; i < count; i++) total += weights[i]!;
  let first = 0;
  const share = (rule.xtcThreshold ?? Number.POSITIVE_INFINITY) * total;
  while (first + 1 < count && weights[first + 1]! >= share) first++;
  for (let i = 0; i < first; i++) total -= weights[i]!;
  const target = uniform * total;
  let sum = 0;
  for (let i = first; i < count; i++) {
    sum += weights[i]!;
    if (sum > target) return ids[i]!;
  }
  return ids[count - 1]!;
}

/**
 * Ids by descending logit, ties by ascending id: at least all that the filters can keep. Sorting a whole vocabulary is slow,
 * so only logits within a widening distance of the maximum are taken, until they hold enough of them or enough of the mass.
 */
function sortedCandidates(logits: Float32Array, max: number, rule: ChoiceRule): Int32Array {
  const { temperature, topK, topP, minP } = rule;
  let whole = 0;
  if (topP < 1 && topK === 0) for (let i = 0; i < logits.length; i++) whole += weight(logits[i]!, max, temperature);
  for (let distance = 4; ; distance *= 4) {
    const floor = distance > 1000 ? Number.NEGATIVE_INFINITY : max - distance * temperature;
    let count = 0;
    let mass = 0;
    for (let i = 0; i < logits.length; i++) {
      if (logits[i]! >= floor) {
        count++;
        mass += weight(logits[i]!, max, temperature);
      }
    }
    const enough =
      floor === Number.NEGATIVE_INFINITY ||
      (topK > 0 ? count >= topK : topP < 1 ? mass >= topP * whole * (1 + 1e-9) : Math.exp(-distance) < minP);
    if (!enough) continue;
    const ids = new Int32Array(count);
    let next = 0;
    for (let i = 0; i < logits.length; i++) if (logits[i]! >= floor) ids[next++] = i;
    ids.sort((a, b) => logits[b]! - logits[a]! || a - b);
    return topK > 0 && topK < count ? ids.subarray(0, topK) : ids;
  }
}
