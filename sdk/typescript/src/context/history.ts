/** The records of a job's calls, as protocol 1 stores them. */

import type { Category } from "../errors.js";

/** The key of the value that `cx.checkpoint` saves. */
export const CHECKPOINT = "checkpoint";

/** Prefixes of keys that the protocol uses itself. */
const RESERVED = ["sleep:", "signal:", "children:", "deadline:"];

/** Longest key, in characters. */
export const KEY_CHARS_MAX = 256;

/** Whether a step can have this name. */
export function isStepName(name: string): boolean {
  return typeof name === "string" && name !== "" && name !== CHECKPOINT && !name.includes("#") && !RESERVED.some((prefix) => name.startsWith(prefix));
}

/** A failure as a record stores it. */
export interface StoredFailure {
  category: Category;
  code: string | null;
  message: string;
  retry_after: { secs: number; nanos: number } | null;
  cause?: { message: string; code?: string | null }[];
}

/** When a group of children is decided. */
export type Strategy = "fail_fast" | "collect_all" | { readonly threshold: number };

/** Identifies a group of children, beside its name. */
export interface GroupShape {
  strategy: Strategy;
  count: number;
  types: string[];
}

/** The places of a call in the order of calls. */
export interface Places {
  at?: number | undefined;
  from?: number | undefined;
}

/** The saved result of one call. Fields that do not apply are left out. */
export interface CallRecord extends Places {
  to?: number | undefined;
  value?: unknown;
  failure?: StoredFailure;
  snooze_ms?: number;
  left_out?: true;
  ran_ms?: number;
  dropped_by?: string;
  open?: true;
  until?: number;
  lasts_ms?: number;
  group?: GroupShape;
  signal?: unknown;
  timeout?: boolean;
}

/** A call that the handler dropped. */
export interface Dropped {
  places: Places;
  ranMs: number;
  by: string | undefined;
}

/** The first place that a call took. */
export function firstPlace(places: Places): number | undefined {
  return places.from ?? places.at;
}

/** The record of a reopened call with these places. */
export function opened(places: Places): CallRecord {
  return { at: places.at, from: firstPlace(places), open: true };
}

export function placesOf(record: CallRecord): Places {
  return { at: record.at, from: record.from };
}

export function droppedOf(record: CallRecord): Dropped {
  return { places: placesOf(record), ranMs: record.ran_ms ?? 0, by: record.dropped_by };
}

/** The part of the saved records that the order of calls needs. */
export class SavedHistory {
  /** Calls that earlier attempts saved. */
  readonly places = new Map<string, Places>();
  readonly leftOut = new Map<string, Dropped>();
  /** Calls that run again, with their first place. */
  readonly open = new Map<string, number | undefined>();
  /** The first unused place. */
  nextPlace = 0;
  /** Saved calls that this attempt must make, in order of their places; those before `#made` were made. */
  #required: { at: number; key: string }[] = [];
  #made = 0;
  readonly #madeKeys = new Set<string>();
  /** Whether calls of earlier attempts ran side by side. */
  hasConcurrency = false;

  constructor(checkpoints: ReadonlyMap<string, unknown>) {
    // Places after a reopened call: the calls there may not be made any more.
    const optional: [number, number][] = [];
    for (const [key, value] of checkpoints) {
      if (key === CHECKPOINT || key.startsWith("deadline:")) continue;
      const record = recordOf(value);
      const last = Math.max(record.at ?? -1, record.from ?? -1, record.to ?? -1);
      this.nextPlace = Math.max(this.nextPlace, last + 1);
      const places = placesOf(record);
      const first = firstPlace(places);
      const end = record.open ? Number.POSITIVE_INFINITY : (record.at ?? record.to);
      if (first !== undefined && end !== undefined && first < end) optional.push([first, end]);
      if (record.at === undefined && record.from !== undefined) this.hasConcurrency = true;
      if (record.left_out) this.leftOut.set(key, droppedOf(record));
      else if (record.open) this.open.set(key, first);
      else this.places.set(key, places);
    }
    const isRequired = (at: number) => !optional.some(([first, end]) => first < at && at < end);
    for (const [key, { at }] of this.places) {
      if (at !== undefined && isRequired(at)) this.#required.push({ at, key });
    }
    this.#required.sort((a, b) => a.at - b.at || (a.key < b.key ? -1 : 1));
  }

  /** The first required call that this attempt has not made. */
  firstMissing(): { at: number; key: string } | undefined {
    return this.#required[this.#made];
  }

  markMade(key: string): void {
    this.#madeKeys.add(key);
    while (this.#made < this.#required.length && this.#madeKeys.has(this.#required[this.#made]!.key)) this.#made += 1;
  }

  /** Stops requiring calls saved after this place. */
  requireNothingAfter(place: number): void {
    this.#required = this.#required.filter(({ at }, index) => index < this.#made || at <= place);
  }
}

/** A checkpoint as a record; one that is something else has no fields. */
export function recordOf(value: unknown): CallRecord {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as CallRecord) : {};
}
