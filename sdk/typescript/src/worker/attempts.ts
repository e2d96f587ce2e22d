/** The jobs that a worker runs: starts them, stops them, and hands their outcomes on. */

import type { Http } from "../client/http.js";
import { type CancelReason, Core, type RunOptions } from "../context/core.js";
import { type AnyHandler, type Outcome, runAttempt } from "../context/run.js";
import type { AnyJob } from "../define.js";
import { Bell } from "../timing.js";
import { HttpBackend, Writes } from "./backend.js";
import type { Logger } from "./logger.js";
import type { Report } from "./outcomes.js";
import { type ClaimedJob, infoOf, payloadOf } from "./protocol.js";

/** A job with the function that runs it. */
export interface Registration {
  readonly job: AnyJob;
  readonly handler: AnyHandler;
  readonly run: RunOptions;
}

interface Running {
  readonly workerId: string;
  readonly job: ClaimedJob;
  readonly core: Core;
  /** Whether an outcome was reported, or there is none to report. */
  isReported: boolean;
  /** Whether an outcome was reported: its lease is renewed until the server has it. */
  hasOutcome: boolean;
  /** When the handler is abandoned; never unless it is asked to stop. */
  abandonedAt: number;
  /** Whether the slot is free again. */
  hasLeft: boolean;
  timer: ReturnType<typeof setTimeout> | undefined;
}

/** The longest delay of a timer; the server watches longer limits. */
const TIMER_MS_MAX = 2 ** 31 - 1;
/** The longest grace period while the server does not answer: then leases end. */
export const UNREACHABLE_GRACE_MS_MAX = 10_000;

export class Attempts {
  /** Rings when a slot becomes free. */
  readonly freed = new Bell();
  /** How many jobs were released because the worker stops or is paused. */
  released = 0;
  readonly #running = new Set<Running>();
  readonly #writes: Writes;
  #emptied: (() => void)[] = [];

  constructor(
    private readonly http: Http,
    private readonly registrations: ReadonlyMap<string, Registration>,
    private readonly graceMs: number,
    private readonly logger: Logger,
    private readonly report: (report: Report) => void,
    /** Ends the renewal of a lease whose attempt has no outcome. */
    private readonly forget: (id: string, fence: number) => void,
  ) {
    this.#writes = new Writes(http);
  }

  /** How many slots are used. */
  get size(): number {
    return this.#running.size;
  }

  /** Starts a claimed job. */
  start(workerId: string, job: ClaimedJob): void {
    const registration = this.registrations.get(job.type);
    if (registration === undefined) {
      // Another worker may know the type.
      return this.report({ workerId, id: job.id, fence: job.fence, outcome: { outcome: "released" }, costCents: 0, checkpoints: [] });
    }
    const warn = (message: string) => this.logger.warn(`job ${job.id} (${job.type}): ${message}`);
    const checkpoints = job.checkpoints.map(({ step, value }) => [step, value] as const);
    const backend = new HttpBackend(this.http, this.#writes, workerId, job, warn);
    const core = new Core(infoOf(job), backend, checkpoints, { ...registration.run, warn });
    const state = { isReported: false, hasOutcome: false, abandonedAt: Infinity, hasLeft: false };
    const running: Running = { workerId, job, core, ...state, timer: undefined };
    this.#running.add(running);
    // A write may be the first to find that the lease is lost.
    core.onCancel = (reason) => this.#stop(running, reason);
    this.#watchDeadline(running);
    void this.#run(running, registration);
  }

  async #run(running: Running, { job, handler }: Registration): Promise<void> {
    let outcome: Outcome | undefined;
    try {
      outcome = await runAttempt(running.core, job, handler, payloadOf(running.job));
    } catch (error) {
      outcome = { outcome: "failed", error: { category: "system", code: "panic", message: String(error) } };
    }
    if (outcome?.outcome === "failed" && !running.isReported) this.#logFailure(running, outcome);
    this.#finish(running, outcome);
    this.#leave(running);
  }

  #logFailure({ job }: Running, { error }: Outcome & { outcome: "failed" }): void {
    const code = error.code === undefined ? "" : `, ${error.code}`;
    this.logger.warn(
      `job ${job.id} (${job.type}) failed in attempt ${job.attempt}, failure ${job.failures + 1} of ${job.max_attempts}: ${error.message} (${error.category}${code})`,
    );
  }

  /** Reports an outcome once. */
  #finish(running: Running, outcome: Outcome | undefined): void {
    if (running.isReported) return;
    running.isReported = true;
    if (outcome === undefined) return;
    running.hasOutcome = true;
    const { workerId, job, core } = running;
    if (core.reason === "released" && outcome.outcome === "released") this.released += 1;
    const checkpoints = core.withDeferred([]);
    const streamJson = core.closeOutput();
    this.report({ workerId, id: job.id, fence: job.fence, outcome, costCents: core.costCents, checkpoints, streamJson });
  }

  /** Frees the slot. */
  #leave(running: Running): void {
    if (running.hasLeft) return;
    running.hasLeft = true;
    clearTimeout(running.timer);
    running.core.end();
    running.core.closeOutput();
    this.#running.delete(running);
    if (!running.hasOutcome) this.forget(running.job.id, running.job.fence);
    this.freed.ring();
    if (this.#running.size === 0) for (const resolve of this.#emptied.splice(0)) resolve();
  }

  #watchDeadline(running: Running): void {
    const deadline = running.core.job.deadline;
    if (deadline === undefined) return;
    const ms = deadline.getTime() - this.http.now();
    running.timer = setTimeout(() => {
      if (ms > TIMER_MS_MAX) return this.#watchDeadline(running);
      const message = `ran longer than allowed, until ${deadline.toISOString()}`;
      this.#finish(running, { outcome: "failed", error: { category: "timeout", message } });
      this.#stop(running, "timeout");
    }, Math.min(Math.max(ms, 0), TIMER_MS_MAX));
  }

  /** Asks a handler to stop, and abandons it if it has not after the grace period. One that lost its lease reports nothing. */
  #stop(running: Running, reason: CancelReason): void {
    if (reason === "lost") running.isReported = true;
    if (running.hasLeft) return;
    const graceMs = reason === "unreachable" ? Math.min(this.graceMs, UNREACHABLE_GRACE_MS_MAX) : this.graceMs;
    const abandonedAt = performance.now() + graceMs;
    // One that stops already may only get less time.
    if (running.abandonedAt <= abandonedAt) return;
    running.abandonedAt = abandonedAt;
    clearTimeout(running.timer);
    running.timer = setTimeout(() => {
      this.logger.warn(`job ${running.job.id} (${running.job.type}) did not stop (${reason}) and was abandoned`);
      this.#finish(running, running.core.reason === "released" ? { outcome: "released" } : undefined);
      this.#leave(running);
    }, graceMs);
    running.core.cancel(reason);
  }

  /** Follows a directive of the server. */
  direct(id: string, fence: number, directive: string): void {
    const reasons: Record<string, CancelReason> = { cancel: "cancelled", suspend: "suspended", timeout: "timeout" };
    const reason = reasons[directive] ?? "lost";
    for (const running of this.#running) {
      if (running.job.id !== id || running.job.fence !== fence) continue;
      this.logger.info(`job ${id} is asked to stop: ${reason}`);
      this.#stop(running, reason);
    }
  }

  /** Asks all handlers to stop; those of lost leases report nothing. */
  stopAll(reason: CancelReason): void {
    for (const running of this.#running) this.#stop(running, reason);
  }

  /** Gives back all jobs that still run. */
  releaseAll(): void {
    for (const running of this.#running) {
      this.#stop(running, "released");
      this.#finish(running, { outcome: "released" });
      this.#leave(running);
    }
  }

  /** Resolves when no job runs. */
  emptied(): Promise<void> {
    return this.#running.size === 0 ? Promise.resolve() : new Promise((resolve) => this.#emptied.push(resolve));
  }
}
