/** `-o`: in which form a command prints what it has found. */
const templatePrefix = 'jsonpath=';

/** Writes a value; `text` is called for the forms that people read. */
export type Writer = (value: unknown, text: () => string) => string;

/** The writer for a value of -o. Rejects with a UsageError where a template is wrong. */
export async function writerOf(output: string | undefined): Promise<Writer> {
  // Parsers and writers are loaded when they are needed: commands start fast.
  if (output === 'json') return (value) => `${JSON.stringify(value, null, 2)}\n`;
  if (output === 'yaml') return (await import('./yaml.ts')).toYAML;
  if (!output?.startsWith(templatePrefix)) return (_, text) => text();
  return (await import('./jsonpath.ts')).jsonPath(output.slice(templatePrefix.length));
}

/** Whether `output` is a form for people. */
export function isForPeople(output: string | undefined): boolean {
  return output === undefined || output === 'text' || output === 'wide' || output === 'name';
}
