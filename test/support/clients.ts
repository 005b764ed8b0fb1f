// Other people's clients, as their users install them. Loaded by name, so that a tree without one still compiles; a test of one that
// is not installed is skipped and says so.

// biome-ignore lint/suspicious/noExplicitAny: each client's own types are its own
export type ClientPackage = any;

export async function loadClient(name: string): Promise<{ client: ClientPackage; skip: string | false }> {
  try {
    return { client: await import(name), skip: false };
  } catch (error) {
    return { client: null, skip: `${name} cannot be loaded: ${(error as Error).message.split("\n")[0]}` };
  }
}
