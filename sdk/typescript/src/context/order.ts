/**
 * The order of a job's calls. A strict worker runs them in the order in which earlier attempts saved them, except for
 * calls that ran side by side, which have no order. See `docs/protocol.md`.
 */

import { Branch, currentBranch, isWithin } from "./branch.js";
import { type CallRecord, type Dropped, type Places, type SavedHistory, droppedOf, firstPlace, opened } from "./history.js";
import type { Call } from "./call.js";
import { type Returned, causesOf } from "./reopen.js";

/** What earlier attempts saved for a call. */
export type Status =
  | { kind: "fresh"; place: number; from: number | undefined }
  | { kind: "saved"; places: Places }
  | { kind: "left_out" };

/** A call that ended without a value, and is not saved. */
interface Undecided {
  record: CallRecord;
  ended: number;
}

/** A record to save, as JSON. */
export type Saved = readonly [key: string, json: string];

/** Checkpoints as the API takes them. */
export function checkpointsJson(records: readonly Saved[]): string {
  return `[${records.map(([key, json]) => `{"step":${JSON.stringify(key)},"value":${json}}`).join(",")}]`;
}

/** The calls that this attempt has made, and the saved calls that it has not made yet. */
export class Order {
  /** Calls outside of steps that have not ended. */
  active = 0;
  /** How often a call outside of steps started beside another. */
  overlaps = 0;
  /** The attempt was asked to stop: calls that end without a value from now on run again. */
  isStopping = false;
  /** This attempt has done work or saved something. */
  hasProgress = false;
  /** When the last call was made. */
  lastMade = 0;
  /** Calls that have not ended. */
  readonly calls = new Set<Call>();
  /** Saved sleeps and groups with a place that have not ended, with their records without that place. */
  readonly placed = new Map<string, string>();
  readonly errors: Returned[] = [];
  readonly #undecided = new Map<string, Undecided>();
  /** Calls that were undecided in this attempt and are saved now. */
  readonly #settled = new Set<string>();
  readonly #dropped = new Map<string, Dropped>();
  readonly #occurrences = new Map<string, number>();
  readonly #races = new Map<string, number>();
  #tick = 0;

  constructor(
    readonly known: SavedHistory,
    /** Whether calls must come in their saved order. */
    readonly isStrict: boolean,
  ) {}

  nextTick(): number {
    this.#tick += 1;
    return this.#tick;
  }

  branch(): Branch {
    return currentBranch(this);
  }

  /** The two sides of a race that starts here. */
  race(): [Branch, Branch] {
    const branch = this.branch();
    const races = (this.#races.get(branch.id) ?? 0) + 1;
    this.#races.set(branch.id, races);
    return branch.sidesOf(races);
  }

  /** The key of the next call of a name, and what was saved for it. */
  nextOf(name: string, branch: Branch): { key: string; status: Status } {
    const counter = `${branch.id}\u0000${name}`;
    const occurrence = (this.#occurrences.get(counter) ?? 0) + 1;
    this.#occurrences.set(counter, occurrence);
    const key = branch.keyOf(name, occurrence);
    if (this.known.leftOut.has(key)) return { key, status: { kind: "left_out" } };
    const places = this.known.places.get(key);
    if (places !== undefined) {
      this.known.markMade(key);
      return { key, status: { kind: "saved", places } };
    }
    // Also within a step, where the place is not saved.
    const place = this.known.nextPlace;
    this.known.nextPlace += 1;
    return { key, status: { kind: "fresh", place, from: this.known.open.get(key) } };
  }

  /** Whether all required calls with a place before this one have been made. */
  isTurn(before: number): boolean {
    const missing = this.known.firstMissing();
    return missing === undefined || missing.at >= before;
  }

  /** Records that a call ended without a value. */
  decideLater(key: string, record: CallRecord): void {
    this.#undecided.set(key, { record, ended: this.nextTick() });
  }

  /** Records that the handler dropped a call. */
  dropped(key: string, record: CallRecord): void {
    this.#dropped.set(key, droppedOf(record));
    this.decideLater(key, record);
  }

  /** The records to save with `call` or before it: earlier calls without a value, and sleeps and groups beside it. */
  savedBefore(call: Call): Saved[] {
    const before = [...this.#undecided].filter(([, { ended }]) => ended < call.made);
    before.sort(([a], [b]) => (a < b ? -1 : 1));
    const records: Saved[] = before.map(([key, { record }]) => [key, JSON.stringify(record)]);
    for (const [key, record] of this.placed) if (key !== call.key) records.push([key, record]);
    return records;
  }

  /** Sleeps and groups that wait side by side, without their places. */
  besideEachOther(): Saved[] {
    return this.active <= 1 ? [] : [...this.placed];
  }

  /** Marks records as saved. */
  markSaved(keys: Iterable<string>): void {
    this.hasProgress = true;
    for (const key of keys) {
      this.placed.delete(key);
      const undecided = this.#undecided.get(key);
      if (undecided === undefined) continue;
      this.#undecided.delete(key);
      // One that runs again has nothing to reopen.
      if (undecided.record.open) this.#settled.delete(key);
      else this.#settled.add(key);
    }
  }

  /** The records that reopen the saved calls whose errors make up `error`, which fails the attempt. */
  reopenedBy(error: unknown): Saved[] {
    const returned = [...causesOf(this.errors, 0, error), ...this.errors.filter((one) => one.isToBeRetried)];
    const records = new Map(returned.map((one) => [one.key, opened(one.places)]));
    for (const [key, { places, by }] of [...this.known.leftOut, ...this.#dropped]) {
      if (by !== undefined && records.has(by)) records.set(key, opened(places));
    }
    for (const [key, { record }] of this.#undecided) if (record.open) records.set(key, opened({}));
    const isSaved = (key: string) => this.#settled.has(key) || this.known.places.has(key) || this.known.leftOut.has(key);
    return [...records].filter(([key]) => isSaved(key)).map(([key, record]) => [key, JSON.stringify(record)]);
  }

  /** A step failed with this error: if it runs again, the calls inside it with these errors run again too. */
  reopenWithin(key: string, made: number, error: unknown): void {
    for (const { key: inner } of causesOf(this.errors, made, error)) {
      if (!isWithin(inner, key)) continue;
      const dropped = [...this.known.leftOut, ...this.#dropped].filter(([, { by }]) => by === inner);
      for (const one of [...dropped.map(([key]) => key), inner]) this.decideLater(one, opened({}));
    }
  }

  /** Calls whose saved errors this attempt got, if it did nothing else: the next attempt would be the same. */
  stuckOn(): string[] {
    return this.hasProgress ? [] : this.errors.map((error) => error.key);
  }

  /** The key of the error that made the handler drop what it drops now. */
  droppedBy(): string | undefined {
    const last = this.errors.at(-1);
    return last !== undefined && last.ended > this.lastMade ? last.key : undefined;
  }

  /** Lets a call that the handler dropped earlier run after all: later calls may differ from those saved. */
  runsAfterAll(status: Status, dropped: Dropped): Status {
    const first = firstPlace(dropped.places);
    if (status.kind !== "fresh" || first === undefined) return status;
    this.known.requireNothingAfter(first);
    return { ...status, from: first };
  }
}
