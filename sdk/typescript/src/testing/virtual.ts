/** A test's view of a server in virtual time: its workers end with the test. */

import type { Windlass } from "../client/client.js";
import type { Handle } from "../client/handle.js";
import type { JobDefinition, SubmitOptions } from "../define.js";
import type { Duration } from "../duration.js";
import type { Worker, WorkerOptions } from "../worker/worker.js";
import type { Logger } from "../worker/logger.js";
import type { DevServer } from "./dev.js";

const QUIET: Logger = { info: () => {}, warn: () => {}, error: () => {} };

/** A server whose clock stands still, and the workers of one test. */
export class VirtualTime implements AsyncDisposable {
  readonly #workers: Worker[] = [];

  constructor(
    /** The server itself. */
    readonly server: DevServer,
  ) {}

  /** A client of the server. */
  get client(): Windlass {
    return this.server.client;
  }

  /** The server's address. */
  get url(): string {
    return this.server.url;
  }

  /**
   * Starts a worker in this process: `await windlass.work((worker) => worker.on(email, handler))`. It stops at the end of
   * the test; what its handlers still do then is abandoned. It logs nothing unless it is given a logger.
   */
  async work(add: (worker: Worker) => unknown, options: WorkerOptions = {}): Promise<Worker> {
    const worker = this.client.worker({ logger: QUIET, drain: 0, grace: "100ms", ...options });
    add(worker);
    this.#workers.push(worker);
    await worker.start();
    return worker;
  }

  /** Submits a job. */
  submit<P, I, O, R>(job: JobDefinition<P, I, O, R>, payload: P, options: SubmitOptions = {}): Promise<Handle<R>> {
    return this.client.submit(job, payload, options);
  }

  /** Submits a job, waits until nothing runs, and returns its handle. */
  async run<P, I, O, R>(job: JobDefinition<P, I, O, R>, payload: P, options: SubmitOptions = {}): Promise<Handle<R>> {
    const handle = await this.submit(job, payload, options);
    await this.settle();
    return handle;
  }

  /** Moves the clock forward, from timer to timer, and lets workers run what becomes due; see `DevServer`. */
  advance(by: Duration, options: { readonly wait?: Duration } = {}): Promise<boolean> {
    return this.server.advance(by, options);
  }

  /** Waits until nothing runs and no worker has anything to do, without moving the clock. */
  settle(): Promise<boolean> {
    return this.server.settle();
  }

  /** The server's time. */
  now(): Promise<Date> {
    return this.server.now();
  }

  /** Ends the leases of a worker or of all, or with `afterStep` of the worker that saves this step next, once. */
  crash(where: { readonly worker?: string; readonly afterStep?: string } = {}): Promise<void> {
    return this.server.crash(where);
  }

  /** Stops the workers; the server continues. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#workers.splice(0).map((worker) => worker.stop()));
  }
}
