#!/bin/bash
# Packs what scripts/gpu-round.sh needs on a machine without Node and without a network: carry/node.xz and carry/round.tar.xz.
#   WITHOUT=codes scripts/gpu-pack.sh  leaves kernels out whose source has this word in its name: the machine compiles those that it needs
#   scripts/gpu-pack.sh [LLAMA_CPP]    with llama.cpp's source folder also carry/llama.cpp.tar.xz, what bench/gpu-peers builds of it
set -e
cd "$(dirname "$0")/.."
mkdir -p carry
if [ ! -f carry/node.xz ]; then
  cp "$(command -v node)" carry/node.bin && strip carry/node.bin && xz -6 -c carry/node.bin > carry/node.xz && rm carry/node.bin
fi
node -e '
const fs = require("fs"), seen = new Set();
const add = (name) => {
  const file = `node_modules/${name}/package.json`;
  if (seen.has(name) || !fs.existsSync(file)) return;
  seen.add(name);
  const { dependencies, optionalDependencies } = JSON.parse(fs.readFileSync(file));
  Object.keys({ ...dependencies, ...optionalDependencies }).forEach(add);
};
Object.keys(JSON.parse(fs.readFileSync("package.json")).dependencies).forEach(add);
for (const name of seen) console.log(`node_modules/${name}`);
' > carry/modules.txt
mkdir -p build/cuda
node scripts/build-cuda.mjs sm_90a ${WITHOUT:+--without "$WITHOUT"} # minutes here, where nvcc is, instead of minutes of the round
tar cf - --exclude='*.map' --exclude='*.d.ts' --exclude='*.d.cts' --exclude='*.md' --exclude='*/doc/*' --exclude='*/docs/*' \
  --exclude='*/koffi/vendor/*' --exclude='*/src/*.ts' dist build/cuda native/cuda -T carry/modules.txt | xz -3 -T2 > carry/round.tar.xz
if [ -n "${1:-}" ]; then
  slim=$(mktemp -d)
  others=$(cd "$1/ggml/src" && ls -d ggml-*/ | grep -vE '^ggml-(cpu|cuda)/' | sed 's,\(.*\)/,--exclude=ggml/src/\1,')
  tar cf - -C "$1" $others CMakeLists.txt LICENSE cmake common ggml include licenses src vendor tools/llama-bench tools/batched-bench | tar xf - -C "$slim"
  printf 'find_package(Threads REQUIRED)\nllama_add_compile_flags()\nadd_subdirectory(batched-bench)\nadd_subdirectory(llama-bench)\n' > "$slim/tools/CMakeLists.txt"
  tar cJf carry/llama.cpp.tar.xz -C "$slim" . && rm -r "$slim"
fi
ls -la carry
