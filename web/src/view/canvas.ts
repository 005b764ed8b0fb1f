// A canvas that is sharp on every screen, as wide as its parent, and painted again when its size or the theme changes.

import { h, perFrame } from "./dom.js";
import { isDark } from "./theme.js";

export type Paint = (context: CanvasRenderingContext2D, width: number, height: number) => void;

export class Canvas {
  readonly element = h("canvas", { "aria-hidden": "true" });
  readonly #context = this.element.getContext("2d")!;
  readonly #paint: Paint;
  #width = 0;
  #height = 0;

  /** The width follows `frame`, less its padding. */
  constructor(frame: HTMLElement, height: number, paint: Paint) {
    this.#paint = paint;
    this.#height = height;
    new ResizeObserver(([entry]) => {
      this.#width = Math.floor(entry!.contentRect.width);
      this.#resize();
    }).observe(frame);
    isDark.watch(this.repaint);
  }

  get width(): number {
    return this.#width;
  }

  setHeight(height: number): void {
    if (height === this.#height) return;
    this.#height = height;
    this.#resize();
  }

  readonly repaint = perFrame(() => this.#now());

  #resize(): void {
    const scale = devicePixelRatio;
    this.element.width = Math.round(this.#width * scale);
    this.element.height = Math.round(this.#height * scale);
    this.element.style.width = `${this.#width}px`;
    this.element.style.height = `${this.#height}px`;
    this.#now(); // a resized canvas is empty: not to be seen
  }

  #now(): void {
    if (this.#width === 0) return;
    const scale = devicePixelRatio;
    this.#context.setTransform(scale, 0, 0, scale, 0, 0);
    this.#context.clearRect(0, 0, this.#width, this.#height);
    this.#paint(this.#context, this.#width, this.#height);
  }
}

/** The font of small labels in canvases. */
export const LABEL_FONT = '11px "Inter", system-ui, sans-serif';
