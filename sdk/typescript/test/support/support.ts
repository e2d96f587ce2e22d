/** What tests of workers share: a server, a client, and conditions to wait for. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

import { type Logger, Windlass } from "../../src/index.js";
import { TestServer } from "../../src/testing/index.js";

/** How long a condition may take; a machine under load is slow. */
const PATIENCE_MS = 60_000;

export const quiet: Logger = { info: () => {}, warn: () => {}, error: () => {} };

/** A server on a file, and a client of it; both end with the test. `prepare` gets the store before the server opens it. */
export async function server(
  t: TestContext,
  args: readonly string[] = [],
  prepare: (store: string) => void = () => {},
): Promise<{ server: TestServer; client: Windlass; store: string }> {
  const folder = mkdtempSync(join(tmpdir(), "windlass-sdk-"));
  const store = `sqlite:${join(folder, "jobs.db")}`;
  prepare(store);
  const server = await TestServer.start({ store, args });
  t.after(async () => {
    await server.kill();
    rmSync(folder, { recursive: true, force: true });
  });
  return { server, client: new Windlass({ url: server.url }), store };
}

/** Waits until a condition holds. */
export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const end = Date.now() + PATIENCE_MS;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`did not happen: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** A promise and its functions. */
export function deferred<T = void>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

/** A worker process that runs `test/support/process.ts`, and what it prints. */
export class WorkerProcess {
  readonly lines: string[] = [];
  errors = "";

  private constructor(readonly child: ChildProcess) {
    let rest = "";
    child.stdout!.on("data", (chunk: Buffer) => {
      const parts = (rest + chunk.toString()).split("\n");
      rest = parts.pop() ?? "";
      this.lines.push(...parts);
    });
    child.stderr!.on("data", (chunk: Buffer) => {
      this.errors += chunk.toString();
    });
  }

  static start(t: TestContext, url: string, env: Record<string, string> = {}): WorkerProcess {
    const program = fileURLToPath(new URL("./process.js", import.meta.url));
    // Started in a way that threads inherit: their programs must run as either kind of module.
    const child = spawn(process.execPath, ["--input-type=module", "-e", `await import(${JSON.stringify(pathToFileURL(program).href)})`], {
      env: { ...process.env, ...env, WINDLASS_URL: url },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const worker = new WorkerProcess(child);
    t.after(() => worker.kill());
    return worker;
  }

  /** Waits for a line. */
  async prints(line: string): Promise<void> {
    await until(`the worker prints ${line}`, () => {
      if (this.lines.includes(line)) return true;
      if (this.child.exitCode !== null) throw new Error(`the worker ended with ${this.child.exitCode}: ${this.errors}`);
      return false;
    });
  }

  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<number | null> {
    if (this.child.exitCode === null && this.child.signalCode === null) {
      const gone = once(this.child, "exit");
      this.child.kill(signal);
      await gone;
    }
    return this.child.exitCode;
  }
}
