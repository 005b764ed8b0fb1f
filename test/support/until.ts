// Waiting for a state instead of a moment.

/** Waits until the condition holds, asking every `everyMs`; the limit only ends a test that would hang. */
export async function until(condition: () => boolean | Promise<boolean>, what: string, everyMs = 10): Promise<void> {
  const endMs = performance.now() + 240_000;
  while (performance.now() < endMs) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
  throw new Error(`never happened: ${what}`);
}
