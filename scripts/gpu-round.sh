#!/bin/bash
# One whole round on a machine with a GPU and nothing else: unpack, contract suite, goldens, invariance, sanitizer, benches, profiles.
# Phases that check run first, side by side, while the models are made; then those that measure, one after the other as they are given. Each
# has a time limit, so that one failure does not hide the rest, and all together BUDGET seconds (560): what is left over is named as not run.
# Logs go to $OUT (logs.tgz); the table is printed at the end, however it comes.
# PACKED=1: the kernels that travelled are enough, nothing is compiled ahead.
#   scripts/gpu-round.sh [phase ...]      checks: contract goldens invariance known sanitize sanitize-contract tier
#                                         measurements: attention kernels matmul codes gated forms e2e e2e8b split host serve coded fp8 warmup spill share
#                                         sampling families
#                                         profile step1b step8b counters attention-counters sass peers cublaslt architectures
#                                         (default: contract goldens invariance kernels e2e sanitize)
# Made for travel: carry/node.xz (a stripped node), carry/round.tar.xz (dist, node_modules of production, build/cuda), made by
#   scripts/gpu-pack.sh
set -u
cd "$(dirname "$0")/.."
OUT=${OUT:-/tmp/gpu-round}
mkdir -p "$OUT"
if [ -f carry/node.xz ]; then
  [ -x /tmp/pagoda-node/bin/node ] || { mkdir -p /tmp/pagoda-node/bin && xz -dc carry/node.xz > /tmp/pagoda-node/bin/node && chmod +x /tmp/pagoda-node/bin/node; }
  export PATH=/tmp/pagoda-node/bin:$PATH
fi
[ -f carry/round.tar.xz ] && { tar xJf carry/round.tar.xz && echo "unpacked"; }
export PATH=$PATH:/usr/local/cuda/bin LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:/usr/local/cuda/lib64
NVRTC=$(ls /usr/local/cuda/lib64/libnvrtc.so* /usr/local/cuda/targets/*/lib/libnvrtc.so* 2>/dev/null | head -1)
[ -n "$NVRTC" ] && export PAGODA_NVRTC=${PAGODA_NVRTC:-$NVRTC}
node -e "import('koffi').then(() => console.log('koffi loads'))" || exit 1
node --version; nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader 2>/dev/null
PHASES="${*:-contract goldens invariance kernels e2e sanitize}"
BUDGET=${BUDGET:-560}
CODED=${CODED:-1b-q4_0 1b-q8_0 1b-fp8 8b-q4_0 8b-fp8} # of the phase coded; 1b and 8b are those of bf16
TABLE="$OUT/table.txt"
: > "$TABLE"
note() { echo "$*" | tee -a "$TABLE"; }
finish() {
  tar czf "$OUT/logs.tgz" -C "$OUT" $(cd "$OUT" && ls *.log table.txt) && rm -f "$OUT"/*.log
  echo "================ table, after $SECONDS s"
  cat "$TABLE"
}
trap finish EXIT
trap 'note "== cut off after $SECONDS s"; exit 143' TERM INT

# limit name command...: runs it, keeps the log, notes how it ended. In the background and waited for, so that a signal is heard at once.
phase() {
  local limit=$1 name=$2 left=$((BUDGET - SECONDS)) start=$SECONDS; shift 2
  if [ $left -lt 5 ]; then note "== $name: not run, no time left"; : > "$OUT/$name.log"; return; fi
  timeout -k 5 $((limit < left ? limit : left)) "$@" > "$OUT/$name.log" 2>&1 &
  wait $!
  note "== $name: exit $?, $((SECONDS - start)) s"
}
# A phase that is a file of tests: its counts and what failed, in one piece beside those of others.
tests() {
  phase "$1" "$2" node --test --test-reporter=tap "$3"
  note "$(echo "$2:" $(grep -E "^# (tests|pass|fail) " "$OUT/$2.log"); grep -E "^ *not ok" "$OUT/$2.log" | head -40)"
}
# A phase under compute-sanitizer: limit, name, tool, then what node runs.
sanitized() {
  local limit=$1 name=$2 tool=$3; shift 3
  phase "$limit" "$name" compute-sanitizer --tool "$tool" node "$@"
  note "$(echo "$name:"; grep -E "SUMMARY|Invalid|========= +at|Race|hazard|^# (pass|fail)" "$OUT/$name.log" | sort | uniq -c | sort -rn | head -12)"
}
# The models that phases measure. 1b and 8b: folders of bf16; 8b-fp8: a folder with scales for blocks of 128 x 128; others, such as
# 8b-q4_0: GGUF files.
path_of() { case $1 in *-fp8 | 1b | 8b | moe | mla | wide | hybrid) echo "$1" ;; *) echo "$1.gguf" ;; esac; }
model() {
  local shape=${1%%-*} file=$(path_of "$1") type=bf16
  [ "$1" != "$shape" ] && type=${1#*-}
  [ -e "/tmp/$file" ] && return
  nice node dist/bench/make-checkpoint.js --shape "$shape" --type "$type" --out "/tmp/part-$file" > "$OUT/make-$1.log" 2>&1 && mv "/tmp/part-$file" "/tmp/$file"
}

if command -v nvcc > /dev/null && [ -z "${PACKED:-}" ]; then phase 150 build node scripts/build-cuda.mjs sm_90a; tail -3 "$OUT/build.log"; fi
for p in $PHASES; do
  case $p in
    e2e8b | step8b) echo 8b ;;
    coded) echo $CODED ;;
    families) echo ${FAMILIES:-moe mla wide hybrid} ;;
    sampling | e2e | split | serve | host | step1b | counters | profile | share | spill | warmup | fp8) echo 1b ;;
  esac
done | tr ' ' '\n' | sort -u > /tmp/models.txt
for name in $(cat /tmp/models.txt); do model "$name" & done
for p in $PHASES; do
  case $p in
    contract) tests 150 contract dist/test/contract/cuda.test.js & ;;
    goldens) tests 120 goldens dist/test/cuda/goldens.test.js & ;;
    invariance) tests 150 invariance dist/test/cuda/invariance.test.js & ;;
    known) tests 60 known dist/test/cuda/known-steps.test.js & ;; # steps that are replayed without writing their launches
    tier) tests 100 tier dist/test/cuda/host-tier.test.js & ;; # evicted pages in host memory: the same bits under random traffic
    sanitize)
      sanitized 120 memcheck memcheck dist/test/cuda/small.js &
      sanitized 120 racecheck racecheck dist/test/cuda/small.js & ;;
    sanitize-contract)
      # The contract suite's small sizes, every kernel: the file runs its tests itself.
      SMALL='matmul: (bf16|f16|f32|q4_0|q4_k|q8_0|f8_e4m3|f8_e4m3_64) weights$|matmul: (bf16|f8_e4m3_64) weights: rows|gatedMatmul|Norm|embed: (bf16|q4_0|f32)|mixtureOfExperts: (softmax, normalised|sigmoid|oss)|sample|shortConv|linearAttention|rotary: 2|copyPage|savePage|copyStates|attention: (plain|window|sinks|softcap|latent|f16|bf16|i8|fp8|192 and 128|heads of (64|128|256)|(f16|bf16|fp8), (heads of (64|128) in pages of 16|sees ahead, window))$'
      sanitized 170 memcheck-contract memcheck --test-name-pattern="$SMALL" dist/test/contract/cuda.test.js &
      sanitized 170 racecheck-contract racecheck --test-name-pattern="$SMALL" dist/test/contract/cuda.test.js & ;;
  esac
done
wait
note "== checks and models: done after $SECONDS s"
for p in $PHASES; do
  case $p in
    matmul | codes | gated | forms) phase 90 $p node dist/bench/cuda-kernels.js $p; cat "$OUT/$p.log" >> "$TABLE" ;;
    kernels) phase 90 kernels node dist/bench/cuda-kernels.js; cat "$OUT/kernels.log" >> "$TABLE" ;;
    attention) phase 60 attention node dist/bench/cuda-kernels.js attention; cat "$OUT/attention.log" >> "$TABLE" ;;
    attention-counters)
      # Counters of one launch each: what bounds it.
      for name in "decode 1 x 640, heads of 64" "decode ragged" "extend 4 x 4096" "extend 1 x 512"; do
        file="counters-$(echo "$name" | tr -c 'a-z0-9\n' '-')"
        phase 40 "$file" ncu --clock-control none --section SpeedOfLight --section WarpStateStats --section Occupancy --metrics dram__bytes_read.sum,dram__bytes_write.sum,sm__inst_executed.sum,sm__inst_executed_pipe_tensor.sum,l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum,smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio,smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio,smsp__average_warps_issue_stalled_wait_per_issue_active.ratio,smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio,smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio,smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio,smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio,smsp__average_warps_issue_stalled_no_instruction_per_issue_active.ratio,smsp__average_warps_issue_stalled_imc_miss_per_issue_active.ratio,smsp__average_warps_issue_stalled_drain_per_issue_active.ratio,smsp__average_warps_issue_stalled_membar_per_issue_active.ratio,smsp__average_warps_issue_stalled_branch_resolve_per_issue_active.ratio,smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio,smsp__average_warps_issue_stalled_sleeping_per_issue_active.ratio,smsp__average_warps_issue_stalled_dispatch_stall_per_issue_active.ratio,sm__inst_executed_pipe_tensor_op_gmma.sum -k regex:"decode_|wgmma_" --launch-skip 8 --launch-count 1 node dist/bench/cuda-kernels.js attention "$name"
        note "counters of $name"; grep -E "decode_|wgmma_|Duration|Throughput|dram__|stalled|Occupancy|sm__inst|conflicts|Cycles Active|Error|error" "$OUT/$file.log" | head -40 >> "$TABLE"
      done ;;
    e2e)
      phase 70 latency1b node bin/pagoda.js bench latency --device cuda --model /tmp/1b --prefill 512,4096 --batch 1,8,32,128,256 --context 512 --steps 64 --repeat 5 --max-pages-per-batch 512 --ideal-chunk 8192
      grep -vE "^\s*$" "$OUT/latency1b.log" | tail -25 >> "$TABLE"
      phase 40 prefill1b node bin/pagoda.js bench throughput --device cuda --model /tmp/1b --requests 64 --input-len 512 --output-len 1 --repeat 3 --max-pages-per-batch 512 --ideal-chunk 8192
      grep -vE "^\s*$" "$OUT/prefill1b.log" | tail -14 >> "$TABLE"
      phase 60 throughput1b node bin/pagoda.js bench throughput --device cuda --model /tmp/1b --requests 256 --input-len 100-1024 --output-len 100-1024 --repeat 1 --max-pages-per-batch 512 --ideal-chunk 1024
      grep -vE "^\s*$" "$OUT/throughput1b.log" | tail -14 >> "$TABLE" ;;
    sampling)
      # Decode steps by how tokens are drawn, beside greedy ones of the same run.
      while read -r name sampling; do
        phase 30 sampling-$name node bin/pagoda.js bench latency --device cuda --model /tmp/1b --prefill 16 --batch 1,128 --context 512 --steps 64 --repeat 3 --max-pages-per-batch 512 --sampling "$sampling"
        echo "sampling $name" >> "$TABLE"; grep -E "decode step" "$OUT/sampling-$name.log" >> "$TABLE"
      done << 'SETTINGS'
greedy {}
top-k-top-p {"temperature":1,"topK":20,"topP":0.8}
temperature {"temperature":1}
temperature-top-p {"temperature":0.7,"topP":0.9}
min-p {"temperature":1,"minP":0.05}
repetition {"repetitionPenalty":1.05}
presence {"presencePenalty":0.5,"temperature":1}
logprobs {"logprobs":5}
SETTINGS
      ;;
    families)
      # Mixtures, latent attention, heads of 256, recurrent layers.
      for model in ${FAMILIES:-moe mla wide hybrid}; do
        phase 90 family-$model node bin/pagoda.js bench latency --device cuda --model /tmp/$model --prefill 512,2048 --batch 1,8,32 --context 512 --steps 32 --repeat 3 --max-pages-per-batch 512 --ideal-chunk 8192
        echo "family $model" >> "$TABLE"; grep -vE "^\s*$" "$OUT/family-$model.log" | tail -8 >> "$TABLE"
      done ;;
    e2e8b)
      phase 180 latency8b node bin/pagoda.js bench latency --device cuda --model /tmp/8b --prefill 512,8192 --batch 1,32,128 --context 512 --steps 32 --repeat 3 --max-pages-per-batch 512 --ideal-chunk 8192
      grep -vE "^\s*$" "$OUT/latency8b.log" | tail -20 >> "$TABLE" ;;
    split)
      # What `split: fixed` costs beside `balanced`.
      for split in fixed balanced; do
        phase 40 split-$split node bin/pagoda.js bench latency --device cuda --model /tmp/1b --prefill 4096 --batch 1,32 --context 2048 --steps 32 --repeat 2 --max-pages-per-batch 512 --ideal-chunk 8192 --split $split
        grep -vE "^\s*$" "$OUT/split-$split.log" | tail -4 >> "$TABLE"
      done ;;
    host)
      # What the host does for a step: by stage and number of rows, and over 256 requests of all lengths.
      phase 60 host-time node dist/bench/host-time.js /tmp/1b 1,8,64,256; cat "$OUT/host-time.log" >> "$TABLE"
      phase 60 host-requests node bin/pagoda.js bench throughput --device cuda --model /tmp/1b --requests 256 --input-len 100-1024 --output-len 100-1024 --seed 0 --repeat 3 --max-pages-per-batch 512 --ideal-chunk 1024
      grep -vE "^\s*$" "$OUT/host-requests.log" | tail -14 >> "$TABLE" ;;
    serve)
      # Streaming clients through the server.
      node bin/pagoda.js serve --device cuda --model /tmp/1b --port 18766 --max-pages-per-batch 512 --ideal-chunk 1024 > "$OUT/server.log" 2>&1 &
      server=$!
      for i in $(seq 60); do curl -sf http://127.0.0.1:18766/v1/models > /dev/null && break; sleep 1; done
      for pass in cold warm; do # warm: the same prompts again, in the cache by then
        phase 100 serve-$pass node bin/pagoda.js bench serve http://127.0.0.1:18766 --requests 256 --input-len 100-1024 --output-len 100-1024 --seed 0 --vocab-size 128256 --ignore-eos
        grep -vE "^\s*$" "$OUT/serve-$pass.log" | tail -24 >> "$TABLE"
      done
      curl -s http://127.0.0.1:18766/metrics | grep -E "^pagoda_(gpu|host_busy|steps_total)" >> "$TABLE"
      kill $server ;;
    coded)
      # Weights of 4 and 8 bits kept at their width.
      for model in $CODED; do
        phase 60 latency-$model node bin/pagoda.js bench latency --device cuda --model "/tmp/$(path_of $model)" --prefill 2048 --batch 1,32,128 --context 512 --steps 32 --repeat 2 --max-pages-per-batch 512 --ideal-chunk 8192
        grep -vE "^\s*$" "$OUT/latency-$model.log" | tail -5 >> "$TABLE"
      done ;;
    step1b | step8b)
      # The timeline of decode steps as they run, and the host's part of them.
      shape=${p#step}
      rows=1,32,256; [ $shape = 8b ] && rows=1,128
      command -v nvcc > /dev/null && PAGODA_CUDA_TRACE=1 phase 100 build-traced node scripts/build-cuda.mjs sm_90a
      PAGODA_CUDA_TRACE=1 phase 60 trace$shape node dist/bench/cuda-step.js /tmp/$shape $rows
      cat "$OUT/trace$shape.log" >> "$TABLE"
      phase 60 host$shape node dist/bench/host-time.js /tmp/$shape $rows
      cat "$OUT/host$shape.log" >> "$TABLE" ;;
    counters)
      # What the matmuls, norms and the sampler of a decode step of 1, 32 and 256 rows wait for.
      for rows in 1 32 256; do
        phase 60 counters$rows ncu --clock-control none --kernel-name 'regex:stream_|tile_|rms_norm|sample|gated' --launch-skip 140 --launch-count 6 \
          --section SpeedOfLight --section WarpStateStats --section SchedulerStats --section LaunchStats --section MemoryWorkloadAnalysis \
          node bin/pagoda.js bench latency --device cuda --model /tmp/1b --prefill 16 --batch $rows --context 16 --steps 8 --repeat 1
        grep -E "^ +[a-z_0-9]+ \(|Duration|Throughput|Bandwidth|Registers|Shared Memory Per|Stall|stall|cycles being|No Eligible|Issued Warp|Active Warps|One or More" "$OUT/counters$rows.log" >> "$TABLE"
      done
      ;;
    sass)
      for f in matmul-stream:stream_bf16_1_1 matmul-stream:stream_bf16_8_2 matmul-tile:tile_bf16_64_1 rows:rms_norm; do
        gunzip -c "$(ls -t build/cuda/${f%:*}-sm_90a-*.gz | head -1)" > /tmp/kernel.cubin
        cuobjdump -sass -fun ${f#*:} /tmp/kernel.cubin > "$OUT/${f#*:}.sass.log" 2>&1
      done ;;
    architectures)
      # Kernels for every architecture of the package, and its size; then those of GPUs before Hopper as PTX, compiled by this one's driver.
      phase 200 build-all node scripts/build-cuda.mjs; tail -5 "$OUT/build-all.log" >> "$TABLE"
      for arch in sm_80 sm_86 sm_89 sm_90a sm_100 sm_120 compute_80; do
        note "$arch: $(ls build/cuda/*-$arch-* | wc -l) files, $(cat build/cuda/*-$arch-* | wc -c) bytes compressed"
      done
      # The driver compiles a module in one thread: all at once, each in a process of its own, and keeps them.
      jit() { for f in native/cuda/*.cu; do node -e 'import("./dist/src/device/cuda/cuda-device.js").then(({ CudaDevice }) => { const d = new CudaDevice({ memoryShare: 0.05 }); const start = performance.now(); d.compileAll([process.argv[1]]); console.log(process.argv[1], Math.round(performance.now() - start), "ms"); d.close(); })' "$(basename "${f%.cu}")" & done; wait; }
      export -f jit
      PAGODA_CUDA_ARCH=sm_80 phase 150 jit bash -c jit; sort -k2n "$OUT/jit.log" | tail -3 >> "$TABLE"
      PAGODA_CUDA_ARCH=sm_80 tests 60 jit-contract dist/test/contract/cuda.test.js
      PAGODA_CUDA_ARCH=sm_86 tests 60 jit-small-contract dist/test/contract/cuda.test.js
      PAGODA_CUDA_ARCH=sm_80 tests 40 jit-goldens dist/test/cuda/goldens.test.js
      PAGODA_CUDA_ARCH=sm_86 tests 60 jit-invariance dist/test/cuda/invariance.test.js ;;
    share)
      # Two engines on one GPU, each with its part of the memory.
      both() { for i in 1 2; do node bin/pagoda.js bench throughput --device cuda --model /tmp/1b --requests 64 --input-len 512 --output-len 64 --repeat 2 --gpu-memory 0.45 & pids[$i]=$!; done; wait ${pids[1]}; first=$?; wait ${pids[2]} && return $first; }
      export -f both
      phase 60 share bash -c both; grep -E "answer tokens/s|GPU busy" "$OUT/share.log" >> "$TABLE" ;;
    spill)
      # Evicted pages in host memory: what bringing a prefix back saves, and what spilling costs.
      phase 30 tier1b node dist/bench/host-tier.js /tmp/1b cuda 4000; tail -3 "$OUT/tier1b.log" >> "$TABLE"
      for megabytes in 0 128; do # so little that it is full soon: what spilling costs, without what locking its memory costs once
        phase 30 spill-$megabytes node bin/pagoda.js bench throughput --device cuda --model /tmp/1b --requests 256 --input-len 512 --output-len 64 --repeat 6 --num-pages 3000 --max-pages-per-batch 512 --ideal-chunk 1024 --host-cache-mb $megabytes
        grep -E "answer tokens/s|per token" "$OUT/spill-$megabytes.log" >> "$TABLE"
      done ;;
    fp8)
      # Pages of fp8: attention by itself, and decode steps of long contexts beside those of f16 pages.
      phase 30 attention-fp8 node dist/bench/cuda-kernels.js attention fp8; cat "$OUT/attention-fp8.log" >> "$TABLE"
      for dtype in f16 fp8; do
        phase 40 pages-$dtype node bin/pagoda.js bench latency --device cuda --model /tmp/1b --kv-dtype $dtype --prefill 4096 --batch 1,32,128 --context 4096 --steps 16 --repeat 2 --max-pages-per-batch 512 --ideal-chunk 8192 --num-pages 36000
        grep -vE "^\s*$" "$OUT/pages-$dtype.log" | tail -6 >> "$TABLE"
      done ;;
    warmup)
      # What the first decode steps of a new engine cost, and which of them are replays of graphs.
      phase 40 warmup node bin/pagoda.js warmup --device cuda --model /tmp/1b; cat "$OUT/warmup.log" >> "$TABLE" ;;
    peers)
      # llama.cpp built here (its source: carry/llama.cpp.tar.xz, or LLAMA_CPP) and PyTorch, beside Pagoda on the same shapes.
      [ -f carry/llama.cpp.tar.xz ] && mkdir -p /tmp/llama.cpp && tar xJf carry/llama.cpp.tar.xz -C /tmp/llama.cpp
      phase 430 peers1b node bench/gpu-peers/compare.mjs --shape 1b --llama-cpp "${LLAMA_CPP:-/tmp/llama.cpp}" --torch
      cat "$OUT/peers1b.log" >> "$TABLE"
      phase 200 peers8b node bench/gpu-peers/compare.mjs --shape 8b --torch --prefill 512,8192 --rows 1,32,128 --steps 32 --repeat 2
      cat "$OUT/peers8b.log" >> "$TABLE" ;;
    cublaslt)
      # Products of prompts beside cuBLASLt's: times, and whose bits are ours.
      library=$(ls /usr/local/cuda/lib64/libcublasLt.so* /usr/local/cuda/targets/*/lib/libcublasLt.so* 2>/dev/null | head -1)
      [ -z "$library" ] && library=$(find / -name 'libcublasLt.so.1*' -not -path '/proc/*' 2>/dev/null | head -1)
      phase 90 cublaslt node bench/gpu-peers/cublaslt.mjs --library "$library"; cat "$OUT/cublaslt.log" >> "$TABLE" ;;
    profile)
      # Device time of each kernel over a prefill of 8,192 tokens and some decode steps.
      phase 70 ncu ncu --clock-control none --metrics gpu__time_duration.sum --csv --page raw --launch-count 1500 node bin/pagoda.js bench latency --device cuda --model /tmp/1b --prefill 8192 --batch 1 --context 512 --steps 8 --repeat 1 --max-pages-per-batch 512 --ideal-chunk 8192
      python3 - "$OUT/ncu.log" >> "$TABLE" << 'PY'
import csv, sys
rows = [r for r in csv.reader(open(sys.argv[1], errors="replace")) if len(r) > 10]
head = next(r for r in rows if "Kernel Name" in r)
name, grid, time = head.index("Kernel Name"), head.index("Grid Size"), head.index("gpu__time_duration.sum")
total = {}
for r in rows:
    try: ns = float(r[time].replace(",", ""))
    except ValueError: continue
    key = (r[name], r[grid])
    count, sum_ = total.get(key, (0, 0.0))
    total[key] = (count + 1, sum_ + ns)
for (n, g), (count, ns) in sorted(total.items(), key=lambda item: -item[1][1])[:40]:
    print(f"{n:28s} {g:22s} x{count:5d}  {ns / count / 1000:9.2f} us each  {ns / 1e6:8.2f} ms")
PY
      ;;
  esac
done
