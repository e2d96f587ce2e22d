/** Tests in virtual time: `windlass dev` with a clock that stands still, on any test runner. */

import { Windlass } from "../client/client.js";
import type { Job } from "../client/job.js";
import { type Duration, toMillis } from "../duration.js";
import { TestServer, type TestServerOptions } from "./server.js";

/** For how long `advance` waits for workers, in real time. */
const WAIT_MS = 10_000;
/** How many jobs are looked at: a page. */
const JOBS_MAX = 500;

/** A server in memory whose clock stands still until `advance`. */
export class DevServer implements AsyncDisposable {
  private constructor(private readonly server: TestServer) {
    this.client = new Windlass({ url: server.url, clock: "stopped" });
  }

  /** A client of it. */
  readonly client: Windlass;

  /** Its address. */
  get url(): string {
    return this.server.url;
  }

  /** Starts a server. */
  static async start(options: Pick<TestServerOptions, "binary" | "port"> = {}): Promise<DevServer> {
    return new DevServer(await TestServer.start({ ...options, command: "dev", args: ["--stopped-clock"] }));
  }

  /**
   * Moves the clock forward, from timer to timer; workers run what becomes due before the next one. Waits for jobs that
   * run or that a worker can take, 10 s of real time unless `wait` is given. Returns whether nothing runs and workers have
   * taken all that is due; what no worker takes, or a limit holds back, is not waited for.
   */
  async advance(by: Duration, { wait = WAIT_MS }: { wait?: Duration } = {}): Promise<boolean> {
    const until = Date.now() + toMillis(wait);
    const body = { by: `${toMillis(by)}ms`, wait: `${toMillis(wait)}ms` };
    for (;;) {
      await this.#post("/dev/advance", body);
      // The server gives workers a second to take what is ready, which a busy machine may not have.
      const [running, ready] = await Promise.all([this.#jobs("running"), this.#jobs("scheduled")]);
      if (running.length === 0 && ready.every(({ why }) => why)) return ready.length === 0;
      const leftMs = until - Date.now();
      if (leftMs <= 0) return false;
      Object.assign(body, { by: "0ms", wait: `${leftMs}ms` });
    }
  }

  /** Waits until nothing runs and no worker has anything to do, without moving the clock. */
  settle(): Promise<boolean> {
    return this.advance(0);
  }

  /** The store's time. */
  async now(): Promise<Date> {
    const answer = await fetch(`${this.url}/dev/clock`);
    return new Date(((await answer.json()) as { now: string }).now);
  }

  /**
   * Ends the leases of a worker, by its name, or of all workers, as if their processes had died. With `afterStep`, the
   * worker that saves this step next loses its jobs then, once.
   */
  async crash({ worker, afterStep }: { worker?: string; afterStep?: string } = {}): Promise<void> {
    await this.#post("/dev/crash", { worker, after_step: afterStep });
  }

  /** Deletes all jobs, schedules and workers. */
  async reset(): Promise<void> {
    await this.#post("/dev/reset", {});
  }

  /** Ends the server. */
  async close(): Promise<void> {
    await this.server.kill();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #jobs(state: Job["state"]): Promise<readonly Job[]> {
    return (await this.client.http.ask<{ jobs: Job[] }>({ method: "GET", path: `/jobs?state=${state}&limit=${JOBS_MAX}` })).jobs;
  }

  async #post(path: string, body: Record<string, unknown>): Promise<void> {
    const headers = { "content-type": "application/json" };
    const answer = await fetch(this.url + path, { method: "POST", headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    await answer.body?.cancel();
  }
}
