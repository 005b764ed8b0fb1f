// The `decoder` of tokenizer.json, read as a map from one token to its bytes. That is possible for every decoder that language
// models use: byte-level BPE, SentencePiece's spaces (U+2581) with byte fallback tokens (<0x0A>), WordPiece's words and their
// continuations (##). Decoders that look at neighbouring tokens (CTC) are refused by name.

import { FormatError } from "../core/errors.js";
import { tryByteLevelBytes } from "./byte-level.js";

export interface TokenDecoder {
  readonly stripsLeadingSpace: boolean;
  /** `isAdded`: the token is in added_tokens and stands for itself, not for byte-level characters. */
  bytes(token: string, isAdded: boolean): Uint8Array;
}

interface Part {
  readonly type?: unknown;
  readonly [field: string]: unknown;
}

const SUPPORTED = "ByteLevel, Metaspace, Replace, ByteFallback, Fuse, Strip, WordPiece";

export function readTokenDecoder(config: unknown, file: string): TokenDecoder {
  const parts = flatten(config, file);
  const [only] = parts;
  if (parts.length === 1 && only!.type === "WordPiece") return wordPieceDecoder(String(only!.prefix ?? "##"));
  let isByteLevel = false;
  let hasByteFallback = false;
  let isFused = false;
  let stripsLeadingSpace = false;
  const replacements: [string, string][] = [];

  const refuse = (part: Part, why = ""): FormatError =>
    new FormatError("unsupported_model_option", {
      file,
      param: "decoder",
      value: `${JSON.stringify(part)?.slice(0, 100)}${why}`,
      known: SUPPORTED,
    });

  for (const part of parts) {
    switch (part.type) {
      case "ByteLevel":
        isByteLevel = true;
        break;
      case "ByteFallback":
        hasByteFallback = true;
        break;
      case "Fuse":
        isFused = true;
        break;
      case "Metaspace":
        replacements.push([typeof part.replacement === "string" ? part.replacement : "\u2581", " "]);
        stripsLeadingSpace = part.prepend_scheme !== "never" && part.add_prefix_space !== false;
        break;
      case "Replace": {
        const pattern = (part.pattern as { String?: unknown } | undefined)?.String;
        if (typeof pattern !== "string" || pattern === "" || typeof part.content !== "string" || isFused)
          throw refuse(part);
        replacements.push([pattern, part.content]);
        break;
      }
      case "Strip":
        // Before Fuse it would strip each token, after it the text's start; only the second is in use.
        if (!isFused || part.content !== " " || part.start !== 1 || part.stop !== 0) throw refuse(part);
        stripsLeadingSpace = true;
        break;
      default:
        throw refuse(part);
    }
  }
  if (!isByteLevel && replacements.length === 0) throw refuse({ type: parts.map((part) => part.type) });

  return {
    stripsLeadingSpace,
    bytes(token, isAdded) {
      if (hasByteFallback) {
        const byte = tryFallbackByte(token);
        if (byte !== null) return Uint8Array.of(byte);
      }
      for (const [from, to] of replacements) token = token.replaceAll(from, to);
      return (isByteLevel && !isAdded ? tryByteLevelBytes(token) : null) ?? Buffer.from(token, "utf8");
    },
  };
}

/** Words stand apart by a space; what continues one does not. */
export function wordPieceDecoder(prefix: string): TokenDecoder {
  return {
    stripsLeadingSpace: true,
    bytes: (token) => Buffer.from(token.startsWith(prefix) ? token.slice(prefix.length) : ` ${token}`, "utf8"),
  };
}

/** The byte that a fallback token such as <0x0A> stands for, or null. */
export function tryFallbackByte(token: string): number | null {
  return /^<0x[0-9A-Fa-f]{2}>$/.test(token) ? Number.parseInt(token.slice(3, 5), 16) : null;
}

function flatten(config: unknown, file: string): Part[] {
  if (typeof config !== "object" || config === null) {
    throw new FormatError("unsupported_model_option", {
      file,
      param: "decoder",
      value: String(config),
      known: SUPPORTED,
    });
  }
  const part = config as Part;
  if (part.type !== "Sequence") return [part];
  return Array.isArray(part.decoders) ? part.decoders.flatMap((inner) => flatten(inner, file)) : [];
}
