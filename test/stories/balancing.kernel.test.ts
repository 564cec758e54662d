/**
 * How connections are shared out, as packets show it: by weight in every mode, in turn, by hashes,
 * and alike on all nodes.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { removeConnectTime } from '../../src/connect-time/maps/choice.ts';
import { hashSeed } from '../../src/kernel/nft/rule.ts';
import { parseAddress } from '../../src/net/address.ts';
import { EndpointList } from '../../src/net/endpoint-list.ts';
import type { Balance } from '../../src/state/deal.ts';
import { hashTableInSteps } from '../../src/state/hash-table.ts';
import { finish } from '../../src/state/steps.ts';
import { hashed } from '../fake/jhash.ts';
import { CLIENT_IP, clusterIp, POD_A_IP } from '../lab/addresses.ts';
import { askKernel } from '../lab/ask-kernel.ts';
import { type ConnectTimePlace, canTranslate, makeConnectTimePlace } from '../lab/connect-time.ts';
import { BASELINE } from '../lab/objects.ts';
import { answerMs } from '../lab/pace.ts';
import { MODES_WITHOUT_IPVS } from '../lab/proxy.ts';
import {
  annotated,
  atPorts,
  BalancingRig,
  datagrams,
  expectShares,
  longestMs,
  ports,
  web,
  weighted,
} from './balancing-rig.ts';
import { vip } from './common.ts';

let rig: BalancingRig;
beforeAll(async () => {
  rig = await BalancingRig.create();
});
afterAll(() => rig?.close());
afterEach(() => rig.stop());

describe.each(MODES_WITHOUT_IPVS)('in mode %s', (mode) => {
  test(
    'endpoints get connections by their weights, and by others when these change',
    () => rig.weigh(mode),
    longestMs,
  );
});

describe.each(MODES_WITHOUT_IPVS)('slow start in mode %s', (mode) => {
  test(
    'a new endpoint gets a tenth of its share at first, and its share without the annotation',
    async () => {
      // Steps are 400 s apart: at most one of them is during the test.
      const slow = annotated(web(undefined), { 'fairlead.io/slow-start': '1h' });
      const proxy = await rig.start([slow, ...weighted([100, 100])], mode);
      await proxy.apply([...BASELINE, slow, ...weighted([100, 100, 100])]);
      const [a, b, added] = (await rig.shares()) as [number, number, number];
      expect(added).toBeGreaterThan(0.01);
      expect(added).toBeLessThan(0.12);
      // Six standard deviations of the difference between two that share nearly all.
      expect(Math.abs(a - b)).toBeLessThan(0.1);
      await proxy.apply([...BASELINE, web(undefined), ...weighted([100, 100, 100])]);
      expectShares(await rig.shares(), [100, 100, 100]);
    },
    longestMs,
  );
});

describe.each(['nftables', 'iptables'] as const)('least connections in mode %s', (mode) => {
  const balance = { 'fairlead.io/balance': 'least-connections' };

  test(
    'are even soon after scaling, by weight, also where another process has seen them begin',
    async () => {
      const objects = (count: number) => {
        const [of, first, ...others] = atPorts('TCP', balance, ports.slice(0, count));
        return [of!, annotated(first!, { 'fairlead.io/weight': '200' }), ...others];
      };
      const proxy = await rig.start(objects(2), mode);
      for (let n = 0; n < 120; n += 1) await rig.hold();
      await proxy.apply([...BASELINE, ...objects(4)]);
      // At random, 400 and more.
      expect(await rig.evenOut(2, 1, 1, 1)).toBeLessThan(300);
      await proxy.stop();
      await rig.start(objects(6), mode);
      expect(await rig.evenOut(2, 1, 1, 1, 1, 1)).toBeLessThan(300);
    },
    longestMs,
  );
});

describe('in mode nftables', () => {
  test.each<Balance>(['random', 'round-robin', 'flow-hash', 'maglev'])(
    'connections by %s are shared out by weight',
    async (balance) => {
      const weights = [100, 200, 50, 100];
      await rig.start([web(balance), ...weighted(weights)]);
      expectShares(await rig.shares(), weights);
    },
    longestMs,
  );

  test('each of two Services with as many endpoints takes turns of its own', async () => {
    const otherAt = clusterIp(11);
    await rig.start([
      ...datagrams('round-robin', ports.slice(0, 3)),
      ...datagrams('round-robin', ports.slice(3), 'other', otherAt),
    ]);
    const order: number[] = [];
    for (let i = 0; i < 12; i += 1) {
      order.push(await rig.answerTo({}));
      await rig.answerTo({}, otherAt.IPv4);
    }
    expect(order.slice(0, 3).sort()).toEqual(ports.slice(0, 3));
    expect(order.slice(3)).toEqual(order.slice(0, -3));
  });

  test('a client keeps its endpoint by source-hash, and clients are spread', async () => {
    await rig.start(datagrams('source-hash', ports));
    const client = rig.lab.actors.client;
    const addresses = Array.from({ length: 24 }, (_, i) => `198.51.100.${150 + i}`);
    const commands = addresses.map((address) => `addr add ${address}/24 dev eth0`);
    await client.run(['ip', '-batch', '-'], commands.join('\n'));
    const answers: number[] = [];
    for (const address of addresses) {
      const own = new Set<number>();
      for (let i = 0; i < 4; i += 1) own.add(await rig.answerTo({ address }));
      expect(own.size).toBe(1);
      answers.push(...own);
    }
    expect(new Set(answers).size).toBeGreaterThan(3);
  });

  test('six nodes with other lives before choose alike by maglev, from the table', async () => {
    const list = EndpointList.of(
      'IPv4',
      ports.map((port) => ({ address: parseAddress(POD_A_IP.IPv4)!.bytes, port })),
    );
    const weights = ports.map(() => 100);
    const table = finish(hashTableInSteps(list, weights, Number.POSITIVE_INFINITY));
    const flows = Array.from({ length: 24 }, (_, i) => 5000 + i);
    const expected = flows.map((port) => table.port(slotOf(CLIENT_IP.IPv4, port, table.length)));
    expect(new Set(expected).size).toBeGreaterThan(3);
    for (const [i, first] of ports.entries()) {
      // Each begins with others, in another order.
      const before = [...ports.slice(i), ...ports.slice(0, i)].slice(0, 2 + (i % 3));
      const proxy = await rig.start(datagrams('maglev', i % 2 === 0 ? before : [first]));
      await proxy.apply([...BASELINE, ...datagrams('maglev', before.toReversed())]);
      await proxy.apply([...BASELINE, ...datagrams('maglev', ports)]);
      await rig.lab.actors.node.flushConntrack();
      const answers: number[] = [];
      for (const port of flows) answers.push(await rig.answerTo({ port }));
      expect(answers).toEqual(expected);
      await rig.stop();
    }
  });

  test(
    'long connections are shared out again after scaling from 3 to 6 endpoints, by their age',
    async () => {
      const { client } = rig.lab.actors;
      const annotations = { 'fairlead.io/max-connection-age': '10s' };
      const proxy = await rig.start(atPorts('TCP', annotations, ports.slice(0, 3)));
      for (let n = 0; n < 60; n += 1) await rig.hold();
      await proxy.apply([...BASELINE, ...atPorts('TCP', annotations, ports)]);
      // Ten is even, and chance is within six of it nearly all of the time.
      while (Math.max(...rig.counts()) > 16 || Math.min(...rig.counts()) < 4) {
        for (const flow of rig.held.keys()) {
          let { kind } = await client.resume(flow, answerMs);
          if (kind === 'answered') continue;
          // It may end between the acknowledgement of what the client sends and the answer. Who
          // only listens then hears nothing until it sends again.
          if (kind === 'timeout') ({ kind } = await client.resume(flow, answerMs));
          expect(kind).toBe('reset');
          await client.close(flow);
          await rig.hold(flow);
        }
      }
    },
    longestMs,
  );
});

describe.skipIf(!canTranslate())('with connect-time translation', () => {
  const weights = [100, 200, 50, 0];
  let place: ConnectTimePlace;
  beforeAll(() => {
    place = makeConnectTimePlace();
    place.include(rig.lab.actors['pod-b'].pid);
  });
  afterAll(() => place?.close());
  afterEach(() => askKernel(rig.lab.node, (kernel) => removeConnectTime(kernel, place.directory)));

  /** Whether packets to the ClusterIP reach the node, whose rules translate them then. */
  async function leavesItToRules(balance: Balance | undefined): Promise<boolean> {
    const { node } = rig.lab;
    await rig.start([web(balance), ...weighted(weights)], 'nftables', { connectTime: place });
    const rules = [
      'add table ip witness',
      'add chain ip witness seen { type filter hook prerouting priority -300; }',
      `add rule ip witness seen ip daddr ${vip.IPv4} counter`,
    ];
    await node.run(['nft', '-f', '-'], rules.join('\n'));
    try {
      const found = await rig.shares(undefined, 'pod-b');
      expectShares(found, weights);
      expect(found[3]).toBe(0);
      return !(await node.run(['nft', 'list', 'table', 'ip', 'witness'])).includes('packets 0');
    } finally {
      await node.run(['nft', 'delete', 'table', 'ip', 'witness']);
    }
  }

  test(
    'endpoints get connections by their weights',
    async () => expect(await leavesItToRules(undefined)).toBe(false),
    longestMs,
  );

  test(
    'other balances are left to the rules',
    async () => expect(await leavesItToRules('round-robin')).toBe(true),
    longestMs,
  );
});

/** The slot that the kernel draws for a flow (`jhash ip saddr . th sport`). */
function slotOf(address: string, port: number, slots: number): number {
  const key = new Uint8Array(8);
  key.set(parseAddress(address)!.bytes);
  new DataView(key.buffer).setUint16(4, port);
  return hashed(key, hashSeed, slots);
}
