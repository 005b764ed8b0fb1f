// Filters that jinja2 has and this does not.

/** Of jinja2's filters those that no public chat template uses: each would be one more way to make much of little. */
const REFUSED: ReadonlySet<string> = new Set([
  ...["batch", "center", "filesizeformat", "forceescape", "groupby", "pprint", "random", "slice"],
  ...["striptags", "truncate", "urlencode", "urlize", "wordcount", "wordwrap", "xmlattr"],
]);

/** Why there is no filter of this name. */
export function whyNoFilter(name: string): string {
  if (!REFUSED.has(name)) return `No filter named '${name}'.`;
  return `The filter '${name}' is not supported: no known chat template uses it.`;
}
