/**
 * The loop that sends heartbeats. It must not depend on the event loop of handlers, which they can block, so it usually
 * runs in a thread of its own, as the text of this function: it uses nothing from outside but standard functions.
 */

/** What the loop needs to know. */
export interface BeatConfig {
  readonly url: string;
  readonly key: string | undefined;
  /** Longest time between two heartbeats. */
  readonly everyMs: number;
  /** After this long without an answer handlers must stop. */
  readonly silenceMs: number;
}

/** From the worker to the loop. */
export type BeatOrder =
  | { readonly type: "worker"; readonly id: string }
  /** A line `ID FENCE LEASE_MS` for each; a text, because it is cheap to hand to a thread. */
  | { readonly type: "add"; readonly jobs: string }
  /** A line `ID FENCE` for each. */
  | { readonly type: "remove"; readonly jobs: string }
  | { readonly type: "stop" };

/** From the loop to the worker. */
export type BeatNews =
  | { readonly type: "directives"; readonly jobs: readonly (readonly [id: string, fence: number, directive: string])[] }
  | { readonly type: "mode"; readonly mode: string | undefined }
  | { readonly type: "unknown"; readonly id: string }
  | { readonly type: "silent" }
  | { readonly type: "problem"; readonly message: string };

/** Sends heartbeats until it is told to stop. Returns the function that takes orders. */
export function beatLoop(config: BeatConfig, tell: (news: BeatNews) => void): (order: BeatOrder) => void {
  /** A job must have run for this long before a waiting request is sent again because of it. */
  const SETTLED_MS = 100;
  /** Leases last at least a second. */
  const EVERY_MS_LEAST = 300;
  const JOBS_MAX = 1000;
  const jobs = new Map<string, { id: string; fence: number; since: number; everyMs: number }>();
  let workerId: string | undefined;
  let isStopped = false;
  let request = new AbortController();
  let sent = new Set<string>();
  let lastAnswer = performance.now();
  let isSilent = false;
  let mode: string | undefined;
  let wake = () => {};
  let pauseMs = 50;

  const pause = (ms: number) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });

  /** The longest time until the next heartbeat: a third of the shortest lease, so that one that is lost ends none. */
  const everyMs = () => {
    let least = config.everyMs;
    for (const job of jobs.values()) least = Math.min(least, job.everyMs);
    return least;
  };

  const beat = async () => {
    const now = performance.now();
    const all = [...jobs.entries()];
    // A lease is renewed when a request arrives, not when it is answered: two in a row must be short of the silence.
    const waitMs = Math.round(everyMs() / 2);
    for (let at = 0; at === 0 || at < all.length; at += JOBS_MAX) {
      const part = all.slice(at, at + JOBS_MAX);
      const isLast = at + JOBS_MAX >= all.length;
      request = new AbortController();
      sent = new Set(all.map(([key]) => key));
      const timer = setTimeout(() => request.abort(), waitMs + 10_000);
      try {
        const body = JSON.stringify({
          worker_id: workerId,
          jobs: part.map(([, { id, fence }]) => ({ id, fence })),
          wait: isLast ? `${waitMs}ms` : undefined,
        });
        const headers: Record<string, string> = { "content-type": "application/json" };
        if (config.key !== undefined) headers["authorization"] = `Bearer ${config.key}`;
        const response = await fetch(`${config.url}/api/v1/heartbeats`, { method: "POST", headers, body, signal: request.signal });
        const text = await response.text();
        if (response.status === 404) {
          const id = workerId;
          workerId = undefined;
          if (id !== undefined) tell({ type: "unknown", id });
          return;
        }
        if (!response.ok) throw new Error(`${response.status} ${text.slice(0, 200)}`);
        lastAnswer = Math.max(now, lastAnswer);
        isSilent = false;
        pauseMs = 50;
        learn(part, JSON.parse(text));
      } finally {
        clearTimeout(timer);
      }
    }
  };

  const learn = (
    part: [string, { id: string; fence: number }][],
    answer: { jobs: { directive: string }[]; worker?: { paused?: boolean; mode?: string | null } },
  ) => {
    const told: [string, number, string][] = [];
    part.forEach(([key, { id, fence }], index) => {
      const directive = answer.jobs[index]?.directive ?? "lost";
      if (directive === "continue") return;
      // Told once: the server would answer at once again.
      if (jobs.delete(key)) told.push([id, fence, directive]);
    });
    if (told.length > 0) tell({ type: "directives", jobs: told });
    const now = answer.worker?.mode ?? (answer.worker?.paused ? "graceful" : undefined);
    if (now !== mode) tell({ type: "mode", mode: now });
    mode = now;
  };

  const run = async () => {
    while (!isStopped) {
      if (workerId === undefined) {
        await pause(config.everyMs);
        continue;
      }
      try {
        await beat();
      } catch (error) {
        // Sent again because of a new job, or because the worker stops.
        if (isStopped || request.signal.reason === "again") continue;
        const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
        tell({ type: "problem", message: cause instanceof Error ? cause.message : String(cause) });
        await pause(Math.min(pauseMs, everyMs()));
        pauseMs = Math.min(pauseMs * 2, 2000);
      }
    }
  };

  /** Includes jobs that have run for a while in the request that waits for directives, and notices silence. */
  const refresh = setInterval(() => {
    if (!isSilent && workerId !== undefined && performance.now() - lastAnswer >= config.silenceMs) {
      isSilent = true;
      tell({ type: "silent" });
    }
    const before = performance.now() - SETTLED_MS;
    for (const [key, { since }] of jobs) {
      if (since <= before && !sent.has(key)) return request.abort("again");
    }
  }, SETTLED_MS);

  void run();
  return (order) => {
    switch (order.type) {
      case "worker":
        workerId = order.id;
        jobs.clear();
        lastAnswer = performance.now();
        request.abort("again");
        wake();
        break;
      case "add":
        for (const line of order.jobs.split("\n")) {
          const [id, fence, leaseMs] = line.split(" ") as [string, string, string | undefined];
          const ownMs = leaseMs === undefined ? config.everyMs : Math.max(EVERY_MS_LEAST, Math.floor(Number(leaseMs) / 3));
          jobs.set(`${id} ${fence}`, { id, fence: Number(fence), since: performance.now(), everyMs: ownMs });
        }
        break;
      case "remove":
        for (const line of order.jobs.split("\n")) jobs.delete(line);
        break;
      case "stop":
        isStopped = true;
        clearInterval(refresh);
        request.abort("again");
        wake();
    }
  };
}
