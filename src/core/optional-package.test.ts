import assert from "node:assert/strict";
import { test } from "node:test";
import { optionalPackage } from "./optional-package.js";

test("a package that is not installed is named, with what to run; other failures stay as they are", async () => {
  const absent = "@pagoda/no-such-package";
  await assert.rejects(
    optionalPackage(() => import(absent), absent, "This"),
    { code: "package_missing", message: /npm install @pagoda\/no-such-package$/ },
  );
  const broken = new SyntaxError("in the package");
  await assert.rejects(
    optionalPackage(() => Promise.reject(broken), absent, "This"),
    (error) => error === broken,
  );
  assert.equal(await optionalPackage(() => Promise.resolve(1), absent, "This"), 1);
});
