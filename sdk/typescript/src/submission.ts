/** Submissions as the API takes them. */

import type { AnyJob, ChildJob, Retry, SubmitOptions, Timeouts } from "./define.js";
import { type Duration, toText } from "./duration.js";
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
  const {
    queue, priority, retry, delay, runAt, after, tenant, hold, debounce, traceparent, key, keyWindow, uniqueKey, concurrencyKey,
    afterAny, batchName, requiresVersion, correlationId, callbackUrl, timeouts: _, tags: __, ...unknown
  } = options;
  noneOf(unknown, "a submission");
  if (runAt !== undefined && !(runAt instanceof Date)) throw new TypeError(`runAt is not a Date: ${JSON.stringify(runAt)}`);
  const tags = { ...job.defaults.tags, ...given.tags };
  const fields: Record<string, unknown> = {
    queue, priority, after, tenant, hold, traceparent,
    name: batchName,
    retry: retry && retryOf(retry),
    timeouts: timeoutsOf({ ...job.defaults.timeouts, ...given.timeouts }),
    tags: Object.keys(tags).length > 0 ? tags : undefined,
    idempotency_key: key,
    idempotency_window: optionalText(keyWindow),
    unique_key: uniqueKey,
    concurrency_key: concurrencyKey,
    delay: optionalText(delay),
    run_at: runAt?.toISOString(),
    after_any: afterAny,
    requires_version: requiresVersion,
    correlation_id: correlationId,
    callback_url: callbackUrl,
    debounce: debounce && { key: debounce.key, delay: toText(debounce.delay) },
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/** Refuses options that programs without types have spelt wrongly, and which would have no effect. */
function noneOf(unknown: Record<string, never>, what: string): void {
  const [name] = Object.keys(unknown);
  if (name !== undefined) throw new TypeError(`${what} has no option ${JSON.stringify(name)}`);
}

function optionalText(duration: Duration | undefined): string | undefined {
  return duration === undefined ? undefined : toText(duration);
}

function retryOf(retry: Retry): unknown {
  if (typeof retry === "string") return retry;
  const { preset, strategy, multiplier, jitter, jitterMode, maxAttempts, initialDelay, maxDelay, retryOn, ...unknown } = retry;
  noneOf(unknown, "a retry policy");
  return {
    preset, strategy, multiplier, jitter,
    jitter_mode: jitterMode,
    max_attempts: maxAttempts,
    initial_delay: optionalText(initialDelay),
    max_delay: optionalText(maxDelay),
    retry_on: retryOn,
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
