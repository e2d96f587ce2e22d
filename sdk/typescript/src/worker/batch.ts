/** Sends what several jobs write at the same time in one request: each job has its own answer. */

import { ApiError } from "../errors.js";
import { nextTurn } from "../timing.js";

/** Items in one request. */
const ITEMS_MAX = 1000;
/** Text of one request, unless a single item has more. */
const CHARS_MAX = 1 << 20;
/** Requests under way at once; what comes meanwhile shares the next one. */
const REQUESTS_MAX = 2;

interface Waiting<A> {
  readonly workerId: string;
  readonly json: string;
  readonly resolve: (answer: A) => void;
  readonly reject: (error: unknown) => void;
}

export class Batch<A> {
  #queue: Waiting<A>[] = [];
  #underWay = 0;
  #isScheduled = false;

  /** `send` returns the answers in the order of the items, which are JSON. */
  constructor(private readonly send: (workerId: string, items: string) => Promise<readonly A[]>) {}

  /** Sends an item and returns its answer. */
  add(workerId: string, json: string): Promise<A> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ workerId, json, resolve, reject });
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#isScheduled || this.#underWay >= REQUESTS_MAX || this.#queue.length === 0) return;
    this.#isScheduled = true;
    // What is written in the same turn goes together.
    nextTurn(() => {
      this.#isScheduled = false;
      if (this.#queue.length === 0) return;
      this.#underWay += 1;
      void this.#ask(this.#take()).finally(() => {
        this.#underWay -= 1;
        this.#schedule();
      });
      this.#schedule();
    });
  }

  #take(): Waiting<A>[] {
    const workerId = this.#queue[0]?.workerId;
    let chars = 0;
    const beyond = this.#queue.findIndex(
      (one, index) => index === ITEMS_MAX || ((chars += one.json.length) > CHARS_MAX && index > 0) || one.workerId !== workerId,
    );
    return this.#queue.splice(0, beyond === -1 ? this.#queue.length : beyond);
  }

  async #ask(items: readonly Waiting<A>[]): Promise<void> {
    try {
      const answers = await this.send(items[0]!.workerId, items.map(({ json }) => json).join(","));
      items.forEach(({ resolve, reject }, index) => {
        const answer = answers[index];
        if (answer === undefined) reject(new Error("the server gave no answer for this job"));
        else resolve(answer);
      });
    } catch (error) {
      // One of them may be the reason, such as a text that is no Unicode, and the others must not fail with it.
      if (items.length > 1 && error instanceof ApiError && [400, 413, 422].includes(error.status)) {
        const middle = Math.floor(items.length / 2);
        await this.#ask(items.slice(0, middle));
        return await this.#ask(items.slice(middle));
      }
      for (const { reject } of items) reject(error);
    }
  }
}
