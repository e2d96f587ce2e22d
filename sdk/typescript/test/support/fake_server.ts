/** A server that answers the worker protocol as a test scripts it, for what a real one does only in rare cases. */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";

import { Windlass } from "../../src/index.js";

/** A heartbeat as it was sent. */
export interface SentBeat {
  readonly jobs: readonly { readonly id: string }[];
  readonly wait?: string;
}

/** An answer: a status and a body. */
export type Answer = readonly [status: number, body: unknown];

export class FakeServer {
  readonly beats: SentBeat[] = [];
  readonly outcomes: Record<string, unknown>[] = [];
  /** The jobs of each request that saves checkpoints. */
  readonly saves: string[][] = [];
  /** Requests with these jobs are refused, and leases of those are lost. */
  readonly refused = new Set<string>();
  readonly stale = new Set<string>();
  requests = 0;
  /** Whether answers to log lines are lost. */
  losesLogs = false;
  /** Jobs that the next claims get. */
  readonly toClaim: Record<string, unknown>[] = [];
  /** How many of them each. */
  claimsMax = 1;
  heartbeatEvery = "1s";
  /** The worker protocol that it speaks. */
  protocol = 1;
  /** Whether it has forgotten all workers. */
  hasForgotten = false;
  /** How the worker is paused. */
  mode: "graceful" | "aggressive" | undefined;
  readonly client: Windlass;

  private constructor(
    readonly url: string,
    private readonly others: (method: string, path: string) => Answer,
  ) {
    this.client = new Windlass({ url, patienceMs: 0 });
  }

  /** Starts one; `others` answers what is no part of a worker's own loops. */
  static async start(t: TestContext, others: (method: string, path: string) => Answer = () => [404, {}]): Promise<FakeServer> {
    let fake: FakeServer | undefined;
    const program = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const path = request.url!.replace("/api/v1", "");
      const [status, body] = await fake!.#answer(request.method!, path, Buffer.concat(chunks).toString());
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(body));
    });
    await new Promise<void>((resolve) => program.listen(0, "127.0.0.1", resolve));
    t.after(() => {
      program.closeAllConnections();
      program.close();
    });
    fake = new FakeServer(`http://127.0.0.1:${(program.address() as AddressInfo).port}`, others);
    return fake;
  }

  async #answer(method: string, path: string, text: string): Promise<Answer> {
    this.requests += 1;
    if (method === "POST" && path === "/workers") return [201, { worker_id: "w", heartbeat_every: this.heartbeatEvery, protocol: this.protocol }];
    if (this.hasForgotten) return [404, { error: { code: "not_found", message: "register again" } }];
    if (method === "POST" && path === "/claims") {
      const jobs = this.toClaim.splice(0, this.claimsMax);
      if (jobs.length === 0) await new Promise((resolve) => setTimeout(resolve, 10));
      return [200, { jobs, paused: false }];
    }
    if (method === "POST" && path === "/heartbeats") {
      const beat = JSON.parse(text) as SentBeat;
      this.beats.push(beat);
      if (this.losesLogs && beat.jobs.some((one) => "logs" in one)) return [502, {}];
      await new Promise((resolve) => setTimeout(resolve, 10));
      return [200, { jobs: beat.jobs.map(({ id }) => ({ id, directive: "continue" })), worker: { paused: this.mode !== undefined, mode: this.mode } }];
    }
    if (method === "POST" && path === "/outcomes") {
      const { outcomes } = JSON.parse(text) as { outcomes: Record<string, unknown>[] };
      this.outcomes.push(...outcomes);
      return [200, { outcomes: outcomes.map(({ id }) => ({ id, status: "applied" })) }];
    }
    if (method === "POST" && path === "/checkpoints") {
      const { jobs } = JSON.parse(text) as { jobs: { id: string }[] };
      this.saves.push(jobs.map(({ id }) => id));
      const refused = jobs.some(({ id }) => this.refused.has(id));
      if (refused) return [400, { error: { code: "invalid_json", message: "no" } }];
      return [200, { jobs: jobs.map(({ id }) => ({ id, status: this.stale.has(id) ? "stale" : "saved" })) }];
    }
    return this.others(method, path);
  }
}

/** A job as a claim answers it. */
export function claimed(id: string, type: string, more: Record<string, unknown> = {}): Record<string, unknown> {
  const counts = { fence: 1, attempt: 1, attempt_id: `${id}.1`, priority: 50, max_attempts: 3, failures: 0 };
  return { id, type, tenant: "default", queue: "default", payload: id, checkpoints: [], ...counts, ...more };
}
