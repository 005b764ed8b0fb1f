// Asks at the terminal which model to chat with, and pulls it.

import { createInterface } from "node:readline/promises";
import { pull } from "../../formats/hub/hub-pull.js";
import { pullProgress } from "../pull/progress.js";
import { dim } from "../terminal.js";
import { chosenBy, examineMachine, offersFor, offerText, recommended } from "./first-model.js";

/** The chosen model, pulled; null: the bundled one. */
export async function chooseModel(env: NodeJS.ProcessEnv = process.env): Promise<string | null> {
  const machine = await examineMachine();
  const offers = await offersFor(machine, env);
  if (offers.length === 0) {
    const hub = env.HF_ENDPOINT || "https://huggingface.co";
    process.stdout.write(
      `No model was named, and ${hub} cannot be reached: this is the bundled demo model. It tells children's stories and\n` +
        "knows nothing else. With a model file: pagoda chat ./model.gguf\n\n",
    );
    return null;
  }
  process.stdout.write(offerText(offers, machine));
  const model = await ask(`Which one? [${recommended(offers) + 1}] `, (answer) => chosenBy(answer, offers));
  if (model === null) return null;
  if (offers.find(({ spec }) => spec === model)?.isPulled !== true) {
    const progress = pullProgress(model);
    try {
      await pull(model, { env, onProgress: progress.onProgress });
    } finally {
      progress.done();
    }
  }
  process.stdout.write(dim(`Next time: pagoda chat ${model}\n`));
  return model;
}

/** Until the answer is one. Ctrl-C and Ctrl-D end the command. */
async function ask<T>(question: string, read: (answer: string) => T | undefined): Promise<T> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  terminal.on("close", () => {
    if (isAnswered) return;
    process.stdout.write("\n");
    process.exit(130);
  });
  let isAnswered = false;
  for (;;) {
    const value = read(await terminal.question(question));
    if (value === undefined) continue;
    isAnswered = true;
    terminal.close();
    return value;
  }
}
