/** What an error means for a job: its failure as the API takes it. */

import { toText } from "./duration.js";
import { type Category, Failure } from "./errors.js";

/** A failure as an outcome reports it. */
export interface FailureBody {
  category: Category;
  code?: string;
  message: string;
  retry_after?: string;
  cause?: { message: string; code?: string }[];
}

/** Decides what an error means; `undefined` for an error that it does not know. */
export type Classify = (error: unknown) => { category: Category; code?: string; retryAfter?: string | number } | undefined;

/** Longer messages are cut; the server refuses them. */
const MESSAGE_BYTES_MAX = 4096;
const CAUSE_BYTES_MAX = 1024;
const CODE_CHARS_MAX = 128;
/** More causes are not stored. */
const CAUSES_MAX = 8;

/** The failure that an error stands for: a {@link Failure} in it or behind it, or else a temporary one. */
export function failureOf(error: unknown, classify?: Classify): FailureBody {
  const chain = chainOf(error);
  const found = chain.find((one): one is Failure => one instanceof Failure);
  const known = found ?? classified(chain, classify);
  const failure: FailureBody = { category: known?.category ?? "temporary", message: cut(messageOf(error), MESSAGE_BYTES_MAX) };
  const code = known?.code ?? systemCode(error);
  if (code !== undefined) failure.code = code.slice(0, CODE_CHARS_MAX);
  if (known?.retryAfter !== undefined) failure.retry_after = toText(known.retryAfter);
  const causes = chain.slice(1, 1 + CAUSES_MAX).map((cause) => {
    const code = cause instanceof Failure ? cause.code : systemCode(cause);
    const message = cut(messageOf(cause), CAUSE_BYTES_MAX);
    return code === undefined ? { message } : { message, code: code.slice(0, CODE_CHARS_MAX) };
  });
  if (causes.length > 0) failure.cause = causes;
  return failure;
}

function classified(chain: unknown[], classify: Classify | undefined): ReturnType<Classify> {
  if (classify === undefined) return undefined;
  for (const error of chain) {
    try {
      const known = classify(error);
      if (known !== undefined) return known;
    } catch {
      return undefined;
    }
  }
  return undefined;
}

/** An error and those behind it. A chain may be circular; only the part that is stored is read. */
export function chainOf(error: unknown): unknown[] {
  const chain: unknown[] = [];
  for (let next = error; next !== undefined && next !== null && chain.length <= CAUSES_MAX; ) {
    if (chain.includes(next)) break;
    chain.push(next);
    next = next instanceof Error ? next.cause : undefined;
  }
  return chain.length === 0 ? [error] : chain;
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  try {
    if (error instanceof AggregateError && error.message === "") {
      return error.errors.map(messageOf).join("; ") || error.name;
    }
    if (error instanceof Error) return error.message || error.name;
    if (typeof error === "object" && error !== null) {
      const message = (error as { message?: unknown }).message;
      return typeof message === "string" && message !== "" ? message : (JSON.stringify(error) ?? String(error));
    }
    return typeof error === "string" && error !== "" ? error : `threw ${String(error) || "an empty string"}`;
  } catch {
    return "threw a value that has no text";
  }
}

/** The code of a system error, such as `ECONNREFUSED`. */
function systemCode(error: unknown): string | undefined {
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined;
  return typeof code === "string" && code !== "" ? code : undefined;
}

/** Cuts a text to a number of UTF-8 bytes, between two characters. */
export function cut(text: string, bytes: number): string {
  const whole = text.isWellFormed ? (text.isWellFormed() ? text : text.toWellFormed()) : text;
  if (whole.length * 3 <= bytes) return whole;
  const encoded = new TextEncoder().encode(whole);
  if (encoded.length <= bytes) return whole;
  return new TextDecoder().decode(encoded.subarray(0, bytes), { stream: true });
}
