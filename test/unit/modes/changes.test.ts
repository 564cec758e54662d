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
      for (const claimKind of order) changes.claim(claimKind, { id, claimKind });
      expect(all(changes)).toMatchObject([[id, { owner: better, before: undefined }]]);
      expect(changes.holds(other, { id, claimKind: other })).toBe(false);
    }
  });

  it('passes to the one that is left', () => {
    const changes = new FrontendChanges<ModeFrontend>();
    for (const claimKind of kinds) changes.resume(claimKind, { id, claimKind });
    for (const claimKind of kinds.slice(0, 2)) changes.release(claimKind, { id, claimKind });
    expect(all(changes)).toMatchObject([
      [
        id,
        {
          owner: 'loadBalancerIP',
          before: { claimKind: 'clusterIP' },
          after: { claimKind: 'loadBalancerIP' },
        },
      ],
    ]);
  });
});
