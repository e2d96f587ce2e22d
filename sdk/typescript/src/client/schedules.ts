/** Schedules: jobs that the server submits at times of the day, at intervals, or once. */

import type { ChildJob, JobDefinition } from "../define.js";
import { type Duration, toText } from "../duration.js";
import { childSubmission } from "../submission.js";
import { Handle } from "./handle.js";
import { type Call, type Http, encoded } from "./http.js";
import type { Job } from "./job.js";

/** What happens to runs that nothing started in time: none of them, the latest, or all (at most a hundred) are run. */
export type MissedRuns = "skip" | "once" | "all";

/** What a run does if the job of the run before it has not ended. */
export type Overlap = "allow" | "skip" | "cancel";

/** When a schedule runs: one of the three. */
export type Timing =
  | {
      /** Five fields, or six with seconds first: `"30 2 * * *"`; `@daily` and the like. */
      readonly cron: string;
      /** The time zone of `cron`, such as `Europe/Berlin`; `UTC`. */
      readonly timezone?: string;
      readonly every?: never;
      readonly at?: never;
    }
  /** An interval of a second at least, counted from the schedule's creation. */
  | { readonly every: Duration; readonly cron?: never; readonly timezone?: never; readonly at?: never }
  /** Once. */
  | { readonly at: Date; readonly cron?: never; readonly timezone?: never; readonly every?: never };

/** What `put` takes. */
export type ScheduleOptions = Timing & {
  /** What each run submits: `report.child(payload, options)`. It cannot have a `key`, `runAt` or dependencies. */
  readonly job: ChildJob<unknown>;
  /** `once` unless given. */
  readonly missed?: MissedRuns;
  /** `allow` unless given. */
  readonly overlap?: Overlap;
};

/** A schedule, with the API's own names. The server may add fields. */
export interface Schedule {
  readonly name: string;
  readonly tenant: string;
  readonly cron: string | null;
  readonly timezone: string | null;
  readonly every: string | null;
  readonly at: string | null;
  readonly missed: MissedRuns;
  readonly overlap: Overlap;
  /** The job of each run. Its payload is left out if the key may not read it; `redacted` says so. */
  readonly job: { readonly type: string; readonly queue: string; readonly payload?: unknown } & Readonly<Record<string, unknown>>;
  readonly redacted: boolean;
  readonly paused: { readonly by: string; readonly at: string; readonly reason: string | null; readonly expires_at: string | null } | null;
  /** The next runs, at most five; none of a deleted schedule. */
  readonly next_runs: readonly string[];
  readonly last_run: string | null;
  readonly last_job: string | null;
  /** How many jobs it has submitted. */
  readonly submitted: number;
  /** How many runs were skipped because the one before had not ended. */
  readonly overlapped: number;
  readonly last_refused: { readonly run: string; readonly at: string; readonly reason: string; readonly retried_until?: string | null } | null;
  readonly refusals: number;
  readonly created_at: string;
  readonly updated_at: string;
  readonly updated_by: string;
  readonly deleted_at?: string | null;
  readonly deleted_by?: string | null;
  /** Whether a change has changed anything. */
  readonly changed?: boolean;
}

/** Whose schedule is meant: needed if several tenants have one of this name, which a key of one tenant does not notice. */
export interface ScheduleScope {
  readonly tenant?: string;
}

/** The schedules of a server. Changes need a key with the role `operator` or `admin`; every role may read. */
export class Schedules {
  /** Made by a client. */
  constructor(private readonly http: Http) {}

  /**
   * Creates a schedule, or replaces the one of this name, which keeps its history. The same again changes nothing
   * (`changed` is false), so that a program may do this at every start.
   */
  async put(name: string, { job, ...options }: ScheduleOptions): Promise<Schedule> {
    const { cron, timezone, every, at, missed, overlap } = options;
    const timing = { cron, timezone, every: every === undefined ? undefined : toText(every), at: at?.toISOString() };
    const head = JSON.stringify({ ...timing, missed, overlap });
    const { json } = await childSubmission(job);
    const body = `${head === "{}" ? "{" : `${head.slice(0, -1)},`}"job":${json}}`;
    return await this.http.ask<Schedule>({ method: "PUT", path: pathOf(name), body, isRepeatable: true });
  }

  /** All schedules by name; with `deleted` those that can be restored. */
  async list({ deleted = false }: { readonly deleted?: boolean } = {}): Promise<Schedule[]> {
    const all: Schedule[] = [];
    for (let cursor: string | null | undefined; ; ) {
      const query = `?deleted=${deleted}${cursor ? `&cursor=${encoded(cursor)}` : ""}`;
      const page = await this.http.ask<{ schedules: Schedule[]; next_cursor: string | null }>({ method: "GET", path: `/schedules${query}` });
      all.push(...page.schedules);
      cursor = page.next_cursor;
      if (cursor === null) return all;
    }
  }

  /** One schedule. Throws an `ApiError` with the code `not_found` if there is none. */
  get(name: string, scope: ScheduleScope = {}): Promise<Schedule> {
    return this.http.ask<Schedule>({ method: "GET", path: pathOf(name, "", scope) });
  }

  /** Skips its runs until it is resumed, or for a while: `expires` is a duration or a time. */
  pause(name: string, options: ScheduleScope & { readonly reason?: string; readonly expires?: Duration | Date } = {}): Promise<Schedule> {
    const { expires, reason } = options;
    const until = expires instanceof Date ? expires.toISOString() : expires === undefined ? undefined : toText(expires);
    return this.#post<Schedule>(name, "/pause", options, { reason, expires: until }, true);
  }

  /** Ends its pause. Runs that were skipped are not made up for. */
  resume(name: string, options: ScheduleScope & { readonly reason?: string } = {}): Promise<Schedule> {
    return this.#post<Schedule>(name, "/resume", options, { reason: options.reason }, true);
  }

  /** Submits its job now, paused or not. With the job's definition the handle has its result's type. */
  async trigger<R = unknown>(name: string, job?: JobDefinition<never, unknown, unknown, R>, scope: ScheduleScope = {}): Promise<Handle<R>> {
    const submitted = await this.#post<Job>(name, "/trigger", scope, {}, false);
    return new Handle<R>(this.http, submitted.id, job?.result, submitted);
  }

  /** Deletes it. It can be restored for 35 days. */
  async delete(name: string, scope: ScheduleScope = {}): Promise<void> {
    await this.http.ask({ method: "DELETE", path: pathOf(name, "", scope) });
  }

  /** Creates a deleted schedule again, as it was. */
  restore(name: string, scope: ScheduleScope = {}): Promise<Schedule> {
    return this.#post<Schedule>(name, "/restore", scope, {}, false);
  }

  #post<T>(name: string, action: string, scope: ScheduleScope, body: Record<string, unknown>, isRepeatable: boolean): Promise<T> {
    const call: Call = { method: "POST", path: pathOf(name, action, scope), body: JSON.stringify(body), isRepeatable };
    return this.http.ask<T>(call);
  }
}

function pathOf(name: string, action = "", { tenant }: ScheduleScope = {}): string {
  return `/schedules/${encoded(name)}${action}${tenant === undefined ? "" : `?tenant=${encoded(tenant)}`}`;
}
