/**
 * An LLM pipeline: summarise the parts of a text by calls of a model, side by side, and have a person approve the summary. At
 * most two calls run at once and four begin in a minute, counted by the server for all processes; each call reports its cost,
 * and the tenant's daily budget stops further calls until the next day. Calls that were paid are never repeated.
 *
 *     windlass dev -- node examples/llm.js
 */

import { pathToFileURL } from "node:url";

import { type Cx, RetryAfter, Windlass, defineJob } from "@windlass/sdk";

export const summarise = defineJob<{ parts: readonly string[] }, string | null>("text.summarise", { timeouts: { lifetime: "7d" } });

export const ask = defineJob<{ prompt: string }, string>("model.ask", {
  queue: "model",
  retry: { preset: "backoff", maxAttempts: 5 },
  timeouts: { execution: "2m", lifetime: "7d" },
});

/** A model. */
export interface Model {
  /** The answer, word by word, and its cost; or for how long the provider asks to wait. */
  ask(prompt: string, options: { key: string; signal: AbortSignal }): Promise<{ words: readonly string[]; cents: number } | { retryAfter: string }>;
}

/** Sets the limits; the key needs the role `admin`. Done at every start, it changes nothing the second time. */
export async function setLimits(client: Windlass): Promise<void> {
  const put = (path: string, settings: object) => client.http.ask({ method: "PUT", path, body: JSON.stringify(settings), isRepeatable: true });
  await put("/queues/model", { max_running: 2, rate: { count: 4, per: "1m" } });
  await put("/tenants/default", { budget_cents: 80, budget_period: "day" });
}

/** The handler of calls. */
export function asking(model: Model): (call: { prompt: string }, cx: Cx) => Promise<string> {
  return async ({ prompt }, cx) =>
    // A step, so that an attempt that crashes after the answer does not pay for another one.
    await cx.step("ask", async (signal) => {
      const answer = await model.ask(prompt, { key: cx.idempotencyKey("ask"), signal });
      if ("retryAfter" in answer) throw new RetryAfter(answer.retryAfter, "the provider is busy");
      cx.cost(answer.cents); // counts towards the budget
      for (const word of answer.words) void cx.stream(`${word} `); // readers see the answer as it is written
      return answer.words.join(" ");
    });
}

/** The handler of texts: `null` if the summary was declined, or not answered in two days. */
export async function summarising({ parts }: { parts: readonly string[] }, cx: Cx): Promise<string | null> {
  const answers = await cx.all(parts.map((part) => ask.child({ prompt: `summarise ${part}` })));
  const draft = answers.join("; ");
  await cx.progress(80, `to be approved: ${draft}`);
  const isApproved = await cx.waitSignal<boolean>("approved", { timeout: "2d" });
  return isApproved === true ? draft : null;
}

/** A model that costs ten cents and repeats what it is asked. */
export const echo: Model = {
  async ask(prompt) {
    return { words: prompt.replace("summarise", "summary of").split(" "), cents: 10 };
  },
};

/** Summarises three parts and approves them. */
export async function main(): Promise<void> {
  const client = new Windlass();
  await setLimits(client);
  await using worker = client.worker({ concurrency: 20 });
  worker.on(summarise, summarising).on(ask, asking(echo));
  await worker.start();
  const handle = await client.submit(summarise, { parts: ["one", "two", "three"] });
  await handle.signal("approved", true);
  console.log(await handle.result({ timeout: "1m" }));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) await main();
