import assert from "node:assert/strict";
import { test } from "node:test";
import { frameOf, framePair, frameText, type TextFrame } from "./text-frame.js";

const ids = (from: number, count: number) => Array.from({ length: count }, (_, i) => from + i);

test("of two texts the longer one gives a token at its end, the second of equals, until they fit; what is around them stays", () => {
  const frame: TextFrame = { before: [1], between: [2, 3], after: [4, 5, 6], hasTypes: true };
  for (let a = 0; a < 9; a++)
    for (let b = 0; b < 9; b++)
      for (let limit = 0; limit < 26; limit++) {
        const [first, second] = [ids(100, a), ids(200, b)];
        const [cutFirst, cutSecond] = [[...first], [...second]];
        while (cutFirst.length + cutSecond.length > Math.max(0, limit - 6))
          (cutFirst.length > cutSecond.length ? cutFirst : cutSecond).pop();
        const all = [1, ...cutFirst, 2, 3, ...cutSecond, 4, 5, 6];
        const expected = { ids: all, secondStart: 3 + cutFirst.length };
        assert.deepEqual(framePair(frame, first, second, limit), expected, `${a} ${b} ${limit}`);
        assert.deepEqual(framePair({ ...frame, hasTypes: false }, first, second, limit), { ids: all });
        const alone = { ids: [1, ...first.slice(0, Math.max(0, limit - 4)), 4, 5, 6] };
        assert.deepEqual(frameText(frame, first, limit), alone);
      }
});

test("a frame is what is found around the texts", () => {
  const none: number[] = [];
  assert.deepEqual(frameOf([1, 7, 8, 2], [0, 0, 0, 0], [[7, 8]]), {
    ...{ before: [1], between: none, after: [2], hasTypes: false },
  });
  const pair = [[7], [8, 9]];
  assert.deepEqual(frameOf([1, 7, 2, 3, 8, 9, 4], [0, 0, 0, 0, 1, 1, 1], pair), {
    ...{ before: [1], between: [2, 3], after: [4], hasTypes: true },
  });
  assert.deepEqual(frameOf([7, 8, 9], [0, 0, 0], pair), { before: none, between: none, after: none, hasTypes: false });
  assert.deepEqual(frameOf([7, 8, 9], [1, 0, 0], pair)?.hasTypes, false);
  assert.equal(frameOf([1, 7, 8], [0, 0, 0], pair), null);
  assert.equal(frameOf([8, 9, 7], [0, 0, 0], pair), null);
  assert.equal(frameOf([8], [0], [[7]]), null);
  assert.deepEqual(frameOf([7, 7, 8, 7, 9], [0, 0, 0, 0, 0], [[7, 9]])?.before, [7, 7, 8]);
});
