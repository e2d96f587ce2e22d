/** What a running job needs of its store: a server, or a map in a test. */

import type { ChildJob } from "../define.js";
import type { JobError } from "../errors.js";
import type { Strategy } from "./history.js";
import type { Saved } from "./order.js";
import type { Awaited } from "./quiet.js";

/** A child as the server shows it. */
export interface ChildView {
  readonly index: number;
  readonly id?: string;
  readonly state: string;
  readonly result?: unknown;
  readonly error?: JobError | null;
  readonly redacted?: boolean;
  readonly omitted?: boolean;
}

/** A group of children. */
export interface GroupView {
  readonly decided: string | null;
  readonly total: number;
  readonly children: readonly ChildView[];
}

/** A group to spawn. */
export interface SpawnRequest {
  readonly name: string;
  readonly strategy: Strategy;
  readonly jobs: readonly ChildJob<unknown>[];
  /** What else wakes the parent; `undefined` if the parent does not park. */
  readonly beside: readonly Awaited[] | undefined;
  /** Checkpoints of the parent, saved in the same commit. */
  readonly records: readonly Saved[];
}

/** A group that was spawned. */
export interface Spawned {
  readonly isRunning: boolean;
  /** The ids of the children. */
  readonly ids: readonly string[];
}

/** What a worker may say about a running job at any time. */
export interface Beat {
  readonly progress?: { readonly percent: number; readonly message?: string };
  readonly logs?: readonly string[];
  /** A shorter time limit, in milliseconds from now. */
  readonly timeoutMs?: number;
}

/** Stores what a running job writes. Every write is refused with `LeaseLost` once the lease is lost. */
export interface Backend {
  /** The store's clock, in milliseconds since 1970. */
  now(): number;
  /** Saves checkpoints, all or none. */
  save(records: readonly Saved[]): Promise<void>;
  beat(beat: Beat): Promise<void>;
  /** Adds to the job's output; `offset` chunks of this attempt came before, and each is JSON. */
  stream(offset: number, chunks: readonly string[]): Promise<void>;
  /** Spawns children; returns whether the job still runs, because it does not park or the group is decided already. */
  spawn(request: SpawnRequest): Promise<Spawned>;
  /** The group with this name, if it was spawned. */
  group(name: string): Promise<GroupView | undefined>;
}

/** What a running job knows of itself. */
export interface JobInfo {
  readonly id: string;
  readonly type: string;
  readonly queue: string;
  readonly tenant: string;
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  readonly attemptId: string;
  /** How many earlier attempts failed; attempts that parked or were released do not count. */
  readonly failures: number;
  readonly maxAttempts: number;
  readonly priority: number;
  /** Grows with every claim: use it in conditional writes to other systems, so that a stale attempt fails there too. */
  readonly fence: number;
  /** The key that the job was submitted with. */
  readonly key: string | undefined;
  readonly correlationId: string | undefined;
  readonly tags: Readonly<Record<string, string>>;
  readonly traceparent: string | undefined;
  /** When the server ends this attempt. */
  readonly deadline: Date | undefined;
  /** When the job's lifetime ends, whatever it waits for; `undefined` if the server does not say. */
  readonly expiresAt?: Date | undefined;
  /** The error of the last failed attempt. */
  readonly lastError: JobError | undefined;
}
