/** Runs the example programs against a server of their own: programs.mjs FOLDER */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";

const { TestServer } = await import(new URL("./dist/esm/testing/index.js", import.meta.url).href);

/** What each program prints before it ends, or is stopped. */
const EXPECTED = {
  "order.js": "charge 4900 cents",
  "documents.js": "words: 733",
  "llm.js": "summary of one; summary of two; summary of three",
};

for (const [name, text] of Object.entries(EXPECTED)) {
  const server = await TestServer.start({ command: "dev" });
  try {
    const program = spawn(process.execPath, [join(process.argv[2], name)], {
      env: { ...process.env, WINDLASS_URL: server.url },
      stdio: ["ignore", "pipe", "inherit"],
    });
    let printed = "";
    program.stdout.on("data", (chunk) => {
      printed += chunk;
      if (printed.includes(text)) program.kill("SIGTERM");
    });
    await once(program, "exit");
    if (!printed.includes(text)) throw new Error(`${name} printed ${JSON.stringify(printed)}, not ${JSON.stringify(text)}`);
    console.log(`${name}: as expected`);
  } finally {
    await server.kill();
  }
}
