/** Marks each build with its kind of module, and adds the licences, which must travel with the package. */

import { copyFileSync, existsSync, writeFileSync } from "node:fs";

writeFileSync("dist/esm/package.json", '{"type": "module"}\n');
writeFileSync("dist/cjs/package.json", '{"type": "commonjs"}\n');
for (const licence of ["LICENSE-APACHE", "LICENSE-MIT"]) {
  if (!existsSync(licence)) copyFileSync(`../../${licence}`, licence);
}
