/** How a worker and its handlers are set up. */

import type { Duration } from "../duration.js";
import type { Classify } from "../failure.js";
import type { Logger } from "./logger.js";

/** How handlers are run; given to a worker, or to `on` for one of them. */
export interface HandlerOptions {
  /** Decides the category of errors that are no `Failure`. */
  readonly classify?: Classify | undefined;
  /** Classes of errors that a retry would not help. */
  readonly permanent?: readonly (abstract new (...args: never[]) => Error)[];
  /** Lets jobs continue whose saved steps do not match the code any more. */
  readonly lenientSteps?: boolean | undefined;
  /**
   * How long a handler may do work outside of steps, beside a sleep or a wait, before its job parks; 10 ms. That work
   * begins again when the job continues.
   */
  readonly parkWait?: Duration | undefined;
  /**
   * How long a step waits for calls that an earlier attempt saved before it, until the code counts as changed; 1 s, or
   * 10 s in a handler with calls side by side.
   */
  readonly changedWait?: Duration | undefined;
}

/** How a worker is set up. */
export interface WorkerOptions extends HandlerOptions {
  /** How many jobs run at once; 10. */
  readonly concurrency?: number | undefined;
  /** Queues to take jobs from; all if not given. Only jobs with a handler are taken. */
  readonly queues?: readonly string[] | undefined;
  /** A name for people. */
  readonly name?: string | undefined;
  /** The version of the program. */
  readonly version?: string | undefined;
  /** How long a handler that was asked to stop may take; 5 s. */
  readonly grace?: Duration | undefined;
  /** How long handlers may continue when the worker stops, before they are asked to; 30 s. */
  readonly drain?: Duration | undefined;
  /** Whether heartbeats have a thread of their own, so that a handler that blocks the event loop keeps its lease; true. */
  readonly heartbeatThread?: boolean | undefined;
  readonly logger?: Logger | undefined;
}
