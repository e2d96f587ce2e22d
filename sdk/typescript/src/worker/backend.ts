/** What a running job writes, sent to a server. Every write carries the job's fence. */

import type { Http } from "../client/http.js";
import type { Backend, Beat, GroupView, SpawnRequest } from "../context/backend.js";
import type { Saved } from "../context/order.js";
import { checkpointsJson } from "../context/order.js";
import { parkBody } from "../context/waits.js";
import type { ChildJob } from "../define.js";
import { ApiError, LeaseLost } from "../errors.js";
import { cut } from "../failure.js";
import { childSubmission, submissionOf } from "../submission.js";
import type { AnyJob } from "../define.js";
import type { ClaimedJob } from "./protocol.js";

const LOG_LINE_BYTES_MAX = 8192;
const LOG_LINES_MAX = 1000;
const PROGRESS_MESSAGE_BYTES_MAX = 1024;

export class HttpBackend implements Backend {
  /** What is sent with the next request, and the request that is under way. */
  #next: { beat: Beat; sent: Promise<void> } | undefined;
  #sending: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly http: Http,
    private readonly workerId: string,
    private readonly job: ClaimedJob,
  ) {}

  now(): number {
    return this.http.now();
  }

  async save(records: readonly Saved[]): Promise<void> {
    const path = `/jobs/${this.job.id}/checkpoints`;
    const body = `{"fence":${this.job.fence},"worker_id":"${this.workerId}","checkpoints":${checkpointsJson(records)}}`;
    await this.#write(this.http.ask({ method: "POST", path, body, isRepeatable: true }));
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
      const body = JSON.stringify({ worker_id: this.workerId, jobs: [item] });
      // A repeated log line would be there twice.
      const call = { method: "POST", path: "/heartbeats", body, isRepeatable: lines.length === 0 } as const;
      const answer = await this.#write(this.http.ask<{ jobs: { directive: string }[] }>(call));
      if (answer.jobs[0]?.directive !== "continue") throw new LeaseLost(`job ${this.job.id} is not run here any more`);
    }
  }

  async spawn({ name, strategy, jobs, beside, records }: SpawnRequest): Promise<{ isRunning: boolean }> {
    const submissions = await Promise.all(jobs.map(childSubmission));
    const now = this.now();
    const parks = beside.map((awaited) => parkBody([awaited], now));
    const head = JSON.stringify({ fence: this.job.fence, worker_id: this.workerId, name, strategy, beside: parks.length > 0 ? parks : undefined });
    const checkpoints = records.length === 0 ? "" : `,"checkpoints":${checkpointsJson(records)}`;
    const body = `${head.slice(0, -1)}${checkpoints},"jobs":[${submissions.map(({ json }) => json).join(",")}]}`;
    // The same name finds the same group, so that a second request spawns nothing.
    const call = { method: "POST", path: `/jobs/${this.job.id}/children`, body, isRepeatable: true } as const;
    const answer = await this.#write(this.http.ask<{ parent: { state: string } }>(call));
    return { isRunning: answer.parent.state === "running" };
  }

  async group(name: string): Promise<GroupView | undefined> {
    const path = `/jobs/${this.job.id}/children?group=${encodeURIComponent(name)}`;
    const answer = await this.#write(
      this.http.ask<{ groups: { name: string; decided?: string | null; total: number }[]; children: GroupView["children"] }>({ method: "GET", path }),
    );
    const group = answer.groups.find((one) => one.name === name);
    return group && { decided: group.decided ?? null, total: group.total, children: answer.children };
  }

  async submit(job: ChildJob<unknown>, key: string): Promise<string> {
    const options = { correlationId: this.job.correlation_id ?? undefined, traceparent: this.job.traceparent ?? undefined };
    const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
    const { json } = await submissionOf(job.job as AnyJob, job.payload, { key, ...given, ...job.options });
    const answer = await this.http.ask<{ id: string }>({ method: "POST", path: "/jobs", body: json, isRepeatable: true });
    return answer.id;
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
