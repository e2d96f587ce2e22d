/** A job as the server shows it. */

import type { JobError } from "../errors.js";

/** The states of a job. */
export type JobState =
  | "created"
  | "pending"
  | "delayed"
  | "scheduled"
  | "running"
  | "waiting"
  | "retrying"
  | "suspended"
  | "completed"
  | "failed"
  | "dead_letter"
  | "cancelled";

/** Whether a job in this state never changes again. */
export function isFinal(state: string): boolean {
  return state === "completed" || state === "failed" || state === "dead_letter" || state === "cancelled";
}

/** A job, with the API's own names. The server may add fields. */
export interface Job {
  readonly id: string;
  readonly tenant: string;
  readonly type: string;
  readonly queue: string;
  readonly state: JobState;
  readonly version: string;
  readonly priority: number;
  readonly attempt: number;
  readonly max_attempts: number;
  readonly failures: number;
  readonly crashes: number;
  readonly created_at: string;
  readonly updated_at: string;
  readonly run_at: string;
  readonly completed_at?: string | null;
  readonly error?: JobError | null;
  readonly result?: unknown;
  readonly progress?: { readonly percent: number; readonly message?: string | null } | null;
  readonly tags: Readonly<Record<string, string>>;
  readonly parent?: string | null;
  /** Why it is not running. */
  readonly why?: { readonly code: string; readonly message: string } | null;
  /** Whether a submission found an earlier job with the same key. */
  readonly duplicate?: boolean;
  readonly payload_differs?: boolean;
}

/** A piece of a job's partial output. */
export interface StreamChunk<T = unknown> {
  /** Its number in the job, from 1. */
  readonly number: number;
  /** The attempt that wrote it. */
  readonly attempt: number;
  readonly at: string;
  /** Whether the output starts over with it: an attempt before it had written some, and did not park. */
  readonly restart?: boolean;
  /** The value that the handler gave. */
  readonly chunk: T;
}

/** A step of a job that has ended. */
export interface SavedStep {
  /** The name that the handler gave; the second step of that name ends with `#2`. */
  readonly name: string;
  /** What the step returned. */
  readonly value?: unknown;
  /** Why the step failed permanently. */
  readonly failure?: { readonly category: string; readonly code: string | null; readonly message: string };
}

/** An event of a job. */
export interface JobEvent {
  /** The dotted name, such as `job.lifecycle.completed`. */
  readonly event: string;
  /** Its number in the audit trail; events below the queue's audit level have none. */
  readonly seq: number | undefined;
  readonly data: Readonly<Record<string, unknown>>;
}
