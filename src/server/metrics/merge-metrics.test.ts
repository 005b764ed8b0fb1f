import assert from "node:assert/strict";
import { test } from "node:test";
import { mergeScrapes } from "./merge-metrics.js";

test("each metric's lines stand together under one head; a scrape alone is as it was", () => {
  const one = '# HELP a A.\n# TYPE a gauge\na{m="1"} 1\n\n# HELP b B.\n# TYPE b gauge\nb 2\n';
  const two = '# HELP a A.\n# TYPE a gauge\na{m="2"} 3\n\n# HELP c C.\n# TYPE c gauge\nc 4\n';
  assert.equal(mergeScrapes([one]), one);
  assert.equal(
    mergeScrapes([one, `lost\n${two}`]),
    [
      '# HELP a A.\n# TYPE a gauge\na{m="1"} 1\na{m="2"} 3\n',
      "# HELP b B.\n# TYPE b gauge\nb 2\n",
      "# HELP c C.\n# TYPE c gauge\nc 4\n",
    ].join("\n"),
  );
});
