/**
 * Says of each file in a folder what `fairlead config validate` and `fairlead config convert` make
 * of it: which document they take, the exit code, and the first thing that is said of it.
 *
 *     node scripts/judge-configs.ts FOLDER
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { convert, importSources, validateFile } from '../src/tools/import/index.ts';

interface Verdict {
  readonly file: string;
  readonly validate: string;
  /** The sources that yield a configuration from it; what `flags` says if none does. */
  readonly convert: string;
}

/** Sorted by name. */
export function judgeFolder(folder: string): Verdict[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const paths = files.map(({ name, parentPath }) => join(parentPath, name)).sort();
  return paths.map((path) => judge(path.slice(folder.length + 1), readFileSync(path)));
}

function judge(file: string, bytes: Uint8Array): Verdict {
  const said = validateFile('the file', bytes);
  const validate = words(said.exitCode, [said.text, ...said.notes]);
  const results = importSources.map((from) => ({ from, ...convert(from, bytes) }));
  const fitting = results.filter(({ exitCode, text }) => exitCode === 0 && text !== '');
  const flags = results.find(({ from }) => from === 'flags')!;
  const sources = fitting.map(({ from }) => from).join(', ');
  return { file, validate, convert: sources || words(flags.exitCode, flags.notes) };
}

function words(exitCode: number, lines: readonly string[]): string {
  const first = lines.map((line) => line.trim()).find((line) => line !== '' && !/:$/.test(line));
  const reason = lines.find((line) => line.startsWith('  '))?.trim();
  const told = exitCode === 0 ? first : (reason ?? first);
  return `${exitCode}: ${(told ?? '').replace(/\s+/g, ' ').slice(0, 80)}`;
}

if (import.meta.main) {
  const [folder] = process.argv.slice(2);
  if (folder === undefined) throw new Error('usage: node scripts/judge-configs.ts FOLDER');
  const verdicts = judgeFolder(folder.replace(/\/+$/, ''));
  for (const { convert, file, validate } of verdicts) {
    process.stdout.write(`| ${[file, validate, convert].join(' | ')} |\n`);
  }
  const valid = verdicts.filter(({ validate }) => validate.startsWith('0:')).length;
  process.stdout.write(`\n${valid} of ${verdicts.length} files have a valid configuration\n`);
}
