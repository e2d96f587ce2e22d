/** The context of a running job, `cx`: durable steps, sleeping and waiting without a slot, children, progress, logs, output. */

import type { ChildJob } from "../define.js";
import { type Duration, toMillis } from "../duration.js";
import { Permanent } from "../errors.js";
import { type Jsonified, encode } from "../json.js";
import type { InferOutput, StandardSchemaV1 } from "../schema.js";
import type { JobInfo } from "./backend.js";
import { inBranch } from "./branch.js";
import { type ChildResult, type GroupOptions, allOf, children } from "./children.js";
import type { CancelReason, Core } from "./core.js";
import { CHECKPOINT } from "./history.js";
import { causesOf } from "./reopen.js";
import { start, step } from "./steps.js";
import { sleep, waitAny, waitSignal } from "./waits.js";

/** The results of children, in the order of the input. */
export type Results<C extends readonly ChildJob<unknown>[]> = { -readonly [K in keyof C]: C[K] extends ChildJob<infer R> ? R : never };

/** The winner of a race. */
export type First<L, R> = { readonly side: "left"; readonly value: L } | { readonly side: "right"; readonly value: R };

/** Most jobs that the completion of one submits. */
const FOLLOW_UPS_MAX = 100;

/** The context of a running job. */
export class Cx {
  readonly #core: Core;

  /** Made by workers. */
  constructor(core: Core) {
    this.#core = core;
  }

  /** What is known of the job: id, attempt, fence, key, tags, deadline. */
  get job(): JobInfo {
    return this.#core.job;
  }

  /** Fires when the attempt should stop: cancelled, suspended, timed out, lease lost, or the worker shuts down. */
  get abortSignal(): AbortSignal {
    return this.#core.signal;
  }

  /** Why the attempt should stop; `undefined` if it should not. */
  get cancelReason(): CancelReason | undefined {
    return this.#core.reason;
  }

  /**
   * Runs `work` once per job: its value is saved before it is returned, and later attempts get the saved value, as read
   * back from JSON. A step is identified by its name and the number of earlier steps of that name.
   *
   * Throws a `StepError` with the category, code and message of the error of `work`.
   */
  step<T>(name: string, work: (signal: AbortSignal) => T | Promise<T>): Promise<Jsonified<T>> {
    return step(this.#core, name, work) as Promise<Jsonified<T>>;
  }

  /** Sleeps without a slot or a process. The end is fixed on the first run. Give a sleep whose length varies a name. */
  async sleep(duration: Duration, options: { readonly name?: string } = {}): Promise<void> {
    await sleep(this.#core, toMillis(duration), options.name);
  }

  /** Sleeps until a moment. */
  async sleepUntil(moment: Date, options: { readonly name?: string } = {}): Promise<void> {
    const until = moment.getTime();
    if (Number.isNaN(until)) throw new RangeError("sleepUntil got an invalid date");
    await sleep(this.#core, Math.max(0, until - this.#core.backend.now()), options.name);
  }

  /** Waits for a signal without a slot; `undefined` once `timeout` has passed. Signals that came earlier are found. */
  waitSignal<S extends StandardSchemaV1>(
    name: string,
    options: { readonly schema: S; readonly timeout?: undefined },
  ): Promise<InferOutput<S>>;
  waitSignal<S extends StandardSchemaV1>(
    name: string,
    options: { readonly schema: S; readonly timeout: Duration },
  ): Promise<InferOutput<S> | undefined>;
  waitSignal<T = unknown>(name: string, options: { readonly timeout: Duration }): Promise<T | undefined>;
  waitSignal<T = unknown>(name: string, options?: { readonly timeout?: undefined }): Promise<T>;
  waitSignal(name: string, options: { readonly schema?: StandardSchemaV1; readonly timeout?: Duration | undefined } = {}): Promise<unknown> {
    return waitSignal(this.#core, name, options.timeout === undefined ? undefined : toMillis(options.timeout), options.schema);
  }

  /** Waits for the first of several signals; `undefined` once `timeout` has passed. */
  async waitAny(names: readonly string[], options: { readonly timeout?: Duration } = {}): Promise<{ name: string; value: unknown } | undefined> {
    return await waitAny(this.#core, names, options.timeout === undefined ? undefined : toMillis(options.timeout));
  }

  /** Spawns children, waits for them without a slot, and returns their results; throws `ChildFailed` if one has none. */
  async all<const C extends readonly ChildJob<unknown>[]>(jobs: C, options: GroupOptions = {}): Promise<Results<C>> {
    const results = await children(this.#core, jobs, options.strategy ?? "fail_fast", options.name);
    return allOf(results) as Results<C>;
  }

  /** Spawns children and returns the result or the error of each, once the group is decided: when all have finished. */
  async allSettled<const C extends readonly ChildJob<unknown>[]>(
    jobs: C,
    options: GroupOptions = {},
  ): Promise<{ -readonly [K in keyof C]: C[K] extends ChildJob<infer R> ? ChildResult<R> : never }> {
    const results = await children(this.#core, jobs, options.strategy ?? "collect_all", options.name);
    return results as { -readonly [K in keyof C]: C[K] extends ChildJob<infer R> ? ChildResult<R> : never };
  }

  /**
   * Starts a child that this job does not wait for, once across all attempts; returns its id. It is cancelled with this
   * job. A step named `start TYPE`.
   *
   * Throws a `StepError`, such as one with the code `unique_key_taken`.
   */
  start(job: ChildJob<unknown>): Promise<string> {
    return start(this.#core, job) as Promise<string>;
  }

  /**
   * Runs both until one is done and drops the other, in the same way in every attempt; if both are done, the left one
   * wins. Use it instead of `Promise.race`, whose winner a replay cannot know.
   */
  async race<L, R>(left: (signal: AbortSignal) => Promise<L>, right: (signal: AbortSignal) => Promise<R>): Promise<First<L, R>> {
    const { order } = this.#core;
    const sides = order.race();
    const dropping = new AbortController();
    const signal = AbortSignal.any([dropping.signal, this.abortSignal]);
    const [onLeft, onRight] = sides;
    try {
      return await Promise.race([
        inBranch(order, onLeft, async () => ({ side: "left" as const, value: await left(signal) })),
        inBranch(order, onRight, async () => ({ side: "right" as const, value: await right(signal) })),
      ]);
    } finally {
      const isDropped = (id: string) => sides.some((side) => id === side.id || id.startsWith(`${side.id}#`));
      for (const call of [...order.calls]) if (isDropped(call.branch.id)) call.drop();
      dropping.abort(new DOMException("the other side of the race was first", "AbortError"));
    }
  }

  /** Runs the step that threw `error`, or an error behind it, again in the next attempt if this attempt fails, whatever it fails with. */
  retryLater(error: unknown): void {
    for (const returned of causesOf(this.#core.order.errors, 0, error)) returned.isToBeRetried = true;
  }

  /** Saves a value, replacing the previous one; for work without steps. */
  async checkpoint(value: unknown): Promise<void> {
    let json: string;
    try {
      json = encode(value);
    } catch (error) {
      throw this.#core.notWritten(error);
    }
    await this.#core.save([[CHECKPOINT, json]]);
  }

  /** The value last given to `checkpoint`, in this attempt or an earlier one. */
  lastCheckpoint<T>(): T | undefined {
    return this.#core.saved(CHECKPOINT) as T | undefined;
  }

  /** Sets the job's progress, in percent from 0 to 100. */
  progress(percent: number, message?: string): Promise<void> {
    return this.#beat({ progress: message === undefined ? { percent } : { percent, message } });
  }

  /** Writes lines to the job's log. */
  log(...lines: string[]): Promise<void> {
    return this.#beat({ logs: lines });
  }

  /**
   * Adds a chunk to the job's partial output, for readers that follow it live: a token of a language model, a part of a
   * report. It is any value that JSON can have, at most 64 KiB. Chunks are written together. It need not be awaited; awaiting
   * it waits while the server is slower than the handler. After a failure the next attempt starts the output over, without
   * what saved steps wrote.
   */
  stream(chunk: unknown): Promise<void> {
    if (this.#core.isOver) return Promise.resolve();
    const added = this.#core.output.add(chunk);
    // A handler need not await it; an error that it did not see fails no attempt.
    added.catch(() => {});
    return added;
  }

  /** Shortens this attempt's time limit to this long from now. */
  limit(duration: Duration): Promise<void> {
    return this.#beat({ timeoutMs: toMillis(duration) });
  }

  /**
   * Submits jobs when this attempt completes, in the same commit: both happen, or neither. The worker's key must be allowed
   * to submit.
   */
  submitOnCompletion(...jobs: ChildJob<unknown>[]): void {
    if (this.#core.followUps.length + jobs.length > FOLLOW_UPS_MAX) {
      throw new Permanent(`at most ${FOLLOW_UPS_MAX} jobs can be submitted on completion`, { code: "not_allowed" });
    }
    this.#core.followUps.push(...jobs);
  }

  /** Adds costs; they are booked with the attempt's outcome. */
  cost(cents: number): void {
    if (!Number.isFinite(cents) || cents < 0) throw new RangeError(`costs are not negative, and finite: ${cents}`);
    this.#core.costCents += cents;
  }

  /** The time by the server's clock, the same in every attempt: a step. */
  async now(): Promise<Date> {
    return new Date(await this.step("now", () => this.#core.backend.now()));
  }

  /** A random number from 0 to 1, the same in every attempt: a step. */
  random(): Promise<number> {
    return this.step("random", () => Math.random());
  }

  /** A random UUID, the same in every attempt: a step. */
  uuid(): Promise<string> {
    return this.step("uuid", () => crypto.randomUUID() as string);
  }

  /** A key for this step that is the same in every attempt: for services that deduplicate requests. */
  idempotencyKey(step: string): string {
    return `${this.job.id}/${step}`;
  }

  #beat(beat: Parameters<Core["backend"]["beat"]>[0]): Promise<void> {
    if (this.#core.isOver) return Promise.resolve();
    const sent = this.#core.quiet.storing(() => this.#core.backend.beat(beat)).catch((error: unknown) => {
      throw this.#core.notWritten(error);
    });
    // A handler need not await it.
    sent.catch(() => {});
    return sent;
  }
}
