/** Writes the samples of a document as files: samples.mjs DOCUMENT PREFIX LANGUAGE */

import { readFileSync, writeFileSync } from "node:fs";

const [, , document, prefix, language] = process.argv;
const blocks = readFileSync(document, "utf8").matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, "gms"));
let count = 0;
for (const [, code] of blocks) {
  count += 1;
  writeFileSync(`${prefix}-${count}.${language}`, code);
}
if (count === 0) throw new Error(`${document} has no samples`);
