// The conversations, kept in this browser (IndexedDB): the newest 500. Where the browser keeps nothing, they last as long as the tab.

import { type Conversation, mergeStored } from "../../data/conversation.js";

const DATABASE = "pagoda";
const STORE = "conversations";
export const MAX_CONVERSATIONS = 500;

export class ConversationStore {
  readonly #database: Promise<IDBDatabase | null> = openDatabase();
  /** What this tab knows; all there is where there is no database. */
  readonly #known = new Map<string, Conversation>();

  async isKept(): Promise<boolean> {
    return (await this.#database) !== null;
  }

  /** All conversations, as all tabs have left them. */
  async all(): Promise<Conversation[]> {
    const database = await this.#database;
    if (database === null) return [...this.#known.values()];
    return settled(database.transaction(STORE).objectStore(STORE).getAll() as IDBRequest<Conversation[]>);
  }

  /** Keeps it; resolves to what is kept, with what other tabs have added to it. */
  async put(conversation: Conversation): Promise<Conversation> {
    const database = await this.#database;
    if (database === null) {
      this.#known.set(conversation.id, conversation);
      return conversation;
    }
    // One transaction, so that no other tab writes between reading and writing.
    const store = database.transaction(STORE, "readwrite").objectStore(STORE);
    const stored = await settled(store.get(conversation.id) as IDBRequest<Conversation | undefined>);
    const merged = mergeStored(conversation, stored);
    await settled(store.put(merged));
    await this.#dropOldest(store);
    return merged;
  }

  async remove(id: string): Promise<void> {
    const database = await this.#database;
    this.#known.delete(id);
    if (database !== null) await settled(database.transaction(STORE, "readwrite").objectStore(STORE).delete(id));
  }

  async #dropOldest(store: IDBObjectStore): Promise<void> {
    const excess = (await settled(store.count())) - MAX_CONVERSATIONS;
    if (excess <= 0) return;
    const oldest = await settled(store.index("updatedMs").getAllKeys(null, excess));
    for (const key of oldest) store.delete(key);
  }
}

function openDatabase(): Promise<IDBDatabase | null> {
  return new Promise((resolve) => {
    try {
      const request = indexedDB.open(DATABASE, 1);
      request.onupgradeneeded = () =>
        request.result.createObjectStore(STORE, { keyPath: "id" }).createIndex("updatedMs", "updatedMs");
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => resolve(null); // a browser told to keep nothing
      request.onblocked = () => resolve(null);
    } catch {
      resolve(null);
    }
  });
}

function settled<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
