/** JSON that reads back as what was written, or is refused. */

/** What a value is after it was written as JSON and read back: a `Date` is a string, `undefined` is `null`. */
export type Jsonified<T> = unknown extends T
  ? T
  : T extends string | number | boolean | null
    ? T
    : T extends undefined | void
      ? null
      : T extends bigint | symbol | ((...args: never[]) => unknown)
        ? never
        : T extends { toJSON(): infer R }
          ? Jsonified<R>
          : T extends object
            ? { [K in keyof T]: Exclude<T[K], undefined> extends infer V ? Jsonified<V> | (undefined extends T[K] ? undefined : never) : never }
            : T;

/** A value that JSON cannot hold. */
export class Unwritable extends TypeError {
  override readonly name = "Unwritable";
}

/**
 * Writes a value as JSON. `undefined` becomes `null`.
 *
 * Throws {@link Unwritable} for values that JSON would lose without a word: `NaN`, infinities, invalid dates, `bigint`, `Map`,
 * `Set`, bytes, errors, promises, generators, functions and symbols, for circular values, and for texts that are no Unicode.
 */
export function encode(value: unknown): string {
  if (value === undefined || value === null) return "null";
  if (typeof value === "boolean") return String(value);
  try {
    const json = (typeof value === "string" ? JSON.stringify(value) : JSON.stringify(value, refuse)) ?? "null";
    if (json.includes("\\ud") && HALF_PAIR.test(json)) throw new Unwritable("a text has half of a surrogate pair, which other languages cannot read");
    return json;
  } catch (error) {
    if (error instanceof Unwritable) throw error;
    throw new Unwritable(error instanceof Error ? error.message.split("\n", 1)[0] : String(error));
  }
}

/** The escape of half of a surrogate pair; whole pairs are not escaped. */
const HALF_PAIR = /(?<!\\)(?:\\\\)*\\ud[89a-f]/;

/** The kinds of objects that JSON writes without what they have. */
function lost(value: object): string | undefined {
  if (value instanceof Map || value instanceof Set || value instanceof WeakMap || value instanceof WeakSet) return value.constructor.name;
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return value.constructor.name;
  if (value instanceof Error || value instanceof RegExp || value instanceof Promise) return value.constructor.name;
  const { next } = value as { next?: unknown };
  return typeof next === "function" && (Symbol.iterator in value || Symbol.asyncIterator in value) ? "generator" : undefined;
}

function refuse(this: unknown, key: string, value: unknown): unknown {
  switch (typeof value) {
    case "number":
      if (!Number.isFinite(value)) throw unwritable(key, String(value));
      return value;
    case "bigint":
    case "symbol":
    case "function":
      throw unwritable(key, `a ${typeof value}`);
    case "object": {
      if (value === null) {
        // An invalid date writes itself as null.
        if ((this as Record<string, unknown>)[key] instanceof Date) throw unwritable(key, "an invalid date");
        return value;
      }
      const kind = lost(value);
      if (kind !== undefined) throw unwritable(key, `a ${kind}`);
      return value;
    }
    default:
      return value;
  }
}

function unwritable(key: string, what: string): Unwritable {
  return new Unwritable(`${key === "" ? "the value" : `\`${key}\``} is ${what}, which JSON cannot hold`);
}
