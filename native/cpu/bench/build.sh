#!/bin/bash
# Builds the library's objects, the test program (without sanitizers) and the benches with g++ alone, in the folder given:
#   native/cpu/bench/build.sh OUT [extra flags]     then OUT/bench SECTION..., OUT/tiles [most threads], OUT/turns and OUT/test
set -e
here=$(cd "$(dirname "$0")/.." && pwd)
out=$1; shift
mkdir -p "$out"
common="-std=c++17 -O3 -fno-math-errno -ffp-contract=off -Wall -Wextra -Wno-uninitialized -Wno-maybe-uninitialized -DPG_HAVE_X86 $*"
avx2="-mavx2 -mfma -mf16c"
avx512="$avx2 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni"
{
  for f in "$here"/src/kernels/*.cpp; do
    b=$(basename "$f" .cpp)
    echo "g++ $common -DPG_NS=avx512 -DPG_ISA=3 $avx512 -c $f -o $out/avx512-$b.o"
    echo "g++ $common -DPG_NS=avx2 -DPG_ISA=2 $avx2 -c $f -o $out/avx2-$b.o"
    echo "g++ $common -DPG_NS=portable -DPG_ISA=1 -c $f -o $out/portable-$b.o"
  done
  for f in "$here"/src/avxvnni/*.cpp "$here"/src/kernels/finish.cpp; do
    echo "g++ $common -DPG_NS=avxvnni -DPG_ISA=2 -DPG_VNNI=1 $avx2 -mavxvnni -c $f -o $out/avxvnni-$(basename "$f" .cpp).o"
  done
  for f in "$here"/src/amx/*.cpp "$here"/src/kernels/finish.cpp; do
    echo "g++ $common -DPG_NS=amx -DPG_ISA=3 $avx512 -mamx-tile -mamx-bf16 -mamx-int8 -mavx512vbmi -mgfni -c $f -o $out/amx-$(basename "$f" .cpp).o"
  done
  for f in "$here"/src/*.cpp; do echo "g++ $common -c $f -o $out/once-$(basename "$f" .cpp).o"; done
  for f in "$here"/test/*.cpp; do echo "g++ $common -O1 -c $f -o $out/test-$(basename "$f" .cpp).o"; done
  echo "g++ $common -c $here/bench/bench.cpp -o $out/bench-bench.o"
  echo "g++ $common -pthread $avx512 -mamx-tile -mamx-bf16 -mamx-int8 $here/bench/tiles.cpp -o $out/tiles"
  echo "g++ $common -pthread $here/bench/turns.cpp -o $out/turns -ldl"
} | xargs -P "$(nproc)" -I{} sh -c "{}"
library=$(ls "$out"/avx512-*.o "$out"/avx2-*.o "$out"/avxvnni-*.o "$out"/portable-*.o "$out"/amx-*.o "$out"/once-*.o)
g++ -pthread $library "$out"/bench-*.o -o "$out/bench"
g++ -pthread $library "$out"/test-*.o -o "$out/test"
