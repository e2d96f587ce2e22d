/**
 * Where in a handler a call is made: inside which step, and on which side of which race. Calls are counted for each
 * branch by itself, because a replay may not reach one.
 */

import { AsyncLocalStorage } from "node:async_hooks";

/** Separates the key of a step from the keys of calls made inside it. */
const WITHIN = "#/";

/** A branch whose calls are counted together. */
export class Branch {
  static readonly root = new Branch("", "");

  private constructor(
    /** The key of the enclosing step and `#/`; empty outside of steps. */
    readonly path: string,
    /** The sides of races inside that step, outermost first. */
    readonly sides: string,
  ) {}

  /** The branch inside the step with this key. */
  static within(key: string): Branch {
    return new Branch(key + WITHIN, "");
  }

  /** The two sides of the n-th race in this branch. */
  sidesOf(race: number): [Branch, Branch] {
    return [new Branch(this.path, `${this.sides}#l${race}`), new Branch(this.path, `${this.sides}#r${race}`)];
  }

  get isNested(): boolean {
    return this.path !== "";
  }

  get isSide(): boolean {
    return this.sides !== "";
  }

  /** Identifies the branch within its attempt. */
  get id(): string {
    return `${this.path}${this.sides}`;
  }

  /** The key of the n-th call of a name in this branch, from 1. A `#` in the name is doubled. */
  keyOf(name: string, occurrence: number): string {
    const key = `${this.path}${name.replaceAll("#", "##")}${this.sides}`;
    return occurrence === 1 ? key : `${key}#${occurrence}`;
  }
}

/** Whether the call with the key or branch `inner` is made inside the step with the key `outer`. */
export function isWithin(inner: string, outer: string): boolean {
  return inner.startsWith(outer + WITHIN);
}

/** The branch of code that runs, and the attempt that it belongs to: handlers may run inside each other in tests. */
const current = new AsyncLocalStorage<{ owner: object; branch: Branch }>();

/** The branch in which the code that runs now makes calls of this attempt. */
export function currentBranch(owner: object): Branch {
  const here = current.getStore();
  return here?.owner === owner ? here.branch : Branch.root;
}

/** Runs a function, and everything that it awaits, in a branch. */
export function inBranch<T>(owner: object, branch: Branch, run: () => T): T {
  return current.run({ owner, branch }, run);
}
