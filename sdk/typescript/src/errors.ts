/** Errors: those that handlers throw to say how the job continues, and those that callers get. */

import { type Duration, toMillis, toText } from "./duration.js";

/** The category of a failure; it decides whether the job is retried. */
export type Category = "temporary" | "permanent" | "timeout" | "cancelled" | "system" | "resource";

/** What a failure consists of. */
export interface FailureOptions {
  /** `temporary` if not given. */
  readonly category?: Category | undefined;
  /** A stable code for programs. */
  readonly code?: string | undefined;
  /** Delay before the next attempt, instead of the policy's backoff. */
  readonly retryAfter?: Duration | undefined;
  /** The error behind this one. */
  readonly cause?: unknown;
}

/** A failure with a category. Thrown by a handler or a step it fails the attempt as it says. */
export class Failure extends Error {
  override readonly name: string = "Failure";
  readonly category: Category;
  readonly code: string | undefined;
  readonly retryAfter: Duration | undefined;

  constructor(message: string, options: FailureOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.category = options.category ?? "temporary";
    this.code = options.code;
    this.retryAfter = options.retryAfter;
  }
}

/** The job fails and is not retried: a retry would fail the same way. */
export class Permanent extends Failure {
  override readonly name: string = "Permanent";

  constructor(message: string, options: Omit<FailureOptions, "category" | "retryAfter"> = {}) {
    super(message, { ...options, category: "permanent" });
  }
}

/** The code does not match what earlier attempts saved: the attempt fails with this, also if the handler catches it. */
export class StepsChanged extends Permanent {
  override readonly name = "StepsChanged";

  constructor(message: string) {
    super(message, { code: "steps_changed" });
  }
}

/** The attempt fails and the next one begins after this delay, whatever the retry policy says. */
export class RetryAfter extends Failure {
  override readonly name: string = "RetryAfter";

  constructor(delay: Duration, message = "to be retried later", options: Omit<FailureOptions, "category" | "retryAfter"> = {}) {
    super(message, { ...options, category: "temporary", retryAfter: toMillis(delay) });
  }
}

/** The job runs again after this delay, and no failure is counted. */
export class Snooze extends Error {
  override readonly name = "Snooze";
  /** In milliseconds, however it was given: the same when it is read back from a record. */
  readonly delay: number;

  constructor(delay: Duration) {
    super(`snoozed for ${toText(delay)}`);
    this.delay = toMillis(delay);
  }
}

/** The lease of this attempt was lost: another worker may have the job, and nothing was written. */
export class LeaseLost extends Error {
  override readonly name = "LeaseLost";
}

/** An error that the server answered with. */
export class ApiError extends Error {
  override readonly name = "ApiError";

  constructor(
    /** The HTTP status. */
    readonly status: number,
    /** The stable code, such as `not_found`. */
    readonly code: string,
    message: string,
    /** More about the error, such as `field`. */
    readonly details: Readonly<Record<string, unknown>>,
    /** How long to wait before another try, in milliseconds, if the server said so. */
    readonly retryAfterMs: number | undefined,
  ) {
    super(message);
  }
}

/** The server could not be reached. */
export class Unreachable extends Error {
  override readonly name = "Unreachable";
}

/** The server speaks another worker protocol: this program's worker ends, because it might run steps twice. */
export class OtherProtocol extends Error {
  override readonly name = "OtherProtocol";

  constructor(
    readonly server: number,
    readonly own: number,
  ) {
    super(`the server speaks worker protocol ${server}, this program ${own}: use versions that speak the same one`);
  }
}

/** The error of a job as the server stores it. */
export interface JobError {
  readonly category: Category;
  readonly code?: string | null;
  readonly message: string;
  readonly attempt: number;
  readonly at: string;
  readonly cause?: readonly { readonly message: string; readonly code?: string | null }[];
}

/** A job ended without a result. */
export class JobFailed extends Error {
  override readonly name: string = "JobFailed";

  constructor(
    /** The job's id. */
    readonly jobId: string,
    /** Its final state: `failed`, `dead_letter` or `cancelled`. */
    readonly state: string,
    /** Its last error, if one was stored. */
    readonly error: JobError | null,
  ) {
    super(`job ${jobId} is ${state}${error ? `: ${error.message}` : ""}`);
  }
}

/** A job was not final in time. It continues; ask again. */
export class ResultTimeout extends Error {
  override readonly name = "ResultTimeout";
}
