/** Which calls run again after a failed attempt: those whose errors made it fail. */

import { Failure, Snooze } from "../errors.js";
import { chainOf, messageOf } from "../failure.js";
import type { Places, StoredFailure } from "./history.js";

/** An error that a call returned to the handler. */
export interface Returned {
  readonly key: string;
  readonly places: Places;
  readonly error: StepError | Snooze;
  readonly message: string;
  readonly ended: number;
  isToBeRetried: boolean;
}

/**
 * The error of a step, the same in the first attempt and in later ones: category, code and message are kept, the class of
 * the original error is not.
 */
export class StepError extends Failure {
  override readonly name = "StepError";
  /** The key of the step. */
  readonly step: string;
  /** Whether the handler made text of it. */
  wasShown = false;

  constructor(step: string, failure: StoredFailure, stack?: string) {
    const wait = failure.retry_after;
    super(failure.message, {
      category: failure.category,
      code: failure.code ?? undefined,
      retryAfter: wait === null ? undefined : wait.secs * 1000 + Math.round(wait.nanos / 1_000_000),
    });
    this.step = step;
    if (stack !== undefined) this.stack = stack;
    // A handler may fail with the text of this error in another one; then its step runs again.
    Object.defineProperty(this, "message", {
      configurable: true,
      get: () => {
        this.wasShown = true;
        return failure.message;
      },
    });
    Object.defineProperty(this, "wasShown", { enumerable: false, writable: true });
  }
}

/**
 * The errors returned since `since` that make up this one: the nearest in its chain of causes; if there is none, the last
 * ones of each text that it contains and that the handler turned into text.
 */
export function causesOf(errors: readonly Returned[], since: number, error: unknown): Returned[] {
  const recent = errors.filter((one) => one.ended > since).reverse();
  const chain = chainOf(error);
  const own = recent.filter((one) => chain.includes(one.error));
  if (own.length > 0) return own;
  // It stands for a step's error of an earlier attempt, or of another job.
  if (chain.some((one) => one instanceof StepError || one instanceof Snooze)) return [];
  const message = messageOf(error);
  const texts = new Set<string>();
  return recent.filter((one) => {
    const wasShown = one.error instanceof StepError && one.error.wasShown;
    if (!wasShown || texts.has(one.message) || !names(message, one.message)) return false;
    texts.add(one.message);
    return true;
  });
}

/** Whether `message` contains `part` as whole words. */
export function names(message: string, part: string): boolean {
  const isWord = (character: string | undefined) => character !== undefined && /[\p{L}\p{N}]/u.test(character);
  if (part === "") return false;
  for (let at = message.indexOf(part); at >= 0; at = message.indexOf(part, at + 1)) {
    const before = [...message.slice(0, at)].at(-1);
    const after = [...message.slice(at + part.length)][0];
    if (!isWord(before) && !isWord(after)) return true;
  }
  return false;
}
