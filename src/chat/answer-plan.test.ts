import assert from "node:assert/strict";
import { test } from "node:test";
import { planAnswer } from "./answer-plan.js";
import { REASONING_TAGS, THINK } from "./reasoning.js";
import { GLM } from "./tools/glm.js";
import { HARMONY } from "./tools/harmony.js";
import { HERMES } from "./tools/hermes.js";

const TOOLS = [
  {
    type: "function",
    function: { name: "add", parameters: { type: "object", properties: { a: { type: "number" } } } },
  },
] as const;
const [SEED] = REASONING_TAGS; // special tokens

function plan(
  toolFormat: typeof HERMES | null,
  reasoningTags: typeof THINK | null,
  {
    tools = [],
    constrained = "no",
    prompt = "",
  }: { tools?: typeof TOOLS | []; constrained?: Parameters<typeof planAnswer>[3]; prompt?: string } = {},
) {
  const { answer, options } = planAnswer({ toolFormat, reasoningTags }, prompt, tools as never, constrained);
  const { reasoning, tools: parts } = answer;
  return {
    tags: reasoning?.tags.name ?? null,
    isThinking: reasoning?.isThinking ?? null,
    format: parts?.format.name ?? null,
    set: parts?.set ?? null,
    keepsSpecial: options.skipSpecialTokens === false,
  };
}

test("a free answer is parted by the model's own tags, and read for calls when there are tools", () => {
  const none = { tags: null, isThinking: null, format: null, set: null, keepsSpecial: false };
  assert.deepEqual(plan(null, null), none);
  assert.deepEqual(plan(HERMES, null), none);
  assert.deepEqual(plan(HERMES, THINK), { ...none, tags: "think", isThinking: false });
  assert.equal(plan(null, THINK, { prompt: "Hello <think>\n" }).isThinking, true);
  const { set, ...rest } = plan(HERMES, THINK, { tools: TOOLS });
  assert.deepEqual(rest, { tags: "think", isThinking: false, format: "hermes", keepsSpecial: false });
  assert.deepEqual([...set!.names], ["add"]);
  assert.deepEqual(
    [set!.parameter("add", "a"), set!.parameter("add", "b"), set!.parameter("sub", "a")],
    [{ type: "number" }, undefined, undefined],
  );
});

test("markers that are special tokens stay in the text", () => {
  assert.equal(plan(null, SEED!).keepsSpecial, true);
  assert.equal(plan(GLM, THINK).keepsSpecial, false, "no tools");
  assert.equal(plan(GLM, null, { tools: TOOLS }).keepsSpecial, true);
});

test("a format that parts reasoning itself is used without tools, where the model thinks; the tags are its own then", () => {
  const { tags, format } = plan(HARMONY, THINK);
  assert.deepEqual([tags, format], [null, HARMONY.name]);
  assert.deepEqual([plan(HARMONY, null).format, plan(HARMONY, null).tags], [null, null]);
});

test("a constrained answer begins at once; a forced call is of the model's form, or of Hermes where no grammar gives it", () => {
  for (const constrained of ["forced call", "text"] as const) {
    const { tags, format } = plan(HERMES, THINK, { tools: TOOLS, constrained });
    assert.deepEqual([tags, format], [null, "hermes"]);
    assert.equal(plan(HARMONY, THINK, { constrained }).format, null);
    assert.equal(plan(GLM, null, { tools: TOOLS, constrained }).format, GLM.shape === null ? "hermes" : GLM.name);
  }
});
