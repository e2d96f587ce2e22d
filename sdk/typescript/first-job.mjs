/** Runs a sample that submits a job, works on it and prints its result, against a server of its own: first-job.mjs FILE */

import { spawn } from "node:child_process";
import { once } from "node:events";

const { TestServer } = await import(new URL("./dist/esm/testing/index.js", import.meta.url).href);
const server = await TestServer.start();
try {
  const sample = spawn(process.execPath, [process.argv[2]], { env: { ...process.env, WINDLASS_URL: server.url }, stdio: ["ignore", "pipe", "inherit"] });
  let printed = "";
  sample.stdout.on("data", (chunk) => {
    printed += chunk;
    // The sample works until it is stopped.
    if (printed.includes("hello world")) sample.kill("SIGTERM");
  });
  const [code] = await once(sample, "exit");
  if (code !== 0 || !printed.includes("hello world")) throw new Error(`the sample ended with ${code} and printed ${JSON.stringify(printed)}`);
} finally {
  await server.kill();
}
