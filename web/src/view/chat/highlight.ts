// Colours for code: highlight.js with the languages that are met most. Others are shown plain.

import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";

const LANGUAGES = { bash, cpp, css, diff, go, java, javascript, json, python, rust, sql, typescript, xml, yaml };
for (const [name, definition] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, definition);
hljs.registerAliases(["shell", "console"], { languageName: "bash" });

/** The language that the first word after the fence names; null where it is not known here. */
export function languageOf(info: string): string | null {
  const name = info.trim().split(/\s/)[0]!.toLowerCase();
  return hljs.getLanguage(name) === undefined ? null : name;
}

/** HTML in which the text is escaped and its parts are spans. */
export function highlight(text: string, language: string): string {
  return hljs.highlight(text, { language, ignoreIllegals: true }).value;
}
