/** Verifies calls of a server: callbacks at the end of jobs, and pushed jobs. Uses WebCrypto, so it runs everywhere. */

import { base64, fromBase64 } from "./submission.js";
import type { JobError } from "./errors.js";

/** Header lines: of a `Request`, of Node, or a plain object. */
export type HeaderLines = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

/** What to check a call against. */
export interface VerifyOptions {
  /** The receiver's secret, `whsec_…`; several while a secret is being replaced. One that is missing or empty is refused. */
  readonly secret: string | readonly string[] | undefined;
  /** How old or new a call may be, in seconds; five minutes. */
  readonly toleranceSeconds?: number;
  /** The time, in milliseconds since 1970, for tests. */
  readonly now?: number;
}

/** A call that was not signed with the secret, or is too old. */
export class InvalidSignature extends Error {
  override readonly name = "InvalidSignature";
}

/** The body of a callback. */
export interface Callback {
  /** `job.` and the final state. */
  readonly type: "job.completed" | "job.failed" | "job.dead_letter" | "job.cancelled";
  readonly timestamp: string;
  readonly data: {
    readonly id: string;
    readonly tenant: string;
    readonly type: string;
    readonly queue: string;
    readonly state: string;
    readonly attempt: number;
    readonly correlation_id: string | null;
    readonly tags: Readonly<Record<string, string>>;
    readonly error: JobError | null;
    readonly result?: unknown;
  };
}

const TOLERANCE_SECONDS = 300;
const SIGNATURES = ["webhook-signature", "windlass-signature"];

/** Checks a callback and reads it. A callback may come more than once: ignore a `webhook-id` that you have seen. */
export async function verifyCallback(body: string | Uint8Array, headers: HeaderLines, options: VerifyOptions): Promise<Callback> {
  const bytes = await verify(body, headers, options);
  return JSON.parse(new TextDecoder().decode(bytes)) as Callback;
}

/** Checks both signatures of a call, of the body and of its header lines; returns the body's bytes. */
export async function verify(body: string | Uint8Array, headers: HeaderLines, options: VerifyOptions): Promise<Uint8Array> {
  const secrets = secretsOf(options.secret);
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : new Uint8Array(body);
  const lines = linesOf(headers);
  const [id, timestamp] = [lines.get("webhook-id"), lines.get("webhook-timestamp")];
  if (id === undefined || timestamp === undefined) throw new InvalidSignature("the call is not signed");
  const age = Math.abs((options.now ?? Date.now()) / 1000 - Number(timestamp));
  if (!(age <= (options.toleranceSeconds ?? TOLERANCE_SECONDS))) throw new InvalidSignature("the call is too old or from the future");
  const keys = await Promise.all(secrets.map(importKey));
  const signed = joined(new TextEncoder().encode(`${id}.${timestamp}.`), bytes);
  await check(keys, lines.get("webhook-signature"), signed);
  // A server of today signs the header lines as well; without that signature any client could have set them.
  await check(keys, lines.get("windlass-signature"), await signedLines(lines, bytes));
  return bytes;
}

/** The bytes of secrets. Any client can sign with an empty one, which is what an unset variable often becomes. */
export function secretsOf(secret: VerifyOptions["secret"]): Uint8Array<ArrayBuffer>[] {
  const all = [secret ?? []].flat();
  const texts = all.map((one) => String(one ?? "").trim().replace(/^whsec_/, ""));
  if (texts.length === 0 || texts.includes("")) {
    throw new TypeError("the webhook secret is missing or empty: give the one that `windlass webhooks secret URL` prints");
  }
  try {
    return texts.map(fromBase64);
  } catch (cause) {
    throw new TypeError("the webhook secret is not `whsec_` and Base64", { cause });
  }
}

async function signedLines(lines: ReadonlyMap<string, string>, body: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  const isSigned = (name: string) =>
    name === "content-type" || name === "traceparent" || ((name.startsWith("webhook-") || name.startsWith("windlass-")) && !SIGNATURES.includes(name));
  const named = [...lines].filter(([name]) => isSigned(name)).sort(([a], [b]) => (a < b ? -1 : 1));
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", body));
  const text = [...named.map(([name, value]) => `${name}:${value}`), base64(hash)].join("\n");
  return new TextEncoder().encode(text);
}

async function check(keys: readonly CryptoKey[], header: string | undefined, signed: Uint8Array<ArrayBuffer>): Promise<void> {
  const signatures = (header ?? "").split(" ").flatMap((part) => (part.startsWith("v1,") ? [part.slice(3)] : []));
  for (const signature of signatures) {
    let bytes: Uint8Array<ArrayBuffer>;
    try {
      bytes = fromBase64(signature);
    } catch {
      continue;
    }
    for (const key of keys) if (await crypto.subtle.verify("HMAC", key, bytes, signed)) return;
  }
  throw new InvalidSignature("the call was not signed with this secret");
}

function importKey(secret: Uint8Array<ArrayBuffer>): Promise<CryptoKey> {
  return crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
}

/** Header lines by name in lower case. */
export function linesOf(headers: HeaderLines): ReadonlyMap<string, string> {
  if (headers instanceof Headers) return new Map(headers.entries());
  const lines = new Map<string, string>();
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) lines.set(name.toLowerCase(), Array.isArray(value) ? value.join(", ") : String(value));
  }
  return lines;
}

function joined(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(a.length + b.length);
  all.set(a);
  all.set(b, a.length);
  return all;
}
