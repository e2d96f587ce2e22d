/** A worker: claims jobs, runs their handlers and reports. */

import type { Http } from "../client/http.js";
import type { Cx } from "../context/context.js";
import type { RunOptions } from "../context/core.js";
import type { AnyHandler } from "../context/run.js";
import type { AnyJob, JobDefinition } from "../define.js";
import { toMillis } from "../duration.js";
import type { Classify } from "../failure.js";
import type { Registration } from "./attempts.js";
import type { HandlerOptions, WorkerOptions } from "./options.js";
import { Session } from "./session.js";

export type { HandlerOptions, WorkerOptions } from "./options.js";

/** A worker. Give it handlers with `on`, then `run` it, or `start` it and `stop` it later. */
export class Worker implements AsyncDisposable {
  readonly #registrations = new Map<string, Registration>();
  #session: Session | undefined;

  /** Made by `worker` of a client. */
  constructor(
    private readonly http: Http,
    private readonly options: WorkerOptions = {},
  ) {
    const { concurrency } = options;
    if (concurrency !== undefined && (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > 100_000)) {
      throw new RangeError(`concurrency is ${concurrency}, allowed is 1 to 100000`);
    }
  }

  /** Adds the handler of a job. There is one for each name. */
  on<P, I, O, R>(job: JobDefinition<P, I, O, R>, handler: (payload: I, cx: Cx) => O | Promise<O>, options: HandlerOptions = {}): this {
    if (this.#session !== undefined) throw new Error("the worker runs already: add handlers before");
    if (this.#registrations.has(job.name)) throw new Error(`there is a handler for ${JSON.stringify(job.name)} already`);
    const run = runOptions({ ...this.options, ...options });
    this.#registrations.set(job.name, { job: job as AnyJob, handler: handler as AnyHandler, run });
    return this;
  }

  /** Registers the worker and begins to claim jobs. Resolves when the server knows it. */
  async start(): Promise<void> {
    if (this.#registrations.size === 0) throw new Error("the worker has no handlers: add them with `on`");
    this.#session ??= new Session(this.http, this.options, this.#registrations);
    if (this.#session.isStopped) throw new Error("the worker was stopped: make another one");
    await this.#session.start();
  }

  /** Runs until `stop` is called, or the signal fires. Rejects if it cannot continue, such as when its key is revoked. */
  async run(options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    const stop = () => void this.stop();
    const starting = this.start();
    options.signal?.addEventListener("abort", stop, { once: true });
    if (options.signal?.aborted) stop();
    const wasStopped = this.#session?.isStopped === true && options.signal?.aborted !== true;
    try {
      await starting;
      await this.#session?.ended;
    } catch (error) {
      // Stopped while it tried to reach its server: as it was asked.
      if (wasStopped || this.#session?.isStopped !== true || this.#session.failure !== undefined) throw error;
    } finally {
      options.signal?.removeEventListener("abort", stop);
    }
  }

  /**
   * Stops: claims no more, lets handlers finish for a while, stops the rest, gives their jobs back and
   * deregisters. Returns how many jobs were released unfinished.
   */
  async stop(): Promise<{ released: number }> {
    return (await this.#session?.stop()) ?? { released: 0 };
  }

  /** How many jobs run now. */
  get running(): number {
    return this.#session?.running ?? 0;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

function runOptions(options: HandlerOptions): RunOptions {
  return {
    lenientSteps: options.lenientSteps ?? false,
    ...(options.parkWait === undefined ? {} : { parkWaitMs: toMillis(options.parkWait) }),
    changedWaitMs: options.changedWait === undefined ? undefined : toMillis(options.changedWait),
    classify: classifier(options),
  };
}

function classifier({ classify, permanent = [] }: HandlerOptions): Classify {
  return (error) => {
    const known = classify?.(error);
    if (known !== undefined) return known;
    return permanent.some((kind) => error instanceof kind) ? { category: "permanent" } : undefined;
  };
}
