/** What values of annotations have in common. */

/** The field of an annotation, as errors name it. */
export function annotationField(name: string): string {
  return `metadata.annotations[${name}]`;
}

const units: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000 };

/** `30s`, `5m` or `1h` in milliseconds, with at most four digits; NaN: it is something else. */
export function durationMs(text: unknown): number {
  const [, number, unit] = (typeof text === 'string' && /^(\d{1,4})([smh])$/.exec(text)) || [];
  return unit === undefined ? Number.NaN : Number(number) * units[unit]!;
}
