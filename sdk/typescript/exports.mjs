/** Loads every export of the package as both kinds of modules, and compares them. Run in a project that has installed it. */

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const folder = "node_modules/@windlass/sdk";
const require = createRequire(join(process.cwd(), "project.js"));
const { exports } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));

/** Loaded only by a test runner, whose own module is no CommonJS either. */
const ONLY_IN = { "./vitest": "vitest" };

for (const [path, targets] of Object.entries(exports)) {
  const name = `@windlass/sdk${path.slice(1)}`;
  if (path === "./package.json") {
    assert.equal(require(name).name, "@windlass/sdk");
    continue;
  }
  const kinds = targets.types === undefined ? Object.values(targets) : [targets];
  for (const { types, default: file } of kinds) {
    assert.ok(existsSync(join(folder, types)) && existsSync(join(folder, file)), `${name}: ${types} and ${file} are published`);
  }
  if (ONLY_IN[path] !== undefined) {
    console.log(`${name}: is loaded by the tests of ${ONLY_IN[path]}`);
    continue;
  }
  const named = (module) => Object.keys(module).filter((key) => !["default", "module.exports", "__esModule"].includes(key)).sort();
  const imported = named(await import(name));
  assert.ok(imported.length > 0, `${name} exports nothing`);
  assert.deepEqual(named(require(name)), imported, `${name}: both kinds export the same`);
  console.log(`${name}: ${imported.join(", ")}`);
}
