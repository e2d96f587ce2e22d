/** Timers and turns of the event loop. */

/** Resolves after a time, or as soon as the signal fires. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end, { once: true });
  });
}

/** Calls back after everything that is ready now has run. */
export const nextTurn: (callback: () => void) => void =
  typeof setImmediate === "function" ? (callback) => void setImmediate(callback) : (callback) => void setTimeout(callback, 0);

/** A wake-up that is remembered until it is taken. */
export class Bell {
  #ring: (() => void) | undefined;
  #isRung = false;

  ring(): void {
    this.#isRung = true;
    this.#ring?.();
  }

  /** Resolves at once if it was rung since the last wait. */
  wait(): Promise<void> {
    if (this.#isRung) {
      this.#isRung = false;
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      this.#ring = () => {
        this.#ring = undefined;
        this.#isRung = false;
        resolve();
      };
    });
  }
}
