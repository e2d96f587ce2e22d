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

interface Job {
  readonly id: string;
  readonly fence: number;
  /** A third of its lease. */
  readonly thirdMs: number;
  /** When it must be in a request, unless it is in the one that waits. */
  dueAt: number;
}

/**
 * Sends heartbeats until it is asked to stop. Returns the function that takes orders. One request after the other waits
 * for directives; nothing that jobs do ends it. Jobs that are not in it are sent in short ones beside it.
 */
export function beatLoop(config: BeatConfig, tell: (news: BeatNews) => void): (order: BeatOrder) => void {
  /** A job must have run for this long before it is sent in a short request. */
  const SETTLED_MS = 100;
  /** A job that is not in the request that waits is sent again after this long, so that it learns of directives. */
  const SHORT_EVERY_MS = 1000;
  /** Leases last at least a second. */
  const EVERY_MS_LEAST = 300;
  const JOBS_MAX = 1000;
  /** How long an answer may take beside the wait. */
  const ANSWER_MS_LEAST = 1000;
  const ANSWER_MS_MAX = 8000;
  /** A request ends so long before handlers must stop, so that another one can be answered. */
  const RETRY_MS = 2000;
  /** Clocks that differ by more all at once were set, or the machine slept. */
  const JUMP_MS = 5000;
  const jobs = new Map<string, Job>();
  /** The jobs of the request that waits. */
  let waiting = new Set<Job>();
  const inFlight = new Set<AbortController>();
  let isShortInFlight = false;
  let workerId: string | undefined;
  let isStopped = false;
  let lastAnswer = performance.now();
  let isSilent = false;
  let mode: string | undefined;
  let wake = () => {};
  let offsetMs = Date.now() - performance.now();

  const pause = (ms: number) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });

  /** A third of the shortest lease, so that a heartbeat that is lost ends none. */
  const thirdMs = () => {
    let least = Infinity;
    for (const job of jobs.values()) least = Math.min(least, job.thirdMs);
    return least;
  };
  /** The longest time until the next heartbeat. */
  const everyMs = (third = thirdMs()) => Math.min(config.everyMs, Math.max(EVERY_MS_LEAST, third));

  const endRequests = () => {
    for (const request of inFlight) request.abort("again");
  };

  /**
   * Sends one request. `late` if it was not answered in time: then its connection is closed, which may be half dead.
   * `again` if it was ended for another reason than a failure.
   */
  const ask = async (part: readonly Job[], isWaiting: boolean): Promise<"answered" | "failed" | "late" | "again"> => {
    const sentAt = performance.now();
    const id = workerId;
    const third = thirdMs();
    const answerMs = Math.max(ANSWER_MS_LEAST, Math.min(ANSWER_MS_MAX, third));
    const leftMs = lastAnswer + config.silenceMs - sentAt - RETRY_MS;
    // A lease is renewed when a request arrives, not when it is answered. Of three in a row, the second is lost, and the
    // third is answered before the silence.
    const spareMs = Math.min((config.silenceMs - RETRY_MS - answerMs) / 2, leftMs - answerMs);
    const waitMs = isWaiting ? Math.max(SETTLED_MS, Math.round(Math.min(everyMs(third) / 2, spareMs))) : 0;
    const limitMs = leftMs < ANSWER_MS_LEAST ? answerMs : Math.min(waitMs + answerMs, leftMs);
    const request = new AbortController();
    inFlight.add(request);
    const timer = setTimeout(() => request.abort("late"), limitMs);
    try {
      const items = part.map((job) => ({ id: job.id, fence: job.fence }));
      const body = JSON.stringify({ worker_id: id, jobs: items, wait: waitMs > 0 ? `${waitMs}ms` : undefined });
      const headers: Record<string, string> = { "content-type": "application/json" };
      if (config.key !== undefined) headers["authorization"] = `Bearer ${config.key}`;
      // No idle connection, which may be half dead as well, is there for the request that follows a late one. With longer
      // leases it was closed meanwhile.
      if (answerMs < ANSWER_MS_MAX) headers["connection"] = "close";
      const response = await fetch(`${config.url}/api/v1/heartbeats`, { method: "POST", headers, body, signal: request.signal });
      const text = await response.text();
      if (workerId !== id || id === undefined) return "again";
      if (response.status === 404) {
        workerId = undefined;
        tell({ type: "unknown", id });
        return "answered";
      }
      if (!response.ok) throw new Error(`${response.status} ${text.slice(0, 200)}`);
      learn(part, JSON.parse(text));
      lastAnswer = Math.max(sentAt, lastAnswer);
      isSilent = false;
      return "answered";
    } catch (error) {
      const { reason } = request.signal;
      if (isStopped || reason === "again") return "again";
      const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
      const message = cause instanceof Error ? cause.message : String(cause);
      tell({ type: "problem", message: reason === "late" ? `no answer after ${Math.round(limitMs)} ms` : message });
      return reason === "late" ? "late" : "failed";
    } finally {
      clearTimeout(timer);
      inFlight.delete(request);
    }
  };

  const learn = (
    part: readonly Job[],
    answer: { jobs: { directive: string }[]; worker?: { paused?: boolean; mode?: string | null } },
  ) => {
    const changed: [string, number, string][] = [];
    part.forEach(({ id, fence }, index) => {
      const directive = answer.jobs[index]?.directive ?? "lost";
      if (directive === "continue") return;
      // Reported once: the server would answer at once again.
      if (jobs.delete(`${id} ${fence}`)) changed.push([id, fence, directive]);
    });
    if (changed.length > 0) tell({ type: "directives", jobs: changed });
    const now = answer.worker?.mode ?? (answer.worker?.paused ? "graceful" : undefined);
    if (now !== mode) tell({ type: "mode", mode: now });
    mode = now;
  };

  /** Sends requests that wait for directives. */
  const run = async () => {
    let pauseMs = 50;
    while (!isStopped) {
      if (workerId === undefined) {
        await pause(config.everyMs);
        continue;
      }
      const part = [...jobs.values()].slice(0, JOBS_MAX);
      waiting = new Set(part);
      const end = await ask(part, true);
      if (end === "failed") {
        await pause(Math.min(pauseMs, everyMs()));
        pauseMs = Math.min(pauseMs * 2, 2000);
      } else if (end === "answered") pauseMs = 50;
    }
  };

  /** Sends the jobs that are due and not in the request that waits. */
  const sendDue = async () => {
    const now = performance.now();
    const due = [...jobs.values()].filter((job) => job.dueAt <= now && !waiting.has(job));
    if (isShortInFlight || workerId === undefined || due.length === 0) return;
    // Many are sent no more often than those in the request that waits.
    const againMs = Math.min(jobs.size > JOBS_MAX ? config.everyMs / 2 : SHORT_EVERY_MS, everyMs());
    const part = due.sort((a, b) => a.dueAt - b.dueAt).slice(0, JOBS_MAX);
    for (const job of part) job.dueAt = now + againMs;
    isShortInFlight = true;
    const end = await ask(part, false);
    isShortInFlight = false;
    if (end === "late" || end === "again") for (const job of part) job.dueAt = now;
  };

  /** Notices silence and a machine that slept, and sends new jobs. */
  const refresh = setInterval(() => {
    const now = performance.now();
    if (!isSilent && workerId !== undefined && now - lastAnswer >= config.silenceMs) {
      isSilent = true;
      tell({ type: "silent" });
    }
    // Leases may have ended meanwhile: the server says which. Clocks alone do not tell, because people set them.
    const before = offsetMs;
    offsetMs = Date.now() - now;
    if (Math.abs(offsetMs - before) > JUMP_MS) endRequests();
    void sendDue();
  }, SETTLED_MS);

  void run();
  return (order) => {
    switch (order.type) {
      case "worker":
        workerId = order.id;
        jobs.clear();
        lastAnswer = performance.now();
        isSilent = false;
        endRequests();
        wake();
        break;
      case "add":
        for (const line of order.jobs.split("\n")) {
          const [id, fence, leaseMs] = line.split(" ") as [string, string, string | undefined];
          const third = leaseMs === undefined ? Infinity : Math.floor(Number(leaseMs) / 3);
          jobs.set(`${id} ${fence}`, { id, fence: Number(fence), thirdMs: third, dueAt: performance.now() + SETTLED_MS });
        }
        break;
      case "remove":
        for (const line of order.jobs.split("\n")) jobs.delete(line);
        break;
      case "stop":
        isStopped = true;
        clearInterval(refresh);
        endRequests();
        wake();
    }
  };
}
