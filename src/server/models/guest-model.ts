import type { Engine } from "../../engine/types.js";

/** A model that a server loads when a request first names it. */
export interface GuestModel {
  readonly name: string;
  /** Tells how many bytes its weights have as soon as it knows. */
  load(onBytes: (bytes: number) => void): Promise<Engine>;
}
