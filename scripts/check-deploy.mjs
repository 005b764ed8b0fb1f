// Checks what is in deploy/ as far as this machine can: every check whose tool is here runs, the others say what they need.
//   npm run check:deploy
// The manifests are rendered by kubectl and held against the schemas of Kubernetes (kubeconform, or the package kubernetes-models, which is
// fetched from the npm registry once, into build/check-deploy); the compose file is read by docker compose, the container file by hadolint.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const FOLDER = join("build", "check-deploy");
const PACKAGES = ["kubernetes-models@4.5.1", "yaml@2.9.1"];
let numFailed = 0;

function run(command, args, input = "") {
  const { error, status, stdout, stderr } = spawnSync(command, args, { encoding: "utf8", input });
  return { isHere: error === undefined, isGood: status === 0, stdout, text: `${stdout}${stderr}`.trim() };
}

function report(what, problem) {
  if (problem !== null) numFailed++;
  console.log(problem === null ? `ok       ${what}` : `NOT OK   ${what}\n${problem}`);
}

function skip(what, why) {
  console.log(`skipped  ${what}: ${why}`);
}

/** One check by one command; `version` tells whether the tool is here. */
function check(what, [command, ...args], version, input) {
  if (!run(command, version).isGood) {
    skip(what, `no ${[command, ...version.slice(0, -1)].join(" ")} here`);
    return null;
  }
  const result = run(command, args, input);
  report(what, result.isGood ? null : result.text);
  return result.stdout;
}

/** Each manifest against the schema of its kind; unknown fields are errors. */
function checkSchemas(manifests) {
  const what = "manifests: the schemas of Kubernetes (kubernetes-models)";
  if (!existsSync(join(FOLDER, "node_modules"))) {
    mkdirSync(FOLDER, { recursive: true });
    const { isGood } = run("npm", ["install", "--prefix", FOLDER, "--no-audit", "--no-fund", "--silent", ...PACKAGES]);
    if (!isGood) return skip(what, `the npm registry does not give ${PACKAGES.join(", ")}`);
  }
  const require = createRequire(resolve(FOLDER, "package.json"));
  const { parseAllDocuments } = require("yaml");
  for (const document of parseAllDocuments(manifests)) {
    const manifest = document.toJS();
    const { [manifest.kind]: Model } = require(`kubernetes-models/${manifest.apiVersion}/${manifest.kind}`);
    let problem = null;
    try {
      new Model(manifest).validate();
    } catch (error) {
      problem = error.message;
    }
    report(`${what}: ${manifest.kind} ${manifest.metadata.name}`, problem);
  }
}

const manifests = check(
  "manifests: kubectl kustomize",
  ["kubectl", "kustomize", "deploy/kubernetes"],
  ["version", "--client"],
);
if (manifests !== null) {
  check("manifests: kubeconform", ["kubeconform", "-strict", "-summary", "-"], ["-v"], manifests);
  checkSchemas(manifests);
}
check(
  "compose.yaml: docker compose",
  ["docker", "compose", "-f", "deploy/compose.yaml", "config", "-q"],
  ["compose", "version"],
);
check("Dockerfile: hadolint", ["hadolint", "deploy/Dockerfile"], ["--version"]);
process.exit(numFailed > 0 ? 1 : 0);
