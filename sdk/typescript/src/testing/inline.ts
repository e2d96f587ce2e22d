/** Runs a handler without a server: for unit tests of handlers. */

import type { Backend, Beat, ChildView, GroupView, JobInfo, SpawnRequest, Spawned } from "../context/backend.js";
import { Core, type RunOptions } from "../context/core.js";
import type { Saved } from "../context/order.js";
import type { Awaited } from "../context/quiet.js";
import { type Outcome, runAttempt } from "../context/run.js";
import type { Cx } from "../context/context.js";
import type { AnyJob, ChildJob, JobDefinition } from "../define.js";
import type { JobError } from "../errors.js";
import { type FailureBody, failureOf } from "../failure.js";
import { encode } from "../json.js";

/** How to run a handler inline. */
export interface InlineOptions {
  /** Values of steps that an earlier attempt saved, by key: these steps do not run. */
  readonly saved?: Readonly<Record<string, unknown>>;
  /** Checkpoints of an earlier attempt as they are stored, such as `checkpoints` of another run. */
  readonly checkpoints?: Readonly<Record<string, unknown>>;
  /** Values of signals that the handler waits for; others time out, if they have a timeout. */
  readonly signals?: Readonly<Record<string, unknown>>;
  /** The result of a child; throw for a child that fails. Without it the run ends when children are spawned. */
  readonly children?: (child: ChildJob<unknown>) => unknown;
  /** Whether sleeps and timeouts pass at once, as they do unless this is false. */
  readonly advance?: boolean;
  /** How often the handler is run if it fails for now; once unless given. */
  readonly attempts?: number;
  /** The time at which the run begins. */
  readonly now?: Date;
  /** What the handler finds in `cx.job`. */
  readonly job?: Partial<JobInfo>;
  readonly run?: RunOptions;
}

/** What a handler did. */
export interface InlineRun<R> {
  readonly outcome: "completed" | "failed" | "released" | "parked" | "spawned";
  readonly result: R | undefined;
  readonly error: FailureBody | undefined;
  /** What the job waits for, if it is parked. */
  readonly awaited: readonly Awaited[];
  /** Checkpoints as they are stored now. */
  readonly checkpoints: Readonly<Record<string, unknown>>;
  /** Keys of the steps whose work ran, in order. */
  readonly ran: readonly string[];
  readonly logs: readonly string[];
  /** The partial output, chunk by chunk, of the last attempt. */
  readonly output: readonly unknown[];
  readonly progress: { readonly percent: number; readonly message?: string } | undefined;
  /** Jobs that the handler spawned or submitted, in order. */
  readonly spawned: readonly ChildJob<unknown>[];
  /** Jobs that are submitted with the completion. */
  readonly followUps: readonly ChildJob<unknown>[];
  /** How often the handler was started. */
  readonly starts: number;
}

/** Keeps what a handler writes in memory. */
export class MemoryBackend implements Backend {
  readonly checkpoints = new Map<string, unknown>();
  readonly saves: [string, unknown][] = [];
  readonly groups = new Map<string, GroupView>();
  readonly logs: string[] = [];
  output: unknown[] = [];
  readonly spawned: ChildJob<unknown>[] = [];
  progress: Beat["progress"];
  request: SpawnRequest | undefined;
  /** Groups and children that were spawned without parking. */
  readonly started: SpawnRequest[] = [];

  constructor(public time: number) {}

  now(): number {
    return this.time;
  }

  async save(records: readonly Saved[]): Promise<void> {
    for (const [key, json] of records) {
      const value: unknown = JSON.parse(json);
      this.checkpoints.set(key, value);
      this.saves.push([key, value]);
    }
  }

  async beat(beat: Beat): Promise<void> {
    if (beat.progress !== undefined) this.progress = beat.progress;
    this.logs.push(...(beat.logs ?? []));
  }

  async stream(offset: number, chunks: readonly string[]): Promise<void> {
    this.output.splice(offset, chunks.length, ...chunks.map((chunk) => JSON.parse(chunk) as unknown));
  }

  async spawn(request: SpawnRequest): Promise<Spawned> {
    await this.save(request.records);
    if (request.beside === undefined) {
      const known = this.started.find(({ name }) => name === request.name);
      if (known === undefined) {
        this.started.push(request);
        this.spawned.push(...request.jobs);
      }
      return { isRunning: true, ids: request.jobs.map((_, index) => `${request.name}/${index}`) };
    }
    this.request = request;
    return { isRunning: false, ids: [] };
  }

  async group(name: string): Promise<GroupView | undefined> {
    return this.groups.get(name);
  }
}

/** Runs a handler until it ends, or waits for something that the options do not have. Time passes at once. */
export async function runInline<P, I, O, R>(
  job: JobDefinition<P, I, O, R>,
  handler: (payload: I, cx: Cx) => O | Promise<O>,
  payload: P,
  options: InlineOptions = {},
): Promise<InlineRun<R>> {
  const store = new MemoryBackend(options.now?.getTime() ?? Date.now());
  for (const [key, value] of Object.entries(options.checkpoints ?? {})) store.checkpoints.set(key, value);
  for (const [key, value] of Object.entries(options.saved ?? {})) store.checkpoints.set(key, { value });
  const ran: string[] = [];
  const wire: unknown = payload instanceof Uint8Array ? payload : JSON.parse(encode(payload));
  let failures = 0;
  for (let starts = 1; ; starts += 1) {
    store.request = undefined;
    store.output = [];
    const info = jobInfo(job as AnyJob, starts, failures, options.job);
    const run = { parkWaitMs: 0, changedWaitMs: 100, ...options.run, onStep: (key: string) => void ran.push(key) };
    const core = new Core(info, store, store.checkpoints, run);
    const outcome = await runAttempt(core, job as AnyJob, handler, wire);
    await store.save(core.withDeferred([]));
    const rest = core.closeOutput();
    if (rest !== undefined) addRest(store.output, rest);
    if (outcome?.outcome === "failed" && outcome.error.category !== "permanent") {
      failures += 1;
      if (failures < (options.attempts ?? 1)) continue;
    }
    if (await continues(store, outcome, options)) continue;
    return {
      outcome: outcome?.outcome ?? "spawned",
      result: outcome?.outcome === "completed" ? (JSON.parse(outcome.resultJson) as R) : undefined,
      error: outcome?.outcome === "failed" ? outcome.error : undefined,
      awaited: outcome?.outcome === "parked" && "awaited" in outcome ? outcome.awaited : [],
      checkpoints: Object.fromEntries(store.checkpoints),
      ran,
      logs: store.logs,
      output: store.output,
      progress: store.progress,
      spawned: store.spawned,
      followUps: outcome?.outcome === "completed" ? core.followUps : [],
      starts,
    };
  }
}

function addRest(output: unknown[], json: string): void {
  const { offset, chunks } = JSON.parse(json) as { offset: number; chunks: unknown[] };
  output.splice(offset, chunks.length, ...chunks);
}

/** Lets what the job waits for happen; returns whether it did. */
async function continues(store: MemoryBackend, outcome: Outcome | undefined, options: InlineOptions): Promise<boolean> {
  if (outcome === undefined) return await runChildren(store, options);
  if (outcome.outcome === "parked" && "awaited" in outcome && outcome.awaited.some(({ kind }) => kind === "group")) {
    return await runChildren(store, options);
  }
  if (outcome.outcome !== "parked" || options.advance === false) return false;
  if ("forMs" in outcome) {
    store.time += outcome.forMs;
    return true;
  }
  for (const awaited of outcome.awaited) {
    if (awaited.kind === "signal" && options.signals !== undefined && awaited.name in options.signals) {
      store.checkpoints.set(awaited.step, { signal: options.signals[awaited.name] ?? null });
      return true;
    }
  }
  const ends = outcome.awaited.filter((awaited) => awaited.until !== undefined).sort((a, b) => a.until! - b.until!);
  const first = ends[0];
  if (first === undefined) return false;
  store.time = Math.max(store.time, first.until!);
  if (first.kind === "signal") store.checkpoints.set(first.step, { timeout: true });
  return true;
}

async function runChildren(store: MemoryBackend, options: InlineOptions): Promise<boolean> {
  const { request } = store;
  if (request !== undefined) store.spawned.push(...request.jobs);
  const run = options.children;
  if (run === undefined) return false;
  const open = [...store.started, ...(request === undefined ? [] : [request])].filter(({ name }) => !store.groups.has(name));
  for (const { name, jobs } of open) {
    const children = await Promise.all(jobs.map((child, index) => runChild(store, run, child, index)));
    store.groups.set(name, { decided: "well", total: children.length, children });
  }
  return open.length > 0;
}

async function runChild(
  store: MemoryBackend,
  run: NonNullable<InlineOptions["children"]>,
  child: ChildJob<unknown>,
  index: number,
): Promise<ChildView> {
  try {
    return { index, state: "completed", result: JSON.parse(encode(await run(child))) as unknown };
  } catch (error) {
    const { category, message } = failureOf(error);
    const stored: JobError = { category, message, attempt: 1, at: new Date(store.time).toISOString() };
    return { index, state: "failed", error: stored };
  }
}

function jobInfo(job: AnyJob, attempt: number, failures: number, given: Partial<JobInfo> = {}): JobInfo {
  const id = given.id ?? "00000000-0000-4000-8000-000000000000";
  return {
    id,
    type: job.name,
    queue: job.defaults.queue ?? "default",
    tenant: "default",
    attempt,
    attemptId: `${id}.${attempt}`,
    failures,
    maxAttempts: 3,
    priority: 50,
    fence: attempt,
    key: undefined,
    correlationId: undefined,
    tags: {},
    traceparent: undefined,
    deadline: undefined,
    lastError: undefined,
    ...given,
  };
}
