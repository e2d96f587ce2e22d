/** A client: submits jobs to a server, and makes workers. */

import type { AnyJob, ChildJob, JobDefinition, SubmitOptions } from "../define.js";
import { jsonSchemaOf } from "../schema.js";
import { childSubmission, submissionOf } from "../submission.js";
import { Worker, type WorkerOptions } from "../worker/worker.js";
import { Handle } from "./handle.js";
import { type Call, Http, type HttpOptions } from "./http.js";
import type { Job } from "./job.js";
import { Schedules } from "./schedules.js";

/** Handles of submitted jobs, in the order of the input. */
export type Handles<C extends readonly ChildJob<unknown>[]> = {
  -readonly [K in keyof C]: C[K] extends ChildJob<infer R> ? Handle<R> : never;
};

/** A connection to a Windlass server. */
export class Windlass {
  /** Requests to the server's API that this class has no method for. */
  readonly http: Http;
  /** Jobs at times of the day, at intervals, or once. */
  readonly schedules: Schedules;

  constructor(options: HttpOptions = {}) {
    this.http = new Http(options);
    this.schedules = new Schedules(this.http);
  }

  /**
   * Submits a job. It is on disk once this returns. With `key` a repeated submission returns the first job, so that this
   * is repeated by itself if the answer was lost.
   */
  async submit<P, I, O, R>(job: JobDefinition<P, I, O, R>, payload: P, options: SubmitOptions = {}): Promise<Handle<R>> {
    const { json } = await submissionOf(job as AnyJob, payload, options);
    const call: Call = { method: "POST", path: "/jobs", body: json, isRepeatable: options.key !== undefined };
    const submitted = await this.http.ask<Job>(call);
    return new Handle<R>(this.http, submitted.id, job.result, submitted);
  }

  /** Submits up to 10,000 jobs, all or none, in one commit. */
  async submitAll<const C extends readonly ChildJob<unknown>[]>(jobs: C): Promise<Handles<C>> {
    if (jobs.length === 0) return [] as unknown as Handles<C>;
    const submissions = await Promise.all(jobs.map(childSubmission));
    const body = `{"jobs":[${submissions.map(({ json }) => json).join(",")}]}`;
    const isRepeatable = jobs.every(({ options }) => options.key !== undefined);
    const answer = await this.http.ask<{ jobs: Job[] }>({ method: "POST", path: "/jobs/batch", body, isRepeatable });
    const handles = answer.jobs.map((job, index) => new Handle(this.http, job.id, jobs[index]?.job.result, job));
    return handles as unknown as Handles<C>;
  }

  /**
   * Sets the JSON Schemas of types: from then on the server refuses payloads and results that do not match. They are given, or
   * those of the definition, if its library follows Standard JSON Schema. The key needs the role `admin`.
   */
  async registerSchemas(job: AnyJob, schemas: { readonly payload?: object | null; readonly result?: object | null } = {}): Promise<void> {
    const payload_schema = schemas.payload === undefined ? jsonSchemaOf(job.payload) : schemas.payload;
    const result_schema = schemas.result === undefined ? jsonSchemaOf(job.result) : schemas.result;
    const body = JSON.stringify({ payload_schema, result_schema });
    await this.http.ask({ method: "PUT", path: `/types/${encodeURIComponent(job.name)}`, body, isRepeatable: true });
  }

  /** A handle of a job that was submitted earlier or by another program. */
  handle<P, I, O, R>(job: JobDefinition<P, I, O, R>, id: string): Handle<R> {
    return new Handle<R>(this.http, id, job.result);
  }

  /** A worker; give it handlers with `on`, then `run` it. */
  worker(options: WorkerOptions = {}): Worker {
    return new Worker(this.http, options);
  }
}
