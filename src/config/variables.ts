// Environment variables that are no options: read where they are named, by the device or the build, and left alone by `pagoda serve`.

export const VARIABLES = {
  PAGODA_COMPILE: "`0`: a missing native library is not compiled in the background",
  PAGODA_CPU_ISA:
    "instruction set of the cpu device, such as `avx2`; default: the best one of this processor. `amx-fast`: `amx` with 8 bits of what meets q8_0 weights instead of 16",
  PAGODA_PIN_THREADS: "`1`: every thread of the cpu device stays on a processor of its own (Linux)",
  PAGODA_CUDA_DRIVER: "path of libcuda, where the loader does not find it",
  PAGODA_NVRTC: "path of libnvrtc, where the loader does not find it",
  PAGODA_CUDA_ARCH: "`sm_80`, `sm_86`: the kernels of such a GPU on a later one (for tests)",
  PAGODA_CUDA_SERIAL: "set: each kernel waits for the end of the one ahead (for measurements)",
  PAGODA_CUDA_CHECK: "set: launches of known steps are written all the same and compared (for tests)",
  PAGODA_CUDA_TRACE: "set: kernels write when they began, waited and ended (for measurements)",
  PAGODA_WEBGPU_CLOCK: "set: the GPU's own clock tells how long it computed (for measurements)",
} as const;

/** Read by the tests alone. */
export const TEST_VARIABLES = ["PAGODA_CHROMIUM", "PAGODA_LONG_TESTS", "PAGODA_REQUIRE", "PAGODA_TEST_LIMIT"] as const;
