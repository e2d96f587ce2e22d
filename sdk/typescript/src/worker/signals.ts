/** Stops workers when the process is asked to; for Node, Bun and Deno. */

import type { Worker } from "./worker.js";

/** The part of Node's `process` that is used. */
interface Process {
  on(event: string, listener: () => void): unknown;
  off(event: string, listener: () => void): unknown;
  exit(code: number): never;
}

/**
 * Runs workers until SIGTERM or SIGINT, then lets them finish their jobs and deregister. A second signal ends the process
 * at once.
 *
 * ```ts
 * await runUntilSignal(client.worker({ concurrency: 20 }).on(email, sendEmail));
 * ```
 */
export async function runUntilSignal(...workers: Worker[]): Promise<void> {
  const { process } = globalThis as unknown as { process: Process };
  let signals = 0;
  const stop = () => {
    signals += 1;
    if (signals > 1) process.exit(130);
    for (const worker of workers) void worker.stop();
  };
  const names = ["SIGTERM", "SIGINT"];
  for (const name of names) process.on(name, stop);
  try {
    await Promise.all(workers.map((worker) => worker.run()));
  } finally {
    for (const name of names) process.off(name, stop);
    // One that cannot continue must not leave the others running.
    await Promise.all(workers.map((worker) => worker.stop()));
  }
}
