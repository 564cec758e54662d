/** `-o`: the format in which a command prints its result. */

/** Writes a value; `text` is called for the formats for people. */
export type Writer = (value: unknown, text: () => string) => string;

/** The writer for a value of -o. */
export function writerOf(output: string | undefined): Writer {
  if (output === 'json') return (value) => `${JSON.stringify(value, null, 2)}\n`;
  return (_, text) => text();
}

/** Whether `output` is a format for people. */
export function isForPeople(output: string | undefined): boolean {
  return output !== 'json';
}
