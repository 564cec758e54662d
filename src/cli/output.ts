/** `-o`: the format in which a command prints its result. */
const templatePrefix = 'jsonpath=';

/** Writes a value; `text` is called for the formats for people. */
export type Writer = (value: unknown, text: () => string) => string;

/** The writer for a value of -o. Rejects with a UsageError if a template is invalid. */
export async function writerOf(output: string | undefined): Promise<Writer> {
  // Parsers and writers are loaded on demand, so that commands start fast.
  if (output === 'json') return (value) => `${JSON.stringify(value, null, 2)}\n`;
  if (output === 'yaml') return (await import('./yaml.ts')).toYAML;
  if (!output?.startsWith(templatePrefix)) return (_, text) => text();
  return (await import('./jsonpath.ts')).jsonPath(output.slice(templatePrefix.length));
}

/** Whether `output` is a format for people. */
export function isForPeople(output: string | undefined): boolean {
  return output === undefined || output === 'text' || output === 'wide' || output === 'name';
}
