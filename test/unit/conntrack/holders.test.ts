import { expect, it } from 'vitest';
import { topOfConntrack } from '../../../src/conntrack/holders.ts';
import { FrontendsInForce } from '../../../src/state/frontends-in-force.ts';
import { FakeConntrack, kernelRefusal } from '../../fake/conntrack.ts';
import { ToyClock } from '../sync/double.ts';
import { dns, nodeAddress } from './build.ts';

it('entries are those of the Service whose frontend they have, which are named by their number', async () => {
  const conntrack = new FakeConntrack();
  const inForce = new FrontendsInForce('IPv4');
  const web = { name: 'web', clusterIPs: ['10.96.0.11'], nodePort: 30_053 };
  for (const one of [
    dns(['10.244.0.1']),
    dns(['10.244.0.1'], { ...web, protocol: 'TCP', type: 'NodePort' }),
    dns(['10.244.0.1'], { name: 'idle', protocol: 'TCP', clusterIPs: ['10.96.0.12'] }),
  ]) {
    inForce.changed(undefined, one);
  }
  const add = (protocol: 'TCP' | 'UDP', to: string, ...ports: readonly number[]): void => {
    const answeredBy = '10.244.0.1:5353';
    for (const port of ports)
      conntrack.add({ protocol, from: `172.16.0.9:${port}`, to, answeredBy });
  };
  add('UDP', '10.96.0.10:53', 1);
  add('TCP', '10.96.0.11:53', 2, 3);
  add('TCP', `${nodeAddress}:30053`, 4);
  add('TCP', '203.0.113.1:443', 5, 6);
  const agent = { engine: { frontends: { IPv4: inForce } } } as never;
  const top = (most: number) => topOfConntrack({ agent, conntrack, clock: new ToyClock() }, most);
  const found = await top(5);
  expect(found).toMatchObject({ entries: 6, others: 2, complete: true });
  expect(found.services.map(({ entries }) => entries)).toEqual([3, 1]);
  expect(found.services.map((one) => JSON.stringify(one).includes('web'))).toEqual([true, false]);
  expect((await top(1)).services).toEqual(found.services.slice(0, 1));
  const dump = conntrack.dump.bind(conntrack);
  conntrack.dump = async (request) => {
    if (request.protocol === 'TCP') throw kernelRefusal('EPROTONOSUPPORT');
    return { ...(await dump(request)), complete: false };
  };
  expect(await top(5)).toMatchObject({ entries: 1, others: 0, complete: false });
});
