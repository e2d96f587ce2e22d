/** A worker while it runs: its registration, its loops, and its shutdown. */

import type { Http } from "../client/http.js";
import { toMillis } from "../duration.js";
import { ApiError, OtherProtocol } from "../errors.js";
import { messageOf } from "../failure.js";
import { nextTurn, pause } from "../timing.js";
import { Attempts, type Registration, UNREACHABLE_GRACE_MS_MAX } from "./attempts.js";
import type { BeatNews } from "./beat_loop.js";
import { type Heartbeats, startHeartbeats } from "./heartbeats.js";
import { type Logger, standardError } from "./logger.js";
import type { WorkerOptions } from "./options.js";
import { Reporter } from "./outcomes.js";
import { type ClaimAnswer, type ClaimedJob, PROTOCOL, type Registered, leaseMsOf } from "./protocol.js";

const CLAIM_JOBS_MAX = 1000;
const CLAIM_WAIT_MS = 20_000;
/** No jobs are claimed while so many outcomes wait: the server does not take them. */
const BACKLOG_MAX = 2000;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2000;
/** Handlers of a worker without answers have stopped by then: the server's 30 s may be shorter by a tenth. */
const SILENCE_MS = 26_000;
/** How long before they are asked to, at least; at most it is the longest grace without a server. */
const SILENCE_GRACE_MS_LEAST = 5000;
/** How long the last outcomes may take. */
const REPORT_MS_MAX = 10_000;

export class Session {
  /** Resolves when the worker has stopped; rejects if it cannot continue. */
  readonly ended: Promise<void>;
  readonly #logger: Logger;
  readonly #concurrency: number;
  readonly #graceMs: number;
  readonly #attempts: Attempts;
  readonly #reporter: Reporter;
  readonly #stopping = new AbortController();
  readonly #closing = new AbortController();
  #heartbeats: Heartbeats | undefined;
  #workerId = "";
  #starting: Promise<void> | undefined;
  #stopped: Promise<{ released: number }> | undefined;
  #registering: Promise<void> | undefined;
  #end: (error?: unknown) => void = () => {};

  constructor(
    private readonly http: Http,
    private readonly options: WorkerOptions,
    private readonly registrations: ReadonlyMap<string, Registration>,
  ) {
    this.#logger = options.logger ?? standardError;
    this.#concurrency = options.concurrency ?? 10;
    this.#graceMs = toMillis(options.grace ?? "5s");
    this.ended = new Promise((resolve, reject) => {
      this.#end = (error) => (error === undefined ? resolve() : reject(error));
    });
    this.ended.catch(() => {});
    this.#reporter = new Reporter(http, this.#logger, (done) => {
      this.#heartbeats?.order({ type: "remove", jobs: done.map(({ id, fence }) => `${id} ${fence}`).join("\n") });
    }, this.#closing.signal);
    this.#attempts = new Attempts(http, registrations, this.#graceMs, this.#logger, (report) => this.#reporter.report(report), (id, fence) => {
      this.#heartbeats?.order({ type: "remove", jobs: `${id} ${fence}` });
    });
  }

  get running(): number {
    return this.#attempts.size;
  }

  /** Why it cannot continue. */
  failure: unknown;

  get isStopped(): boolean {
    return this.#stopped !== undefined;
  }

  start(): Promise<void> {
    this.#starting ??= this.#start().catch((error: unknown) => {
      // A server that cannot be reached now may be later.
      this.#starting = undefined;
      throw error;
    });
    return this.#starting;
  }

  async #start(): Promise<void> {
    const { worker_id, heartbeat_every } = await this.#post();
    const silenceMs = SILENCE_MS - Math.max(SILENCE_GRACE_MS_LEAST, Math.min(this.#graceMs, UNREACHABLE_GRACE_MS_MAX));
    const config = { ...this.http.credentials, everyMs: toMillis(heartbeat_every), silenceMs };
    const isInThread = this.options.heartbeatThread !== false && !this.http.hasOwnFetch;
    this.#heartbeats = await startHeartbeats(config, isInThread, (news) => this.#apply(news));
    this.#isRegistered(worker_id);
    void this.#claimLoop();
  }

  async #post(): Promise<Registered> {
    const { name, version, queues } = this.options;
    const types = [...this.registrations.keys()];
    const body = JSON.stringify({ name, version, queues: queues ?? [], types, concurrency: this.#concurrency });
    const call = { method: "POST", path: "/workers", body, isRepeatable: true, signal: this.#stopping.signal } as const;
    const registered = await this.http.ask<Registered>(call);
    const { protocol = PROTOCOL } = registered;
    if (protocol !== PROTOCOL) throw new OtherProtocol(protocol, PROTOCOL);
    return registered;
  }

  #isRegistered(workerId: string): void {
    this.#workerId = workerId;
    this.#heartbeats?.order({ type: "worker", id: workerId });
  }

  /** The server does not know the worker any more: its jobs are lost, and it registers again. */
  #registerAgain(unknown: string): Promise<void> {
    if (unknown !== this.#workerId) return Promise.resolve();
    this.#registering ??= (async () => {
      try {
        this.#logger.warn("the server does not know this worker any more; registering again");
        this.#attempts.stopAll("lost");
        this.#isRegistered((await this.#post()).worker_id);
      } catch (error) {
        if (error instanceof OtherProtocol) this.#fail(error);
        throw error;
      } finally {
        this.#registering = undefined;
      }
    })();
    return this.#registering;
  }

  #apply(news: BeatNews): void {
    switch (news.type) {
      case "directives":
        for (const [id, fence, directive] of news.jobs) this.#attempts.direct(id, fence, directive);
        break;
      case "mode":
        if (news.mode === "aggressive") this.#attempts.stopAll("released");
        break;
      case "unknown":
        this.#registerAgain(news.id).catch((error: unknown) => this.#logger.warn(`failed to register again: ${messageOf(error)}`));
        break;
      case "silent":
        this.#logger.warn("the server does not answer: handlers are asked to stop, because their leases are about to end");
        this.#attempts.stopAll("unreachable");
        break;
      case "problem":
        this.#logger.warn(`heartbeat failed: ${news.message}`);
    }
  }

  async #claimLoop(): Promise<void> {
    let wait = FIRST_PAUSE_MS;
    while (!this.#stopping.signal.aborted) {
      const free = await this.#freeSlots();
      if (this.#stopping.signal.aborted) return;
      if (free === 0) continue;
      const workerId = this.#workerId;
      try {
        const { jobs, paused } = await this.#claim(workerId, free);
        wait = FIRST_PAUSE_MS;
        const now = this.http.now();
        if (jobs.length > 0) this.#heartbeats?.order({ type: "add", jobs: jobs.map((job) => lineOf(job, now)).join("\n") });
        for (const job of jobs) this.#attempts.start(workerId, job);
        // What arrived while the worker was asked to stop is given back.
        if (this.#stopping.signal.aborted) return;
        if (paused && jobs.length === 0) await pause(LONGEST_PAUSE_MS / 2, this.#stopping.signal);
      } catch (error) {
        if (this.#stopping.signal.aborted) return;
        if (await this.#isFatal(error, workerId)) return;
        this.#logger.warn(`failed to claim jobs, will retry: ${messageOf(error)}`);
        await pause(wait, this.#stopping.signal);
        wait = Math.min(wait * 2, LONGEST_PAUSE_MS);
      }
    }
  }

  async #isFatal(error: unknown, workerId: string): Promise<boolean> {
    if (!(error instanceof ApiError) || error.status >= 500 || [408, 429].includes(error.status)) return false;
    if (error.status === 404) {
      await this.#registerAgain(workerId).catch((again: unknown) => this.#logger.warn(`failed to register again: ${messageOf(again)}`));
      return false;
    }
    this.#logger.error(`cannot claim jobs; stopping: ${error.message}`);
    this.#fail(error);
    return true;
  }

  /** Ends: it cannot continue. */
  #fail(error: unknown): void {
    this.failure = error;
    void this.stop();
  }

  /** The number of free slots; waits until there are some. Quick handlers end together, so that one claim fills all. */
  async #freeSlots(): Promise<number> {
    if (this.#reporter.backlog > BACKLOG_MAX) {
      await this.#reporter.progress();
      return 0;
    }
    let free = this.#concurrency - this.#attempts.size;
    if (free <= 0) {
      await this.#attempts.freed.wait();
      await new Promise<void>(nextTurn);
      free = this.#concurrency - this.#attempts.size;
    }
    return Math.min(Math.max(free, 0), CLAIM_JOBS_MAX);
  }

  #claim(workerId: string, limit: number): Promise<ClaimAnswer> {
    const body = JSON.stringify({ worker_id: workerId, limit, wait: `${CLAIM_WAIT_MS}ms` });
    const signal = this.#stopping.signal;
    return this.http.ask({ method: "POST", path: "/claims", body, waitMs: CLAIM_WAIT_MS, once: true, signal });
  }

  stop(): Promise<{ released: number }> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<{ released: number }> {
    this.#stopping.abort();
    await this.#starting?.catch(() => {});
    this.#attempts.freed.ring();
    const before = this.#attempts.released;
    if (!(await within(toMillis(this.options.drain ?? "30s"), this.#attempts.emptied()))) {
      this.#attempts.stopAll("released");
      await within(this.#graceMs, this.#attempts.emptied());
      this.#attempts.releaseAll();
    }
    this.#reporter.close();
    await within(REPORT_MS_MAX, this.#reporter.done);
    this.#closing.abort();
    await this.#heartbeats?.stop();
    if (this.#workerId !== "") {
      const call = { method: "DELETE", path: `/workers/${this.#workerId}`, once: true } as const;
      await this.http.send(call).catch((error: unknown) => {
        this.#logger.warn(`failed to deregister; leases will expire: ${messageOf(error)}`);
      });
    }
    this.#end(this.failure);
    return { released: this.#attempts.released - before };
  }
}

/** A job for the loop of heartbeats. */
function lineOf(job: ClaimedJob, now: number): string {
  const leaseMs = leaseMsOf(job, now);
  return leaseMs === undefined ? `${job.id} ${job.fence}` : `${job.id} ${job.fence} ${leaseMs}`;
}

/** Whether something happens within a time. */
async function within(ms: number, event: Promise<unknown>): Promise<boolean> {
  const over = new AbortController();
  const isInTime = await Promise.race([event.then(() => true), pause(ms, over.signal).then(() => false)]);
  over.abort();
  return isInTime;
}
