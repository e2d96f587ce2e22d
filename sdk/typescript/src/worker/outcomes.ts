/** Reports outcomes in batches, and again while the server cannot be reached. A repeat of an applied one is stale. */

import type { Http } from "../client/http.js";
import { type Saved, checkpointsJson } from "../context/order.js";
import { parkBody } from "../context/waits.js";
import type { Outcome } from "../context/run.js";
import { ApiError } from "../errors.js";
import { type FailureBody, messageOf } from "../failure.js";
import { Bell, nextTurn, pause } from "../timing.js";
import type { Logger } from "./logger.js";
import type { OutcomeAnswer } from "./protocol.js";

/** An outcome to report. */
export interface Report {
  readonly workerId: string;
  readonly id: string;
  readonly fence: number;
  readonly outcome: Outcome;
  readonly costCents: number;
  /** Checkpoints that are saved in the commit of the outcome. */
  readonly checkpoints: readonly Saved[];
  /** Output that is written in the commit of the outcome, as JSON. */
  readonly streamJson?: string | undefined;
}

const OUTCOMES_MAX = 1000;
/** Results of one request; the server takes 64 MiB. */
const BYTES_MAX = 8 << 20;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2000;

export class Reporter {
  readonly #queue: { report: Report; json: string }[] = [];
  readonly #bell = new Bell();
  #waiting: (() => void)[] = [];
  #isClosing = false;
  #unreported = 0;
  readonly done: Promise<void>;

  constructor(
    private readonly http: Http,
    private readonly logger: Logger,
    /** Called with the outcomes that need no report any more. */
    private readonly onReported: (reports: readonly Report[]) => void,
    private readonly signal: AbortSignal,
  ) {
    this.done = this.#run();
  }

  /** How many outcomes are not reported yet. */
  get backlog(): number {
    return this.#unreported;
  }

  report(report: Report): void {
    this.#unreported += 1;
    this.#queue.push(this.#written(report));
    this.#bell.ring();
  }

  #written(report: Report): { report: Report; json: string } {
    try {
      return { report, json: bodyOf(report, this.http.now()) };
    } catch (error) {
      // Without an outcome the lease would expire, and the next attempt end in the same way.
      return failedInstead(report, { category: "system", code: "panic", message: `the outcome cannot be written: ${messageOf(error)}` });
    }
  }

  /** Resolves when some outcomes were reported. */
  progress(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Reports what is left, then ends. */
  close(): void {
    this.#isClosing = true;
    this.#bell.ring();
  }

  async #run(): Promise<void> {
    for (;;) {
      if (this.#queue.length === 0) {
        if (this.#isClosing) return;
        await this.#bell.wait();
        // Quick handlers end together: one commit takes all of them.
        await new Promise<void>(nextTurn);
        continue;
      }
      const batch = this.#take();
      await this.#send(batch);
      this.#unreported -= batch.length;
      this.onReported(batch.map(({ report }) => report));
      for (const resolve of this.#waiting.splice(0)) resolve();
    }
  }

  /** The next outcomes, of one registration of the worker. */
  #take(): { report: Report; json: string }[] {
    const workerId = this.#queue[0]?.report.workerId;
    let bytes = 0;
    let count = 0;
    for (const { report, json } of this.#queue) {
      bytes += json.length;
      if (count === OUTCOMES_MAX || (count > 0 && bytes > BYTES_MAX) || report.workerId !== workerId) break;
      count += 1;
    }
    return this.#queue.splice(0, count);
  }

  async #send(batch: { report: Report; json: string }[]): Promise<void> {
    for (let wait = FIRST_PAUSE_MS; ; wait = Math.min(wait * 2, LONGEST_PAUSE_MS)) {
      try {
        const answers = await this.#post(batch);
        const rejected = batch.flatMap(({ report }, index) => {
          const answer = answers[index];
          return answer?.status === "rejected" ? [failedInstead(report, failureInstead(answer.error))] : [];
        });
        // If this is rejected too, the lease expires.
        if (rejected.length > 0) await this.#post(rejected);
        return;
      } catch (error) {
        if (this.signal.aborted) return;
        if (error instanceof ApiError && error.status < 500 && ![408, 429].includes(error.status)) {
          return await this.#refused(batch, error);
        }
        this.logger.warn(`failed to report ${batch.length} outcomes, will retry: ${messageOf(error)}`);
        await pause(wait, this.signal);
      }
    }
  }

  /** One outcome may be the cause, and the others must not wait for it until their leases expire. */
  async #refused(batch: { report: Report; json: string }[], error: ApiError): Promise<void> {
    if (error.status === 404 || error.status === 401 || error.status === 403) {
      return this.logger.warn(`${batch.length} outcomes were not accepted: ${error.message}`);
    }
    if (batch.length > 1) {
      const middle = Math.floor(batch.length / 2);
      await this.#send(batch.slice(0, middle));
      return await this.#send(batch.slice(middle));
    }
    const { report } = batch[0]!;
    if (report.outcome.outcome === "failed" && report.outcome.error.code === "outcome_rejected") return;
    await this.#send([failedInstead(report, failureInstead(error))]);
  }

  async #post(batch: { report: Report; json: string }[]): Promise<readonly OutcomeAnswer[]> {
    const workerId = batch[0]?.report.workerId;
    const body = `{"worker_id":"${workerId}","outcomes":[${batch.map(({ json }) => json).join(",")}]}`;
    const call = { method: "POST", path: "/outcomes", body, once: true, signal: this.signal } as const;
    const answer = await this.http.ask<{ outcomes: OutcomeAnswer[] }>(call);
    return answer.outcomes;
  }
}

/** The failure of an attempt whose outcome the server cannot store, or whose follow-up it refused. */
function failureInstead(error: OutcomeAnswer["error"] | ApiError): FailureBody {
  const message = error?.message ?? "it was rejected";
  const details = error?.details as { index?: number } | undefined;
  if (details?.index === undefined) return { category: "permanent", code: "outcome_rejected", message };
  if (["invalid_value", "payload_too_large", "forbidden"].includes(error?.code ?? "")) {
    return { category: "permanent", code: "not_allowed", message };
  }
  return { category: "temporary", code: error?.code === "unique_key_taken" ? error.code : "not_written", message };
}

function failedInstead(report: Report, error: FailureBody): { report: Report; json: string } {
  // The costs may be what it could not store.
  const failed: Report = { ...report, costCents: 0, checkpoints: [], streamJson: undefined, outcome: { outcome: "failed", error } };
  return { report: failed, json: bodyOf(failed, 0) };
}

/** An outcome as it is sent. */
export function bodyOf({ id, fence, outcome, costCents, checkpoints, streamJson }: Report, now: number): string {
  const cost = costCents === 0 ? "" : `,"cost_cents":${Math.round(costCents)}`;
  const saved = checkpoints.length === 0 ? "" : `,"checkpoints":${checkpointsJson(checkpoints)}`;
  const streamed = streamJson === undefined ? "" : `,"stream":${streamJson}`;
  const head = `{"id":"${id}","fence":${fence},"outcome":"${outcome.outcome}"${cost}${saved}${streamed}`;
  switch (outcome.outcome) {
    case "completed": {
      const result = outcome.resultJson === "null" ? "" : `,"result":${outcome.resultJson}`;
      const jobs = outcome.followUpsJson.length === 0 ? "" : `,"submit":[${outcome.followUpsJson.join(",")}]`;
      return `${head}${result}${jobs}}`;
    }
    case "failed":
      return `${head},"error":${JSON.stringify(outcome.error)}}`;
    case "parked": {
      const park = "forMs" in outcome ? { for: `${outcome.forMs}ms` } : parkBody(outcome.awaited, now);
      return `${head},"park":${JSON.stringify(park)}}`;
    }
    case "released":
      return `${head}}`;
  }
}
