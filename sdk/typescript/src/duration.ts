/** Durations as the API writes them: `"250ms"`, `"30s"`, `"1h30m"`, `"7d"`. */

/** A duration: a text such as `"30s"` or `"1h30m"`, or a number of milliseconds. */
export type Duration = string | number;

const UNITS: readonly (readonly [string, number])[] = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1000],
  ["ms", 1],
];

const PATTERN = /^(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?$/;

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
  return UNITS.reduce((sum, [, millis], index) => sum + Number(match[index + 1] ?? 0) * millis, 0);
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
