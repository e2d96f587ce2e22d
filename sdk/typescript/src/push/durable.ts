/**
 * Pushed jobs with durable steps, sleeps, signals and children, for functions that live only for one request. The server sends
 * what earlier calls saved. A call does one new step, or those that run side by side, and answers with what they returned; the
 * server saves it and calls again, and the handler runs from its top to the next step.
 */

import type { Backend, Beat, GroupView, SpawnRequest, Spawned } from "../context/backend.js";
import type { Cx } from "../context/context.js";
import { Core, type RunOptions } from "../context/core.js";
import type { Saved } from "../context/order.js";
import { type AnyHandler, type Outcome, runAttempt } from "../context/run.js";
import { parkBody } from "../context/waits.js";
import type { AnyJob, JobDefinition } from "../define.js";
import { Permanent } from "../errors.js";
import { childSubmission } from "../submission.js";
import { bodyOf } from "../worker/outcomes.js";
import { type ClaimedJob, infoOf, payloadOf } from "../worker/protocol.js";
import { Push, type PushAnswer, type PushContext, type PushOptions, answer } from "./push.js";

/** The content type of an answer that is an outcome of the worker protocol. */
const OUTCOME_TYPE = "application/vnd.windlass.outcome+json";
/** How often it is asked whether steps beside a saved one still run. */
const LOOK_MS = 5;
/** Chunks of output, log lines and bytes in one answer; what is more is left out. */
const CHUNKS_MAX = 1000;
const LOG_LINES_MAX = 1000;
const OUTPUT_BYTES_MAX = 1 << 20;

/** How durable pushes are run. */
export interface DurablePushOptions extends PushOptions, Pick<RunOptions, "lenientSteps"> {}

/** The jobs that a web program runs, also with durable steps: the queue's push target must be `durable`. */
export class DurablePush extends Push {
  readonly #jobs = new Map<string, { job: AnyJob; handler: AnyHandler }>();
  readonly #lenientSteps: boolean;

  /** Throws if the secret is missing or empty. */
  constructor(options: DurablePushOptions) {
    super(options);
    this.#lenientSteps = options.lenientSteps ?? false;
  }

  /** Adds the handler of a job with steps. */
  durable<P, I, O, R>(job: JobDefinition<P, I, O, R>, handler: (payload: I, cx: Cx) => O | Promise<O>): this {
    if (this.has(job.name)) throw new Error(`there is a handler for ${JSON.stringify(job.name)} already`);
    this.#jobs.set(job.name, { job: job as AnyJob, handler: handler as AnyHandler });
    return this;
  }

  protected override has(type: string): boolean {
    return this.#jobs.has(type) || super.has(type);
  }

  protected override async durably(
    claimed: ClaimedJob | undefined,
    lines: ReadonlyMap<string, string>,
    cx: PushContext,
  ): Promise<PushAnswer | undefined> {
    const known = this.#jobs.get(cx.type);
    if (known === undefined) return undefined;
    if (claimed === undefined) return answer(500, { error: "the push target of this queue is not durable: set `durable` to true" });
    const backend = new PushBackend(claimed, Date.parse(lines.get("windlass-time") ?? "") || Date.now());
    const checkpoints = claimed.checkpoints.map(({ step, value }) => [step, value] as const);
    const run = { parkWaitMs: 0, lenientSteps: this.#lenientSteps, classify: this.options.classify };
    const core = new Core(infoOf(claimed), backend, checkpoints, run);
    backend.core = core;
    cx.abortSignal.addEventListener("abort", () => core.cancel("lost"), { once: true });
    const outcome = await runAttempt(core, known.job, known.handler, payloadOf(claimed));
    if (outcome?.outcome === "failed") this.options.onError?.(outcome.error, cx);
    const json = await backend.answer(outcome);
    return { status: 200, headers: { "content-type": OUTCOME_TYPE }, body: json };
  }
}

/** Collects what a handler writes, for the answer. */
class PushBackend implements Backend {
  core: Core | undefined;
  readonly #startedAt = performance.now();
  readonly #saved = new Map<string, string>();
  readonly #logs: string[] = [];
  #progress: Beat["progress"];
  readonly #chunks: string[] = [];
  #bytes = 0;
  #request: SpawnRequest | undefined;
  #looking: ReturnType<typeof setInterval> | undefined;

  constructor(
    private readonly claimed: ClaimedJob,
    private readonly time: number,
  ) {}

  now(): number {
    return Math.round(this.time + performance.now() - this.#startedAt);
  }

  /** Ends the call when no other step runs: the handler continues in the next one, after the server has saved this. */
  save(records: readonly Saved[]): Promise<void> {
    for (const [key, json] of records) this.#saved.set(key, json);
    this.#looking ??= setInterval(() => this.#leave(), LOOK_MS);
    return new Promise(() => {});
  }

  #leave(): void {
    const core = this.core;
    if (core === undefined || core.isOver) return clearInterval(this.#looking);
    // A step around a saved one waits for it, and runs again.
    const isAround = (key: string) => [...this.#saved.keys()].some((saved) => saved.startsWith(`${key}#/`));
    if ([...core.order.calls].some((call) => call.isWorking && !isAround(call.key))) return;
    clearInterval(this.#looking);
    core.leave({ awaited: [], unplaced: core.order.besideEachOther() });
  }

  async beat(beat: Beat): Promise<void> {
    if (beat.progress !== undefined) this.#progress = beat.progress;
    this.#logs.push(...(beat.logs ?? []).slice(0, LOG_LINES_MAX - this.#logs.length));
  }

  async stream(_offset: number, chunks: readonly string[]): Promise<void> {
    for (const chunk of chunks) {
      this.#bytes += new TextEncoder().encode(chunk).length;
      if (this.#chunks.length < CHUNKS_MAX && this.#bytes <= OUTPUT_BYTES_MAX) this.#chunks.push(chunk);
    }
  }

  spawn(request: SpawnRequest): Promise<Spawned> {
    if (request.beside === undefined) {
      return Promise.reject(new Permanent("a pushed job cannot start children that it does not wait for at once", { code: "not_allowed" }));
    }
    for (const [key, json] of request.records) this.#saved.set(key, json);
    this.#request = request;
    this.core?.leave("parked");
    return new Promise(() => {});
  }

  async group(name: string): Promise<GroupView | undefined> {
    const found = this.claimed.groups?.find((one) => one.name === name);
    if (found === undefined) return undefined;
    if (found.next_cursor !== undefined && found.next_cursor !== null) {
      throw new Permanent("the results of the children do not fit into one push", { code: "child_results_too_large" });
    }
    return { decided: found.decided, total: found.total, children: found.children };
  }

  /** The outcome as JSON, with everything that was written. */
  async answer(outcome: Outcome | undefined): Promise<string> {
    clearInterval(this.#looking);
    const core = this.core!;
    const { id, fence } = this.claimed;
    const rest = core.closeOutput();
    if (rest !== undefined) await this.stream(0, (JSON.parse(rest) as { chunks: unknown[] }).chunks.map((chunk) => JSON.stringify(chunk)));
    const checkpoints = [...new Map([...this.#saved, ...core.withDeferred([])])];
    const ended: Outcome = outcome === undefined ? { outcome: "released" } : continues(outcome);
    const streamJson = this.#chunks.length === 0 ? undefined : `{"offset":0,"chunks":[${this.#chunks.join(",")}]}`;
    const json = bodyOf({ workerId: "", id, fence, outcome: ended, costCents: core.costCents, checkpoints, streamJson }, this.now());
    const more = [
      this.#progress === undefined ? "" : `,"progress":${JSON.stringify(this.#progress)}`,
      this.#logs.length === 0 ? "" : `,"logs":${JSON.stringify(this.#logs)}`,
      this.#request === undefined ? "" : `,"children":${await this.#childrenJson(this.#request)}`,
    ];
    // Children are spawned, and the job parks on them.
    const head = this.#request === undefined ? json : json.replace('"outcome":"released"', '"outcome":"parked"');
    return `${head.slice(0, -1)}${more.join("")}}`;
  }

  async #childrenJson({ name, strategy, jobs, beside }: SpawnRequest): Promise<string> {
    const submissions = await Promise.all(jobs.map(childSubmission));
    const parks = beside?.map((awaited) => parkBody([awaited], this.now())) ?? [];
    const head = JSON.stringify({ name, strategy, beside: parks.length === 0 ? undefined : parks });
    return `${head.slice(0, -1)},"jobs":[${submissions.map(({ json }) => json).join(",")}]}`;
  }
}

/** A call that ended after a step continues at once. */
function continues(outcome: Outcome): Outcome {
  return outcome.outcome === "parked" && "awaited" in outcome && outcome.awaited.length === 0 ? { outcome: "parked", forMs: 0 } : outcome;
}
