// The choice of a token for each draw, by the rule of src/core/sample-row.ts, so that only tokens leave the GPU. One workgroup per draw.
//
// WGSL has no numbers of 64 bits. Weights w = 2^39 * exp((logit - max) / temperature) are integers of two words (low, high): their sums are
// exact in any order, so a draw depends on its row alone. Candidates are ordered by (logit descending, id ascending), the ascending order of
// a key of two words (complement of the sortable logit, id). Each filter and the draw ask for the first candidate at which a running count
// or weight exceeds a mark: a radix descent, four digits of the logit and three of the id, each a histogram over the candidates left. In the
// histogram a weight is three numbers of 13 bits, whose sums over 2^18 ids fit a word.

import { DRAW, DRAW_WORDS, FLAG, ROW, ROW_WORDS } from "../../../core/draws.js";
import { kernel } from "../kernel.js";

const THREADS = 256;
const DRAWN = `
fn word(draw: u32, i: u32) -> u32 { return $block[draw * ${DRAW_WORDS}u + i]; }
fn flag(draw: u32, f: u32) -> bool { return (word(draw, ${DRAW.flags}u) & f) != 0u; }
fn sortable(v: f32) -> u32 { // NaN comes first
  let b = bitcast<u32>(v);
  if ((b & 0x7fffffffu) > 0x7f800000u) { return 0u; }
  return select(b | 0x80000000u, ~b, (b & 0x80000000u) != 0u);
}
fn isNumber(v: f32) -> bool { return (bitcast<u32>(v) & 0x7fffffffu) <= 0x7f800000u; }
`;
/** Words of the draw's row, in the lists or among the rows of requests. */
const ROWS = `
fn rowWord(draw: u32, i: u32) -> u32 {
  let row = bitcast<i32>(word(draw, ${DRAW.row}u));
  if (row < 0) { return $block[p.listsAt + u32(-(row + 1)) + i]; }
  return bitcast<u32>($rows[u32(row) + i]);
}
fn rowNumber(draw: u32, i: u32) -> f32 { return bitcast<f32>(rowWord(draw, i)); }
`;

/** The draw's logits with bias, penalties, forbidden tokens and mask, in this order. */
export const EDIT_ROWS = kernel(
  "editRows",
  "edited:rw:f32 counts:rw:atomic<u32> rows:rw:i32 logits:r:f32 block:r:u32 previous:r:i32",
  "vocab logitsAt logitsStride listsAt none",
  `${DRAWN}${ROWS}
const SEEN = 0x40000000u;
@compute @workgroup_size(${THREADS}) fn main(@builtin(workgroup_id) g: vec3u, @builtin(local_invocation_index) l: u32) {
  let draw = g.x; let place = word(draw, ${DRAW.edited}u);
  if (place == 0xffffffffu) { return; }
  let base = place * p.vocab; let logits = p.logitsAt + word(draw, ${DRAW.logitRow}u) * p.logitsStride; let none = bitcast<f32>(p.none);
  for (var id = l; id < p.vocab; id += ${THREADS}u) { $edited[base + id] = $logits[logits + id]; }
  storageBarrier();
  var stops = ${ROW_WORDS}u; var numStops = 0u; var numBias = 0u;
  if (flag(draw, ${FLAG.bias | FLAG.penalties | FLAG.stops}u)) {
    numBias = rowWord(draw, ${ROW.numBias}u); numStops = rowWord(draw, ${ROW.numStops}u); stops = ${ROW_WORDS}u + 2u * numBias;
  }
  if (l == 0u && flag(draw, ${FLAG.bias}u)) {
    for (var i = ${ROW_WORDS}u; i < stops; i += 2u) {
      let at = base + rowWord(draw, i); $edited[at] = $edited[at] + rowNumber(draw, i + 1u);
    }
  }
  storageBarrier();
  let isKept = bitcast<i32>(word(draw, ${DRAW.row}u)) >= 0; let kept = word(draw, ${DRAW.row}u) + stops + numStops;
  var numTokens = 0u; var numPrompt = 0u;
  if (flag(draw, ${FLAG.penalties}u)) {
    numTokens = word(draw, ${DRAW.position}u) - rowWord(draw, ${ROW.first}u); numPrompt = rowWord(draw, ${ROW.numPrompt}u);
  }
  let held = numTokens - min(numTokens, word(draw, ${DRAW.numTokens}u)); let listed = p.listsAt + word(draw, ${DRAW.tokens}u);
  for (var i = l; i < numTokens; i += ${THREADS}u) {
    var token = 0;
    if (i < held) { token = $rows[kept + i]; }
    else {
      token = bitcast<i32>($block[listed + i - held]);
      if (token < 0) { token = $previous[u32(-(token + 1))]; }
      if (isKept) { $rows[kept + i] = token; }
    }
    if (token >= 0) { atomicOr(&$counts[base + u32(token)], SEEN); if (i >= numPrompt) { atomicAdd(&$counts[base + u32(token)], 1u); } }
  }
  storageBarrier();
  for (var i = l; i < numTokens; i += ${THREADS}u) {
    var token = 0;
    if (i < held) { token = $rows[kept + i]; }
    else { token = bitcast<i32>($block[listed + i - held]); if (token < 0) { token = $previous[u32(-(token + 1))]; } }
    if (token >= 0) {
      let count = atomicExchange(&$counts[base + u32(token)], 0u); // who takes the count away penalises
      if (count != 0u) {
        let logit = $edited[base + u32(token)]; let times = count & ~SEEN; let repetition = rowNumber(draw, ${ROW.repetitionPenalty}u);
        var v = select(logit * repetition, logit / repetition, logit > 0.0);
        if (times > 0u) { v = v - (rowNumber(draw, ${ROW.presencePenalty}u) + rowNumber(draw, ${ROW.frequencyPenalty}u) * f32(times)); }
        $edited[base + u32(token)] = v;
      }
    }
  }
  storageBarrier();
  if (flag(draw, ${FLAG.stops}u)) {
    for (var i = l; i < numStops; i += ${THREADS}u) { let id = rowWord(draw, stops + i); if (id < p.vocab) { $edited[base + id] = none; } }
  }
  if (word(draw, ${DRAW.mask}u) != 0xffffffffu) {
    let mask = p.listsAt + word(draw, ${DRAW.mask}u);
    for (var id = l; id < p.vocab; id += ${THREADS}u) {
      if ((($block[mask + id / 32u] >> (id % 32u)) & 1u) == 0u) { $edited[base + id] = none; }
    }
  }
}`,
);

const WIDE = `
fn plus(a: vec2u, b: vec2u) -> vec2u { let low = a.x + b.x; return vec2u(low, a.y + b.y + select(0u, 1u, low < a.x)); }
fn minus(a: vec2u, b: vec2u) -> vec2u { return vec2u(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x)); }
fn exceeds(a: vec2u, b: vec2u) -> bool { return a.y > b.y || (a.y == b.y && a.x > b.x); }
fn product(a: u32, b: u32) -> vec2u {
  let al = a & 0xffffu; let ah = a >> 16u; let bl = b & 0xffffu; let bh = b >> 16u;
  let mid = al * bh + ((al * bl) >> 16u); let mid2 = ah * bl + (mid & 0xffffu);
  return vec2u(a * b, ah * bh + (mid >> 16u) + (mid2 >> 16u));
}
fn share(a: vec2u, part: vec2u) -> vec2u { // a * part / 2^64, rounded down
  let low = product(a.x, part.x); let m1 = product(a.x, part.y); let m2 = product(a.y, part.x); let high = product(a.y, part.y);
  let carry = plus(plus(vec2u(low.y, 0u), vec2u(m1.x, 0u)), vec2u(m2.x, 0u));
  return plus(plus(plus(high, vec2u(m1.y, 0u)), vec2u(m2.y, 0u)), vec2u(carry.y, 0u));
}
fn weightOf(logit: f32, most: f32, temperature: f32) -> vec2u {
  if (!isNumber(logit)) { return vec2u(0u); }
  let x = (logit - most) / temperature;
  if (!(x > -40.0)) { return vec2u(0u); }
  let n = round(x * 1.4426950408889634); let r = fma(-n, 1.42860677e-6, fma(-n, 0.693145752, x));
  let y = fma(fma(fma(fma(fma(fma(r, 0.0013930436, 0.008361009), r, 0.041666485), r, 0.16666667), r, 0.5), r, 1.0), r, 1.0);
  let m = u32(y * 16777216.0); let s = i32(n) + 15;
  if (s >= 0) { return vec2u(m << u32(s), select(0u, m >> u32(32 - s), s > 0)); }
  return vec2u(m >> u32(min(-s, 31)), 0u);
}
/** The number in [0, 1) that the draw goes by, of 53 bits (core/random.ts), as a fraction of 2^64. */
fn uniformOf(draw: u32) -> vec2u {
  var k = vec2u(rowWord(draw, ${ROW.seedLow}u), rowWord(draw, ${ROW.seedHigh}u)); var c = vec4u(k, 0u, 0u);
  let sample = word(draw, ${DRAW.sample}u);
  if (sample != 0xffffffffu) {
    c = vec4u(word(draw, ${DRAW.position}u), sample, 0u, 0u);
    for (var round0 = 0u; round0 < 10u; round0++) {
      let a = product(0xd2511f53u, c.x); let b = product(0xcd9e8d57u, c.z);
      c = vec4u(b.y ^ c.y ^ k.x, b.x, a.y ^ c.w ^ k.y, a.x); k = k + vec2u(0x9e3779b9u, 0xbb67ae85u);
    }
  }
  return vec2u((c.y >> 6u) << 11u, (c.x & 0xffffffe0u) | (c.y >> 27u));
}
/** A number in [0, 1) as a fraction of 2^64. */
fn fractionOf(v: f32) -> vec2u {
  let bits = bitcast<u32>(v); let m = (bits & 0x7fffffu) | 0x800000u; let s = i32(bits >> 23u) - 86;
  if (bits < 0x00800000u || bits >= 0x80000000u) { return vec2u(0u); } // zero, or next to it
  if (s >= 32) { return vec2u(0u, m << u32(s - 32)); }
  if (s > 0) { return vec2u(m << u32(s), m >> u32(32 - s)); }
  return vec2u(m >> u32(min(-s, 31)), 0u);
}
`;

const eight = (line: (i: number) => string): string => [0, 1, 2, 3, 4, 5, 6, 7].map(line).join(" ");

export const SAMPLE_ROWS = kernel(
  "sampleRows",
  "tokens:rw:i32 edited:r:f32 logits:r:f32 block:r:u32 rows:r:i32",
  "vocab logitsAt logitsStride listsAt first",
  `${DRAWN}${ROWS}${WIDE}
var<workgroup> bests: array<vec2u, ${THREADS}>;
var<workgroup> sums: array<vec2u, ${THREADS}>;
var<workgroup> low: array<atomic<u32>, ${THREADS}>; var<workgroup> middle: array<atomic<u32>, ${THREADS}>; var<workgroup> high: array<atomic<u32>, ${THREADS}>;
var<workgroup> digit: atomic<u32>; var<workgroup> lastDigit: atomic<u32>;
var<private> source: u32; var<private> isEdited: bool; var<private> most: f32; var<private> temperature: f32;
fn logitOf(id: u32) -> f32 { if (isEdited) { return $edited[source + id]; } return $logits[source + id]; }
fn keyOf(v: f32, id: u32) -> vec2u { return vec2u(id, ~sortable(v)); }

/** sums[l] becomes the sum of sums[0..l]; all threads call it. */
fn scan(l: u32) {
  for (var d = 1u; d < ${THREADS}u; d = d * 2u) {
    workgroupBarrier();
    var before = vec2u(0u); if (l >= d) { before = sums[l - d]; }
    workgroupBarrier();
    sums[l] = plus(sums[l], before);
  }
  workgroupBarrier();
}
fn sumOf(mine: vec2u, l: u32) -> vec2u {
  workgroupBarrier(); sums[l] = mine; scan(l);
  let all = workgroupUniformLoad(&sums[${THREADS - 1}u]);
  return all;
}
/** The first key at which the running count or weight over keys <= limit exceeds mark; the last one with any where it never does. */
fn findKey(limit: vec2u, mark: vec2u, isWeight: bool, l: u32) -> vec2u {
  var prefix = vec2u(0u); var before = vec2u(0u);
  for (var pass0 = 0u; pass0 < 7u; pass0++) {
    let isLogit = pass0 < 4u; let shift = select(16u - 8u * (pass0 - 4u), 24u - 8u * pass0, isLogit);
    atomicStore(&low[l], 0u); atomicStore(&middle[l], 0u); atomicStore(&high[l], 0u);
    if (l == 0u) { atomicStore(&digit, 256u); atomicStore(&lastDigit, 0u); }
    workgroupBarrier();
    for (var id = l; id < p.vocab; id += ${THREADS}u) {
      let v = logitOf(id); let key = keyOf(v, id);
      if (exceeds(key, limit)) { continue; }
      if (isLogit) { if (pass0 > 0u && (key.y >> (shift + 8u)) != (prefix.y >> (shift + 8u))) { continue; } }
      else if (key.y != prefix.y || (pass0 > 4u && (key.x >> (shift + 8u)) != (prefix.x >> (shift + 8u)))) { continue; }
      let d = (select(key.x, key.y, isLogit) >> shift) & 255u;
      if (isWeight) {
        let w = weightOf(v, most, temperature);
        if ((w.x | w.y) != 0u) { atomicAdd(&low[d], w.x & 8191u); atomicAdd(&middle[d], (w.x >> 13u) & 8191u); atomicAdd(&high[d], (w.x >> 26u) | (w.y << 6u)); }
      } else { atomicAdd(&low[d], 1u); }
    }
    workgroupBarrier();
    let m = atomicLoad(&middle[l]); let h = atomicLoad(&high[l]);
    let mine = plus(plus(vec2u(atomicLoad(&low[l]), 0u), vec2u(m << 13u, m >> 19u)), vec2u(h << 26u, h >> 6u));
    sums[l] = mine; scan(l);
    let isAny = (mine.x | mine.y) != 0u;
    if (isAny && exceeds(plus(before, sums[l]), mark)) { atomicMin(&digit, l); }
    if (isAny) { atomicMax(&lastDigit, l); }
    workgroupBarrier();
    var found = atomicLoad(&digit); if (found == 256u) { found = atomicLoad(&lastDigit); }
    if (found > 0u) { before = plus(before, sums[found - 1u]); }
    if (isLogit) { prefix.y |= found << shift; } else { prefix.x |= found << shift; }
    workgroupBarrier();
  }
  return prefix;
}

@compute @workgroup_size(${THREADS}) fn main(@builtin(workgroup_id) g: vec3u, @builtin(local_invocation_index) l: u32) {
  let draw = g.x; let entry = p.first + draw; let given = bitcast<i32>(word(draw, ${DRAW.given}u));
  if (given >= 0) { if (l == 0u) { $tokens[entry] = given; } return; }
  let place = word(draw, ${DRAW.edited}u); isEdited = place != 0xffffffffu;
  source = select(p.logitsAt + word(draw, ${DRAW.logitRow}u) * p.logitsStride, place * p.vocab, isEdited);
  var best = vec2u(0xffffffffu, 0xffffffffu);
  for (var from0 = l; from0 < p.vocab; from0 += ${8 * THREADS}u) { // eight loads under way: this pass is all of a greedy draw
    ${eight((i) => `let v${i} = logitOf(min(from0 + ${i * THREADS}u, p.vocab - 1u));`)}
    ${eight((i) => `{ let id = from0 + ${i * THREADS}u; let key = keyOf(v${i}, id); if (id < p.vocab && exceeds(best, key)) { best = key; } }`)}
  }
  bests[l] = best;
  for (var k = ${THREADS / 2}u; k >= 1u; k = k / 2u) { workgroupBarrier(); if (l < k && exceeds(bests[l], bests[l + k])) { bests[l] = bests[l + k]; } }
  let top = workgroupUniformLoad(&bests[0]);
  // Greedy, or no finite logit to draw from; -1: no logit is above -infinity. Of these the keys are the last: -infinity's, then NaN's.
  let isNone = top.y >= 0xff800000u; let isFinite = top.y > 0x007fffffu && top.y < 0xff800000u;
  if (!flag(draw, ${FLAG.isDrawn}u) || !isFinite) {
    if (l == 0u) { $tokens[entry] = select(bitcast<i32>(top.x), -1, isNone); }
    return;
  }
  most = logitOf(top.x); temperature = rowNumber(draw, ${ROW.temperature}u);
  var mine = vec2u(0u);
  for (var id = l; id < p.vocab; id += ${THREADS}u) { mine = plus(mine, weightOf(logitOf(id), most, temperature)); }
  var total = sumOf(mine, l);
  let topK = rowWord(draw, ${ROW.topK}u); let topP = rowNumber(draw, ${ROW.topP}u); let minP = rowNumber(draw, ${ROW.minP}u);
  let hasTopP = topP < 1.0; let hasMinP = minP > 0.0;
  // Weights are fractions of 2^39: the least of them that is not below its part, rounded up.
  let part = plus(fractionOf(min(minP, 0.99999994)), vec2u(0x1ffffffu, 0u));
  let floor0 = select(vec2u((part.x >> 25u) | (part.y << 7u), part.y >> 25u), vec2u(0u, 128u), minP >= 1.0);
  var limit = vec2u(0xffffffffu, 0xffffffffu);
  if (topK > 0u && topK < p.vocab) {
    limit = findKey(limit, vec2u(topK - 1u, 0u), false, l);
    if (hasTopP) {
      mine = vec2u(0u);
      for (var id = l; id < p.vocab; id += ${THREADS}u) { let v = logitOf(id); if (!exceeds(keyOf(v, id), limit)) { mine = plus(mine, weightOf(v, most, temperature)); } }
      total = sumOf(mine, l);
    }
  }
  // Just below it: what is exactly the share is enough.
  let whole = fractionOf(min(max(topP, 0.0), 0.99999994)); let belowShare = select(minus(whole, vec2u(1u, 0u)), vec2u(0u), (whole.x | whole.y) == 0u);
  if (hasTopP) { limit = findKey(limit, share(total, belowShare), true, l); }
  if (topK > 0u || hasTopP || hasMinP) {
    mine = vec2u(0u);
    for (var id = l; id < p.vocab; id += ${THREADS}u) {
      let v = logitOf(id); let w = weightOf(v, most, temperature);
      if (!exceeds(keyOf(v, id), limit) && !exceeds(floor0, w)) { mine = plus(mine, w); }
    }
    total = sumOf(mine, l);
    let key = findKey(limit, share(total, uniformOf(draw)), true, l);
    if (l == 0u) { $tokens[entry] = bitcast<i32>(key.x); }
    return;
  }
  // Unfiltered: ids ascending, a run of them for each thread.
  let run = (p.vocab + ${THREADS - 1}u) / ${THREADS}u; let first = min(l * run, p.vocab); let end = min(first + run, p.vocab);
  mine = vec2u(0u);
  for (var id = first; id < end; id++) { mine = plus(mine, weightOf(logitOf(id), most, temperature)); }
  total = sumOf(mine, l);
  let mark = share(total, uniformOf(draw));
  let upTo = sums[l]; var running = minus(upTo, mine);
  if (exceeds(upTo, mark) && !exceeds(running, mark)) {
    for (var id = first; id < end; id++) {
      let w = weightOf(logitOf(id), most, temperature); running = plus(running, w);
      if (exceeds(running, mark)) { $tokens[entry] = bitcast<i32>(id); break; }
    }
  }
}`,
);

/** The log-probability of the row's token and the most probable ones, of the logits before any edit. */
export const REPORT_ROWS = kernel(
  "reportRows",
  "reports:rw:f32 tokens:r:i32 logits:r:f32 block:r:u32",
  "vocab logitsAt logitsStride first maxTop none",
  `${DRAWN}
var<workgroup> bests: array<vec2u, ${THREADS}>;
var<workgroup> sums: array<f32, ${THREADS}>;
fn exceeds(a: vec2u, b: vec2u) -> bool { return a.y > b.y || (a.y == b.y && a.x > b.x); }
@compute @workgroup_size(${THREADS}) fn main(@builtin(workgroup_id) g: vec3u, @builtin(local_invocation_index) l: u32) {
  let draw = g.x; let numTop = bitcast<i32>(word(draw, ${DRAW.numTop}u)); let entry = p.first + draw;
  if (numTop < 0) { return; }
  let source = p.logitsAt + word(draw, ${DRAW.logitRow}u) * p.logitsStride; let to = entry * (1u + 2u * p.maxTop); let none = bitcast<f32>(p.none);
  var after = vec2u(0u); var most = 0.0; var total = 0.0;
  for (var i = 0; i <= numTop; i++) { // once more than there are to report: the first finds the maximum
    var best = vec2u(0xffffffffu, 0xffffffffu);
    if (i != 1) {
      for (var id = l; id < p.vocab; id += ${THREADS}u) {
        let v = $logits[source + id]; let key = vec2u(id, ~sortable(v));
        if (isNumber(v) && (i == 0 || exceeds(key, after)) && exceeds(best, key)) { best = key; }
      }
      workgroupBarrier(); bests[l] = best;
      for (var k = ${THREADS / 2}u; k >= 1u; k = k / 2u) { workgroupBarrier(); if (l < k && exceeds(bests[l], bests[l + k])) { bests[l] = bests[l + k]; } }
      after = workgroupUniformLoad(&bests[0]);
    }
    let isThere = after.y != 0xffffffffu;
    if (i == 0) {
      if (isThere) { most = $logits[source + after.x]; }
      var s = 0.0;
      for (var id = l; id < p.vocab; id += ${THREADS}u) { let v = $logits[source + id]; if (isNumber(v)) { s = s + exp(v - most); } }
      sums[l] = s;
      for (var k = ${THREADS / 2}u; k >= 1u; k = k / 2u) { workgroupBarrier(); if (l < k) { sums[l] = sums[l] + sums[l + k]; } }
      total = log(workgroupUniformLoad(&sums[0]));
      if ((bitcast<u32>(most) & 0x7f800000u) == 0x7f800000u) { total = bitcast<f32>(p.none | 0x400000u); } // infinite: none is a number
      if (l == 0u) { let token = $tokens[entry]; $reports[to] = none; if (token >= 0) { $reports[to] = ($logits[source + u32(token)] - most) - total; } }
    } else if (l == 0u) {
      let at = to + u32(i);
      $reports[at] = bitcast<f32>(select(0xffffffffu, after.x, isThere)); $reports[at + p.maxTop] = none;
      if (isThere) { $reports[at + p.maxTop] = ($logits[source + after.x] - most) - total; }
    }
  }
}`,
);
