/** Submits in a transaction of your own on PostgreSQL: the job exists exactly if the transaction commits. */

import type { AnyJob, JobDefinition, SubmitOptions } from "./define.js";
import { submissionOf } from "./submission.js";

/** Runs a statement in your transaction: a client of `pg`, or a function for any other library. */
export type SqlClient =
  | { query(text: string, values: unknown[]): Promise<{ rows: unknown[] }> }
  | ((text: string, values: unknown[]) => Promise<readonly unknown[]>);

/** Options of a submission in SQL. */
export interface SqlSubmitOptions extends Omit<SubmitOptions, "debounce"> {
  /** The schema of the store, `windlass` if not given. */
  readonly schema?: string;
}

/**
 * Submits a job in the transaction that `client` is in, through the function `windlass.submit` of the store. Returns the
 * job's id. A rollback leaves nothing.
 *
 * ```ts
 * await client.query("BEGIN");
 * await client.query("INSERT INTO orders …");
 * await submitInTx(client, email, { to: "ada@example.com" }, { key: "order 17" });
 * await client.query("COMMIT");
 * ```
 */
export async function submitInTx<P, I, O, R>(
  client: SqlClient,
  job: JobDefinition<P, I, O, R>,
  payload: P,
  options: SqlSubmitOptions = {},
): Promise<string> {
  const { schema = "windlass", ...submit } = options;
  const submission = await submissionOf(job as AnyJob, payload, submit);
  const kind = typeof submission.payload === "string" ? "text" : "bytea";
  const name = `"${schema.replaceAll('"', '""')}"`;
  const text = `SELECT ${name}.submit($1::text, $2::${kind}, $3::jsonb) AS id`;
  const values = [job.name, submission.payload, JSON.stringify(submission.options)];
  const rows = typeof client === "function" ? await client(text, values) : (await client.query(text, values)).rows;
  return String((rows[0] as { id: unknown }).id);
}
