// OpenAI's /v1/files and /v1/batches.

import { createReadStream } from "node:fs";
import { Readable } from "node:stream";
import type { Context } from "hono";
import { z } from "zod";
import type { AppEnv } from "../context.js";
import { ApiError } from "../http/api-error.js";
import type { Tenant } from "../http/auth.js";
import { readJson } from "../http/body.js";
import type { Route } from "../http/route.js";
import { BATCH_URLS } from "./batch-line.js";
import type { BatchRoom } from "./batch-room.js";
import type { Batch } from "./batches.js";
import type { FileStore, StoredFile } from "./file-store.js";
import { boundaryOf, readForm } from "./multipart.js";

const batchSchema = z.strictObject({
  input_file_id: z.string(),
  endpoint: z.enum(BATCH_URLS),
  completion_window: z
    .string()
    .max(20)
    .default("24h")
    .meta({ description: "Taken for the clients' sake: batches do not expire." }),
  metadata: z
    .record(z.string().max(64), z.string().max(512))
    .refine((pairs) => Object.keys(pairs).length <= 16, "at most 16 pairs")
    .nullish(),
});

const MOST_OPEN = 64;

function roomOf(c: Context<AppEnv>): BatchRoom & { readonly tenant: Tenant } {
  const { batches } = c.get("server");
  if (batches === null)
    throw new ApiError("batches_off", "This server keeps no files: it was started without --batch-dir.");
  return { ...batches, tenant: c.get("tenant") };
}

function fileObject({ owner: _, ...file }: StoredFile): Record<string, unknown> {
  return { ...file, object: "file", status: "processed" };
}

function noSuch(what: string, id: string): ApiError {
  return new ApiError("file_not_found", `There is no ${what} ${JSON.stringify(id)} here.`, { param: "id" });
}

/** Newest first, from behind `after` on. */
function pageOf<T extends { readonly id: string }>(
  c: Context<AppEnv>,
  all: readonly T[],
  show: (item: T) => unknown,
): Response {
  const limit = Math.min(10_000, Math.max(1, Number(c.req.query("limit") ?? 20) || 20));
  const newest = all.toReversed();
  const after = c.req.query("after");
  const from = after === undefined ? 0 : newest.findIndex(({ id }) => id === after) + 1;
  const page = newest.slice(from, from + limit);
  return c.json({
    object: "list",
    data: page.map(show),
    first_id: page[0]?.id ?? null,
    last_id: page.at(-1)?.id ?? null,
    has_more: from + limit < newest.length,
  });
}

export const createFile: Route = {
  method: "post",
  path: "/v1/files",
  summary: "Keep a file for a batch",
  handle: async (c) => {
    const { files, tenant } = roomOf(c);
    const boundary = boundaryOf(c.req.header("content-type"));
    if (boundary === null)
      throw new ApiError("unsupported_media_type", "Send the file as multipart/form-data, in the field file.", {
        headers: { accept: "multipart/form-data" },
      });
    const { batchFileMb } = c.get("server").config;
    const limit = batchFileMb * 2 ** 20;
    const source = c.env.incoming ?? c.req.raw.body ?? [];
    const file = await files.add(tenant, async (write) => {
      let size = 0;
      const form = await readForm(source as AsyncIterable<Uint8Array>, boundary, async (bytes) => {
        size += bytes.length;
        if (size > limit)
          throw new ApiError(
            "body_too_large",
            `The file is larger than ${limit} bytes. Send less, or raise batchFileMb.`,
            { param: "file" },
          );
        await write(bytes);
      }).catch((error: unknown) => {
        c.env.incoming?.resume(); // what is left is dropped
        if (error instanceof ApiError) throw error;
        throw new ApiError("invalid_value", `The form is broken: ${(error as Error).message}.`, { param: "file" });
      });
      const purpose = form.fields.get("purpose");
      if (form.file?.field !== "file")
        throw new ApiError("invalid_value", "The form has no file in the field file.", { param: "file" });
      if (purpose !== "batch")
        throw new ApiError("invalid_value", 'purpose must be "batch": files are for batches here.', {
          param: "purpose",
        });
      return { filename: form.file.name.slice(0, 255), purpose };
    });
    return c.json(fileObject(file));
  },
};

export const listFiles: Route = {
  method: "get",
  path: "/v1/files",
  summary: "The files that are kept",
  handle: (c) => {
    const { files, tenant } = roomOf(c);
    return pageOf(c, files.list(tenant), fileObject);
  },
};

function fileOf(c: Context<AppEnv>): { files: FileStore; file: StoredFile } {
  const { files, tenant } = roomOf(c);
  const id = c.req.param("id")!;
  const file = files.get(tenant, id);
  if (file === null) throw noSuch("file", id);
  return { files, file };
}

export const getFile: Route = {
  method: "get",
  path: "/v1/files/:id",
  summary: "One file",
  handle: (c) => c.json(fileObject(fileOf(c).file)),
};

export const getFileContent: Route = {
  method: "get",
  path: "/v1/files/:id/content",
  summary: "What is in a file",
  handle: (c) => {
    const { files, file } = fileOf(c);
    const content = Readable.toWeb(createReadStream(files.pathOf(file.id))) as ReadableStream<Uint8Array>;
    const headers = { "content-type": "application/jsonl", "content-length": String(file.bytes) };
    return new Response(content, { headers });
  },
};

export const deleteFile: Route = {
  method: "delete",
  path: "/v1/files/:id",
  summary: "Delete a file",
  handle: (c) => {
    const { files, tenant } = roomOf(c);
    const id = c.req.param("id")!;
    if (!files.remove(tenant, id)) throw noSuch("file", id);
    return c.json({ id, object: "file", deleted: true });
  },
};

export const createBatch: Route = {
  method: "post",
  path: "/v1/batches",
  summary: "Answer the requests of a file",
  body: batchSchema,
  handle: async (c) => {
    const body = await readJson(c, batchSchema, { loads: false });
    const { files, batches, tenant } = roomOf(c);
    if (files.get(tenant, body.input_file_id) === null)
      throw new ApiError("file_not_found", `There is no file ${JSON.stringify(body.input_file_id)} here.`, {
        param: "input_file_id",
      });
    const numOpen = batches.list(tenant).filter(({ status }) => ["validating", "in_progress"].includes(status)).length;
    if (numOpen >= MOST_OPEN)
      throw new ApiError(
        "queue_full",
        `${numOpen} batches are open; the limit is ${MOST_OPEN}. Wait for one, or cancel one.`,
      );
    return c.json(batches.create(tenant, { ...body, metadata: body.metadata ?? null }));
  },
};

export const listBatches: Route = {
  method: "get",
  path: "/v1/batches",
  summary: "The batches",
  handle: (c) => {
    const { batches, tenant } = roomOf(c);
    return pageOf(c, batches.list(tenant), (batch) => batch);
  },
};

function found(batch: Batch | null, id: string): Batch {
  if (batch === null) throw noSuch("batch", id);
  return batch;
}

export const getBatch: Route = {
  method: "get",
  path: "/v1/batches/:id",
  summary: "One batch",
  handle: (c) => {
    const { batches, tenant } = roomOf(c);
    const id = c.req.param("id")!;
    return c.json(found(batches.get(tenant, id), id));
  },
};

export const cancelBatch: Route = {
  method: "post",
  path: "/v1/batches/:id/cancel",
  summary: "End a batch; answers that are there are kept",
  handle: (c) => {
    const { batches, tenant } = roomOf(c);
    const id = c.req.param("id")!;
    return c.json(found(batches.cancel(tenant, id), id));
  },
};

export const BATCH_ROUTES: readonly Route[] = [
  ...[createFile, listFiles, getFile, getFileContent, deleteFile],
  ...[createBatch, listBatches, getBatch, cancelBatch],
];
