// A colour for each request, the same in every view. Requests are numbered as they are first seen; twelve hues are visited far
// apart, so that requests that run together differ most, then the round begins again half a hue on. Lightness alternates, for
// eyes that tell hues apart badly.

const HUES = 12;
const STRIDE = 5; // coprime to HUES: 0, 150, 300, 90, ...
/** Requests remembered: more than the pages on screen can name. */
const MAX_REMEMBERED = 8192;

export class RequestColors {
  readonly #numbers = new Map<string, number>();
  #next = 0;

  /** A CSS colour; `alpha` 0..1. */
  colorOf(id: string, isDark: boolean, alpha = 1): string {
    const number = this.#numbers.get(id) ?? this.#remember(id);
    const hue = (25 + ((number * STRIDE) % HUES) * (360 / HUES) + (Math.floor(number / HUES) % 2) * 15) % 360;
    const lightness = (isDark ? 0.72 : 0.6) + (number % 2 === 0 ? -0.05 : 0.05);
    return `oklch(${lightness.toFixed(2)} 0.13 ${hue}${alpha < 1 ? ` / ${alpha}` : ""})`;
  }

  #remember(id: string): number {
    const number = this.#next++;
    this.#numbers.set(id, number);
    if (this.#numbers.size > MAX_REMEMBERED) this.#numbers.delete(this.#numbers.keys().next().value!);
    return number;
  }
}
