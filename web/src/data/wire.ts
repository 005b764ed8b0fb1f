// What the server sends, as the page reads it. The engine's part is the engine's own types; docs/reference/server-api.md says the rest.

import type {
  CachePicture,
  EngineHealth,
  EngineStats,
  ModelInfo,
  PlanItem,
  StepPlan,
  StepRecord,
  StepRow,
} from "../../../src/engine/types.js";

export type { ClusterPicture, Journey, JourneyEvent, ReplicaPicture } from "../../../src/cluster/router/picture.js";
export type { PlanItem, StepPlan, StepRecord, StepRow };

export interface Stats {
  readonly model: ModelInfo;
  readonly health: EngineHealth;
  /** null while the engine restarts. */
  readonly engine: EngineStats | null;
  readonly server: {
    readonly version: string;
    readonly startedMs: number;
    readonly isDraining: boolean;
    readonly active: number;
    readonly queued: number;
    readonly maxConcurrent: number;
    readonly maxQueued: number;
    readonly ttftMs: { readonly count: number; readonly mean: number };
  };
}

/** Whether the server is a router: its engine is a cluster. */
export function isRouter({ model }: Stats): boolean {
  return model.device.startsWith("cluster: ");
}

/** One of /v1/models. */
export interface ServedModel {
  readonly id: string;
  readonly is_loaded: boolean;
}

type EngineNode = CachePicture["nodes"][number];

/** The text is left out when the server has several API keys. */
export type TrieNode = EngineNode & { readonly text?: string };
export type CacheView = Omit<CachePicture, "nodes"> & { readonly nodes: readonly TrieNode[] };

export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null;
  readonly completion_tokens_details?: {
    readonly accepted_prediction_tokens?: number;
    readonly rejected_prediction_tokens?: number;
  } | null;
}

/** A chunk of a streamed chat or text completion: the fields the playground reads. */
export interface CompletionChunk {
  readonly id: string;
  readonly choices: readonly {
    readonly index: number;
    readonly delta?: {
      readonly content?: string | null;
      /** It was guessed ahead and came true. */
      readonly pagoda_guessed?: boolean;
      readonly reasoning_content?: string | null;
      readonly tool_calls?: readonly {
        readonly index: number;
        readonly id?: string;
        readonly function?: { readonly name?: string; readonly arguments?: string };
      }[];
    };
    readonly text?: string;
    readonly finish_reason: string | null;
  }[];
  readonly usage?: Usage | null;
  readonly error?: { readonly message: string };
}
