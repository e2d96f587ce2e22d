/** Submissions as the API takes them. */

import type { AnyJob, ChildJob, Retry, SubmitOptions, Timeouts } from "./define.js";
import { toText } from "./duration.js";
import { encode } from "./json.js";
import { validate } from "./schema.js";

/** Fields of a submission but for the payload, which is JSON text already. */
export interface Submission {
  /** The whole submission as JSON. */
  readonly json: string;
  /** The options of it alone, for the SQL function. */
  readonly options: Readonly<Record<string, unknown>>;
  /** The payload as JSON, or its bytes. */
  readonly payload: string | Uint8Array;
}

/** Checks a payload and writes the submission of a job. */
export async function submissionOf(job: AnyJob, payload: unknown, options: SubmitOptions): Promise<Submission> {
  const isBytes = payload instanceof Uint8Array;
  await validate(job.payload, payload, `the payload of ${job.name}`);
  const fields = fieldsOf(job, options);
  const text = isBytes ? undefined : encode(payload);
  const body = text === undefined
    ? { type: job.name, ...fields, payload_base64: base64(payload as Uint8Array), content_type: "application/octet-stream" }
    : { type: job.name, ...fields };
  const json = JSON.stringify(body);
  return {
    json: text === undefined ? json : `${json.slice(0, -1)},"payload":${text}}`,
    options: isBytes ? { ...fields, content_type: "application/octet-stream" } : fields,
    payload: text ?? (payload as Uint8Array),
  };
}

/** The submission of a job that `child` made. */
export function childSubmission(child: ChildJob<unknown>): Promise<Submission> {
  return submissionOf(child.job as AnyJob, child.payload, child.options);
}

function fieldsOf(job: AnyJob, given: SubmitOptions): Record<string, unknown> {
  // What is given as `undefined` replaces nothing.
  const own = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as SubmitOptions;
  const options: SubmitOptions = { ...job.defaults, ...own };
  const tags = { ...job.defaults.tags, ...given.tags };
  const fields: Record<string, unknown> = {
    queue: options.queue,
    priority: options.priority,
    retry: options.retry && retryOf(options.retry),
    timeouts: timeoutsOf({ ...job.defaults.timeouts, ...given.timeouts }),
    tags: Object.keys(tags).length > 0 ? tags : undefined,
    idempotency_key: options.key,
    idempotency_window: options.keyWindow === undefined ? undefined : toText(options.keyWindow),
    unique_key: options.uniqueKey,
    concurrency_key: options.concurrencyKey,
    delay: options.delay === undefined ? undefined : toText(options.delay),
    run_at: options.runAt?.toISOString(),
    after: options.after,
    after_any: options.afterAny,
    requires_version: options.requiresVersion,
    correlation_id: options.correlationId,
    callback_url: options.callbackUrl,
    tenant: options.tenant,
    hold: options.hold,
    debounce: options.debounce && { key: options.debounce.key, delay: toText(options.debounce.delay) },
    traceparent: options.traceparent,
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

function retryOf(retry: Retry): unknown {
  if (typeof retry === "string") return retry;
  return {
    preset: retry.preset,
    strategy: retry.strategy,
    max_attempts: retry.maxAttempts,
    initial_delay: retry.initialDelay === undefined ? undefined : toText(retry.initialDelay),
    max_delay: retry.maxDelay === undefined ? undefined : toText(retry.maxDelay),
    multiplier: retry.multiplier,
    jitter: retry.jitter,
    retry_on: retry.retryOn,
  };
}

function timeoutsOf(timeouts: Timeouts): Record<string, string> | undefined {
  const given = Object.entries(timeouts).filter(([, limit]) => limit !== undefined);
  return given.length === 0 ? undefined : Object.fromEntries(given.map(([name, limit]) => [name, toText(limit)]));
}

/** Bytes as base64, in every runtime. */
export function base64(bytes: Uint8Array): string {
  let text = "";
  // In pieces: a call takes a limited number of arguments.
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}

/** The bytes of a base64 text. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
