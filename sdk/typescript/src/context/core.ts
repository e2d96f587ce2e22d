/** The state of one attempt that all kinds of calls share. */

import { ApiError, Failure, LeaseLost, Permanent, StepsChanged } from "../errors.js";
import { type Classify, type FailureBody, messageOf } from "../failure.js";
import { toMillis } from "../duration.js";
import type { Backend, JobInfo } from "./backend.js";
import { Call } from "./call.js";
import { type CallRecord, SavedHistory, type StoredFailure, recordOf } from "./history.js";
import { Order, type Saved } from "./order.js";
import { type Awaited, Quiet } from "./quiet.js";

/** Why an attempt should stop. */
export type CancelReason = "cancelled" | "suspended" | "timeout" | "lost" | "released" | "unreachable";

/** How handlers are run. */
export interface RunOptions {
  /** Lets jobs continue whose saved steps do not match the code. */
  readonly lenientSteps?: boolean;
  /** How long a handler may do work outside of steps before its job parks, in milliseconds. */
  readonly parkWaitMs?: number;
  /** How long a call waits for calls that were saved before it until the code counts as changed, in milliseconds. */
  readonly changedWaitMs?: number | undefined;
  readonly classify?: Classify | undefined;
  readonly warn?: (message: string) => void;
  /** Called when the work of a step starts; for tests. */
  readonly onStep?: (key: string) => void;
}

/** Why a handler stopped before it finished: it parks on these, the server has parked it already, or this error. */
export type Exit =
  | { readonly awaited: readonly Awaited[]; readonly unplaced: readonly Saved[] }
  | { readonly error: unknown }
  | "parked";

const PARK_WAIT_MS = 10;

export class Core {
  readonly order: Order;
  readonly quiet: Quiet;
  readonly exit: Promise<Exit>;
  readonly controller = new AbortController();
  costCents = 0;
  /** The handler has stopped: calls made from now on never return. */
  isOver = false;
  /** The code was changed: the attempt fails with this, also if the handler catches it. */
  changed: StepsChanged | undefined;
  #leave: (exit: Exit) => void = () => {};
  readonly #saved: Map<string, unknown>;

  constructor(
    readonly job: JobInfo,
    readonly backend: Backend,
    checkpoints: Iterable<readonly [string, unknown]>,
    readonly options: RunOptions,
  ) {
    this.#saved = new Map(checkpoints);
    this.order = new Order(new SavedHistory(this.#saved), options.lenientSteps !== true);
    this.exit = new Promise((resolve) => {
      this.#leave = resolve;
    });
    this.quiet = new Quiet(this.order, {
      parkWaitMs: options.parkWaitMs ?? PARK_WAIT_MS,
      changedWaitMs: options.changedWaitMs,
      now: () => backend.now(),
      park: (awaited) => this.leave({ awaited, unplaced: this.order.besideEachOther() }),
      warn: (message) => this.warn(message),
    });
  }

  warn(message: string): void {
    this.options.warn?.(message);
  }

  /** Tells the handler to stop. The first reason is kept. */
  cancel(reason: CancelReason): void {
    if (this.controller.signal.aborted) return;
    this.order.isStopping = true;
    // Before those who listen to the signal ask for it.
    this.reason = reason;
    this.controller.abort(new DOMException(`the attempt was told to stop: ${reason}`, "AbortError"));
  }
  reason: CancelReason | undefined;

  /** Stops the handler here; it is never continued. */
  leave(exit: Exit): void {
    this.end();
    this.#leave(exit);
  }

  /** No call continues from now on. */
  end(): void {
    this.isOver = true;
    this.quiet.end();
  }

  /** Makes a call. It is counted at once, before anything is awaited, so that calls come in the order of the code. */
  call<T>(
    name: string,
    body: (call: Call, again: () => Promise<Call>) => Promise<T>,
    onCall: (call: Call) => void = () => {},
  ): Promise<T> {
    // The handler caught that its code was changed: nothing that it goes on with may run.
    if (this.changed !== undefined && !this.isOver) this.leave({ error: this.changed });
    if (this.isOver) return new Promise(() => {});
    let call = new Call(this.order, this.quiet, name);
    onCall(call);
    const again = async () => {
      call.keep();
      call.close();
      call = new Call(this.order, this.quiet, name);
      await call.mayGoOn();
      return call;
    };
    const run = async () => {
      try {
        await call.mayGoOn();
        return await body(call, again);
      } finally {
        call.close();
      }
    };
    const isGone = () => call.isDropped || this.isOver;
    const result = new Promise<T>((resolve, reject) => {
      run().then(
        (value) => isGone() || resolve(value),
        (error: unknown) => {
          if (isGone()) return;
          if (error instanceof StepsChanged) this.changed ??= error;
          reject(error);
        },
      );
    });
    // A handler that does not await a call must not end the process.
    result.catch(() => {});
    return result;
  }

  /** What earlier attempts saved for a call. */
  savedBy(call: Call): CallRecord | undefined {
    return call.isSaved ? recordOf(this.#saved.get(call.key)) : undefined;
  }

  saved(key: string): unknown {
    return this.#saved.get(key);
  }

  /** Saves a call's record, after those of earlier calls that ended without a value. */
  async saveCall(call: Call, record: CallRecord, valueJson?: string): Promise<void> {
    const json = JSON.stringify(record);
    const comma = json === "{}" ? "" : ",";
    await this.saveAfter(call, [call.key, valueJson === undefined ? json : `${json.slice(0, -1)}${comma}"value":${valueJson}}`]);
  }

  async saveAfter(call: Call, record?: Saved): Promise<void> {
    const before = this.order.savedBefore(call);
    await this.save(record === undefined ? before : [...before, record]);
    this.order.markSaved(before.map(([key]) => key));
  }

  /** Writes records. Throws a `Failure`, or `LeaseLost`. */
  async save(records: readonly Saved[]): Promise<void> {
    if (records.length === 0) return;
    try {
      await this.quiet.storing(() => this.backend.save(records));
    } catch (error) {
      throw this.notWritten(error);
    }
    for (const [key, json] of records) this.#saved.set(key, JSON.parse(json));
  }

  /** What an error of the store means for the attempt. */
  notWritten(error: unknown): Error {
    if (error instanceof LeaseLost) {
      this.cancel("lost");
      return error;
    }
    if (error instanceof Failure) return error;
    const message = messageOf(error);
    if (error instanceof ApiError) {
      const isRefused = [400, 413, 422].includes(error.status);
      if (isRefused) return new Permanent(message, { code: "not_allowed", cause: error });
      if (error.code === "unique_key_taken") return new Failure(message, { code: error.code, cause: error });
    }
    return new Failure(message, { code: "not_written", cause: error });
  }
}

/** A failure as a record stores it. */
export function stored(failure: FailureBody): StoredFailure {
  const wait = failure.retry_after === undefined ? undefined : toMillis(failure.retry_after);
  const record: StoredFailure = {
    category: failure.category,
    code: failure.code ?? null,
    message: failure.message,
    retry_after: wait === undefined ? null : { secs: Math.floor(wait / 1000), nanos: (wait % 1000) * 1_000_000 },
  };
  if (failure.cause !== undefined) record.cause = failure.cause;
  return record;
}
