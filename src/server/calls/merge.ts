// Several async sources as one, each value as soon as it is there. Leaving early ends them all.

export async function* mergeInOrder<T>(
  sources: readonly AsyncGenerator<T>[],
): AsyncGenerator<{ readonly source: number; readonly value: T }> {
  if (sources.length === 1) {
    for await (const value of sources[0]!) yield { source: 0, value };
    return;
  }
  const next = (source: number) => sources[source]!.next().then((result) => ({ source, result }));
  const waiting = new Map(sources.map((_, source) => [source, next(source)]));
  try {
    while (waiting.size > 0) {
      const { source, result } = await Promise.race(waiting.values());
      if (result.done === true) waiting.delete(source);
      else {
        waiting.set(source, next(source));
        yield { source, value: result.value };
      }
    }
  } finally {
    for (const promise of waiting.values()) promise.catch(() => undefined); // its failure has been told by another
    for (const source of sources) void source.return(undefined).catch(() => undefined);
  }
}
