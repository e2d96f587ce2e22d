/** Runs the programs of docs/tutorials/typescript.md against a server of their own: tutorial.mjs FOLDER */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";

const { TestServer } = await import(new URL("./dist/esm/testing/index.js", import.meta.url).href);
const server = await TestServer.start();
const folder = process.argv[2];
const start = (name) => {
  const options = { env: { ...process.env, WINDLASS_URL: server.url }, stdio: ["ignore", "pipe", "inherit"] };
  return spawn(process.execPath, [join(folder, name)], options);
};
const worker = start("worker.js");
try {
  const shop = start("shop.js");
  let printed = "";
  shop.stdout.on("data", (chunk) => { printed += chunk; });
  const [code] = await once(shop, "exit");
  const expected = ["true sent in attempt 1", "sent in attempt 3", "failed bad_address", "approved and confirmed"];
  const missing = expected.filter((text) => !printed.includes(text));
  if (code !== 0 || missing.length > 0) throw new Error(`it ended with ${code}, printed ${JSON.stringify(printed)} and lacks ${missing}`);
} finally {
  worker.kill("SIGTERM");
  await once(worker, "exit");
  await server.kill();
}
