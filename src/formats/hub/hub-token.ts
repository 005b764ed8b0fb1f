// Who asks the hub: HF_TOKEN, or what `hf auth login` has kept in a file.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ConfigError } from "../../core/errors.js";
import { isTrue } from "./hub.js";
import { type Environment, hubHome } from "./hub-cache.js";

/** null: nobody in particular. */
export function hubToken(env: Environment, hubUrl: string): string | null {
  const token = env.HF_TOKEN;
  if (!token) return keptToken(env, hubUrl);
  if (token.startsWith("hf_")) return token;
  throw new ConfigError("invalid_option", {
    param: "HF_TOKEN",
    value: "set",
    expected: 'a token that starts with "hf_"',
  });
}

/** Nobody named it for this request: it never goes over a connection that others can read. */
function keptToken(env: Environment, hubUrl: string): string | null {
  if (!hubUrl.startsWith("https:") || isTrue(env.HF_HUB_DISABLE_IMPLICIT_TOKEN)) return null;
  try {
    const token = readFileSync(env.HF_TOKEN_PATH || join(hubHome(env), "token"), "utf8").trim();
    return token.startsWith("hf_") ? token : null;
  } catch {
    return null; // nobody has logged in
  }
}
