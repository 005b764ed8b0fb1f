// One template, every conversation of test/fixtures/jinja: what Pagoda makes of it, and what Python's jinja2 does.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { TemplateError } from "../../src/templates/errors.js";
import { JinjaTemplate } from "../../src/templates/template.js";
import { readJson } from "../../src/templates/values/json.js";
import { CONTENT, type Text } from "../../src/templates/values/text.js";
import { Dict, type List, type Value } from "../../src/templates/values/values.js";

/** A template gives a text or fails. */
export type Render = { readonly text: string } | { readonly error: string };

const FIXTURES = new URL("../../../test/fixtures/jinja/", import.meta.url);
const NOW = () => new Date(2025, 2, 9, 14, 5, 7); // that of make.py

export const readFixture = (name: string): string => readFileSync(new URL(name, FIXTURES), "utf8");

/** The conversations, made anew: templates may change lists that they are given. */
export const conversations = (): readonly Value[] =>
  (readJson(readFixture("conversations.json"), CONTENT) as List).items;

export function render(source: string, context: Value): Render {
  assert.ok(context instanceof Dict);
  try {
    const variables = context.entries().map(([name, value]) => [(name as Text).s, value] as const);
    const text = new JinjaTemplate(source).render(variables, NOW);
    assert.equal(text.origins.length, text.s.length);
    return { text: text.s };
  } catch (error) {
    if (error instanceof TemplateError) return { error: error.message };
    throw error;
  }
}

export const renderAll = (source: string): Render[] => conversations().map((context) => render(source, context));

interface JinjaRenders {
  /** Its version. */
  readonly jinja2: string;
  /** [template][conversation] */
  readonly renders: readonly (readonly Render[])[];
}

/** Throws where there is no python3 with jinja2. */
export function renderAllInJinja(sources: readonly string[]): JinjaRenders {
  const { status, stdout, stderr, error } = spawnSync(
    "python3",
    [fileURLToPath(new URL("make.py", FIXTURES)), "--stdin"],
    { input: JSON.stringify(sources), encoding: "utf8", maxBuffer: 2 ** 30 },
  );
  const why = error?.message ?? stderr.trim().split("\n").at(-1);
  if (status !== 0) throw new Error(`python3 with jinja2 is needed (Debian: python3-jinja2): ${why}`);
  return JSON.parse(stdout) as JinjaRenders;
}

/** Where the renders part, in words; null when they are the same. Two errors are, whatever each says. */
export function firstDifference(ours: Render, theirs: Render): string | null {
  if ("error" in ours) return "error" in theirs ? null : `fails (${ours.error}), jinja2 does not`;
  if ("error" in theirs) return `renders where jinja2 fails (${theirs.error})`;
  if (ours.text === theirs.text) return null;
  let at = 0;
  while (ours.text[at] === theirs.text[at]) at++;
  const shown = (text: string) => JSON.stringify(text.slice(Math.max(0, at - 20), at + 40));
  return `at character ${at}: ${shown(ours.text)}, jinja2 ${shown(theirs.text)}`;
}
