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
 * Throws {@link Unwritable} for values that JSON would lose without a word: `NaN`, infinities, `bigint`, `Map`, `Set`,
 * functions and symbols, and for circular values.
 */
export function encode(value: unknown): string {
  if (value === undefined || value === null) return "null";
  if (typeof value === "string" || typeof value === "boolean") return JSON.stringify(value);
  try {
    return JSON.stringify(value, refuse) ?? "null";
  } catch (error) {
    if (error instanceof Unwritable) throw error;
    throw new Unwritable(error instanceof Error ? error.message.split("\n", 1)[0] : String(error));
  }
}

function refuse(key: string, value: unknown): unknown {
  const where = key === "" ? "the value" : `\`${key}\``;
  switch (typeof value) {
    case "number":
      if (!Number.isFinite(value)) throw new Unwritable(`${where} is ${value}, which JSON cannot hold`);
      return value;
    case "bigint":
    case "symbol":
    case "function":
      throw new Unwritable(`${where} is a ${typeof value}, which JSON cannot hold`);
    case "object":
      if (value instanceof Map || value instanceof Set) {
        throw new Unwritable(`${where} is a ${value.constructor.name}, which JSON cannot hold`);
      }
      return value;
    default:
      return value;
  }
}
