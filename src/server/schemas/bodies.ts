// The schemas of bodies that may be long, by name: a thread that parses one is told which it is.

import { countTokensSchema, messagesSchema } from "../anthropic/schema.js";
import { ollamaChatSchema, ollamaEmbeddingsSchema, ollamaEmbedSchema, ollamaGenerateSchema } from "../ollama/schema.js";
import { chatSchema } from "../openai/chat-schema.js";
import { completionSchema } from "../openai/completions-schema.js";
import { responseSchema } from "../openai/responses-schema.js";
import { detokenizeSchema, tokenizeSchema } from "./others.js";
import { embeddingSchema, rerankSchema, scoreSchema } from "./texts.js";

export const BODIES = {
  chat: chatSchema,
  completion: completionSchema,
  response: responseSchema,
  messages: messagesSchema,
  countTokens: countTokensSchema,
  ollamaChat: ollamaChatSchema,
  ollamaGenerate: ollamaGenerateSchema,
  ollamaEmbed: ollamaEmbedSchema,
  ollamaEmbeddings: ollamaEmbeddingsSchema,
  embedding: embeddingSchema,
  rerank: rerankSchema,
  score: scoreSchema,
  tokenize: tokenizeSchema,
  detokenize: detokenizeSchema,
} as const;
