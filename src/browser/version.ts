// In the place of src/config/version.ts: the version names what an engine keeps on disk, and a tab keeps nothing there.

export function packageVersion(): string {
  return "browser";
}
