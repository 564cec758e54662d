/** What benchmarks have measured: `bench/results/*.json`, the source of every figure in documents. */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, loadavg, release } from 'node:os';

const folder = new URL('../results/', import.meta.url);

/** A table as the benchmark printed it. */
interface ResultTable {
  readonly title: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** The first row that begins with the cells of `row`, and the first column with that head. */
interface Cell {
  readonly table: number;
  readonly row: readonly string[];
  readonly column: string;
}

/** A figure that documents quote, and what the same run measured for peers. */
interface Figure extends Cell {
  readonly what: string;
  readonly unit: string;
  /** What a peer leaves out is as for the figure. */
  readonly peers: readonly (Partial<Cell> & { readonly name?: string })[];
}

/** One run. What is not known of it is "not recorded". */
interface Result {
  readonly bench: string;
  readonly date: string;
  readonly commit: string;
  readonly machine: string;
  readonly load: string;
  readonly tables: readonly ResultTable[];
  readonly figures: readonly Figure[];
}

/** All runs by the names of their files. */
export function results(): ReadonlyMap<string, Result> {
  const names = readdirSync(folder).sort();
  return new Map(names.map((name) => [name.replace('.json', ''), read(name)]));
}

function read(name: string): Result {
  return JSON.parse(readFileSync(new URL(name, folder), 'utf8')) as Result;
}

/** Throws if the table has no such row or column. */
export function cellOf({ tables }: Result, { table, row, column }: Cell): string {
  const { head, rows } = tables[table]!;
  const found = rows.find((cells) => row.every((cell, i) => cells[i] === cell));
  const cell = found?.[head.indexOf(column)];
  if (cell === undefined) throw new Error(`no ${column} of ${row.join(', ')} in table ${table}`);
  return cell;
}

/** The tables of a benchmark's text. The title of each is the paragraph before it. */
export function tablesOf(text: string): ResultTable[] {
  const cells = (line: string): string[] =>
    line
      .slice(1, -1)
      .split('|')
      .map((cell) => cell.trim());
  const paragraphs = text.split('\n\n');
  return paragraphs.flatMap((paragraph, i) => {
    if (!paragraph.startsWith('|')) return [];
    const [head, , ...rows] = paragraph.trim().split('\n').map(cells);
    return [{ title: paragraphs[i - 1]?.replaceAll('\n', ' ') ?? '', head: head!, rows }];
  });
}

/** Writes the run of the benchmark `name`. Which figures documents quote stays as it was. */
export function record(name: string, text: string): void {
  const known = results().get(name);
  const result: Result = {
    bench: name,
    date: new Date().toISOString().slice(0, 10),
    commit: execFileSync('git', ['describe', '--always', '--dirty']).toString().trim(),
    machine: `${process.arch}, ${availableParallelism()} processors, Linux ${release()}`,
    load: `load average ${loadavg()[2]!.toFixed(1)} of 15 minutes`,
    tables: tablesOf(text),
    figures: known?.figures ?? [],
  };
  writeFileSync(new URL(`${name}.json`, folder), `${JSON.stringify(result, null, 2)}\n`);
}
