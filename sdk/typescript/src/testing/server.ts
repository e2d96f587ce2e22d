/** A server for tests: the real program, on a store of its own. Needs Node, Bun or Deno. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";

/** How to start a server. */
export interface TestServerOptions {
  /** The program; the variable `WINDLASS_BINARY`, or `windlass`. */
  readonly binary?: string;
  /** `memory:` unless given. */
  readonly store?: string;
  /** `serve` unless given. */
  readonly command?: "serve" | "dev";
  /** More arguments of the command. */
  readonly args?: readonly string[];
  /** The port to listen on; a free one unless given. */
  readonly port?: number;
}

/** A running server. */
export class TestServer implements AsyncDisposable {
  private constructor(
    private readonly process: ChildProcess,
    /** Its address. */
    readonly url: string,
    private readonly options: TestServerOptions,
  ) {}

  /** Starts a server and waits until it listens. */
  static async start(options: TestServerOptions = {}): Promise<TestServer> {
    const binary = options.binary ?? process.env["WINDLASS_BINARY"] ?? "windlass";
    const args = [options.command ?? "serve", "--store", options.store ?? "memory:", "--listen", `127.0.0.1:${options.port ?? 0}`, ...(options.args ?? [])];
    const child = spawn(binary, args, { stdio: ["ignore", "ignore", "pipe"] });
    let log = "";
    const url = await new Promise<string>((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", (code) => reject(new Error(`the server ended with ${code}: ${log}`)));
      child.stderr!.on("data", (chunk: Buffer) => {
        log += chunk.toString();
        const found = /listening on (http:\/\/[0-9.:]+)/.exec(log);
        if (found) resolve(found[1]!);
      });
    });
    return new TestServer(child, url, options);
  }

  /** Ends the server at once, as a crash does, and waits until it is gone. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
  }

  /** Stops the server. */
  async stop(): Promise<void> {
    await this.#end("SIGTERM");
  }

  /** Starts the server again at the same address and store. */
  async restart(): Promise<TestServer> {
    const port = Number(new URL(this.url).port);
    return await TestServer.start({ ...this.options, port });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const gone = once(this.process, "exit");
    this.process.kill(signal);
    await gone;
  }
}
