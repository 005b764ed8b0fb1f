// A Prometheus histogram for what is observed with every token: an array to count in. prom-client's own takes microseconds for
// each observation; it renders this one through the same registry.

import type { Registry } from "prom-client";

export class QuickHistogram {
  readonly name: string;
  readonly #help: string;
  readonly #bounds: readonly number[];
  readonly #counts: Float64Array; // [bounds + 1] observations between one bound and the next; the last is beyond all
  #sum = 0;

  constructor(name: string, help: string, bounds: readonly number[], registry: Registry) {
    this.name = name;
    this.#help = help;
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
    registry.registerMetric(this as never); // all that a registry asks of a metric is here
  }

  observe(value: number, times = 1): void {
    const bounds = this.#bounds;
    let i = 0;
    while (value > bounds[i]!) i++; // nothing is more than what is not there
    this.#counts[i]! += times;
    this.#sum += value * times;
  }

  /** For the registry. */
  async get(): Promise<unknown> {
    const values: unknown[] = [];
    let total = 0;
    const bucket = (le: number | string) =>
      values.push({ metricName: `${this.name}_bucket`, labels: { le }, value: total });
    this.#bounds.forEach((bound, i) => {
      total += this.#counts[i]!;
      bucket(bound);
    });
    total += this.#counts[this.#bounds.length]!;
    bucket("+Inf");
    values.push({ metricName: `${this.name}_sum`, labels: {}, value: this.#sum });
    values.push({ metricName: `${this.name}_count`, labels: {}, value: total });
    return { name: this.name, help: this.#help, type: "histogram", values, aggregator: "sum" };
  }
}
