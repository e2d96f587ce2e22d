/** What a running job writes, sent to a server. Every write carries the job's fence. */

import { Batch } from "./batch.js";
import type { Http } from "../client/http.js";
import type { Backend, Beat, ChildView, GroupView, SpawnRequest, Spawned } from "../context/backend.js";
import type { Saved } from "../context/order.js";
import { checkpointsJson } from "../context/order.js";
import { parkBody } from "../context/waits.js";
import { ApiError, LeaseLost, Unreachable } from "../errors.js";
import { cut } from "../failure.js";
import { childSubmission } from "../submission.js";
import type { ClaimedJob } from "./protocol.js";

const LOG_LINE_BYTES_MAX = 8192;
const LOG_LINES_MAX = 1000;
const PROGRESS_MESSAGE_BYTES_MAX = 1024;
/** Children in one answer. */
const PAGE = 1000;

interface ChildrenPage {
  readonly groups: readonly { readonly group: number; readonly name: string; readonly decided?: string | null; readonly total: number }[];
  readonly children: readonly (ChildView & { readonly group: number })[];
  readonly next_cursor?: string | null;
}

interface SavedAnswer {
  readonly status: "saved" | "stale" | "rejected";
  readonly error?: { readonly code: string; readonly message: string; readonly details?: Record<string, unknown> };
}

/** The writes of all jobs of a worker: those that come at the same time share a request. */
export class Writes {
  readonly saves: Batch<SavedAnswer>;
  readonly beats: Batch<{ directive: string }>;
  /** Beats with log lines; a repeated line would be there twice. */
  readonly logs: Batch<{ directive: string }>;

  constructor(http: Http) {
    const batch = <A>(path: string, isRepeatable: boolean) =>
      new Batch<A>(async (workerId, items) => {
        const body = `{"worker_id":"${workerId}","jobs":[${items}]}`;
        return (await http.ask<{ jobs: A[] }>({ method: "POST", path, body, isRepeatable })).jobs;
      });
    this.saves = batch("/checkpoints", true);
    this.beats = batch("/heartbeats", true);
    this.logs = batch("/heartbeats", false);
  }
}

export class HttpBackend implements Backend {
  /** What is sent with the next request, and the request that is under way. */
  #next: { beat: Beat; sent: Promise<void> } | undefined;
  #sending: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly http: Http,
    private readonly writes: Writes,
    private readonly workerId: string,
    private readonly job: ClaimedJob,
    private readonly warn: (message: string) => void,
  ) {}

  now(): number {
    return this.http.now();
  }

  async save(records: readonly Saved[]): Promise<void> {
    const item = `{"id":"${this.job.id}","fence":${this.job.fence},"checkpoints":${checkpointsJson(records)}}`;
    const { status, error } = await this.#write(this.writes.saves.add(this.workerId, item));
    if (status === "stale") throw new LeaseLost(`job ${this.job.id} is not run here any more`);
    if (status !== "saved") throw new ApiError(422, error?.code ?? "rejected", error?.message ?? "it was rejected", error?.details ?? {}, undefined);
  }

  /** Sends progress and log lines; what comes while a request is under way shares the next one. */
  beat(beat: Beat): Promise<void> {
    if (this.#next !== undefined) {
      const { beat: earlier, sent } = this.#next;
      this.#next = { beat: { ...earlier, ...beat, logs: [...(earlier.logs ?? []), ...(beat.logs ?? [])] }, sent };
      return sent;
    }
    const sent = this.#sending.then(async () => {
      const next = this.#next?.beat ?? beat;
      this.#next = undefined;
      await this.#send(next);
    });
    this.#next = { beat, sent };
    this.#sending = sent.catch(() => {});
    return sent;
  }

  async #send(beat: Beat): Promise<void> {
    const logs = (beat.logs ?? []).map((line) => cut(String(line), LOG_LINE_BYTES_MAX));
    for (let at = 0; at === 0 || at < logs.length; at += LOG_LINES_MAX) {
      const lines = logs.slice(at, at + LOG_LINES_MAX);
      const { message } = beat.progress ?? {};
      const item = {
        id: this.job.id,
        fence: this.job.fence,
        progress: beat.progress && { ...beat.progress, message: message === undefined ? undefined : cut(message, PROGRESS_MESSAGE_BYTES_MAX) },
        logs: lines.length === 0 ? undefined : lines,
        timeout: beat.timeoutMs === undefined ? undefined : `${beat.timeoutMs}ms`,
      };
      const batch = lines.length === 0 ? this.writes.beats : this.writes.logs;
      const sent = this.#write(batch.add(this.workerId, JSON.stringify(item)));
      const { directive } = lines.length === 0 ? await sent : await sent.catch((error: unknown) => this.#mayBeLost(error));
      if (directive !== "continue") throw new LeaseLost(`job ${this.job.id} is not run here any more`);
    }
  }

  /** Log lines that may be lost fail no attempt: a repeat might write them twice. */
  #mayBeLost(error: unknown): { directive: string } {
    if (!(error instanceof Unreachable || (error instanceof ApiError && error.status >= 500))) throw error;
    this.warn(`log lines may be lost: ${error.message}`);
    return { directive: "continue" };
  }

  /** A repeat adds nothing twice. */
  async stream(offset: number, chunks: readonly string[]): Promise<void> {
    const path = `/jobs/${this.job.id}/stream`;
    const body = `{"fence":${this.job.fence},"worker_id":"${this.workerId}","offset":${offset},"chunks":[${chunks.join(",")}]}`;
    await this.#write(this.http.ask({ method: "POST", path, body, isRepeatable: true }));
  }

  async spawn({ name, strategy, jobs, beside, records }: SpawnRequest): Promise<Spawned> {
    const submissions = await Promise.all(jobs.map(childSubmission));
    const now = this.now();
    const parks = beside?.map((awaited) => parkBody([awaited], now));
    const park = beside === undefined ? false : undefined;
    const others = parks === undefined || parks.length === 0 ? undefined : parks;
    const head = JSON.stringify({ fence: this.job.fence, worker_id: this.workerId, name, strategy, park, beside: others });
    const checkpoints = records.length === 0 ? "" : `,"checkpoints":${checkpointsJson(records)}`;
    const body = `${head.slice(0, -1)}${checkpoints},"jobs":[${submissions.map(({ json }) => json).join(",")}]}`;
    // The same name finds the same group, so that a second request spawns nothing.
    const call = { method: "POST", path: `/jobs/${this.job.id}/children`, body, isRepeatable: true } as const;
    const answer = await this.#write(this.http.ask<{ parent: { state: string }; children: { id: string }[] }>(call));
    return { isRunning: answer.parent.state === "running", ids: answer.children.map(({ id }) => id) };
  }

  /** The group as it came with the claim, or as the server has it, page by page. */
  async group(name: string): Promise<GroupView | undefined> {
    const came = this.job.groups?.find((one) => one.name === name);
    let group: { group: number; decided?: string | null; total: number } | undefined = came;
    const children: ChildView[] = [...(came?.children ?? [])];
    let cursor = came?.next_cursor ?? undefined;
    while (group === undefined || cursor !== undefined) {
      const from = cursor === undefined ? "" : `&cursor=${encodeURIComponent(cursor)}`;
      const path = `/jobs/${this.job.id}/children?limit=${PAGE}&group=${encodeURIComponent(name)}${from}`;
      const answer: ChildrenPage = await this.#write(this.http.ask<ChildrenPage>({ method: "GET", path }));
      group ??= answer.groups.find((one) => one.name === name);
      if (group === undefined) return undefined;
      const { group: number } = group;
      children.push(...answer.children.filter((child) => child.group === number));
      cursor = answer.next_cursor ?? undefined;
    }
    return { decided: group.decided ?? null, total: group.total, children };
  }

  async #write<T>(request: Promise<T>): Promise<T> {
    try {
      return await request;
    } catch (error) {
      if (error instanceof ApiError && (error.code === "stale_fence" || error.status === 404)) {
        throw new LeaseLost(`job ${this.job.id} is not run here any more`, { cause: error });
      }
      throw error;
    }
  }
}
