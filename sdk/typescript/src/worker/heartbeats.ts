/** Starts the loop of heartbeats in a thread, or in the event loop where there are no threads. */

import { type BeatConfig, type BeatNews, type BeatOrder, beatLoop } from "./beat_loop.js";

/** A running loop of heartbeats. */
export interface Heartbeats {
  order(order: BeatOrder): void;
  stop(): Promise<void>;
}

/** The part of `node:worker_threads` that is used; Bun and Deno have it, too. */
interface Threads {
  Worker: new (code: string, options: { eval: true; workerData: unknown; name: string }) => {
    postMessage(message: unknown): void;
    on(event: "message" | "error", listener: (value: never) => void): void;
    terminate(): Promise<unknown>;
  };
}

/** Starts sending heartbeats; `tell` gets the server's directives. */
export async function startHeartbeats(config: BeatConfig, isInThread: boolean, tell: (news: BeatNews) => void): Promise<Heartbeats> {
  const threads = isInThread ? await findThreads() : undefined;
  return threads === undefined ? inLoop(config, tell) : inThread(threads, config, tell);
}

function inLoop(config: BeatConfig, tell: (news: BeatNews) => void): Heartbeats {
  const order = beatLoop(config, tell);
  return { order, stop: async () => order({ type: "stop" }) };
}

/**
 * The program of the thread, in words that any kind of module has: a runtime may take it for either. Bundlers may name
 * functions with a helper, which it needs as well.
 */
const CODE = `
const __name = (target) => target;
import("node:worker_threads").then(({ parentPort, workerData }) => {
  const order = (${beatLoop.toString()})(workerData, (news) => parentPort.postMessage(news));
  parentPort.on("message", order);
});
`;

function inThread(threads: Threads, config: BeatConfig, tell: (news: BeatNews) => void): Heartbeats {
  let isStopping = false;
  const thread = new threads.Worker(CODE, { eval: true, workerData: config, name: "windlass heartbeats" });
  let fallback: Heartbeats | undefined;
  const orders: BeatOrder[] = [];
  thread.on("message", (news: BeatNews) => isStopping || tell(news));
  thread.on("error", (error: Error) => {
    if (isStopping || fallback !== undefined) return;
    tell({ type: "problem", message: `heartbeats run in the event loop, because their thread ended: ${error.message}` });
    fallback = inLoop(config, tell);
    for (const order of orders) fallback.order(order);
  });
  return {
    order(order) {
      if (fallback !== undefined) return fallback.order(order);
      // Kept for a thread that cannot start.
      if (order.type === "worker") orders.splice(0, orders.length, order);
      thread.postMessage(order);
    },
    async stop() {
      isStopping = true;
      await fallback?.stop();
      await thread.terminate();
    },
  };
}

async function findThreads(): Promise<Threads | undefined> {
  try {
    return (await import("node:worker_threads")) as unknown as Threads;
  } catch {
    return undefined;
  }
}
