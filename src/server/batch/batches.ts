// Batches of requests, kept in a folder so that a restart goes on with them: each has a note of its state, and files that its results are
// appended to. A batch is looked at whole before any line of it is asked.
//
//   FOLDER/batch_ID.json           the state
//   FOLDER/batch_ID.output.jsonl   answers so far; becomes a file of the tenant when the batch ends
//   FOLDER/batch_ID.errors.jsonl   refusals so far, likewise

import { randomUUID } from "node:crypto";
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import type { Tenant } from "../http/auth.js";
import type { Gate } from "../http/gate.js";
import { JsonShape } from "../http/json-shape.js";
import type { Logger } from "../http/logger.js";
import { JSON_LIMITS } from "../http/parse-body.js";
import { type BatchLine, isFault, type LineFault, type LineResult, readLine, resultText } from "./batch-line.js";
import { type FileStore, writeWhole } from "./file-store.js";
import { answeredIn, linesOf, runLines } from "./run-lines.js";

/** As OpenAI's API shows it. */
export interface Batch {
  readonly id: string;
  readonly object: "batch";
  readonly endpoint: string;
  readonly input_file_id: string;
  readonly completion_window: string;
  readonly metadata: Record<string, string> | null;
  readonly created_at: number;
  status: "validating" | "failed" | "in_progress" | "finalizing" | "completed" | "cancelling" | "cancelled";
  errors: { readonly object: "list"; readonly data: readonly (LineFault & { readonly line: number | null })[] } | null;
  output_file_id: string | null;
  error_file_id: string | null;
  in_progress_at: number | null;
  finalizing_at: number | null;
  completed_at: number | null;
  failed_at: number | null;
  cancelling_at: number | null;
  cancelled_at: number | null;
  readonly expires_at: null;
  readonly expired_at: null;
  request_counts: { total: number; completed: number; failed: number };
}

interface Entry {
  readonly batch: Batch;
  readonly tenant: Tenant;
  readonly cancel: AbortController;
}

export interface BatchesOptions {
  readonly folder: string;
  readonly files: FileStore;
  /** Lines that may be asked at once. */
  readonly gate: Gate;
  readonly log: Logger;
  /** A longer line than any body of a request may be is not parsed. */
  readonly maxLineBytes: number;
  ask(line: BatchLine, tenant: Tenant, signal: AbortSignal): Promise<LineResult>;
  /** Who has this salt now; null: nobody. */
  holderOf(salt: string): Tenant | null;
}

const OPEN: readonly Batch["status"][] = ["validating", "in_progress", "finalizing", "cancelling"];
const BATCH_NOTE = /^batch_[0-9a-f]{32}\.json$/;
const MOST_FAULTS = 50;
/** Of a batch: what is known of each line is kept in memory. OpenAI's limit. */
const MOST_LINES = 50_000;
/** Batches of a tenant that are kept; the oldest that has ended makes room for a new one. */
const MOST_KEPT = 1000;
/** A note is written after so many lines at most; what was answered is counted anew from the files. */
const LINES_A_NOTE = 64;

export class Batches {
  readonly #options: BatchesOptions;
  readonly #entries = new Map<string, Entry>(); // oldest first
  readonly #running = new Set<Promise<void>>();
  readonly #stop = new AbortController();

  constructor(options: BatchesOptions) {
    this.#options = options;
    mkdirSync(options.folder, { recursive: true, mode: 0o700 });
    const notes = readdirSync(options.folder).filter((name) => BATCH_NOTE.test(name));
    const kept = notes.map(
      (name) => JSON.parse(readFileSync(join(options.folder, name), "utf8")) as Omit<Entry, "cancel">,
    );
    for (const { batch, tenant } of kept.sort((a, b) => a.batch.created_at - b.batch.created_at))
      this.#entries.set(batch.id, { batch, tenant, cancel: new AbortController() });
  }

  /** Goes on with those that a stop of the server interrupted, as far as their keys still may. */
  resume(): void {
    for (const entry of this.#entries.values()) {
      if (!OPEN.includes(entry.batch.status)) continue;
      const tenant = this.#options.holderOf(entry.tenant.salt);
      if (tenant !== null) this.#start(Object.assign(entry, { tenant }));
      else this.#options.log.warn({ batch: entry.batch.id, tenant: entry.tenant.name }, "batch left: its key is gone");
    }
  }

  /** Lets unfinished lines be; the next start asks them again. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#running);
  }

  list({ salt }: Tenant): Batch[] {
    return [...this.#entries.values()].filter(({ tenant }) => tenant.salt === salt).map(({ batch }) => batch);
  }

  get(tenant: Tenant, id: string): Batch | null {
    return this.#own(tenant, id)?.batch ?? null;
  }

  create(tenant: Tenant, asked: Pick<Batch, "endpoint" | "input_file_id" | "completion_window" | "metadata">): Batch {
    const { endpoint, input_file_id, completion_window, metadata } = asked;
    const batch: Batch = {
      id: `batch_${randomUUID().replaceAll("-", "")}`,
      object: "batch",
      endpoint,
      errors: null,
      input_file_id,
      completion_window,
      status: "validating",
      output_file_id: null,
      error_file_id: null,
      created_at: now(),
      in_progress_at: null,
      expires_at: null,
      finalizing_at: null,
      completed_at: null,
      failed_at: null,
      expired_at: null,
      cancelling_at: null,
      cancelled_at: null,
      request_counts: { total: 0, completed: 0, failed: 0 },
      metadata,
    };
    this.#makeRoom(tenant);
    const entry = { batch, tenant, cancel: new AbortController() };
    this.#entries.set(batch.id, entry);
    this.#note(entry);
    this.#start(entry);
    return batch;
  }

  #makeRoom(tenant: Tenant): void {
    const own = this.list(tenant);
    const oldest = own.find(({ status }) => !OPEN.includes(status));
    if (own.length < MOST_KEPT || oldest === undefined) return;
    this.#entries.delete(oldest.id);
    rmSync(join(this.#options.folder, `${oldest.id}.json`), { force: true });
  }

  /** Lines that are being asked are ended; answers that are there are kept. */
  cancel(tenant: Tenant, id: string): Batch | null {
    const entry = this.#own(tenant, id);
    if (entry === null) return null;
    const { batch } = entry;
    if (batch.status !== "validating" && batch.status !== "in_progress") return batch;
    batch.status = "cancelling";
    batch.cancelling_at = now();
    this.#note(entry);
    entry.cancel.abort();
    return batch;
  }

  #own({ salt }: Tenant, id: string): Entry | null {
    const entry = this.#entries.get(id);
    return entry !== undefined && entry.tenant.salt === salt ? entry : null;
  }

  #start(entry: Entry): void {
    const running = this.#run(entry).catch((error: unknown) => {
      if (this.#stop.signal.aborted) return; // the next start goes on
      this.#options.log.error({ err: error, batch: entry.batch.id }, "a batch failed");
      this.#fail(entry, [
        { code: "internal_error", message: "The server failed; its log says why.", param: null, line: null },
      ]);
    });
    this.#running.add(running);
    void running.finally(() => this.#running.delete(running));
  }

  async #run(entry: Entry): Promise<void> {
    const { batch, tenant, cancel } = entry;
    const { files, gate, ask } = this.#options;
    const input = files.get(tenant, batch.input_file_id);
    if (input === null)
      return this.#fail(entry, [
        { code: "file_not_found", message: "The input file is gone.", param: "input_file_id", line: null },
      ]);
    if (batch.status === "validating") {
      const { total, faults } = await checkLines(files.pathOf(input.id), batch.endpoint, this.#stop.signal, {
        maxLines: MOST_LINES,
        maxLineBytes: this.#options.maxLineBytes,
      });
      if (faults.length > 0) return this.#fail(entry, faults);
      batch.request_counts.total = total;
      // It may have been cancelled meanwhile.
      if ((batch.status as Batch["status"]) === "validating") batch.status = "in_progress";
      batch.in_progress_at = now();
      this.#note(entry);
    }
    const [outputs, errors] = [this.#partOf(batch, "output"), this.#partOf(batch, "errors")];
    const [answered, refused] = [await answeredIn(outputs), await answeredIn(errors)];
    batch.request_counts.completed = answered.size;
    batch.request_counts.failed = refused.size;
    const isDone = (id: string): boolean => answered.has(id) || refused.has(id);
    if (batch.status === "in_progress") {
      const results = await Promise.all([open(outputs, "a", 0o600), open(errors, "a", 0o600)]);
      let numNew = 0;
      try {
        await runLines(pending(files.pathOf(input.id), batch.endpoint, isDone), {
          ask: (line, signal) => ask(line, tenant, signal),
          gate,
          signal: AbortSignal.any([this.#stop.signal, cancel.signal]),
          take: async (result) => {
            const isGood = result.status < 300;
            await results[isGood ? 0 : 1]!.appendFile(resultText(result));
            batch.request_counts[isGood ? "completed" : "failed"]++;
            if (++numNew % LINES_A_NOTE === 0) this.#note(entry);
          },
        });
        batch.status = "finalizing";
        batch.finalizing_at = now();
      } catch (error) {
        if (this.#stop.signal.aborted || !cancel.signal.aborted) throw error;
      } finally {
        await Promise.all(results.map((result) => result.close()));
        this.#note(entry);
      }
    }
    this.#finish(entry);
  }

  /** What was written becomes the tenant's files. */
  #finish(entry: Entry): void {
    const { batch, tenant } = entry;
    batch.output_file_id ??= this.#adopt(entry, "output");
    batch.error_file_id ??= this.#adopt(entry, "errors");
    const isCancelled = batch.status === "cancelling";
    batch.status = isCancelled ? "cancelled" : "completed";
    batch[isCancelled ? "cancelled_at" : "completed_at"] = now();
    this.#note(entry);
    this.#options.log.info({ batch: batch.id, tenant: tenant.name, ...batch.request_counts }, `batch ${batch.status}`);
  }

  #adopt({ batch, tenant }: Entry, part: "output" | "errors"): string | null {
    const path = this.#partOf(batch, part);
    if (!existsSync(path) || statSync(path).size === 0) return null;
    const handle = openSync(path, "r+");
    fsyncSync(handle);
    closeSync(handle);
    const about = { filename: `${batch.id}_${part}.jsonl`, purpose: "batch_output", owner: tenant.salt };
    return this.#options.files.adopt(path, about).id;
  }

  #fail(entry: Entry, faults: NonNullable<Batch["errors"]>["data"]): void {
    const { batch } = entry;
    batch.status = "failed";
    batch.failed_at = now();
    batch.errors = { object: "list", data: faults };
    this.#note(entry);
  }

  #partOf({ id }: Batch, part: "output" | "errors"): string {
    return join(this.#options.folder, `${id}.${part}.jsonl`);
  }

  #note({ batch, tenant }: Entry): void {
    writeWhole(join(this.#options.folder, `${batch.id}.json`), JSON.stringify({ batch, tenant }));
  }
}

type Faults = (LineFault & { line: number })[];

/** The lines of a file, and what is wrong with the first of them that something is wrong with. `url`: as for `readLine`. */
export async function checkLines(
  path: string,
  url: string | null,
  signal: AbortSignal,
  { maxLines = Number.POSITIVE_INFINITY, maxLineBytes = Number.POSITIVE_INFINITY } = {},
): Promise<{ readonly total: number; readonly faults: Faults }> {
  const faults: Faults = [];
  const ids = new Set<string>();
  for await (const { number, bytes } of linesOf(path, maxLineBytes)) {
    signal.throwIfAborted();
    if (ids.size === maxLines) {
      const message = `The file has more than ${maxLines} lines. Send several files.`;
      return { total: 0, faults: [{ code: "too_many_lines", message, param: "input_file_id", line: number }] };
    }
    const line = bytes === null ? tooLong(maxLineBytes) : (tooMuchIn(bytes) ?? readLine(String(bytes), url));
    if (isFault(line)) faults.push({ ...line, line: number });
    else if (ids.has(line.customId)) {
      const message = "custom_id is that of an earlier line.";
      faults.push({ code: "duplicate_custom_id", message, param: "custom_id", line: number });
    } else ids.add(line.customId);
    if (faults.length >= MOST_FAULTS) break;
  }
  if (ids.size === 0 && faults.length === 0)
    faults.push({ code: "empty_file", message: "The file has no lines.", param: "input_file_id", line: 1 });
  return { total: ids.size, faults };
}

/** Those that nothing came of yet. The file was checked. */
export async function* pending(
  path: string,
  url: string | null,
  isDone: (customId: string) => boolean,
): AsyncGenerator<BatchLine> {
  for await (const { bytes } of linesOf(path)) {
    const line = readLine(String(bytes), url);
    if (!isFault(line) && !isDone(line.customId)) yield line;
  }
}

function tooLong(maxBytes: number): LineFault {
  return { code: "line_too_long", message: `The line is longer than ${maxBytes} bytes.`, param: null };
}

/** What would hold up the thread is refused before it is parsed, as it is in the body of a request. */
function tooMuchIn(bytes: Buffer): LineFault | null {
  const excess = new JsonShape({ ...JSON_LIMITS, string: Number.POSITIVE_INFINITY, items: {} }).exceeds(bytes);
  if (excess === null) return null;
  const message = `The line has more than ${JSON_LIMITS[excess.limit as keyof typeof JSON_LIMITS]} ${excess.limit}.`;
  return { code: "invalid_json_line", message, param: excess.field };
}

function now(): number {
  return Math.floor(Date.now() / 1000);
}
