/** A PostgreSQL server of its own, and a client of it that needs no package: `psql`. */

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chownSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

const ROOT = "/usr/lib/postgresql";

/** The newest version's programs, which Debian keeps out of the way. */
function programs(): string {
  const versions = readdirSync(ROOT).sort((a, b) => Number(b) - Number(a));
  return join(ROOT, versions[0]!, "bin");
}

/** Starts a server that need not survive a loss of power; returns its folder, which is its address. */
export function startPostgres(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "windlass-pg-"));
  // PostgreSQL refuses to run as root.
  const isRoot = process.getuid?.() === 0;
  const id = (flag: string) => Number(execFileSync("id", [flag, "nobody"], { encoding: "utf8" }));
  const user = isRoot ? { uid: id("-u"), gid: id("-g") } : {};
  if (user.uid !== undefined) chownSync(folder, user.uid, user.gid);
  const run = (program: string, ...args: string[]) =>
    execFileSync(join(programs(), program), ["-D", join(folder, "data"), ...args], { ...user, cwd: "/", stdio: "ignore" });
  run("initdb", "--username=windlass", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C");
  run("pg_ctl", "-w", "-l", join(folder, "log"), "-o", `-k '${folder}' -c listen_addresses= -c fsync=off`, "start");
  t.after(() => {
    run("pg_ctl", "-m", "immediate", "-w", "stop");
    rmSync(folder, { recursive: true, force: true });
  });
  return folder;
}

/** One session of `psql`, with the interface of a client of `pg`. */
export class Psql {
  readonly #process: ChildProcess;
  #output = "";
  #count = 0;

  constructor(t: TestContext, folder: string) {
    const args = ["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--host", folder, "--username", "windlass", "postgres"];
    this.#process = spawn(join(programs(), "psql"), args, { stdio: ["pipe", "pipe", "inherit"] });
    this.#process.stdout!.on("data", (chunk: Buffer) => {
      this.#output += chunk.toString();
    });
    t.after(() => this.#process.kill());
  }

  /** Runs a statement with values; the rows have one column, `id`. */
  async query(text: string, values: unknown[] = []): Promise<{ rows: { id: string }[] }> {
    this.#count += 1;
    const end = `end of ${this.#count}`;
    const name = `statement_${this.#count}`;
    const statement = values.length === 0 ? `${text};` : `PREPARE ${name} AS ${text};\nEXECUTE ${name}(${values.map(literal).join(", ")});`;
    this.#output = "";
    this.#process.stdin!.write(`${statement}\n\\echo ${end}\n`);
    while (!this.#output.includes(`${end}\n`)) {
      if (this.#process.exitCode !== null) throw new Error(`psql ended with ${this.#process.exitCode}`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    const lines = this.#output.split("\n").filter((line) => line !== "" && line !== end);
    return { rows: lines.map((id) => ({ id })) };
  }
}

function literal(value: unknown): string {
  if (value instanceof Uint8Array) return `'\\x${Buffer.from(value).toString("hex")}'`;
  return `'${String(value).replaceAll("'", "''")}'`;
}
