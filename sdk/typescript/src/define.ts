/** Definitions of jobs, apart from their handlers: a web page or a client imports these alone. */

import type { Duration } from "./duration.js";
import type { InferInput, InferOutput, StandardSchemaV1 } from "./schema.js";

export type { Duration } from "./duration.js";
export type { InferInput, InferOutput, StandardSchemaV1 } from "./schema.js";

/** A retry policy: a preset, or values that replace those of `standard`. */
export type Retry =
  | "standard"
  | "fixed"
  | "backoff"
  | {
      readonly preset?: "standard" | "fixed" | "backoff";
      readonly strategy?: "constant" | "linear" | "exponential" | "custom";
      /** Attempts in all, the first included. */
      readonly maxAttempts?: number;
      readonly initialDelay?: Duration;
      readonly maxDelay?: Duration;
      readonly multiplier?: number;
      /** Random share of the delay, 0 to 1. */
      readonly jitter?: number;
      /** Where it comes from: by chance, or from the job's id and attempt, which is reproducible. */
      readonly jitterMode?: "random" | "hashed";
      /** Categories that are retried. */
      readonly retryOn?: readonly ("temporary" | "timeout" | "system" | "resource")[];
    };

/** Time limits of a job. */
export interface Timeouts {
  /** Longest duration of one attempt. */
  readonly execution?: Duration | undefined;
  /** How long a lease lasts without a heartbeat. */
  readonly lease?: Duration | undefined;
  /** Longest time from submission to a final state; waiting counts. */
  readonly lifetime?: Duration | undefined;
  /** Longest time from when the job can be claimed to its first start. */
  readonly start?: Duration | undefined;
}

/** What every submission of a job begins with. */
export interface JobDefaults {
  /** The queue, `default` if not given. */
  readonly queue?: string | undefined;
  /** 0 to 100, or a name. */
  readonly priority?: number | "critical" | "high" | "normal" | "low" | "bulk" | undefined;
  readonly retry?: Retry | undefined;
  readonly timeouts?: Timeouts | undefined;
  readonly tags?: Readonly<Record<string, string>> | undefined;
}

/** How to submit one job; what is given here replaces the definition's own. */
export interface SubmitOptions extends JobDefaults {
  /** A second submission with the same key returns the first job. */
  readonly key?: string | undefined;
  /** How long the key holds; 24 hours unless the server says otherwise. */
  readonly keyWindow?: Duration | undefined;
  /** At most one job with this key that is not final. */
  readonly uniqueKey?: string | undefined;
  /** Jobs with the same key share a concurrency limit. */
  readonly concurrencyKey?: string | undefined;
  readonly delay?: Duration | undefined;
  readonly runAt?: Date | undefined;
  /** Ids of jobs that must complete first; `@name` for one of the same batch. */
  readonly after?: readonly string[] | undefined;
  /** Ids of jobs of which one must be final first. */
  readonly afterAny?: readonly string[] | undefined;
  /** Its name for `after: ["@name"]` of other jobs in the same `submitAll`. */
  readonly batchName?: string | undefined;
  /** Only workers with exactly this `version` receive the job. */
  readonly requiresVersion?: string | undefined;
  readonly correlationId?: string | undefined;
  readonly callbackUrl?: string | undefined;
  readonly tenant?: string | undefined;
  /** Keep it in `created` until it is submitted by its id. */
  readonly hold?: boolean | undefined;
  readonly debounce?: { readonly key: string; readonly delay: Duration } | undefined;
  /** The W3C trace it belongs to. */
  readonly traceparent?: string | undefined;
}

/** Options of {@link defineJob} with schemas. */
export interface SchemaOptions<P extends StandardSchemaV1, R extends StandardSchemaV1 | undefined> extends JobDefaults {
  /** Checks payloads where they are submitted and where they are read. */
  readonly payload: P;
  /** Checks results where they are made and where they are read. */
  readonly result?: R;
}

/** A job that was not submitted yet: a child of another, or part of a batch. */
export interface ChildJob<Result> {
  readonly job: JobDefinition<never, unknown, unknown, Result>;
  readonly payload: unknown;
  readonly options: SubmitOptions;
}

/**
 * A type of job.
 *
 * `Payload` is what a caller submits and `Input` what the handler gets; they differ if the payload's schema converts.
 * `Output` is what the handler returns and `Result` what a caller gets.
 */
export interface JobDefinition<Payload, Input = Payload, Output = unknown, Result = Output> {
  /** The type's name on the server. */
  readonly name: string;
  readonly defaults: JobDefaults;
  readonly payload: StandardSchemaV1 | undefined;
  readonly result: StandardSchemaV1 | undefined;
  /** This job with a payload, for `cx.all` and batches. */
  child(payload: Payload, options?: SubmitOptions): ChildJob<Result>;
  /** Types only; never set. */
  readonly "~types"?: { input: Input; output: Output; result: Result };
}

/** A definition of any types. */
// biome-ignore lint: the types of a definition are both read and given, so only `any` stands for all of them
export type AnyJob = JobDefinition<any, any, any, any>;

const NAME = /^[A-Za-z][A-Za-z0-9_.:-]{0,254}$/;

/**
 * Defines a type of job.
 *
 * ```ts
 * export const email = defineJob<{ to: string }, { id: string }>("email.send", { queue: "mail" });
 * export const order = defineJob("order", { payload: z.object({ id: z.number() }), result: Receipt });
 * ```
 */
export function defineJob<P extends StandardSchemaV1, R extends StandardSchemaV1 | undefined = undefined>(
  name: string,
  options: SchemaOptions<P, R>,
): JobDefinition<
  InferInput<P>,
  InferOutput<P>,
  R extends StandardSchemaV1 ? InferInput<R> : unknown,
  R extends StandardSchemaV1 ? InferOutput<R> : unknown
>;
export function defineJob<Payload = unknown, Result = unknown>(
  name: string,
  options?: JobDefaults & { readonly payload?: undefined; readonly result?: undefined },
): JobDefinition<Payload, Payload, Result, Result>;
export function defineJob(
  name: string,
  options: JobDefaults & { readonly payload?: StandardSchemaV1 | undefined; readonly result?: StandardSchemaV1 | undefined } = {},
): AnyJob {
  if (!NAME.test(name)) {
    throw new RangeError(
      `${JSON.stringify(name)} cannot name a job: use letters, digits and _ . : -, at most 255, and begin with a letter`,
    );
  }
  const { payload, result, ...defaults } = options;
  const job: AnyJob = {
    name,
    defaults,
    payload,
    result,
    child: (payload, options = {}) => ({ job, payload, options }),
  };
  return job;
}
