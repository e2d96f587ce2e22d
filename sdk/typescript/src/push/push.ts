/**
 * Push targets: the server posts the jobs of a queue to a web program, which needs no worker. A pushed job is one request:
 * it has no durable steps, sleeps or signals. Those are in `DurablePush`.
 */

import type { AnyJob, JobDefinition } from "../define.js";
import { toMillis } from "../duration.js";
import { Permanent, Snooze } from "../errors.js";
import { type Classify, chainOf, failureOf, messageOf } from "../failure.js";
import { encode } from "../json.js";
import { validate } from "../schema.js";
import { type ClaimedJob, payloadOf as claimedPayload } from "../worker/protocol.js";
import { type HeaderLines, InvalidSignature, type VerifyOptions, linesOf, secretsOf, verify } from "../webhooks.js";

/** What is known of a pushed job. */
export interface PushContext {
  readonly id: string;
  readonly type: string;
  readonly queue: string;
  readonly tenant: string;
  readonly attempt: number;
  /** Grows with every start: use it in conditional writes to reject stale attempts. */
  readonly fence: number;
  /** The key that the job was submitted with. */
  readonly key: string | undefined;
  readonly traceparent: string | undefined;
  /** Fires when the server closes the connection, because the job was cancelled or took too long. */
  readonly abortSignal: AbortSignal;
}

/** What to answer to a push. */
export interface PushAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** How pushes are checked and answered. */
export interface PushOptions extends VerifyOptions {
  /** Decides the category of errors that are no `Failure`. */
  readonly classify?: Classify;
  readonly onError?: (error: unknown, job: PushContext) => void;
}

type PushHandler = (payload: never, cx: PushContext) => unknown;

/** The content type of a push to a durable target: the job as a claim has it. */
export const CLAIM_TYPE = "application/vnd.windlass.claim+json";

/** The jobs that a web program runs. */
export class Push {
  readonly #handlers = new Map<string, { job: AnyJob; handler: PushHandler }>();

  /** Throws if the secret is missing or empty. */
  constructor(protected readonly options: PushOptions) {
    secretsOf(options.secret);
  }

  /** Adds the handler of a job. */
  on<P, I, O, R>(job: JobDefinition<P, I, O, R>, handler: (payload: I, cx: PushContext) => O | Promise<O>): this {
    if (this.has(job.name)) throw new Error(`there is a handler for ${JSON.stringify(job.name)} already`);
    this.#handlers.set(job.name, { job: job as AnyJob, handler: handler as PushHandler });
    return this;
  }

  /** Runs a pushed job. */
  async handle(body: Uint8Array, headers: HeaderLines, signal: AbortSignal): Promise<PushAnswer> {
    try {
      await verify(body, headers, this.options);
    } catch (error) {
      // Not a 4xx that would fail the job permanently: its operator can correct a wrong secret.
      if (error instanceof InvalidSignature) return answer(500, { error: error.message });
      throw error;
    }
    const lines = linesOf(headers);
    const cx = contextOf(lines, signal);
    const isClaim = (lines.get("content-type") ?? "").startsWith(CLAIM_TYPE);
    const claimed = isClaim ? (JSON.parse(new TextDecoder().decode(body)) as ClaimedJob) : undefined;
    return (await this.durably(claimed, lines, cx)) ?? (await this.#once(body, lines, cx, claimed));
  }

  /** Whether there is a handler for this type. */
  protected has(type: string): boolean {
    return this.#handlers.has(type);
  }

  /** Runs a job with steps; `undefined` if its handler has none. */
  protected async durably(_claimed: ClaimedJob | undefined, _lines: ReadonlyMap<string, string>, _cx: PushContext): Promise<PushAnswer | undefined> {
    return undefined;
  }

  async #once(body: Uint8Array, lines: ReadonlyMap<string, string>, cx: PushContext, claimed: ClaimedJob | undefined): Promise<PushAnswer> {
    const known = this.#handlers.get(cx.type);
    if (known === undefined) return answer(500, { error: `there is no handler for ${cx.type}` });
    try {
      const payload = claimed === undefined ? payloadOf(body, lines.get("content-type") ?? "") : claimedPayload(claimed);
      const input = await validated(known.job, payload);
      const output = await known.handler(input as never, cx);
      await validate(known.job.result, output, "the result");
      return { status: 200, headers: { "content-type": "application/json" }, body: encode(output) };
    } catch (error) {
      this.options.onError?.(error, cx);
      return this.#failed(error);
    }
  }

  /** Runs a pushed job of a `Request`: for Next.js route handlers, Hono, Deno, Bun and workers at the edge. */
  readonly fetch = async (request: Request): Promise<Response> => {
    const body = new Uint8Array(await request.arrayBuffer());
    const { status, headers, body: text } = await this.handle(body, request.headers, request.signal);
    return new Response(text, { status, headers });
  };

  #failed(error: unknown): PushAnswer {
    const snooze = chainOf(error).find((one): one is Snooze => one instanceof Snooze);
    if (snooze !== undefined) return later(toMillis(snooze.delay), messageOf(error));
    const failure = failureOf(error, this.options.classify);
    if (failure.retry_after !== undefined) return later(toMillis(failure.retry_after), failure.message);
    return answer(failure.category === "permanent" ? 422 : 500, { error: failure.message, code: failure.code });
  }
}

async function validated(job: AnyJob, payload: unknown): Promise<unknown> {
  try {
    return await validate(job.payload, payload, "the payload");
  } catch (error) {
    throw new Permanent(messageOf(error), { code: "payload_unreadable", cause: error });
  }
}

function contextOf(lines: ReadonlyMap<string, string>, abortSignal: AbortSignal): PushContext {
  const key = lines.get("windlass-idempotency-key");
  return {
    id: lines.get("windlass-job-id") ?? "",
    type: lines.get("windlass-job-type") ?? "",
    queue: lines.get("windlass-queue") ?? "",
    tenant: lines.get("windlass-tenant") ?? "",
    attempt: Number(lines.get("windlass-attempt")),
    fence: Number(lines.get("windlass-fence")),
    key: key === undefined ? undefined : decodeURIComponent(key),
    traceparent: lines.get("traceparent"),
    abortSignal,
  };
}

function payloadOf(body: Uint8Array, contentType: string): unknown {
  if (!/^application\/json\b/.test(contentType)) return body;
  return body.length === 0 ? null : JSON.parse(new TextDecoder().decode(body));
}

function later(ms: number, message: string): PushAnswer {
  return { ...answer(503, { error: message }), headers: { "retry-after": String(Math.ceil(ms / 1000)), "content-type": "application/json" } };
}

export function answer(status: number, body: Record<string, unknown>): PushAnswer {
  return { status, headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
}
