/** Heartbeats in virtual time: timers, clocks and the server's answers happen only when a test lets time pass. */

import type { TestContext } from "node:test";

import { toMillis } from "../../src/duration.js";

/** A heartbeat as it was sent. */
export interface VirtualBeat {
  readonly atMs: number;
  readonly ids: readonly string[];
  /** 0 for a request that does not wait. */
  readonly waitMs: number;
  /** Whether it takes its connection with it. */
  readonly isClosing: boolean;
  end: "answered" | "aborted" | undefined;
  endMs: number | undefined;
}

const STEP_MS = 10;

export class VirtualTime {
  nowMs = 0;
  /** How far the wall clock is ahead. */
  wallMs = 0;
  readonly beats: VirtualBeat[] = [];
  /** After how long the server answers a heartbeat; `undefined` if never. A healthy one waits as long as it is asked to. */
  answersAfter: (beat: VirtualBeat) => number | undefined = ({ waitMs }) => waitMs;
  /** What it answers to other requests; nothing unless a test says so. */
  others: (path: string, body: string) => unknown = () => undefined;

  constructor(private readonly t: TestContext) {
    t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
    t.mock.method(performance, "now", () => this.nowMs);
    t.mock.method(Date, "now", () => this.nowMs + this.wallMs);
    t.mock.method(globalThis, "fetch", this.fetch);
  }

  readonly fetch: typeof fetch = (input, init) =>
    new Promise((resolve, reject) => {
      const path = new URL(String(input)).pathname.replace("/api/v1", "");
      const { signal } = init!;
      const text = String(init!.body ?? "{}");
      if (path !== "/heartbeats") {
        signal?.addEventListener("abort", () => reject(signal.reason));
        const body = this.others(path, text);
        if (body !== undefined) resolve(Response.json(body));
        return;
      }
      const { jobs, wait } = JSON.parse(text) as { jobs: { id: string }[]; wait?: string };
      const ids = jobs.map(({ id }) => id);
      const isClosing = new Headers(init!.headers).get("connection") === "close";
      const beat: VirtualBeat = { atMs: this.nowMs, ids, waitMs: toMillis(wait ?? 0), isClosing, end: undefined, endMs: undefined };
      const ends = (end: "answered" | "aborted") => {
        if (beat.end !== undefined) return;
        beat.end = end;
        beat.endMs = this.nowMs;
        if (end === "aborted") return reject(signal!.reason);
        resolve(Response.json({ jobs: ids.map((id) => ({ id, directive: "continue" })), worker: { paused: false, mode: null } }));
      };
      this.beats.push(beat);
      signal!.addEventListener("abort", () => ends("aborted"));
      const afterMs = this.answersAfter(beat);
      if (afterMs !== undefined) setTimeout(() => ends("answered"), afterMs);
    });

  /** Lets time pass; `each` is called in every step. */
  async pass(ms: number, each: () => void = () => {}): Promise<void> {
    for (const end = this.nowMs + ms; this.nowMs < end; ) {
      each();
      this.nowMs += STEP_MS;
      this.t.mock.timers.tick(STEP_MS);
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** When the last heartbeat was sent that was answered. */
  get lastAnsweredMs(): number {
    return Math.max(...this.beats.filter(({ end }) => end === "answered").map(({ atMs }) => atMs));
  }

  /** The longest time that a job was in no request, until now. */
  longestGapMs(id: string): number {
    const times = [...this.beats.filter(({ ids }) => ids.includes(id)).map(({ atMs }) => atMs), this.nowMs];
    return Math.max(...times.slice(1).map((at, index) => at - times[index]!));
  }
}
