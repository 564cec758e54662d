/**
 * Defects that the simulation must find: those that the program once had, and those that one
 * deleted line would make. Each is a text that takes the place of another one in a file of src.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ModeName } from '../../src/modes/mode.ts';

export interface Defect {
  readonly name: string;
  readonly file: string;
  readonly from: string;
  readonly to: string;
  /** Default: nftables. */
  readonly mode?: ModeName;
}

/** How a defect was found. */
export interface Found {
  readonly seed: number;
  /** Of processor time, for all seeds until then. */
  readonly seconds: number;
  /** The check. */
  readonly by: string;
}

/** The text of a defect's file with the defect in it. */
export function changedText({ file, from, name, to }: Defect, text: string): string {
  if (text.split(from).length !== 2) {
    throw new Error(
      `src/${file} does not have the text of the defect "${name}" once. Say in ` +
        `test/simulation/defects.txt what makes it today; if nothing can, delete it there: ${from}`,
    );
  }
  return text.replace(from, () => to);
}

export const defects: readonly Defect[] = [...read()];

/** In `defects.txt`: `= FILE: NAME`, or with a mode after the file, and the lines of both texts. */
function* read(): Generator<Defect> {
  const text = readFileSync(join(import.meta.dirname, 'defects.txt'), 'utf8');
  for (const part of text.split(/^= /m).slice(1)) {
    const [head = '', ...lines] = part.trimEnd().split('\n');
    const [, file = '', mode, name = ''] = /^(\S+?)(?: (\w+))?: (.*)$/.exec(head)!;
    const textOf = (sign: string): string => {
      const signed = lines.filter((line) => line.startsWith(sign));
      return signed.map((line) => line.slice(1)).join('\n');
    };
    const defect = { name, file, from: textOf('-'), to: textOf('+') };
    yield mode === undefined ? defect : { ...defect, mode: mode as ModeName };
  }
}
