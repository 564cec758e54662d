import { expect, it } from 'vitest';
import type { Balance } from '../../../src/state/deal.ts';
import { FrontendOwners } from '../../../src/state/frontend-owners.ts';
import { keysOf, noSockets } from '../../../src/state/node-sockets.ts';
import type { ResolveContext } from '../../../src/state/resolve.ts';
import { finish } from '../../../src/state/steps.ts';
import { ClusterState } from '../../../src/state/store.ts';
import type { Service } from '../../../src/state/types.ts';
import { Desired } from '../../../src/sync/desired.ts';
import type { SyncEvent } from '../../../src/sync/events.ts';
import { address, cidr, context, http, ready, service, slice, unready } from '../state/build.ts';
import { ToyClock } from './double.ts';

class Rig {
  readonly state = new ClusterState();
  context: ResolveContext = context;
  readonly #events: SyncEvent[] = [];
  readonly #desired = new Desired({
    owners: new FrontendOwners(),
    state: this.state,
    families: [],
    context: () => this.context,
    clock: new ToyClock(),
    observer: (event) => this.#events.push(event),
  });

  /** The reports of resolving ns/web. */
  refresh(...externalIPs: string[]): string[] {
    this.state.apply({ kind: 'service', service: service({ externalIPs }) });
    return this.again();
  }

  again(name = 'ns/web'): string[] {
    finish(this.#desired.refresh(name, 0));
    const events = this.#events.splice(0);
    return events.map(({ kind }) => kind);
  }
}

it('each external IP that is not allowed is reported once', () => {
  const rig = new Rig();
  const externalIPRules = { cidrs: [cidr('203.0.113.0/24')], namespaces: [] };
  rig.context = { ...context, externalIPRules };
  expect(rig.refresh('198.51.100.1', '203.0.113.1')).toEqual(['external-ip']);
  expect(rig.again()).toEqual([]);
  expect(rig.refresh('198.51.100.1', '198.51.100.2')).toEqual(['external-ip']);
  expect(rig.refresh('203.0.113.1')).toEqual([]);
  expect(rig.refresh('198.51.100.1')).toEqual(['external-ip']);
  rig.state.apply({ kind: 'service-gone', key: 'ns/web' });
  expect(rig.again()).toEqual([]);
  expect(rig.refresh('198.51.100.1')).toEqual(['external-ip']);
});

it('an external IP is reported when it becomes an address of the node', () => {
  const rig = new Rig();
  expect(rig.refresh('192.168.0.7')).toEqual([]);
  const sockets = { ...noSockets, addresses: keysOf([address('192.168.0.7')]) };
  rig.context = { ...context, nodeSockets: sockets };
  expect(rig.again()).toEqual(['external-ip-of-node']);
  expect(rig.again()).toEqual([]);
});

it('reports once that a balance is not available here, and again after a new request for it', () => {
  const rig = new Rig();
  const here = { name: 'this mode', balances: new Set<Balance>(['random']), usesTables: false };
  rig.context = { ...context, dealing: here };
  const ask = (balance: Balance | undefined): string[] => {
    const balancing = balance && { balance };
    rig.state.apply({ kind: 'service', service: service({ balancing }) });
    return rig.again();
  };
  expect(ask('maglev')).toEqual(['balance-not-done']);
  expect(rig.again()).toEqual([]);
  expect(ask('random')).toEqual([]);
  expect(ask('maglev')).toEqual(['balance-not-done']);
  rig.state.apply({ kind: 'service-gone', key: 'ns/web' });
  expect(rig.again()).toEqual([]);
  expect(ask('maglev')).toEqual(['balance-not-done']);
  rig.context = { ...context, dealing: undefined };
  expect(rig.again()).toEqual([]);
});

it('a Service is resolved again when the range of an older one lets go of its port', () => {
  const rig = new Rig();
  const at = (name: string, port: number, createdMs: number) =>
    service({ name, createdMs, externalIPs: ['203.0.113.1'], ports: [{ ...http, port }] });
  const older = { ...at('older', 5000, 1), clusterIPs: [address('10.96.0.2')] };
  const change = (...services: Service[]): string[] => {
    for (const one of services) rig.state.apply({ kind: 'service', service: one });
    for (const one of rig.state.changed) rig.state.resolved(one);
    for (const { key } of services) rig.again(key);
    return [...rig.state.changed].map(({ key }) => key);
  };
  change({ ...older, portRange: { first: 5000, last: 5999 } }, at('web', 5400, 2));
  expect(change({ ...older, portRange: { first: 5000, last: 5500 } })).toEqual([]);
  expect(change({ ...older, portRange: { first: 5000, last: 5300 } })).toEqual(['ns/web']);
});

it('endpoints of the API servers are kept while there are none, which is reported once', () => {
  const rig = new Rig();
  const name = 'default/kubernetes';
  const of = { key: `${name}-1`, service: name };
  const served = (): readonly string[] =>
    rig.state.servedSlices(name).map(({ addresses }) => addresses);
  const take = (...changes: Parameters<ClusterState['apply']>): string[] => {
    rig.state.apply(...changes);
    return rig.again(name);
  };
  const [first, none] = [
    slice({ '192.168.0.1': ready }, of),
    slice({ '192.168.0.2': unready }, of),
  ];
  take({ kind: 'service', service: service({ namespace: 'default', name: 'kubernetes' }) });
  expect(take({ kind: 'slice', slice: none })).toEqual([]);
  expect(served()).toEqual([none.addresses]);
  expect(take({ kind: 'slice', slice: first })).toEqual([]);
  expect(take({ kind: 'slice', slice: none })).toEqual(['kept']);
  expect(take({ kind: 'slice-gone', key: none.key })).toEqual([]);
  expect(served()).toEqual([first.addresses]);
  expect(rig.state.isKept('ns/web')).toBe(false);
  const other = slice({ 'fd00::3': ready }, { key: `${name}-2`, service: name });
  expect(take({ kind: 'slice', slice: other })).toEqual([]);
  expect(served()).toEqual([first.addresses, other.addresses]);
  const next = slice({ '192.168.0.3': ready }, of);
  expect(take({ kind: 'slice', slice: next })).toEqual([]);
  expect(served()).toEqual([next.addresses, other.addresses]);
  expect(take({ kind: 'slice-gone', key: next.key })).toEqual(['kept']);
});

it('a Service that cannot be resolved is reported, and keeps what it has', () => {
  const rig = new Rig();
  expect(rig.refresh()).toEqual([]);
  const { context: before } = rig;
  rig.context = { ...before, nodeAddresses: undefined as never };
  rig.state.apply({
    kind: 'service',
    service: service({ type: 'LoadBalancer', loadBalancerSourceRanges: ['10.0.0.0/8'] }),
  });
  expect(rig.again()).toEqual(['unresolvable']);
  rig.context = before;
  expect(rig.again()).toEqual([]);
});
