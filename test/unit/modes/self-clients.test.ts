import { expect, it } from 'vitest';
import { selfClients } from '../../../src/modes/source-ranges.ts';
import { formatAddress } from '../../../src/net/address.ts';
import { resolveOne, service } from '../state/build.ts';

/** Who may connect to the last load-balancer address of a Service that has this number of them. */
function clients(count: number, range = '192.168.0.0/24', guardsAll?: true): string[] {
  const forwarding = resolveOne(
    service({
      externalIPs: ['203.0.113.1'],
      loadBalancerIPs: Array.from({ length: count }, (_, i) => `198.51.100.${i + 1}`),
      loadBalancerSourceRanges: [range],
      ...(guardsAll && { guardsAll }),
    }),
    [],
  );
  const last = forwarding.frontends.findLast(({ kind }) => kind === 'loadBalancerIP')!;
  return selfClients(forwarding, last).map(({ bytes }) => formatAddress(bytes));
}

it('are the load-balancer addresses of the Service if its ranges include the node, of many only its own', () => {
  expect(clients(2)).toEqual(['198.51.100.1', '198.51.100.2']);
  expect(clients(2, '10.0.0.0/8')).toEqual([]);
  expect(clients(1, '192.168.0.0/24', true)).toEqual(['198.51.100.1', '203.0.113.1']);
  expect(clients(16)).toHaveLength(16);
  expect(clients(17)).toEqual(['198.51.100.17']);
});
