/** A submitted job: its result, its events, and actions on it. */

import { CHECKPOINT, type Places } from "../context/history.js";
import { type Duration, toMillis, toText } from "../duration.js";
import { ApiError, JobFailed, ResultTimeout } from "../errors.js";
import { encode } from "../json.js";
import { type StandardSchemaV1, validate } from "../schema.js";
import { pause } from "../timing.js";
import { readEvents } from "./events.js";
import { type Call, type Http, encoded } from "./http.js";
import { type Job, type JobEvent, type SavedStep, type StreamChunk, isFinal } from "./job.js";

/** How long one request waits for the end of a job. */
const WAIT_MS = 30_000;
/** How long one request waits for more output. */
const STREAM_WAIT_MS = 20_000;
/** The least time between two such requests. */
const ASK_AGAIN_MS = 100;

/** The record of a step. */
interface StepRecord extends Places {
  readonly value?: unknown;
  readonly failure?: NonNullable<SavedStep["failure"]>;
}

/** A submitted job. */
export class Handle<Result> {
  /** Made by `submit` and `handle` of a client. */
  constructor(
    private readonly http: Http,
    readonly id: string,
    private readonly schema: StandardSchemaV1 | undefined,
    /** The job as it was submitted; `undefined` for a handle that was made of an id. */
    readonly submitted?: Job,
  ) {}

  /** The job as it is now. */
  get(): Promise<Job> {
    return this.http.ask<Job>(this.#call("GET", ""));
  }

  /**
   * Waits for the result. Throws `JobFailed` if the job ends without one, and `ResultTimeout` if it is not final in time;
   * without a timeout it waits for as long as the job takes.
   */
  async result(options: { readonly timeout?: Duration; readonly signal?: AbortSignal } = {}): Promise<Result> {
    const until = options.timeout === undefined ? Number.POSITIVE_INFINITY : Date.now() + toMillis(options.timeout);
    for (;;) {
      const waitMs = Math.max(0, Math.min(WAIT_MS, until - Date.now()));
      const call = { ...this.#call("GET", `?wait=${toText(waitMs)}`), waitMs, signal: options.signal };
      const askedAt = Date.now();
      const job = await this.http.ask<Job>(call);
      if (job.state === "completed") return (await validate(this.schema, job.result ?? null, "the result")) as Result;
      if (isFinal(job.state)) throw new JobFailed(this.id, job.state, job.error ?? null);
      const now = Date.now();
      if (now >= until) throw new ResultTimeout(`job ${this.id} is ${job.state}`);
      // A server that does not wait, such as one that is being stopped, must not be asked without end.
      await pause(Math.max(0, Math.min(ASK_AGAIN_MS - (now - askedAt), until - now)), options.signal);
    }
  }

  /** The job's events, from now on or after `after`, until it is final. Connects again if the stream breaks. */
  async *events(options: { readonly after?: number; readonly signal?: AbortSignal } = {}): AsyncGenerator<JobEvent> {
    let last = options.after;
    for (;;) {
      const query = `?job=${encoded(this.id)}${last === undefined ? "" : `&last_event_id=${last}`}`;
      const response = await this.http.send({ method: "GET", path: `/events${query}`, signal: options.signal });
      // An end before the stream began would not be announced on it.
      const isOver = last === undefined && isFinal((await this.get()).state);
      if (isOver) return void (await response.body?.cancel());
      try {
        for await (const { id, event, data } of readEvents(response.body!)) {
          if (event === "end") break;
          const seq = id === undefined ? undefined : Number(id);
          last = seq ?? last;
          const record = JSON.parse(data) as Record<string, unknown>;
          yield { event, seq, data: record };
          if (isEnd(event, record)) return;
        }
      } catch (error) {
        if (options.signal?.aborted || error instanceof ApiError) throw error;
      }
      if (isFinal((await this.get()).state)) return;
      await pause(100, options.signal);
      options.signal?.throwIfAborted();
    }
  }

  /** The job's progress whenever it has changed, until the job is final; asks every second by default. */
  async *progress(options: { readonly every?: Duration; readonly signal?: AbortSignal } = {}): AsyncGenerator<NonNullable<Job["progress"]>> {
    let last = "";
    for (;;) {
      const job = await this.get();
      const now = JSON.stringify(job.progress ?? null);
      if (job.progress && now !== last) yield job.progress;
      last = now;
      if (isFinal(job.state)) return;
      await pause(toMillis(options.every ?? "1s"), options.signal);
      options.signal?.throwIfAborted();
    }
  }

  /**
   * The job's partial output, chunk by chunk as it is written, until the job is final. A chunk with `restart` starts the output
   * over: the attempt before it failed. `after` is the number of the last chunk that is known.
   */
  async *stream<T = unknown>(options: { readonly after?: number; readonly signal?: AbortSignal } = {}): AsyncGenerator<StreamChunk<T>> {
    let after = options.after ?? 0;
    for (;;) {
      const askedAt = Date.now();
      const call = { ...this.#call("GET", `/stream?after=${after}&wait=${toText(STREAM_WAIT_MS)}`), waitMs: STREAM_WAIT_MS, signal: options.signal };
      const page = await this.http.ask<{ chunks: StreamChunk<T>[]; last: number; state: string }>(call);
      for (const chunk of page.chunks) {
        after = chunk.number;
        yield chunk;
      }
      if (isFinal(page.state) && after >= page.last) return;
      // A server that does not wait, such as one that is being stopped, must not be asked without end.
      if (page.chunks.length === 0) await pause(Math.max(0, ASK_AGAIN_MS - (Date.now() - askedAt)), options.signal);
      options.signal?.throwIfAborted();
    }
  }

  /** Cancels the job; a running handler is asked to stop. */
  cancel(reason?: string): Promise<Job> {
    return this.#act("cancel", { reason });
  }

  /** Suspends the job. A running attempt is refused, finishes first (`graceful`) or is stopped (`aggressive`). */
  suspend(options: { readonly mode?: "idle_only" | "graceful" | "aggressive"; readonly reason?: string } = {}): Promise<Job> {
    return this.#act("suspend", options);
  }

  resume(reason?: string): Promise<Job> {
    return this.#act("resume", { reason });
  }

  /** Sends a signal that the job waits for now or later. */
  async signal(name: string, value: unknown = null): Promise<void> {
    const body = `{"value":${encode(value)}}`;
    await this.http.ask({ ...this.#call("POST", `/signals/${encoded(name)}`), body });
  }

  /**
   * A token for a page in a browser: it reads this job, its result and its partial output, for 15 minutes by default, and
   * ends with this program's key. The page uses it as a key: `new Windlass({ url, key: token }).handle(job, id).result()`.
   */
  async token(options: { readonly expires?: Duration } = {}): Promise<string> {
    const body = JSON.stringify({ expires: options.expires === undefined ? undefined : `${toMillis(options.expires)}ms` });
    return (await this.http.ask<{ token: string }>({ ...this.#call("POST", "/tokens"), body, isRepeatable: true })).token;
  }

  /** Retries a final job as a new one. */
  async redrive(): Promise<Handle<Result>> {
    const job = await this.http.ask<Job>({ ...this.#call("POST", "/redrive"), body: "{}" });
    return new Handle(this.http, job.id, this.schema, job);
  }

  /** The steps that the job has saved, as the handler called them; steps within others come last. A failed one has no value. */
  async steps(): Promise<SavedStep[]> {
    const { checkpoints } = await this.http.ask<{ checkpoints: { step: string; value: unknown }[] }>(this.#call("GET", "/checkpoints"));
    const found = checkpoints.flatMap(({ step, value }): [place: number, step: SavedStep][] => {
      if (step === CHECKPOINT || typeof value !== "object" || value === null) return [];
      const { value: saved, failure, at, from } = value as StepRecord;
      const place = from ?? at ?? Number.MAX_SAFE_INTEGER;
      if (failure !== undefined) return [[place, { name: step, failure }]];
      return saved === undefined ? [] : [[place, { name: step, value: saved }]];
    });
    return found.sort(([a], [b]) => a - b).map(([, step]) => step);
  }

  /** The lines of the job's log. */
  async logs(): Promise<string[]> {
    const lines: string[] = [];
    for (let after = ""; ; ) {
      const page = await this.http.ask<{ logs: { text: string; number: number }[] }>(this.#call("GET", `/logs${after}`));
      lines.push(...page.logs.map(({ text }) => text));
      const last = page.logs.at(-1);
      if (last === undefined) return lines;
      after = `?after=${last.number}`;
    }
  }

  #act(action: string, body: Record<string, unknown>): Promise<Job> {
    return this.http.ask<Job>({ ...this.#call("POST", `/${action}`), body: JSON.stringify(body), isRepeatable: true });
  }

  #call(method: Call["method"], path: string): Call {
    return { method, path: `/jobs/${encoded(this.id)}${path}` };
  }
}

/** Whether the job is final after this event, or does not exist any more. */
function isEnd(event: string, data: Record<string, unknown>): boolean {
  const context = data["context"] as { state?: unknown } | undefined;
  return event === "job.ops.deleted" || (typeof context?.state === "string" && isFinal(context.state));
}
