/** Durations as people and the API write them: `"250ms"`, `"30s"`, `"1h30m"`, `"1.5h"`, `"7d"`, `"1w"`. */

/** A duration: a text such as `"30s"` or `"1h30m"`, or a number of milliseconds. */
export type Duration = string | number;

/** The units that the API writes, longest first. */
const UNITS: readonly (readonly [string, number])[] = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1000],
  ["ms", 1],
];

/** The units that are read. */
const UNITS_READ = [["w", 604_800_000], ...UNITS] as const;

const PATTERN = new RegExp(`^${UNITS_READ.map(([unit]) => `(?:(\\d+(?:\\.\\d+)?)${unit})?`).join("")}$`);

/** Whole milliseconds of a duration. Throws a `RangeError` if it is not one. */
export function toMillis(duration: Duration): number {
  if (typeof duration === "number") {
    if (!Number.isFinite(duration) || duration < 0) throw new RangeError(`not a duration: ${duration}`);
    return Math.round(duration);
  }
  const match = duration === "" ? null : PATTERN.exec(duration);
  if (match === null) {
    throw new RangeError(`not a duration: ${JSON.stringify(duration)}; write it like "250ms", "30s", "1h30m" or "7d"`);
  }
  return Math.round(UNITS_READ.reduce((sum, [, millis], index) => sum + Number(match[index + 1] ?? 0) * millis, 0));
}

/** A duration as text, for the API. */
export function toText(duration: Duration): string {
  let rest = toMillis(duration);
  if (rest === 0) return "0s";
  let text = "";
  for (const [unit, millis] of UNITS) {
    const count = Math.floor(rest / millis);
    rest -= count * millis;
    if (count > 0) text += `${count}${unit}`;
  }
  return text;
}
