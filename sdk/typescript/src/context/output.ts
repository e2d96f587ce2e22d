/**
 * Partial output of an attempt: chunks are written together after a moment, before the next checkpoint, or with the outcome.
 * Each write says how many chunks came before it, so that one whose answer was lost can be repeated.
 */

import { Permanent } from "../errors.js";
import { messageOf } from "../failure.js";
import { encode } from "../json.js";

const CHUNK_BYTES_MAX = 64 << 10;
/** Chunks in one request, and that may wait before `add` does. */
const CHUNKS_MAX = 1000;
const REQUEST_BYTES_MAX = 1 << 20;
/** The least time between two writes. */
const WRITE_EVERY_MS = 50;

const encoder = new TextEncoder();

interface Chunk {
  readonly json: string;
  readonly bytes: number;
}

export class Output {
  /** How many chunks are known to be written. */
  #offset = 0;
  readonly #chunks: Chunk[] = [];
  #bytes = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #writing: Promise<void> = Promise.resolve();
  #error: unknown;
  #isClosed = false;
  #waiting: (() => void)[] = [];

  /** `write` throws a `Failure`, or `LeaseLost`. */
  constructor(private readonly write: (offset: number, chunks: readonly string[]) => Promise<void>) {}

  /** Adds a chunk. Resolves at once, or when there is room for more. */
  async add(value: unknown): Promise<void> {
    const chunk = chunkOf(value);
    if (this.#error !== undefined) throw this.#error;
    if (this.#isClosed) return;
    this.#chunks.push(chunk);
    this.#bytes += chunk.bytes;
    // The first is written at once, those that come meanwhile together.
    this.#timer ??= setTimeout(() => void this.#run(), 0);
    while (this.#isFull() && this.#error === undefined && !this.#isClosed) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    if (this.#error !== undefined) throw this.#error;
  }

  /** Writes what waits. */
  flush(): Promise<void> {
    const written = this.#writing.then(async () => {
      while (this.#chunks.length > 0 && !this.#isClosed) await this.#writeOnce();
    });
    this.#writing = written.catch(() => {});
    return written;
  }

  /** Writes until the rest fits into the outcome. */
  async finish(): Promise<void> {
    if (this.#isFull()) await this.flush();
  }

  /** The attempt is over: the rest as JSON, for the outcome; `undefined` if all was written. */
  close(): string | undefined {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#free();
    const rest = this.#next();
    return rest.length === 0 ? undefined : `{"offset":${this.#offset},"chunks":[${rest.map(({ json }) => json).join(",")}]}`;
  }

  #isFull(): boolean {
    return this.#chunks.length > CHUNKS_MAX || this.#bytes > REQUEST_BYTES_MAX;
  }

  /** What fits into one request. */
  #next(): readonly Chunk[] {
    let bytes = 0;
    const beyond = this.#chunks.findIndex((chunk, index) => index === CHUNKS_MAX || (bytes += chunk.bytes) > REQUEST_BYTES_MAX);
    return this.#chunks.slice(0, beyond === -1 ? undefined : beyond);
  }

  async #writeOnce(): Promise<void> {
    const next = this.#next();
    await this.write(this.#offset, next.map(({ json }) => json));
    this.#offset += next.length;
    this.#chunks.splice(0, next.length);
    this.#bytes -= next.reduce((sum, { bytes }) => sum + bytes, 0);
    this.#free();
  }

  async #run(): Promise<void> {
    try {
      await this.flush();
    } catch (error) {
      // A refusal is reported to the handler with its next chunk; what could not be sent for now is sent again.
      if (error instanceof Permanent) this.#error = error;
    }
    this.#free();
    this.#timer = undefined;
    if (this.#error !== undefined || this.#isClosed) return;
    // Chunks that come before share the next write.
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#chunks.length > 0) this.#timer = setTimeout(() => void this.#run(), 0);
    }, WRITE_EVERY_MS);
  }

  #free(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}

function chunkOf(value: unknown): Chunk {
  let json: string;
  try {
    json = encode(value);
  } catch (error) {
    throw new Permanent(`the chunk cannot be written as JSON: ${messageOf(error)}`, { code: "not_allowed", cause: error });
  }
  const bytes = encoder.encode(json).length;
  if (bytes > CHUNK_BYTES_MAX) {
    throw new Permanent(`the chunk has ${bytes} bytes as JSON, the limit is ${CHUNK_BYTES_MAX}`, { code: "not_allowed" });
  }
  return { json, bytes };
}
