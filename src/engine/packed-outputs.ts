// A step's outputs as they cross from the engine's thread: cloning an object for each row costs more than computing what is in it. A row
// that got a token and nothing else is one integer, a row of the step's record three; whose rows they are is said when it changes.

import { EMPTY_OUTPUT, type FromEngine, type RequestOutput } from "./messages.js";
import type { StepRecord } from "./types.js";

type Outputs = Extract<FromEngine, { type: "outputs" }>;

export interface PackedOutputs {
  readonly type: "packed";
  /** Of the plain outputs, in order. null: as in the message before. */
  readonly callIds: readonly string[] | null;
  readonly indexes: Int32Array | null;
  readonly tokens: Int32Array;
  /** All others, and their places in the whole list. */
  readonly places: readonly number[];
  readonly others: readonly RequestOutput[];
  /** Without its rows. */
  readonly step: StepRecord | null;
  /** Of the record's rows. null: as in the message before. */
  readonly rowIds: readonly string[] | null;
  readonly rows: Int32Array; // [rows, ROW_INTS] start, queryLen, isPrefill
}

const ROW_INTS = 3;
const NO_INTS = new Int32Array(0);

/** One at each end of the port: what each has seen of the other's messages must agree. */
export class OutputPacker {
  #callIds: string[] = [];
  #indexes: number[] = [];
  #rowIds: string[] = [];

  pack({ outputs, step }: Outputs): PackedOutputs {
    const places: number[] = [];
    const others: RequestOutput[] = [];
    const tokens = new Int32Array(outputs.length);
    let count = 0;
    let isSame = true;
    for (let i = 0; i < outputs.length; i++) {
      const output = outputs[i]!;
      if (!isPlain(output)) {
        places.push(i);
        others.push(output);
        continue;
      }
      if (this.#callIds[count] !== output.callId || this.#indexes[count] !== output.index) {
        isSame = false;
        this.#callIds[count] = output.callId;
        this.#indexes[count] = output.index;
      }
      tokens[count++] = output.tokens[0]!;
    }
    if (this.#callIds.length !== count) isSame = false;
    this.#callIds.length = this.#indexes.length = count;
    const names = { callIds: isSame ? null : this.#callIds, indexes: isSame ? null : Int32Array.from(this.#indexes) };
    const rows = step === null ? NO_INTS : new Int32Array(ROW_INTS * step.rows.length);
    const hasRowIds = step !== null && this.#packRows(step.rows, rows);
    const record = step === null ? null : { ...step, rows: [] };
    const rowIds = hasRowIds ? this.#rowIds : null;
    return { type: "packed", ...names, tokens: tokens.slice(0, count), places, others, step: record, rowIds, rows };
  }

  /** Whether they are other rows than those before. */
  #packRows(from: StepRecord["rows"], to: Int32Array): boolean {
    let hasChanged = this.#rowIds.length !== from.length;
    for (let r = 0; r < from.length; r++) {
      const { id, start, queryLen, isPrefill } = from[r]!;
      if (this.#rowIds[r] !== id) {
        hasChanged = true;
        this.#rowIds[r] = id;
      }
      to[ROW_INTS * r] = start;
      to[ROW_INTS * r + 1] = queryLen;
      to[ROW_INTS * r + 2] = isPrefill ? 1 : 0;
    }
    this.#rowIds.length = from.length;
    return hasChanged;
  }
}

export class OutputUnpacker {
  #callIds: readonly string[] = [];
  #indexes: ArrayLike<number> = [];
  #rowIds: readonly string[] = [];

  unpack({ callIds, indexes, tokens, places, others, step, rowIds, rows }: PackedOutputs): Outputs {
    this.#callIds = callIds ?? this.#callIds;
    this.#indexes = indexes ?? this.#indexes;
    this.#rowIds = rowIds ?? this.#rowIds;
    const outputs: RequestOutput[] = [];
    for (let plain = 0, other = 0; plain < tokens.length || other < others.length; ) {
      if (places[other] === outputs.length) outputs.push(others[other++]!);
      else {
        const [callId, index, token] = [this.#callIds[plain]!, this.#indexes[plain]!, tokens[plain]!];
        outputs.push({ ...EMPTY_OUTPUT, callId, index, tokens: [token] });
        plain++;
      }
    }
    return { type: "outputs", outputs, step: step === null ? null : { ...step, rows: this.#rowsOf(rows) } };
  }

  #rowsOf(rows: Int32Array): StepRecord["rows"] {
    return this.#rowIds.map((id, r) => {
      const start = rows[ROW_INTS * r]!;
      const queryLen = rows[ROW_INTS * r + 1]!;
      return { id, start, queryLen, contextLen: start + queryLen, isPrefill: rows[ROW_INTS * r + 2] === 1 };
    });
  }
}

/** A token, and nothing else to say. */
function isPlain(output: RequestOutput): boolean {
  return (
    output.tokens.length === 1 &&
    output.finishReason === null &&
    output.logprobs === null &&
    output.promptLogprobs === null &&
    output.vector === null &&
    output.trace === null &&
    output.error === null &&
    output.stopToken < 0
  );
}
