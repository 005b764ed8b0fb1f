// Trying again what fails while NATS starts or restarts: machines start in any order, and a member that joins just then must not end.

const PAUSE_MS = 250;

/** The first success within `ms`, or the last failure. `isFinal`: a failure that will not go away. */
export async function retry<T>(
  what: () => Promise<T>,
  ms: number,
  isFinal: (error: Error) => boolean = () => false,
): Promise<T> {
  const endMs = performance.now() + ms;
  for (;;) {
    try {
      return await what();
    } catch (error) {
      if (performance.now() > endMs || isFinal(error as Error)) throw error;
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }
}
