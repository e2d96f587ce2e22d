/** What the worker protocol sends and answers, with the API's own names. */

import type { JobError } from "../errors.js";
import type { ChildView, JobInfo } from "../context/backend.js";
import { fromBase64 } from "../submission.js";

/** The number of the worker protocol that this is. */
export const PROTOCOL = 1;

/** The answer to a registration. */
export interface Registered {
  readonly worker_id: string;
  readonly heartbeat_every: string;
  /** 1 if the server does not say. */
  readonly protocol?: number;
}

/** A job that was claimed. */
export interface ClaimedJob {
  readonly id: string;
  readonly fence: number;
  readonly attempt: number;
  readonly attempt_id: string;
  readonly tenant: string;
  readonly type: string;
  readonly queue: string;
  readonly priority: number;
  readonly max_attempts: number;
  readonly failures: number;
  readonly payload?: unknown;
  readonly payload_base64?: string | null;
  readonly idempotency_key?: string | null;
  readonly correlation_id?: string | null;
  readonly traceparent?: string | null;
  readonly tags?: Readonly<Record<string, string>>;
  readonly deadline?: string | null;
  readonly lease_expires_at?: string | null;
  readonly expires_at?: string | null;
  readonly error?: JobError | null;
  readonly checkpoints: readonly { readonly step: string; readonly value: unknown }[];
  readonly groups?: readonly ClaimedGroup[];
}

/** A decided group that came with its job. */
export interface ClaimedGroup {
  readonly group: number;
  readonly name: string;
  readonly decided: string;
  readonly total: number;
  readonly children: readonly ChildView[];
  readonly next_cursor?: string | null;
}

export interface ClaimAnswer {
  readonly jobs: readonly ClaimedJob[];
  readonly paused: boolean;
}

export interface OutcomeAnswer {
  readonly id: string;
  readonly status: "applied" | "stale" | "rejected";
  readonly error?: { readonly code: string; readonly message: string; readonly details?: Readonly<Record<string, unknown>> } | null;
}

/** The payload of a claimed job: JSON, or bytes. */
export function payloadOf(job: ClaimedJob): unknown {
  const bytes = job.payload_base64;
  return bytes === undefined || bytes === null ? job.payload : fromBase64(bytes);
}

/** How long the lease of a job lasts that was claimed just now; `undefined` if the server does not say. */
export function leaseMsOf(job: ClaimedJob, now: number): number | undefined {
  return job.lease_expires_at ? Math.max(0, Date.parse(job.lease_expires_at) - now) : undefined;
}

/** What the handler learns of its job. */
export function infoOf(job: ClaimedJob): JobInfo {
  return {
    id: job.id,
    type: job.type,
    queue: job.queue,
    tenant: job.tenant,
    attempt: job.attempt,
    attemptId: job.attempt_id,
    failures: job.failures,
    maxAttempts: job.max_attempts,
    priority: job.priority,
    fence: job.fence,
    key: job.idempotency_key ?? undefined,
    correlationId: job.correlation_id ?? undefined,
    tags: job.tags ?? {},
    traceparent: job.traceparent ?? undefined,
    deadline: job.deadline ? new Date(job.deadline) : undefined,
    expiresAt: job.expires_at ? new Date(job.expires_at) : undefined,
    lastError: job.error ?? undefined,
  };
}
