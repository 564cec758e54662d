import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { Kernel } from '../../../../src/kernel/kernel.ts';
import { NF_INET, NFPROTO, VERDICT } from '../../../../src/kernel/nft/constants.ts';
import { matchPort } from '../../../../src/kernel/nft/ports.ts';
import {
  compileRule,
  drop,
  matchProtocol,
  reject,
  type Statement,
} from '../../../../src/kernel/nft/rule.ts';
import type { NftOp, Request } from '../../../../src/kernel/ops.ts';
import { parseCIDR } from '../../../../src/net/address.ts';
import { watchDrops } from '../../../../src/tools/trace/drops.ts';
import { markingTable } from '../../../../src/tools/trace/marking-table.ts';
import { NoTracingError, nothingCame } from '../../../../src/tools/trace/tracer.ts';
import { batch } from '../../../conformance/ops.ts';
import { FakeConntrack } from '../../../fake/conntrack.ts';
import { FakeKernel } from '../../../fake/kernel.ts';
import type { Packet } from '../../../fake/nft-packet.ts';
import { table, targetOf, traced } from './tracing.ts';

const inTable = { family: NFPROTO.IPv4, table: 'firewall' } as const;

/** A firewall at hook forward. */
function firewall(policy: number, ...rules: Statement[][]): FakeKernel {
  const kernel = new FakeKernel();
  const at = { type: 'filter', hook: NF_INET.FORWARD, priority: 0, policy, comment: '' };
  kernel.foreign(
    batch(
      { kind: 'tableAdd', ...inTable, comment: '' },
      { kind: 'baseChainAdd', ...inTable, chain: 'forwarding', ...at },
      ...rules.map((rule): NftOp => {
        const expressions = compileRule(rule);
        return { kind: 'ruleAdd', ...inTable, chain: 'forwarding', expressions, comment: '' };
      }),
    ),
  );
  return kernel;
}

function packet(fields: Partial<Packet> = {}): Packet {
  return {
    ...{ saddr: '198.51.100.10', daddr: '10.96.0.1', protocol: 'TCP', dport: 80, iif: 'eth0' },
    ...{ nodeAddresses: ['192.168.7.7'], random: 0 },
    ...fields,
  };
}

const http = [matchProtocol('TCP'), matchPort(80)];

describe('a traced packet', () => {
  it("that another program's rule drops is reported with the rule", async () => {
    const kernel = firewall(VERDICT.accept, [...http, drop]);
    const { packets } = await traced({ kernel, packets: [packet()] });
    const rule = 'rule 3 of chain ip firewall forwarding: meta l4proto tcp th dport 80 drop';
    expect(packets).toEqual([
      {
        ...{ source: '198.51.100.10:40000', interface: 'eth2', destination: '10.96.0.1:80' },
        ...{ outcome: 'dropped', because: `It is dropped by ${rule}.` },
        ...{ ended: `It is dropped by ${rule}.`, failed: true },
        answered: undefined,
        explained: undefined,
        steps: [
          { text: 'It comes in by eth2, from 198.51.100.10:40000.' },
          { text: 'The packet is dropped in hook forward.', object: rule },
        ],
      },
    ]);
  });

  it('that is rejected is reported as rejected, though the kernel reports a drop', async () => {
    const kernel = firewall(VERDICT.accept, [...http, reject('IPv4')]);
    const { packets } = await traced({ kernel, packets: [packet()] });
    expect(packets[0]).toMatchObject({
      outcome: 'rejected',
      because: expect.stringMatching(/^It is rejected by rule 3 of chain ip firewall forwarding: /),
    });
  });

  it('that no rule accepts is reported with the policy', async () => {
    const kernel = firewall(VERDICT.drop, [matchPort(443), drop]);
    const { packets } = await traced({ kernel, packets: [packet()] });
    expect(packets[0]).toMatchObject({
      outcome: 'dropped',
      because: 'The policy of chain ip firewall forwarding drops it.',
    });
  });

  it('without a matching rule is sent unchanged, and its answer is reported', async () => {
    const kernel = firewall(VERDICT.accept);
    const conntrack = new FakeConntrack();
    const from = '198.51.100.10:40000';
    conntrack.add({ protocol: 'TCP', from, to: '10.96.0.1:80', answered: true });
    const { packets } = await traced({ kernel, conntrack, packets: [packet()] });
    expect(packets[0]).toMatchObject({ outcome: 'untranslated', answered: 'yes' });
    expect(packets[0]!.steps.map(({ text }) => text)).toEqual([
      'It comes in by eth2, from 198.51.100.10:40000.',
      'It passes hook forward: chain ip firewall forwarding.',
      'It leaves by eth0, from 198.51.100.10:40000 to 10.96.0.1:80.',
    ]);
  });

  it('is reported as sent also if another trace has the last chain', async () => {
    const kernel = firewall(VERDICT.accept);
    const sent = packet();
    const started = async (): Promise<void> => {
      await kernel.apply(markingTable('fairlead-trace-2', targetOf(sent), { kind: 'anyone' }, 1));
      kernel.send(sent);
    };
    const { packets } = await traced({ kernel, packets: [sent], started: () => void started() });
    expect(packets[0]).toMatchObject({ outcome: 'untranslated' });
    expect(packets[0]!.steps.map(({ text }) => text).join()).not.toContain('fairlead-trace');
  });

  it('of IPv6 is reported, too', async () => {
    const v6 = packet({ saddr: 'fd00::9', daddr: 'fd00:96::1' });
    const { packets } = await traced({ kernel: new FakeKernel(), packets: [v6] });
    expect(packets[0]).toMatchObject({ outcome: 'untranslated', source: '[fd00::9]:40000' });
  });
});

describe('the packets to trace', () => {
  it('are the first one of each socket, and no more than requested', async () => {
    const sent = [packet(), packet(), packet({ sport: 40_001 }), packet({ sport: 40_002 })];
    const { packets } = await traced({ kernel: firewall(VERDICT.accept), packets: sent, count: 2 });
    const sources = packets.map(({ source }) => source);
    expect(sources).toEqual(['198.51.100.10:40000', '198.51.100.10:40001']);
  });

  it('exclude all others', async () => {
    const others = [{ daddr: '10.96.0.2' }, { dport: 81 }, { protocol: 'UDP' }] as const;
    const kernel = firewall(VERDICT.accept);
    const target = targetOf(packet());
    const { packets } = await traced({ kernel, target, packets: others.map(packet) });
    expect(packets).toEqual([]);
    expect(nothingCame(target, { kind: 'anyone' }, 30_000)).toMatch(/^No packet .* within 30 s\. /);
  });

  it('may be limited to one sender, or the node', async () => {
    const kernel = firewall(VERDICT.accept);
    const block = parseCIDR('198.51.100.16/28')!;
    const packets = [packet(), packet({ saddr: '198.51.100.20' })];
    const given = { kernel, packets, count: 1 };
    const some = await traced({ ...given, sender: { kind: 'addresses', block } });
    expect(some.packets.map(({ source }) => source)).toEqual(['198.51.100.20:40000']);
    kernel.release();
    const own = packet({ saddr: '192.168.7.7', iif: undefined });
    const node = await traced({ ...given, packets: [packet(), own], sender: { kind: 'node' } });
    expect(node.packets.map(({ source }) => source)).toEqual(['192.168.7.7:40000']);
  });
});

describe('a trace', () => {
  it('ends when it is stopped', async () => {
    const ending = new AbortController();
    const given = { kernel: new FakeKernel(), packets: [packet()], timeoutMs: 60_000 };
    const started = (): void => ending.abort();
    const { packets } = await traced({ ...given, started, signal: ending.signal });
    expect(packets).toEqual([]);
  });

  it('reports the packets that were seen before it was stopped', async () => {
    const ending = new AbortController();
    const packets = [packet(), packet({ sport: 40_001 }), packet({ sport: 40_002 })];
    const kernel = firewall(VERDICT.accept);
    const described = await traced({
      ...{ kernel, packets, timeoutMs: 60_000, signal: ending.signal },
      // The process of the node is slow.
      explain: async () => void ending.abort(),
    });
    const sources = described.packets.map(({ source }) => source);
    expect(sources).toEqual([40_000, 40_001, 40_002].map((port) => `198.51.100.10:${port}`));
    const quiet = { kernel: firewall(VERDICT.accept), packets, quietMs: 60_000 };
    const soon = new AbortController();
    const started = (): void => {
      for (const one of packets) quiet.kernel.send(one);
      soon.abort();
    };
    const { packets: last } = await traced({ ...quiet, started, signal: soon.signal });
    expect(last.map(({ source }) => source)).toEqual(sources);
  });

  it('reports lost events', async () => {
    const kernel = firewall(VERDICT.accept);
    const started = (): void => {
      kernel.interruptDumps();
      kernel.send(packet());
    };
    const { hasLost } = await traced({ kernel, packets: [packet()], started });
    expect(hasLost).toBe(true);
  });

  it('is rejected if the table would outlive it', async () => {
    const kernel = new FakeKernel();
    kernel.hasBorrowing = false;
    await expect(traced({ kernel, packets: [packet()] })).rejects.toThrow(NoTracingError);
    expect(kernel.ruleset()).toBe('');
  });
});

it('drops are reported when their packets are quiet, or stay noted; Services are read each minute', async () => {
  let nowMs = 0;
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  onTestFinished(() => clock.mockRestore());
  const kernel = firewall(VERDICT.accept, [...http, drop]);
  const ending = new AbortController();
  /** By the time at which they come. Of the second Service it is known from 30 s on. */
  const sent: Record<number, Partial<Packet>[]> = {
    0: [{ saddr: '198.51.100.11' }, {}],
    200: [{}],
    59800: [{ saddr: '198.51.100.12', daddr: '10.96.0.2' }],
    60200: [{ saddr: '198.51.100.13', daddr: '10.96.0.2' }],
  };
  const send = (): void => {
    for (const fields of sent[nowMs] ?? []) kernel.send(packet(fields));
  };
  const dump = async (request: Extract<Request, { kind: 'nftraceRead' }>) => {
    nowMs += request.waitMs;
    send();
    if (nowMs > 70_000) ending.abort();
    return kernel.dump(request);
  };
  const reported: string[] = [];
  await watchDrops({
    ...{ kernel, events: { dump } as unknown as Kernel, table, signal: ending.signal },
    ...{ started: send, interfaceName: String, findFault: async () => 'nobody knows' },
    services: async () => {
      const addresses = [[10, 96, 0, 1], ...(nowMs < 30_000 ? [] : [[10, 96, 0, 2]])];
      const nodePorts = new Set<string>();
      const IPv4 = { addresses: new Set(addresses.map((one) => String.fromCharCode(...one))) };
      return { IPv4: { ...IPv4, nodePorts }, IPv6: { addresses: nodePorts, nodePorts } };
    },
    report: async ({ client, outcome }) => void reported.push(`${nowMs} ${client[3]} ${outcome}`),
  });
  expect(reported).toEqual(['600 10 dropped', '3000 11 unknown', '63000 13 unknown']);
  const { notes, traced: known } = Object.fromEntries(kernel.table(NFPROTO.IPv4, table)!.sets);
  expect([notes, known].map((set) => set!.fields.timeoutMs)).toEqual([10_000, 10_000]);
});
