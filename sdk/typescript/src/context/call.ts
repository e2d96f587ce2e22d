/** One call of a step, a sleep, a wait or a group of children, from its start until it ends or is dropped. */

import { Permanent, type Snooze, StepsChanged } from "../errors.js";
import type { Branch } from "./branch.js";
import { type CallRecord, KEY_CHARS_MAX, type Places, type StoredFailure, firstPlace, placesOf } from "./history.js";
import type { Order, Status } from "./order.js";
import type { Quiet } from "./quiet.js";
import { StepError } from "./reopen.js";

export class Call {
  readonly branch: Branch;
  readonly made: number;
  key: string;
  /** The step's own work is under way. */
  isWorking = false;
  /** The handler took another branch: the result of the call is ignored. */
  isDropped = false;
  #status: Status;
  /** Overlaps when the call was made; `undefined` if it has no order. */
  readonly #began: number | undefined;
  readonly #startedAt = Date.now();
  #isEarly = false;
  #hasEnded = false;

  constructor(
    private readonly order: Order,
    private readonly quiet: Quiet,
    private readonly name: string,
  ) {
    this.branch = order.branch();
    const { key, status } = order.nextOf(name, this.branch);
    this.key = key;
    this.#status = status;
    this.made = order.nextTick();
    order.lastMade = this.made;
    // A call inside a step does not run beside that step, and is made only if the step runs again.
    let isAlone = false;
    if (!this.branch.isNested) {
      if (order.active > 0) order.overlaps += 1;
      order.active += 1;
      isAlone = order.active === 1 && !this.branch.isSide && !order.isStopping;
    }
    this.#began = isAlone ? order.overlaps : undefined;
    order.calls.add(this);
    quiet.changed();
  }

  /** Whether earlier attempts have saved a result. */
  get isSaved(): boolean {
    return this.#status.kind === "saved";
  }

  /** Waits until the call may continue; throws if the code was changed. */
  async mayGoOn(): Promise<void> {
    while (this.#status.kind === "left_out") {
      const dropped = this.order.known.leftOut.get(this.key) ?? { places: {}, ranMs: 0, by: undefined };
      await this.quiet.wait({ kind: "left_out", ranMs: dropped.ranMs }, this);
      // Nothing else continues, so this is not the dropped call but the next one of its name.
      const next = this.order.nextOf(this.name, this.branch);
      this.key = next.key;
      this.#status = this.order.runsAfterAll(next.status, dropped);
      this.quiet.changed();
    }
    if (this.isSaved) {
      // As in its first run, it is not ready at once: calls beside it are made first.
      this.#isEarly = true;
      await Promise.resolve();
      this.#isEarly = false;
    }
    if (this.order.isStrict && !this.branch.isNested) {
      const before = this.#status.kind === "saved" ? (this.#status.places.at ?? 0) : Number.POSITIVE_INFINITY;
      if (!this.order.isTurn(before)) {
        this.#isEarly = true;
        const answer = await this.quiet.wait({ kind: this.isSaved ? "replay" : "turn", before }, this);
        this.#isEarly = false;
        if (answer === "changed") throw this.#changed();
      }
    }
    if ([...this.key].length > KEY_CHARS_MAX) {
      throw new Permanent(`the key of a call is longer than ${KEY_CHARS_MAX} characters: ${this.key}`, { code: "not_allowed" });
    }
  }

  #changed(): StepsChanged {
    const missing = this.order.known.firstMissing();
    const saved = missing === undefined ? "another call" : `\`${missing.key}\` as call ${missing.at}`;
    return new StepsChanged(
      `the code was changed: \`${this.key}\` is called where an earlier attempt saved ${saved}; let jobs that started ` +
        "before finish first, or use `lenientSteps`",
    );
  }

  /** The step's work starts. */
  begin(): void {
    this.isWorking = true;
    this.order.hasProgress = true;
    this.quiet.changed();
  }

  /** The places to save with; without a required one if it ran beside another call. */
  record(): CallRecord {
    if (this.branch.isNested) return {};
    const status = this.#status;
    if (status.kind === "saved") return { at: status.places.at, from: status.places.from };
    if (status.kind === "left_out") return {};
    const { place, from } = status;
    if (this.#began === this.order.overlaps) return { at: place, from };
    return { from: from ?? place, to: from === undefined ? undefined : place };
  }

  /** A part of the call is saved and the call continues: another call beside it may end first. */
  goesOn(record: CallRecord): void {
    if (record.at === undefined) return;
    const from = record.from ?? record.at;
    const to = record.from === undefined ? record.to : record.at;
    this.order.placed.set(this.key, JSON.stringify({ ...record, at: undefined, from, to }));
  }

  /** Ends the call with its saved result. */
  keep(): void {
    this.#hasEnded = true;
  }

  /** Ends the call with an error that is not saved yet, and returns the error for the handler. */
  fail(failure: StoredFailure, cause: unknown, snooze?: { error: Snooze; ms: number }): StepError | Snooze {
    const record: CallRecord = { ...this.record(), failure };
    if (snooze !== undefined) record.snooze_ms = snooze.ms;
    this.#hasEnded = true;
    if (cause !== undefined) this.order.reopenWithin(this.key, this.made, cause);
    // If the attempt was asked to stop, the error is not the step's own, and the call runs again.
    if (!this.order.isStopping) this.order.decideLater(this.key, record);
    const stack = cause instanceof Error ? cause.stack : undefined;
    return this.returns(failure, placesOf(record), snooze?.error, stack);
  }

  /** Ends the call with an error that is saved. */
  returns(failure: StoredFailure, places: Places, snooze?: Snooze, stack?: string): StepError | Snooze {
    this.#hasEnded = true;
    const error = snooze ?? new StepError(this.key, failure, stack);
    const ended = this.order.nextTick();
    this.order.errors.push({ key: this.key, places, error, message: failure.message, ended, isToBeRetried: false });
    return error;
  }

  /** The call is over, whatever it returned. */
  close(): void {
    if (!this.order.calls.delete(this)) return;
    this.isWorking = false;
    if (!this.branch.isNested) this.order.active -= 1;
    this.order.placed.delete(this.key);
    this.quiet.changed();
  }

  /** The handler continues without this call. */
  drop(): void {
    if (this.isDropped || !this.order.calls.has(this)) return;
    const record = this.#leftOut();
    this.isDropped = true;
    this.quiet.forget(this);
    this.close();
    if (record !== undefined) this.order.dropped(this.key, record);
  }

  #leftOut(): CallRecord | undefined {
    const status = this.#status;
    if (this.#hasEnded || this.order.isStopping || status.kind === "left_out") return undefined;
    // Its value was not given to the handler, and stays saved. A sleep's record only says that it began.
    const isUnderWay = this.name.startsWith("sleep:") || this.name.startsWith("children:");
    if (status.kind === "saved" && this.#isEarly && !isUnderWay) return undefined;
    const places: Places = this.branch.isNested
      ? {}
      : status.kind === "saved"
        ? status.places
        : { from: status.from ?? status.place };
    const by = this.order.droppedBy();
    const ran_ms = Date.now() - this.#startedAt;
    return { left_out: true, from: firstPlace(places), ran_ms, ...(by === undefined ? {} : { dropped_by: by }) };
  }
}
