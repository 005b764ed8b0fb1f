// A request's pages in one cache group, in sequence order: position p lies in pages[p / P]. Owned by the cache manager.
//
//   pages   |  null page: behind the window  |  held  |
//           0                              first   numPages
//
// Full and latent groups hold everything (first is 0). A state group has one "page": the slot of the request's working state.

export class PageTable {
  /** Only [first, numPages) count; entries before `first` are the null page. */
  pages: Int32Array = new Int32Array(8);
  first = 0;
  numPages = 0;

  get numHeld(): number {
    return this.numPages - this.first;
  }

  reserve(capacity: number): void {
    if (capacity <= this.pages.length) return;
    const grown = new Int32Array(Math.max(capacity, this.pages.length * 2));
    grown.set(this.pages);
    this.pages = grown;
  }

  clear(): void {
    this.first = 0;
    this.numPages = 0;
  }
}
