/** The state of one attempt that all kinds of calls share. */

import { ApiError, Failure, LeaseLost, Permanent, StepsChanged } from "../errors.js";
import { type Classify, type FailureBody, messageOf } from "../failure.js";
import { toMillis } from "../duration.js";
import type { ChildJob } from "../define.js";
import type { Backend, JobInfo } from "./backend.js";
import { Call } from "./call.js";
import { type CallRecord, SavedHistory, type StoredFailure, recordOf } from "./history.js";
import { Order, type Saved } from "./order.js";
import { Unwritable } from "../json.js";
import { Output } from "./output.js";
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
/** How long the record of a wait may stay unsaved while the job does not park; longer than it takes to park. */
const DEFERRED_MS_MAX = 50;
/** Time until a record that could not be saved is written again. */
const DEFERRED_AGAIN_MS = 200;

export class Core {
  #order: Order | undefined;
  #quiet: Quiet | undefined;
  #output: Output | undefined;
  #isOutputClosed = false;
  readonly exit: Promise<Exit>;
  /** Called when the attempt is asked to stop. */
  onCancel: (reason: CancelReason) => void = () => {};
  /** Made on first use: most handlers do not need it. */
  #controller: AbortController | undefined;
  costCents = 0;
  /** Jobs that are submitted when the attempt completes. */
  readonly followUps: ChildJob<unknown>[] = [];
  /** Records of waits that are written with the next write: the outcome, a group, or other records. */
  readonly deferred = new Map<string, string>();
  #flushing: ReturnType<typeof setTimeout> | undefined;
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
    this.exit = new Promise((resolve) => {
      this.#leave = resolve;
    });
  }

  /** The order of calls; made, as what follows, when a handler first needs it, because many make no calls. */
  get order(): Order {
    if (this.#order === undefined) {
      this.#order = new Order(new SavedHistory(this.#saved), this.options.lenientSteps !== true);
      this.#order.isStopping = this.reason !== undefined;
    }
    return this.#order;
  }

  get quiet(): Quiet {
    if (this.#quiet === undefined) {
      const { options, backend } = this;
      this.#quiet = new Quiet(this.order, {
        parkWaitMs: options.parkWaitMs ?? PARK_WAIT_MS,
        changedWaitMs: options.changedWaitMs,
        now: () => backend.now(),
        park: (awaited) => this.leave({ awaited, unplaced: this.order.besideEachOther() }),
        warn: (message) => this.warn(message),
      });
      if (this.isOver) this.#quiet.end();
    }
    return this.#quiet;
  }

  /** The partial output of the attempt. */
  get output(): Output {
    if (this.#output === undefined) {
      this.#output = new Output((offset, chunks) =>
        this.backend.stream(offset, chunks).catch((error: unknown) => {
          throw this.notWritten(error);
        }),
      );
      if (this.#isOutputClosed) this.#output.close();
    }
    return this.#output;
  }

  /** Writes output until the rest fits into the outcome. */
  async finishOutput(): Promise<void> {
    await this.#output?.finish();
  }

  /** No more output: the rest as JSON, for the outcome; `undefined` if all was written. */
  closeOutput(): string | undefined {
    this.#isOutputClosed = true;
    return this.#output?.close();
  }

  warn(message: string): void {
    this.options.warn?.(message);
  }

  /** Asks the handler to stop. The first reason is kept. */
  cancel(reason: CancelReason): void {
    if (this.reason !== undefined) return;
    if (this.#order !== undefined) this.#order.isStopping = true;
    // Before those who listen to the signal ask for it.
    this.reason = reason;
    this.onCancel(reason);
    this.#controller?.abort(stopped(reason));
  }
  reason: CancelReason | undefined;

  /** Fires when the attempt is asked to stop. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.reason !== undefined) this.#controller.abort(stopped(this.reason));
    }
    return this.#controller.signal;
  }

  /** Stops the handler here; it is never continued. */
  leave(exit: Exit): void {
    this.end();
    this.#leave(exit);
  }

  /** No call continues from now on. */
  end(): void {
    this.isOver = true;
    if (this.#flushing !== undefined) clearTimeout(this.#flushing);
    this.#quiet?.end();
  }

  /** Makes a call. It is counted at once, before anything is awaited, so that calls come in the order of the code. */
  call<T>(
    name: string,
    body: (call: Call, again: () => Promise<Call>) => Promise<T>,
    onCall: (call: Call) => void = () => {},
  ): Promise<T> {
    // The handler caught that its code was changed: nothing that it continues with may run.
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

  /** As `saveAfter`, for a call that now waits: what parks the job writes it in the same commit. */
  saveWithNext(call: Call, record?: Saved): void {
    const before = this.order.savedBefore(call);
    const records = record === undefined ? before : [...before, record];
    for (const [key, json] of records) {
      this.#saved.set(key, JSON.parse(json));
      this.deferred.set(key, json);
    }
    this.order.markSaved(before.map(([key]) => key));
    if (records.length > 0) this.#flushing ??= setTimeout(() => this.#flush(), DEFERRED_MS_MAX);
  }

  /** Work that runs beside a sleep must not keep the end of that sleep from being saved. */
  #flush(): void {
    this.#flushing = undefined;
    if (this.isOver || this.reason === "lost" || this.deferred.size === 0) return;
    // What fails here is written with the next write, or after a pause.
    this.#write([]).catch(() => { this.#flushing ??= setTimeout(() => this.#flush(), DEFERRED_AGAIN_MS); });
  }

  /** Writes records. Throws a `Failure`, or `LeaseLost`. */
  async save(records: readonly Saved[]): Promise<void> {
    if (records.length === 0) return;
    await this.#write(records);
    for (const [key, json] of records) this.#saved.set(key, JSON.parse(json));
  }

  async #write(records: readonly Saved[]): Promise<void> {
    const all = this.withDeferred(records);
    try {
      await this.storing(() => this.backend.save(all));
    } catch (error) {
      throw this.notWritten(error);
    }
    this.written(all);
  }

  /**
   * Runs a write to the store, after the output that the handler has written: a later attempt does not write the output of a
   * saved step again.
   */
  storing<T>(write: () => Promise<T>): Promise<T> {
    return this.quiet.storing(async () => {
      await this.#output?.flush();
      return await write();
    });
  }

  /** The records that wait, and these. They wait until they are `written`. */
  withDeferred(records: readonly Saved[]): Saved[] {
    if (this.deferred.size === 0 && records.length === 0) return [];
    return [...new Map([...this.deferred, ...records])];
  }

  written(records: readonly Saved[]): void {
    for (const [key, json] of records) if (this.deferred.get(key) === json) this.deferred.delete(key);
  }

  /** What an error of the store means for the attempt. */
  notWritten(error: unknown): Error {
    if (error instanceof LeaseLost) {
      this.cancel("lost");
      return error;
    }
    if (error instanceof Failure) return error;
    const message = messageOf(error);
    if (error instanceof Unwritable) return new Permanent(message, { code: "not_allowed", cause: error });
    if (error instanceof ApiError) {
      const isRefused = [400, 413, 422].includes(error.status);
      if (isRefused) return new Permanent(message, { code: "not_allowed", cause: error });
      if (error.code === "unique_key_taken") return new Failure(message, { code: error.code, cause: error });
    }
    return new Failure(message, { code: "not_written", cause: error });
  }
}

function stopped(reason: CancelReason): DOMException {
  return new DOMException(`the attempt was asked to stop: ${reason}`, "AbortError");
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
