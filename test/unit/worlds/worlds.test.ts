import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { Random } from '../../chaos/random.ts';
import { rules, rulesOfKubeProxy } from '../../worlds/between-modes.ts';
import { type Counts, compare, differenceText } from '../../worlds/comparison.ts';
import { keptWorlds } from '../../worlds/kept.ts';
import { WorldMaker } from '../../worlds/worlds.ts';

/** With the kept worlds, they meet every rule. */
const seeds = [10, 25, 34, 1, 2, 3, 4, 5, 6, 7, 8, 9];

const counts: Counts = { worlds: 0, flows: 0, rules: new Map() };
const worlds = [
  ...keptWorlds.map((kept) => ['all', kept] as const),
  ...seeds.map((seed) => [seed, new WorldMaker(new Random(seed)).world(12)] as const),
];

// One at a time: all together keep a busy machine for longer than a test may take.
it.each(worlds)(
  'every mode gives the same packets, but for the rules: seed %s',
  async (seed, world) => {
    const found = await compare(world, counts, seed);
    // `npm run worlds -- --seed SEED` makes it smaller.
    if (found !== undefined) expect.fail(differenceText(world, found));
  },
);

it('these worlds meet each rule', () => {
  const met = new Set([...counts.rules.keys()].map((key) => key.slice(key.indexOf(': ') + 2)));
  expect([...met].sort()).toEqual([...rules].sort());
});

it('has a row in docs/differences.md for each rule', () => {
  const text = readFileSync('docs/differences.md', 'utf8').replaceAll(/\s+/g, ' ');
  // Rows begin with a heading, a word in bold, a dash or a bar; userspace has some in one.
  const starts = ['### ', '**', '- ', '| ', '. '];
  const hasRow = (rule: string): boolean => starts.some((start) => text.includes(start + rule));
  expect([...rules, ...rulesOfKubeProxy].filter((rule) => !hasRow(rule))).toEqual([]);
});
