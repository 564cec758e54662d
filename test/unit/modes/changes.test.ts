import { describe, expect, it } from 'vitest';
import { FrontendChanges, type ModeFrontend } from '../../../src/modes/changes.ts';

const id = '192.168.0.1:30080';
type Changes = FrontendChanges<ModeFrontend>;

function all(changes: Changes): Parameters<Parameters<Changes['each']>[0]>[] {
  const found: Parameters<Parameters<Changes['each']>[0]>[] = [];
  changes.each((...change) => found.push(change));
  return found;
}

const kinds = ['clusterIP', 'nodePort', 'loadBalancerIP', 'externalIP'] as const;

describe('an address that accepts node ports, and that two Forwardings claim at one port', () => {
  it.each([
    ['clusterIP', 'nodePort'],
    ['nodePort', 'loadBalancerIP'],
    ['nodePort', 'externalIP'],
  ] as const)('belongs to the %s, not to the %s, whichever comes first', (better, other) => {
    for (const order of [
      [better, other],
      [other, better],
    ]) {
      const changes = new FrontendChanges<ModeFrontend>();
      for (const contender of order) changes.claim(contender, { id, contender });
      expect(all(changes)).toMatchObject([[id, { owner: better, before: undefined }]]);
      expect(changes.holds(other, { id, contender: other })).toBe(false);
    }
  });

  it('passes to the one that is left', () => {
    const changes = new FrontendChanges<ModeFrontend>();
    for (const contender of kinds) changes.resume(contender, { id, contender });
    for (const contender of kinds.slice(0, 2)) changes.release(contender, { id, contender });
    expect(all(changes)).toMatchObject([
      [
        id,
        {
          owner: 'loadBalancerIP',
          before: { contender: 'clusterIP' },
          after: { contender: 'loadBalancerIP' },
        },
      ],
    ]);
  });
});
