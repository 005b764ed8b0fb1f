// An engine whose steps run elsewhere: validates, renders and tokenises here like any engine, and gives the rest to the cluster.

import { ROUTER_OPTIONS } from "../../config/cluster-config.js";
import { engineConfig } from "../../config/engine-config.js";
import { openChatCheckpoint } from "../../engine/client/chat-checkpoint.js";
import { HostedEngine } from "../../engine/client/hosted-engine.js";
import type { EngineFacts } from "../../engine/messages.js";
import { textFacts } from "../../engine/text-facts.js";
import type { Engine } from "../../engine/types.js";
import { resolveModel } from "../../formats/hub/hub.js";
import { familyOf } from "../../models/registry.js";
import { vocabularyOf } from "../join.js";
import type { Policy } from "./choose.js";
import { RoutedModel } from "./routed-model.js";
import type { Router } from "./router.js";

export interface RoutedEngineOptions {
  /** Folder, .gguf file or hub id: its config, tokenizer and template are read, its weights are not. */
  readonly model: string;
  readonly cluster: string;
  readonly patienceMs: number;
  readonly prefillTokens?: number;
  readonly controlTokensInContent?: boolean;
  readonly policy?: Policy;
}

/** The queue of a router is the cluster's: replicas refuse what is too much. */
const MAX_QUEUE = 2 ** 20;

export async function createRoutedEngine(router: Router, options: RoutedEngineOptions): Promise<Engine> {
  const { cluster, patienceMs, policy, controlTokensInContent = false } = options;
  const { prefillTokens = ROUTER_OPTIONS.prefillTokens.default } = options;
  const model = await resolveModel(options.model);
  const config = engineConfig({ model, controlTokensInContent, maxQueue: MAX_QUEUE });
  const checkpoint = openChatCheckpoint(model);
  const family = familyOf(checkpoint.config, checkpoint.configFile);
  const spec = family.specOf(family.parseConfig(checkpoint.config, checkpoint.configFile));
  const facts: EngineFacts = {
    architecture: spec.architecture,
    vocabSize: spec.vocabSize,
    hiddenSize: spec.hiddenSize,
    ...textFacts(spec, checkpoint.recipe),
    maxContext: spec.maxContext,
    pageSize: config.pageSize,
    poolTokens: Number.POSITIVE_INFINITY,
    device: "cluster: no replica",
    deterministic: true,
    pageBytes: 0,
    identity: "",
    vision: null,
    predictor: null,
    config,
  };
  const tokenizer = checkpoint.requireTokenizer();
  const bytes = (id: number): Uint8Array => tokenizer.tokenBytes(id);
  const vocabulary = vocabularyOf({ facts, eosIds: checkpoint.eosIds, tokenizer: { bytes } });
  const routed = { router, cluster, model: checkpoint.name, vocabulary, facts, patienceMs, prefillTokens, policy };
  const engine = new HostedEngine(config, null, (_, listener) => new RoutedModel({ ...routed, listener }), checkpoint);
  await engine.ready;
  return engine;
}
