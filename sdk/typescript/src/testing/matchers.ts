/** Matchers of vitest for jobs: each asks the server for the job as it is now, and says on failure why it is not as expected. */

import type { Handle } from "../client/handle.js";
import type { Job, JobState } from "../client/job.js";

/** What is expected of a failed job; what is left out may be anything. */
export interface ExpectedFailure {
  readonly state?: "failed" | "dead_letter";
  readonly code?: string;
  readonly category?: string;
  /** A part of the message, or a pattern. */
  readonly message?: string | RegExp;
}

/** The matchers, for `expect(handle)`. All of them are asynchronous: `await expect(handle).toHaveCompleted()`. */
export interface JobMatchers<_T = unknown> {
  /** The job has completed, with this result if one is given; `expect.objectContaining` and the like may be used. */
  toHaveCompleted(result?: unknown): Promise<void>;
  /** The job is `failed` or `dead_letter`, with this code or these properties of its error if they are given. */
  toHaveFailed(expected?: string | ExpectedFailure): Promise<void>;
  /** The job was cancelled. */
  toHaveBeenCancelled(): Promise<void>;
  /** The job is in this state, such as `waiting`. */
  toHaveState(state: JobState): Promise<void>;
  /** A step of the job has returned and was saved, with this value if one is given. */
  toHaveSavedStep(name: string, value?: unknown): Promise<void>;
}

/** The part of a matcher's `this` that is used. */
interface Matching {
  readonly isNot?: boolean;
  equals(a: unknown, b: unknown): boolean;
  readonly utils: { printExpected(value: unknown): string; printReceived(value: unknown): string };
}

interface Verdict {
  readonly pass: boolean;
  readonly message: () => string;
  readonly actual?: unknown;
  readonly expected?: unknown;
}

export const matchers = {
  async toHaveCompleted(this: Matching, received: unknown, ...expected: [result?: unknown]): Promise<Verdict> {
    const job = await jobOf(received);
    if (job.state !== "completed") return verdict(this, false, job, "to have completed");
    if (expected.length === 0) return verdict(this, true, job, "to have completed");
    const result = job.result ?? null;
    const wanted = expected[0] ?? null;
    const { printExpected, printReceived } = this.utils;
    return {
      pass: this.equals(result, wanted),
      message: () => `expected ${named(job)}${not(this)} to have completed with ${printExpected(wanted)}, it did with ${printReceived(result)}`,
      actual: result,
      expected: wanted,
    };
  },

  async toHaveFailed(this: Matching, received: unknown, expected: string | ExpectedFailure = {}): Promise<Verdict> {
    const job = await jobOf(received);
    const wanted = typeof expected === "string" ? { code: expected } : expected;
    const isFailed = job.state === "failed" || job.state === "dead_letter";
    const clause = Object.keys(wanted).length === 0 ? "to have failed" : `to have failed with ${this.utils.printExpected(wanted)}`;
    return verdict(this, isFailed && isAsExpected(job, wanted), job, clause);
  },

  async toHaveBeenCancelled(this: Matching, received: unknown): Promise<Verdict> {
    const job = await jobOf(received);
    return verdict(this, job.state === "cancelled", job, "to have been cancelled");
  },

  async toHaveState(this: Matching, received: unknown, state: JobState): Promise<Verdict> {
    const job = await jobOf(received);
    return verdict(this, job.state === state, job, `to be ${state}`);
  },

  async toHaveSavedStep(this: Matching, received: unknown, name: string, ...expected: [value?: unknown]): Promise<Verdict> {
    const handle = handleOf(received);
    const [job, steps] = await Promise.all([handle.get(), handle.steps()]);
    const { printExpected, printReceived } = this.utils;
    const saved = steps.find((step) => step.name === name && step.failure === undefined);
    const hasValue = saved !== undefined && (expected.length === 0 || this.equals(saved.value, expected[0] ?? null));
    const clause = `to have saved the step ${printExpected(name)}${expected.length === 0 ? "" : ` with ${printExpected(expected[0])}`}`;
    const values = steps.map(({ name, value, failure }) => (failure ? `${name}, which failed: ${failure.message}` : `${name} = ${printReceived(value)}`));
    return {
      pass: hasValue,
      message: () => `expected ${named(job)}${not(this)} ${clause}; saved are: ${values.length === 0 ? "none" : values.join(", ")}`,
    };
  },
};

function isAsExpected(job: Job, { state, code, category, message }: ExpectedFailure): boolean {
  if (state !== undefined && job.state !== state) return false;
  if (code !== undefined && job.error?.code !== code) return false;
  if (category !== undefined && job.error?.category !== category) return false;
  const text = job.error?.message ?? "";
  return message === undefined || (typeof message === "string" ? text.includes(message) : message.test(text));
}

function verdict(matching: Matching, pass: boolean, job: Job, clause: string): Verdict {
  return { pass, message: () => `expected ${named(job)}${not(matching)} ${clause}; ${described(job)}` };
}

function not({ isNot }: Matching): string {
  return isNot ? " not" : "";
}

function named(job: Job): string {
  return `job ${job.id} (${job.type})`;
}

/** What a reader of a failed test wants to know first. */
function described(job: Job): string {
  const error = job.error ? `, its last error: ${job.error.code ? `${job.error.code}: ` : ""}${job.error.message}` : "";
  const why = job.why ? `, because ${job.why.message}` : "";
  return `it is ${job.state} in attempt ${job.attempt}${why}${error}`;
}

function handleOf(received: unknown): Handle<unknown> {
  // By its methods: a test runner may load the package twice.
  const handle = received as Partial<Handle<unknown>> | null | undefined;
  if (typeof handle?.get === "function" && typeof handle.steps === "function") return handle as Handle<unknown>;
  throw new TypeError("this matcher takes the handle of a job: `await expect(await client.submit(job, payload)).toHaveCompleted()`");
}

function jobOf(received: unknown): Promise<Job> {
  return handleOf(received).get();
}
