/**
 * Durable background jobs: submit jobs to a Windlass server, and run them with steps that survive crashes.
 *
 * @packageDocumentation
 */

export { type Handles, Windlass } from "./client/client.js";
export { Handle } from "./client/handle.js";
export { type Call, Http, type HttpOptions } from "./client/http.js";
export type { Job, JobEvent, JobState, SavedStep, StreamChunk } from "./client/job.js";
export { type MissedRuns, type Overlap, type Schedule, type ScheduleOptions, type ScheduleScope, type Timing, Schedules } from "./client/schedules.js";
export type { JobInfo } from "./context/backend.js";
export { ChildFailed, type ChildResult, type GroupOptions } from "./context/children.js";
export { Cx, type First, type Results } from "./context/context.js";
export type { CancelReason } from "./context/core.js";
export type { Strategy } from "./context/history.js";
export { StepError } from "./context/reopen.js";
export * from "./define.js";
export * from "./errors.js";
export type { Classify } from "./failure.js";
export { type Jsonified, Unwritable } from "./json.js";
export { SchemaError, type SchemaIssue, type SchemaResult } from "./schema.js";
export { type SqlClient, type SqlSubmitOptions, submitInTx } from "./sql.js";
export { type Callback, type HeaderLines, InvalidSignature, type VerifyOptions, verifyCallback } from "./webhooks.js";
export type { Logger } from "./worker/logger.js";
export { runUntilSignal } from "./worker/signals.js";
export { type HandlerOptions, Worker, type WorkerOptions } from "./worker/worker.js";
