import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { afterEach, describe, expect, it } from 'vitest';
import { equivalents } from '../../mutation/equivalents.ts';
import { mutantsOf, sampleOf, withMutants } from '../../mutation/mutants.ts';

const source = `export const waitMs: number = 5;
export function f(a: number, all: readonly number[]): readonly number[] {
  const made: number[] = [];
  if (a >= waitMs && all.length > 0) made.push(a);
  return [...all, ...made];
}
`;
const mutants = mutantsOf('src/f.ts', source, 1);
interface Shared {
  mutant?: (id: number) => boolean;
  switched?: (id: number, set: (isOn: boolean) => void) => void;
}
const shared = globalThis as Shared;

/** What `f` returns with a mutant; of all that are in the source, only that one has an effect. */
async function answers(name: string | undefined): Promise<unknown> {
  const { id } = mutants.find((one) => one.name === name) ?? { id: 0 };
  if (name !== undefined) expect(id).toBeGreaterThan(0);
  shared.mutant = (one) => one === id;
  shared.switched = (one, set) => one === id && set(true);
  const text = stripTypeScriptTypes(withMutants(source, mutants));
  const module = await import(`data:text/javascript,${encodeURIComponent(text)}//${id}`);
  return [module.waitMs, module.f(5, [1]), module.f(4, [1]), module.f(5, [])];
}

describe('mutants', () => {
  afterEach(() => {
    delete shared.mutant;
    delete shared.switched;
  });

  const condition = 'if (a >= waitMs && all.length > 0) made.push(a);';
  const compared = `${condition} | a >= waitMs && all.length > 0`;
  const returned = 'return [...all, ...made]; | [...all, ...made]';
  it.each([
    [undefined, [5, [1, 5], [1], []]],
    ['export const waitMs: number = 5; | 5 -> 5 * 2', [10, [1], [1], []]],
    ['export const waitMs: number = 5; | 5 -> 5 / 2', [2.5, [1, 5], [1, 4], []]],
    [`${condition} | a >= waitMs -> a > waitMs`, [5, [1], [1], []]],
    [`${compared} -> a >= waitMs `, [5, [1, 5], [1], [5]]],
    [`${compared} -> all.length > 0`, [5, [1, 5], [1, 4], []]],
    [`${compared} -> true`, [5, [1, 5], [1, 4], [5]]],
    [`${condition} | made.push(a); -> `, [5, [1], [1], []]],
    [`${returned} -> [...made]`, [5, [5], [], []]],
    [`${returned} -> undefined`, [5, undefined, undefined, undefined]],
  ])('have the effect that their name says: %s', async (name, expected) => {
    expect(await answers(name)).toEqual(expected);
  });

  it('are lengths of times where the name says so, and take effect when they are loaded', () => {
    const timing = mutants.filter((one) => one.timing);
    expect(timing.map(({ line, atLoad }) => ({ line, atLoad }))).toEqual([
      { line: 1, atLoad: true },
      { line: 1, atLoad: true },
    ]);
    expect(mutants.filter((one) => one.atLoad)).toEqual(timing);
    const settings = mutantsOf('src/s.ts', "const one = { default: '1m30s', name: 's' };", 1);
    expect(settings.map(({ to }) => to)).toEqual(["'2m60s'", "'0.5m15s'"]);
    const [first] = mutantsOf('src/g.ts', 'const graceMs = { TCP: 500 };', 1);
    expect(first!.timing).toBe(true);
  });

  it('that are named as equivalent are mutants of what the source has', () => {
    const named = [...equivalents.keys()];
    const files = [...new Set(named.map((name) => name.split(' ')[0]!))];
    const all = files.flatMap((file) => mutantsOf(file, readFileSync(file, 'utf8'), 1));
    const names = new Set(
      all.flatMap(({ file, name }) => [`${file} ${name}`, `${file} ${name.split(' | ')[0]}`]),
    );
    expect(named.filter((name) => !names.has(name))).toEqual([]);
  });

  it('stay in the sample of a seed when another place of the source changes', () => {
    const names = (text: string) =>
      sampleOf(mutantsOf('src/f.ts', text, 1), 8, 7).map(({ name }) => name);
    expect(names(`// A comment.\n${source}`)).toEqual(names(source));
    expect(sampleOf(mutants, 8, 8)).not.toEqual(sampleOf(mutants, 8, 7));
  });
});
