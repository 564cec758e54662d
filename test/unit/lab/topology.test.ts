import { expect, test } from 'vitest';
import { ACTORS, actorAt, addressesOf, PLACES } from '../../lab/addresses.ts';
import { setupScript } from '../../lab/topology.ts';

const script = setupScript((place) => `ns-${place}`);

/** The batch of one namespace. */
function batchOf(place: string): string {
  const start = script.indexOf(`ip -n ns-${place} -batch`);
  return script.slice(start, script.indexOf('\n.', start));
}

test('every actor has exactly the addresses of the plan', () => {
  for (const actor of ACTORS) {
    const added = [...batchOf(actor).matchAll(/^addr add (\S+)\//gm)].map(([, address]) => address);
    expect(added.sort()).toEqual([...addressesOf(actor)].sort());
  }
});

test('no address belongs to two actors', () => {
  for (const actor of ACTORS) {
    for (const address of addressesOf(actor)) expect(actorAt(address)).toBe(actor);
  }
  expect(actorAt('10.96.0.10')).toBeUndefined();
});

test('no two ends of a link have the same index', () => {
  const indexes = [...script.matchAll(/ index (\d+)/g)].map(([, index]) => index);
  expect(indexes).toHaveLength(14);
  expect(new Set(indexes).size).toBe(indexes.length);
});

test('nothing is set up outside the namespaces', () => {
  for (const line of script.split('\n').filter((text) => text.startsWith('link add'))) {
    expect(line).toMatch(/^link add \S+ (index \d+ )?netns ns-/);
  }
  for (const place of PLACES) expect(batchOf(place)).toContain('link set lo up');
});
