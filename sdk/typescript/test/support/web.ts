/** What tests of web programs share: a server that may call them, programs to be called, and their secrets. */

import { execFileSync } from "node:child_process";
import { type RequestListener, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";

/** Lets a server call programs of this machine. */
export const CALLS_THIS_MACHINE = ["--allow-http-callbacks", "--allow-private-callbacks", "127.0.0.0/8", "--callback-ports", "any"];

/** A web program; its address. */
export async function listen(t: TestContext, listener: RequestListener): Promise<string> {
  const program = createServer(listener);
  await new Promise<void>((resolve) => program.listen(0, "127.0.0.1", resolve));
  t.after(() => program.close());
  return `http://127.0.0.1:${(program.address() as AddressInfo).port}`;
}

/** The secret that a store has for an address. */
export function secretOf(store: string, url: string, ...more: string[]): string {
  const binary = process.env["WINDLASS_BINARY"] ?? "windlass";
  return execFileSync(binary, ["webhooks", "secret", url, "--store", store, ...more], { encoding: "utf8" }).trim();
}
