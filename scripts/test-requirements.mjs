// PAGODA_REQUIRE=nats,chromium: tests that are skipped because one of these is absent fail instead. A machine that should have everything
// sets it, so that it cannot be green by skipping.

/** What a test that is skipped for want of each says. */
const REASONS = {
  nats: /nats-server/,
  chromium: /chromium/,
  openssl: /openssl/,
  arm64: /aarch64|qemu/,
  jinja: /jinja2|python3/,
  compiler: /g\+\+|compiler|native library/,
  script: /util-linux/,
  nvcc: /nvcc/,
  cuda: /NVIDIA|libcuda|GPU/,
  webgpu: /package webgpu|no adapter/,
  goldens: /goldens|shared/,
};

/** The requirement that a reason breaks, if any. */
export function requirements(text = process.env.PAGODA_REQUIRE ?? "") {
  const names = text.split(",").filter((name) => name !== "");
  const unknown = names.filter((name) => !Object.hasOwn(REASONS, name));
  if (unknown.length > 0)
    throw new Error(`PAGODA_REQUIRE: ${unknown.join(", ")}; it must be of ${Object.keys(REASONS).join(", ")}.`);
  return (reason) => names.find((name) => typeof reason === "string" && REASONS[name].test(reason));
}
