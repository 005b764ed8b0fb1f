// What models, their files and other servers say, as text for a terminal: an escape sequence could set its title or the clipboard, or write over
// what stands there.

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/** Control characters other than tabs and line ends as \x1b and the like. */
export function printable(text: string): string {
  return text.replace(CONTROLS, (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`);
}

/** The same where it goes to a terminal; files and pipes get it as it is. */
export function forOutput(text: string, stream: { readonly isTTY?: boolean } = process.stdout): string {
  return stream.isTTY === true ? printable(text) : text;
}
