import { expect, it } from 'vitest';
import { afterFailure, failureTable } from '../../../src/sync/after-failure.ts';

const names = [
  'isSync',
  'isPartly',
  'isContained',
  'isContradiction',
  'isMoved',
  'isHeld',
] as const;

type Facts = Parameters<typeof afterFailure>[0];

/** All facts that a failure can have. */
const all = Array.from({ length: 2 ** names.length }, (_, bits) => {
  return Object.fromEntries(names.map((name, i) => [name, (bits & (1 << i)) !== 0])) as unknown;
}) as readonly Facts[];

it('each row applies to a failure', () => {
  expect(new Set(all.map(afterFailure))).toEqual(new Set(failureTable));
});

it.each(all)('a sync continues only without culprits, %o', (facts) => {
  const { compares, repairs } = afterFailure(facts);
  const continues = facts.isSync && !facts.isPartly && facts.isContained;
  expect(repairs === undefined).toBe(continues);
  expect(compares).toBe(continues && facts.isContradiction);
  if (continues) return;
  const delay = facts.isMoved ? 'when repairs may take time again' : 'after a growing delay';
  expect(repairs).toBe(facts.isHeld ? 'in 250 ms' : delay);
});
