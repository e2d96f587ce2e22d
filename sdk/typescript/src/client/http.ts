/** Requests to a server: addresses, keys, repeated tries, errors, and the server's clock. */

import { ApiError, Unreachable } from "../errors.js";
import { messageOf } from "../failure.js";
import { pause } from "../timing.js";

/** How a client reaches its server. */
export interface HttpOptions {
  /** The server's address; the variable `WINDLASS_URL`, or `http://127.0.0.1:7788`. */
  readonly url?: string | undefined;
  /** The API key; the variable `WINDLASS_KEY`. */
  readonly key?: string | undefined;
  /** For how long calls are repeated while the server cannot be reached, in milliseconds; 30 s. */
  readonly patienceMs?: number | undefined;
  /** `stopped` for a server in virtual time, whose clock stands still between answers; the variable `WINDLASS_CLOCK`. */
  readonly clock?: "stopped" | undefined;
  /** Another `fetch`, such as one with a proxy. */
  readonly fetch?: typeof fetch | undefined;
}

/** One call. */
export interface Call {
  readonly method: "GET" | "POST" | "PUT" | "DELETE" | "PATCH";
  /** Below `/api/v1`; parts must be encoded. */
  readonly path: string;
  /** JSON text. */
  readonly body?: string;
  /** How long the server may wait before it answers, in milliseconds. */
  readonly waitMs?: number;
  /** Whether a second call after a lost answer changes nothing. */
  readonly isRepeatable?: boolean;
  /** Whether to try only once: the caller has a loop of its own. */
  readonly once?: boolean;
  readonly signal?: AbortSignal | undefined;
  readonly headers?: Readonly<Record<string, string>>;
}

/** How long a call may take beside its wait. */
const CALL_MS_MAX = 35_000;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2000;

/** A connection to a server. */
export class Http {
  readonly url: string;
  readonly #key: string | undefined;
  readonly #patienceMs: number;
  readonly #fetch: typeof fetch;
  /** Whether requests go through a function of the caller. */
  readonly hasOwnFetch: boolean;
  /** The server's clock less this process's monotonic one: machines' wall clocks differ, and jump. */
  #offsetMs = Date.now() - performance.now();
  #learntMs = Date.now();
  /** How many responses have set the clock. */
  #timesTaken = 0;
  readonly #isClockStopped: boolean;

  constructor(options: HttpOptions = {}) {
    const environment = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env ?? {};
    this.url = (options.url ?? environment["WINDLASS_URL"] ?? "http://127.0.0.1:7788").replace(/\/+$/, "");
    this.#isClockStopped = (options.clock ?? environment["WINDLASS_CLOCK"]) === "stopped";
    this.#key = options.key ?? environment["WINDLASS_KEY"];
    this.#patienceMs = options.patienceMs ?? 30_000;
    this.#fetch = options.fetch ?? fetch;
    this.hasOwnFetch = options.fetch !== undefined;
  }

  /** Address and key, for the thread of heartbeats. */
  get credentials(): { url: string; key: string | undefined } {
    return { url: this.url, key: this.#key };
  }

  /** The time by the server's clock, in milliseconds since 1970. */
  now(): number {
    return this.#isClockStopped ? this.#learntMs : Math.round(this.#offsetMs + performance.now());
  }

  /** Calls the server and reads the JSON that it answers; `undefined` for an empty answer. */
  async ask<T>(call: Call): Promise<T> {
    const text = await this.#repeat(call, (response) => response.text());
    return (text === "" ? undefined : JSON.parse(text)) as T;
  }

  /** Calls the server and returns its answer, whose body may be endless. */
  async send(call: Call): Promise<Response> {
    return await this.#repeat(call, async (response) => response);
  }

  /** Calls the server, repeatedly if that is safe, and reads its answer if it is no error. */
  async #repeat<T>(call: Call, read: (response: Response) => Promise<T>): Promise<T> {
    const until = Date.now() + (call.once ? 0 : this.#patienceMs);
    for (let wait = FIRST_PAUSE_MS; ; wait = Math.min(wait * 2, LONGEST_PAUSE_MS)) {
      try {
        return await this.#attempt(call, read);
      } catch (error) {
        if (call.signal?.aborted || !mayRepeat(call, error) || Date.now() + wait >= until) throw error;
        const asked = error instanceof ApiError ? (error.retryAfterMs ?? 0) : 0;
        await pause(Math.max(wait * (0.5 + Math.random() / 2), Math.min(asked, LONGEST_PAUSE_MS)), call.signal);
        call.signal?.throwIfAborted();
      }
    }
  }

  async #attempt<T>(call: Call, read: (response: Response) => Promise<T>): Promise<T> {
    const headers: Record<string, string> = { ...call.headers };
    if (this.#key !== undefined) headers["authorization"] = `Bearer ${this.#key}`;
    if (call.body !== undefined) headers["content-type"] = "application/json";
    const limit = timeLimit(CALL_MS_MAX + (call.waitMs ?? 0), call.signal);
    try {
      const sent = this.#timesTaken;
      const response = await this.#fetch(`${this.url}/api/v1${call.path}`, {
        method: call.method,
        headers,
        body: call.body ?? null,
        signal: limit.signal,
      });
      this.#learnTime(response.headers.get("windlass-time"), sent);
      if (!response.ok) throw await refusal(response);
      return await read(response);
    } catch (error) {
      call.signal?.throwIfAborted();
      if (error instanceof ApiError) throw error;
      const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
      throw new Unreachable(`${call.method} ${this.url}${call.path}: ${messageOf(cause)}`, { cause });
    } finally {
      limit.clear();
    }
  }

  /** Takes the time of a response, unless one that was written later has come since its request was sent. */
  #learnTime(header: string | null, sent: number): void {
    const time = header === null ? Number.NaN : Date.parse(header);
    if (Number.isNaN(time) || (this.#timesTaken !== sent && time < this.#learntMs)) return;
    this.#timesTaken += 1;
    // The header is a whole millisecond; half of one is the least error.
    this.#learntMs = time;
    this.#offsetMs = time + 0.5 - performance.now();
  }
}

/** Percent-encodes a text as one part of a path. */
export function encoded(text: string): string {
  return encodeURIComponent(text).replace(/[.!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** A signal that fires after a time or with another one; an `AbortSignal.timeout` would keep its timer. */
function timeLimit(ms: number, signal: AbortSignal | undefined): { signal: AbortSignal; clear: () => void } {
  const controller = new AbortController();
  const abort = () => controller.abort(signal?.reason);
  const timer = setTimeout(() => controller.abort(new DOMException(`no answer in ${ms} ms`, "TimeoutError")), ms);
  if (signal?.aborted) abort();
  signal?.addEventListener("abort", abort, { once: true });
  return {
    signal: controller.signal,
    clear: () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    },
  };
}

/** Whether the same call may be sent again: it had no effect, or a second one has none. */
function mayRepeat(call: Call, error: unknown): boolean {
  if (error instanceof ApiError) {
    const { status, code } = error;
    const hadNoEffect = status === 429 || ["starting", "draining", "overloaded", "disk_full"].includes(code);
    return hadNoEffect || (status >= 502 && isRepeatable(call));
  }
  if (!(error instanceof Unreachable)) return false;
  const code = (error.cause as { code?: unknown } | undefined)?.code;
  return code === "ECONNREFUSED" || isRepeatable(call);
}

function isRepeatable(call: Call): boolean {
  return call.isRepeatable ?? call.method === "GET";
}

async function refusal(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => "");
  let error: { code?: string; message?: string; details?: Record<string, unknown> } = {};
  try {
    error = (JSON.parse(text) as { error?: typeof error }).error ?? {};
  } catch {
    // A proxy's page, for example.
  }
  const after = Number(response.headers.get("retry-after") ?? Number.NaN);
  return new ApiError(
    response.status,
    error.code ?? `http_${response.status}`,
    error.message ?? (text.slice(0, 200) || response.statusText),
    error.details ?? {},
    Number.isFinite(after) ? after * 1000 : undefined,
  );
}
