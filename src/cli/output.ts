/** `-o`: in which form a command prints what it has found. */
import { stringify } from 'yaml';

export const outputs = ['text', 'json', 'yaml'] as const;
export type Output = (typeof outputs)[number];

export type TakenOutput =
  | { readonly ok: true; readonly output: Output; readonly rest: readonly string[] }
  | { readonly ok: false; readonly reason: string };

/** Takes `-o FORM`, `-oFORM`, `--output FORM` and `--output=FORM` out of the arguments. */
export function takeOutput(args: readonly string[]): TakenOutput {
  let output: string = 'text';
  const rest: string[] = [];
  for (let i = 0; i < args.length; i += 1) {
    const word = args[i]!;
    const joined = /^(?:-o=?|--output=)(.+)$/.exec(word)?.[1];
    if (word === '-o' || word === '--output') {
      i += 1;
      output = args[i] ?? '';
    } else if (joined === undefined) rest.push(word);
    else output = joined;
  }
  const known = outputs.find((one) => one === output);
  if (known !== undefined) return { ok: true, output: known, rest };
  return { ok: false, reason: `-o must be one of ${outputs.join(', ')}, not "${output}"` };
}

/** `text` says in lines what `value` says to programs. */
export function formatOutput(output: Output, value: unknown, text: () => string): string {
  switch (output) {
    case 'text':
      return text();
    case 'json':
      return `${JSON.stringify(value, null, 2)}\n`;
    case 'yaml':
      return stringify(value);
  }
}

/** Rows in columns that are as wide as what is in them; the last one is as long as it likes. */
export function columns(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, i) => Math.max(...rows.map((row) => row[i]!.length)));
  const lines = rows.map((row) => {
    const cells = row.map((cell, i) => (i === row.length - 1 ? cell : cell.padEnd(widths[i]!)));
    return `${cells.join('  ').trimEnd()}\n`;
  });
  return lines.join('');
}
