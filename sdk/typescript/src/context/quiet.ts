/**
 * Decides what calls that wait may do. A job parks, and changed code is recognised, only when nothing else in the handler
 * continues. JavaScript does not show what a handler awaits, so this looks at its calls: as long as a step works or a
 * request is under way it continues; when neither is so, it gets a short time for other work.
 */

import { nextTurn } from "../timing.js";
import { isWithin } from "./branch.js";
import type { Call } from "./call.js";
import type { Order } from "./order.js";

/** What wakes a parked job. */
export type Awaited =
  | { readonly kind: "moment"; readonly until: number }
  | { readonly kind: "signal"; readonly name: string; readonly step: string; readonly until: number | undefined }
  /** A group of children that was spawned. */
  | { readonly kind: "group"; readonly name: string; readonly until?: undefined };

/** What a call waits for. */
export type Wait =
  /** For earlier calls; `replay` if its own result is saved. */
  | { readonly kind: "turn" | "replay"; readonly before: number }
  /** The handler dropped it in an earlier attempt, after it had run for this long. */
  | { readonly kind: "left_out"; readonly ranMs: number }
  | { readonly kind: "park"; readonly awaited: Awaited }
  /** To spawn children, which parks. */
  | { readonly kind: "spawn" };

/**
 * The answer: continue, the code was changed, spawn now and park on these as well, or spawn now without parking because
 * another group is spawned beside it.
 */
export type Answer = "go" | "changed" | "spawn_first" | readonly Awaited[];

/** How long the handler may do other work before its calls are decided. */
export interface QuietOptions {
  /** Before a job parks. */
  readonly parkWaitMs: number;
  /** Before a call that comes too early counts as changed code; if not given, 1 s, or 10 s beside other calls. */
  readonly changedWaitMs?: number | undefined;
  readonly now: () => number;
  /** The job parks on any of these. */
  readonly park: (awaited: readonly Awaited[]) => void;
  readonly warn: (message: string) => void;
}

interface Waiter {
  readonly wait: Wait;
  readonly call: Call;
  readonly answer: (answer: Answer) => void;
}

/** After this long beside a working step, the order of calls is a matter of scheduling. */
const TURN_WAIT_MS = 1000;
const CHANGED_WAIT_MS = 1000;
const CHANGED_WAIT_BESIDE_MS = 10_000;
/** How long a dropped call waits for what the handler preferred, and twice the time that it ran. */
const DROPPED_WAIT_MS = 10_000;
/** The longest delay of a timer. */
const TIMER_MS_MAX = 2 ** 31 - 1;

export class Quiet {
  /** The handler has stopped; nothing is decided any more. */
  isOver = false;
  readonly #waiters = new Set<Waiter>();
  #storing = 0;
  #isScheduled = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isOrderKnown = true;

  constructor(
    private readonly order: Order,
    private readonly options: QuietOptions,
  ) {}

  /** Waits until the call is answered; for its turn only as long as it has to. */
  wait(wait: Wait, call: Call): Promise<Answer> {
    return new Promise((answer) => {
      this.#waiters.add({ wait, call, answer });
      this.changed();
    });
  }

  /** The call does not wait any more. */
  forget(call: Call): void {
    for (const waiter of this.#waiters) if (waiter.call === call) this.#waiters.delete(waiter);
  }

  /** Runs a request to the server; its duration must not decide what a handler does. */
  async storing<T>(request: () => Promise<T>): Promise<T> {
    this.#storing += 1;
    this.changed();
    try {
      return await request();
    } finally {
      this.#storing -= 1;
      this.changed();
    }
  }

  /** A call was made, ended or waits: looks again once everything that is ready has run. */
  changed(): void {
    clearTimeout(this.#timer);
    if (this.#isScheduled || this.isOver || this.#waiters.size === 0) return;
    this.#isScheduled = true;
    nextTurn(() => {
      this.#isScheduled = false;
      this.#look();
    });
  }

  /** Stops deciding. */
  end(): void {
    this.isOver = true;
    this.#waiters.clear();
    clearTimeout(this.#timer);
  }

  #look(): void {
    clearTimeout(this.#timer);
    if (this.isOver || this.#waiters.size === 0) return;
    // What is answered continues, and then this looks again.
    if (this.#answer((wait) => (wait.kind === "turn" || wait.kind === "replay") && this.#isTurn(wait.before), "go")) return;
    if (this.#storing > 0) return;
    const isWorking = this.#isWorking();
    const hasParks = this.#has("park") || this.#has("spawn");
    // A saved result is given to the handler at once if anything else continues.
    if ((isWorking || hasParks || this.#has("left_out")) && this.#answer((wait) => wait.kind === "replay", "go")) return;
    if (isWorking) return this.#besideWork();
    if (hasParks) return this.#after(this.options.parkWaitMs, () => this.#parks());
    if (this.#has("left_out")) return this.#after(this.#droppedWait(), () => this.#runDropped());
    const isBeside = this.order.overlaps > 0 || this.order.active > 1 || this.order.known.hasConcurrency;
    const usual = isBeside ? CHANGED_WAIT_BESIDE_MS : CHANGED_WAIT_MS;
    this.#after(this.options.changedWaitMs ?? usual, () =>
      this.#answer((wait) => wait.kind === "turn" || wait.kind === "replay", "changed"),
    );
  }

  #isTurn(before: number): boolean {
    return !this.#isOrderKnown || this.order.isTurn(before);
  }

  /** A step works beside waiting calls. */
  #besideWork(): void {
    if (this.#has("turn")) {
      return this.#after(TURN_WAIT_MS, () => {
        this.options.warn("the order of steps differs from earlier attempts; running them in the new order");
        this.#isOrderKnown = false;
        this.#look();
      });
    }
    const ends = this.#awaited().flatMap(({ until }) => (until === undefined ? [] : [until]));
    if (ends.length === 0) return;
    const first = Math.min(...ends);
    this.#after(first - this.options.now(), () => {
      if (this.options.now() < first) return this.#look();
      const isOver = (wait: Wait) => wait.kind === "park" && wait.awaited.kind === "moment" && wait.awaited.until <= first;
      // Whether a signal came in time is decided by the server, when the step has ended.
      this.#answer(isOver, "go");
    });
  }

  #parks(): void {
    const awaited = this.#awaited();
    const [spawn, ...others] = [...this.#waiters].filter(({ wait }) => wait.kind === "spawn");
    if (spawn !== undefined) {
      this.#waiters.delete(spawn);
      // The last of several groups parks, on all of them.
      return spawn.answer(others.length === 0 ? awaited : "spawn_first");
    }
    this.options.park(awaited);
  }

  #runDropped(): void {
    this.options.warn("a call that an earlier attempt dropped is not dropped this time, and runs again");
    const first = [...this.#waiters].find(({ wait }) => wait.kind === "left_out");
    if (first === undefined) return;
    this.#waiters.delete(first);
    first.answer("go");
  }

  #droppedWait(): number {
    const ran = [...this.#waiters].map(({ wait }) => (wait.kind === "left_out" ? wait.ranMs : 0));
    return DROPPED_WAIT_MS + 2 * Math.max(...ran);
  }

  /** Whether a step does more than wait in calls inside it. */
  #isWorking(): boolean {
    const isWaiting = (key: string) => [...this.#waiters].some(({ call }) => isWithin(call.branch.path, key));
    return [...this.order.calls].some((call) => call.isWorking && !isWaiting(call.key));
  }

  #awaited(): Awaited[] {
    return [...this.#waiters].flatMap(({ wait }) => (wait.kind === "park" ? [wait.awaited] : []));
  }

  #has(kind: Wait["kind"]): boolean {
    return [...this.#waiters].some(({ wait }) => wait.kind === kind);
  }

  #answer(isIt: (wait: Wait) => boolean, answer: Answer): boolean {
    const found = [...this.#waiters].filter(({ wait }) => isIt(wait));
    for (const waiter of found) {
      this.#waiters.delete(waiter);
      waiter.answer(answer);
    }
    return found.length > 0;
  }

  #after(ms: number, act: () => void): void {
    this.#timer = setTimeout(act, Math.min(Math.max(ms, 0), TIMER_MS_MAX));
  }
}
