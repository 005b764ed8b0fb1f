// Writes a streamed answer to a terminal: words are not broken at the margin, and markdown is shown instead of spelled out.
// Streaming means that nothing may wait for long: a word is held back until its end is known, a marker until it cannot be longer.
// Where there is no terminal the text passes unchanged.

import { printable } from "../../core/printable.js";

export interface StyledWriterOptions {
  /** Columns of the terminal; 0: do not wrap. */
  readonly width: number;
  /** Show markdown as styles; false leaves its markers in the text. */
  readonly styled: boolean;
  write(text: string): void;
}

const RESET = "\x1b[0m";
const STYLES = {
  bold: "\x1b[1m",
  italic: "\x1b[3m",
  code: "\x1b[36m",
  heading: "\x1b[1m\x1b[4m",
  fence: "\x1b[2m",
} as const;
type Style = keyof typeof STYLES;

export class StyledWriter {
  readonly #options: StyledWriterOptions;
  readonly #active = new Set<Style>();
  /** The word being received, its styles written between its letters. */
  #word = "";
  /** Columns of #word on the screen. */
  #wordWidth = 0;
  #column = 0;
  /** What has come of the current line while it may still be a fence, a heading or a bullet; null once that is decided. */
  #lineStart: string | null = "";
  #isFenced = false;
  /** Stars that may belong to a longer marker. */
  #stars = "";

  constructor(options: StyledWriterOptions) {
    this.#options = options;
  }

  push(text: string): void {
    for (const char of this.#options.styled ? printable(text) : text) this.#take(char);
  }

  /** Writes what was held back and ends all styles. */
  end(): void {
    this.#decideLine();
    this.#closeStars("");
    this.#flushWord();
    if (this.#active.size > 0) this.#options.write(RESET);
    this.#active.clear();
  }

  #take(char: string): void {
    if (!this.#options.styled) this.#put(char);
    else if (this.#lineStart !== null && char !== "\n" && isPrefixOfLineMarker(this.#lineStart + char)) {
      this.#lineStart += char;
    } else {
      this.#decideLine();
      this.#inline(char);
    }
  }

  /** The line's beginning is known: a fence, a heading, a bullet, or text. */
  #decideLine(): void {
    const start = this.#lineStart;
    if (start === null) return;
    this.#lineStart = null;
    if (/^\s*```/.test(start)) {
      this.#isFenced = !this.#isFenced;
      this.#set("fence", true);
      this.#putAll(start);
      return;
    }
    if (this.#isFenced) {
      this.#putAll(start);
      return;
    }
    const heading = /^#{1,6} $/.exec(start);
    if (heading !== null) this.#set("heading", true);
    else if (/^\s*[-*+] $/.test(start)) this.#putAll(start.replace(/[-*+]/, "•"));
    else for (const char of start) this.#inline(char);
  }

  #inline(char: string): void {
    if (char === "\n") this.#endLine();
    else if (this.#isFenced || this.#active.has("fence")) this.#put(char);
    else if (char === "*" && !this.#active.has("code")) this.#stars += "*";
    else {
      this.#closeStars(char);
      if (char === "`") this.#set("code", !this.#active.has("code"));
      else this.#put(char);
    }
  }

  /** One star is italic, two are bold; a star between spaces is a star. */
  #closeStars(next: string): void {
    const stars = this.#stars;
    this.#stars = "";
    if (stars === "") return;
    const style = stars.length === 2 ? "bold" : stars.length === 1 ? "italic" : null;
    const opens = style !== null && !this.#active.has(style);
    if (style === null || (opens && (next === "" || /\s/.test(next)))) this.#putAll(stars);
    else this.#set(style, opens);
  }

  #endLine(): void {
    this.#closeStars("\n");
    for (const style of ["heading", "fence", "bold", "italic", "code"] as const) this.#set(style, false);
    this.#flushWord();
    this.#options.write("\n");
    this.#column = 0;
    this.#lineStart = this.#options.styled ? "" : null;
  }

  #set(style: Style, isOn: boolean): void {
    if (this.#active.has(style) === isOn) return;
    if (isOn) this.#active.add(style);
    else this.#active.delete(style);
    this.#word += isOn ? STYLES[style] : RESET + [...this.#active].map((each) => STYLES[each]).join("");
  }

  #putAll(text: string): void {
    for (const char of text) this.#put(char);
  }

  #put(char: string): void {
    if (char === "\n") {
      this.#flushWord();
      this.#options.write("\n");
      this.#column = 0;
      return;
    }
    const { width } = this.#options;
    if (char === " " && !this.#isFenced) {
      this.#flushWord();
      // A space at the margin becomes the line break.
      if (width > 0 && this.#column >= width - 1) {
        this.#options.write("\n");
        this.#column = 0;
      } else {
        this.#options.write(" ");
        this.#column++;
      }
      return;
    }
    this.#word += char;
    this.#wordWidth += widthOf(char);
    // A word longer than a line has to be broken somewhere, and code keeps its own lines.
    if (this.#isFenced || (width > 0 && this.#wordWidth >= width)) this.#flushWord();
  }

  #flushWord(): void {
    const { width, write } = this.#options;
    if (this.#word === "") return;
    if (width > 0 && !this.#isFenced && this.#column > 0 && this.#column + this.#wordWidth > width) {
      write("\n");
      this.#column = 0;
    }
    write(this.#word);
    this.#column += this.#wordWidth;
    this.#word = "";
    this.#wordWidth = 0;
  }
}

/** Whether the text may still grow into, or is, what begins a fence, a heading or a bullet. */
function isPrefixOfLineMarker(text: string): boolean {
  return /^(?:\s{0,8}(?:`{1,3}|`{3}[^\n`]*|[-*+]|[-*+] )?|#{1,6}|#{1,6} )$/.test(text);
}

/** Columns of a character: wide for East Asian scripts and emoji, none for combining marks. */
function widthOf(char: string): number {
  if (/\p{M}|\u200d|\ufe0f/u.test(char)) return 0;
  return /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u.test(
    char,
  )
    ? 2
    : 1;
}
