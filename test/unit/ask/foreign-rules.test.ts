/** Rules of other programs that stop connections to a Service, and those that do not. */
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { readClauses } from '../../../src/kernel/nft/clauses.ts';
import { NF_INET } from '../../../src/kernel/nft/constants.ts';
import { matchPort } from '../../../src/kernel/nft/ports.ts';
import {
  compileRule,
  drop,
  jump,
  matchInterface,
  matchLocalAddress,
  matchProtocol,
  returnToCaller,
  type Statement,
  stateNew,
  statusDNAT,
} from '../../../src/kernel/nft/rule.ts';
import { nftOps } from '../../../src/kernel/ops.ts';
import { RecordWriter } from '../../../src/kernel/records.ts';
import { conntrackCodec, ctState } from '../../../src/kernel/xt/matches/conntrack.ts';
import { markCodec, markIs } from '../../../src/kernel/xt/matches/mark.ts';
import type { ModeName } from '../../../src/modes/mode.ts';
import { formatAddress } from '../../../src/net/address.ts';
import { ForeignRules } from '../../../src/serve/ask/foreign-rules/foreign-rules.ts';
import { readRule } from '../../../src/serve/ask/foreign-rules/rules.ts';
import {
  canStop,
  type FirstPacket,
  stopIn,
  type WalkedRule,
} from '../../../src/serve/ask/foreign-rules/walk.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { kernelWith } from '../../fake/kernel-with.ts';
import { configOf, type Running } from '../agent/running.ts';
import { forwarding, pool } from '../modes/nftables/forwardings.ts';
import { address } from '../state/build.ts';
import { asked, said } from './asking.ts';
import { startedWith } from './broken-cluster-app.ts';
import { endpoints, here, node, web } from './broken-clusters.ts';
import {
  accept,
  at,
  type Chain,
  clusterIP,
  early,
  endpoint,
  forward,
  from,
  table,
  target,
  tcp,
  to,
} from './foreign-tables.ts';

let app: Running | undefined;

afterEach(async () => {
  await app?.stop();
  app = undefined;
});

const { LOCAL_IN } = NF_INET;
const common = { unrouted: { podDevices: undefined } };

const portsFrom = (first: number, last: number): Statement => {
  return (out) => {
    const bound = (operation: number, port: number): void => {
      const data = Uint8Array.of(port >> 8, port & 0xff);
      out.write('cmp', { register: 1, operation, data });
    };
    out.write('payload', { register: 1, base: 2, offset: 2, length: 2 });
    bound(5, first);
    bound(3, last);
  };
};
/** `-m multiport --dports 80,8000:8999` */
const multiport: Statement = (out) => {
  const info = new Uint8Array(48);
  const view = new DataView(info.buffer);
  info.set([1, 3]);
  for (const [i, port] of [80, 8000, 8999].entries()) view.setUint16(2 + 2 * i, port, true);
  info[33] = 1;
  out.write('match', { name: 'multiport', revision: 1, info });
};
/** `-j CT --notrack` */
const untracked = target('CT', 1);
const invalid: Statement = (out) => {
  out.write('ctLoad', { register: 1, key: 0, direction: 0xff });
  const [mask, zero] = [Uint8Array.of(1, 0, 0, 0), new Uint8Array(4)];
  out.write('bitwise', { source: 1, destination: 1, length: 4, mask, xor: zero });
  out.write('cmp', { register: 1, operation: 1, data: zero });
};

async function found(chains: Readonly<Record<string, Chain>>): Promise<string[]> {
  app = await startedWith({
    name: '',
    cause: '',
    to: '',
    outcome: 'endpoint',
    manifests: web() + endpoints(here) + node,
    kernel: async (kernel) => {
      expect(await kernel.apply(table(chains))).toMatchObject({ kind: 'applied' });
    },
  });
  const { body } = await asked(app, 'service', '?namespace=default&name=web');
  return body.problems;
}

describe('a rule of another program stops connections', () => {
  const early80 = 'drops packets of pods, and from outside, to 10.96.0.1:80/TCP: rule';
  it.each<[string, Readonly<Record<string, Chain>>, string]>([
    [
      'to a range of ports',
      { in: { ...early, rules: [[tcp, portsFrom(30_000, 32_767), drop]] } },
      'to *:30080/TCP',
    ],
    [
      'in a chain that it jumps to',
      { in: { ...forward, rules: [[tcp, jump('next')]] }, next: { rules: [[stateNew, drop]] } },
      'chain ip guard next',
    ],
    [
      'after rules for others',
      {
        in: {
          ...forward,
          rules: [
            [to('10.244.0.6/32'), accept],
            [from('192.0.2.0/24'), drop],
            [invalid, returnToCaller],
            [drop],
          ],
        },
      },
      'to endpoint',
    ],
    [
      'before connection tracking knows them',
      { in: { ...early, rules: [[invalid, to(clusterIP), drop]] } },
      early80,
    ],
    [
      'if connection tracking, which translates them, does not see them',
      { in: { ...early, rules: [[to(clusterIP), tcp, untracked]] } },
      'exempts from connection tracking, and so from translation, packets of pods, and from ' +
        'outside, to 10.96.0.1:80/TCP: rule',
    ],
  ])('%s', async (_, chains, text) => {
    expect(await found(chains)).toContainEqual(expect.stringContaining(text));
  });
});

describe('a rule of another program is not said to stop connections', () => {
  it.each<[string, Readonly<Record<string, Chain>>]>([
    [
      'if it is for other ports',
      { in: { ...early, rules: [[to(clusterIP), matchPort(81), drop]] } },
    ],
    [
      'if it is for another protocol',
      { in: { ...early, rules: [[to(clusterIP), matchProtocol('UDP'), drop]] } },
    ],
    [
      'if the sender decides',
      { in: { ...early, rules: [[to(clusterIP), from('192.0.2.0/24'), drop]] } },
    ],
    [
      'if some packets leave the chain before',
      {
        in: { ...forward, rules: [[jump('next')]] },
        next: { rules: [[statusDNAT, returnToCaller], [drop]] },
      },
    ],
    ['if it meets none of these packets', { in: { hook: LOCAL_IN, rules: [[drop]] } }],
    [
      'if it sees them after they were translated',
      { in: { ...early, priority: -90, rules: [[to(clusterIP), drop]] } },
    ],
    ['if their connections are not new to it', { in: { ...forward, rules: [[invalid, drop]] } }],
    [
      'if connection tracking has seen them already',
      { in: { ...early, priority: -199, rules: [[to(clusterIP), untracked]] } },
    ],
    ['if they are translated already', { in: { ...early, rules: [[to(endpoint), untracked]] } }],
  ])('%s', async (_, chains) => {
    expect(await found(chains)).toEqual([]);
  });
});

it('a table with too many rules is known by its policies alone', async () => {
  const rules = Array.from({ length: 3001 }, () => [drop]);
  expect(await found({ in: { ...forward, policy: 0, rules } })).toEqual([]);
  const { warnings } = (await asked(app!, 'explain', '?to=10.96.0.1:80')).body;
  const text = 'Chain ip guard in (hook forward) drops what none of its rules accepts';
  expect(warnings).toContainEqual(expect.stringContaining(text));
});

it('a rule for a sender stops the packets of that one, where a question names it', async () => {
  const rules = [[from('10.244.0.9/32'), to(endpoint), drop]];
  const chains = {
    in: { ...forward, rules },
    early: { ...early, rules: [[from('10.244.0.8/32'), tcp, drop]] },
  };
  expect(await found(chains)).toEqual([]);
  const codeFrom = async (...client: string[]): Promise<number> =>
    (await said(app!, 'explain', '10.96.0.1:80', ...client)).code;
  expect(await codeFrom()).toBe(0);
  expect(await codeFrom('--from=10.244.0.9')).toBe(1);
  expect(await codeFrom('--from=10.244.0.8')).toBe(1);
  expect(await codeFrom('--from=10.244.0.7')).toBe(0);
});

it('a rule for another device accepts no packets of pods, whose devices are known', async () => {
  const rules = [[matchInterface('==', 'docker0'), accept]];
  expect(await found({ in: { ...forward, policy: 0, rules } })).toEqual([
    expect.stringContaining('drops packets of pods of this node to endpoint 10.244.0.5:8080/TCP'),
  ]);
  const codeFrom = async (client: string): Promise<number> =>
    (await said(app!, 'explain', '10.96.0.1:80', `--from=${client}`)).code;
  expect([await codeFrom('pod'), await codeFrom('outside')]).toEqual([1, 0]);
});

describe('a rule of iptables', () => {
  const packet = {
    family: 'IPv4',
    protocol: 6,
    saddr: undefined,
    clearMark: 0,
    daddr: Uint8Array.of(10, 96, 0, 1),
    dport: 8080,
    isTracked: true,
    isFromOutside: false,
    awaitsTranslation: true,
  } as const;

  const chains = (...statements: readonly Statement[]) => {
    const rule = readRule(readClauses(compileRule(statements)), new Map());
    return new Map([['in', [{ ...rule, text: () => '' }]]]);
  };

  function stop(dport: number, ...statements: readonly Statement[]) {
    return stopIn(chains(...statements), 'in', false, { ...packet, dport })?.what;
  }

  it('rejects or redirects by its target, and may only mark', () => {
    const stops = ['REJECT', 'DNAT', 'REDIRECT', 'TPROXY', 'MARK', 'LOG', 'NFQUEUE', 'SNAT'].map(
      (name) => stop(80, to(clusterIP), tcp, target(name)),
    );
    expect(stops.slice(0, 4)).toEqual(['reject', 'redirect', 'redirect', 'redirect']);
    expect(stops.slice(4)).toEqual([undefined, undefined, undefined, undefined]);
  });

  it('may keep connection tracking, and so translation, from packets', () => {
    expect([stop(80, target('CT', 1)), stop(80, target('NOTRACK'))]).toEqual([
      'untrack',
      'untrack',
    ]);
    // These flags assign a helper or a zone.
    expect([stop(80, target('CT')), stop(80, target('CT', 2))]).toEqual([undefined, undefined]);
  });

  it('is for the ports of a list, or of a range', () => {
    const match = (name: string, info: Uint8Array): Statement => {
      return (out) => out.write('match', { name, revision: 0, info });
    };
    const range = new Uint8Array(16);
    range.set([0, 0, 0xff, 0xff, 0x40, 0x1f, 0x41, 0x1f]);
    const ofPorts = (...matches: readonly Statement[]) =>
      [80, 81, 8000, 8001, 8999, 9000].filter((port) => stop(port, ...matches, drop) === 'drop');
    expect(ofPorts(multiport)).toEqual([80, 8000, 8001, 8999]);
    expect(ofPorts(match('tcp', range))).toEqual([8000, 8001]);
    range[11] = 2;
    expect(ofPorts(match('tcp', range))).toEqual([80, 81, 8999, 9000]);
    range[0] = 1;
    expect(ofPorts(match('tcp', range))).toEqual([]);
    expect(ofPorts(match('comment', range))).toHaveLength(6);
    expect(ofPorts(match('recent', range))).toEqual([]);
  });

  it('is for addresses of the node, which node ports are', () => {
    const types = (source: number, destination: number, flags = 0): Statement => {
      const info = Buffer.alloc(8);
      info.writeUInt16LE(source, 0);
      info.writeUInt16LE(destination, 2);
      info.writeUInt32LE(flags, 4);
      return (out) => out.write('match', { name: 'addrtype', revision: 1, info });
    };
    const read = (...statements: readonly Statement[]) => {
      return stopIn(chains(...statements), 'in', false, { ...packet, daddr: undefined })?.what;
    };
    expect(read(types(0, 4), target('DNAT'))).toBe('redirect');
    expect([stop(80, types(0, 4), drop), read(types(0, 8), drop)]).toEqual([undefined, undefined]);
    expect([read(types(4, 4), drop), read(types(0, 4, 2), drop)]).toEqual([undefined, undefined]);
    const [source, destination] = (['saddr', 'daddr'] as const).map(matchLocalAddress);
    expect(read(destination!, target('DNAT'))).toBe('redirect');
    expect([stop(80, destination!, drop), read(source!, drop)]).toEqual([undefined, undefined]);
  });

  it('is for connections in a state, which a first packet has', () => {
    const meets = (...parts: Parameters<typeof ctState>) => {
      const match: Statement = (out) => conntrackCodec.write(ctState(...parts), out, {} as never);
      return stop(80, match, drop) === 'drop';
    };
    expect(meets(['NEW', 'RELATED'])).toBe(true);
    expect(meets(['RELATED', 'ESTABLISHED'])).toBe(false);
    expect(meets(['RELATED', 'ESTABLISHED'], '!=')).toBe(true);
    expect(meets(['NEW', 'DNAT'])).toBe(false);
  });

  it('is for a mark, as far as its bits are known', () => {
    const mark = (bits: number, operator: '==' | '!='): Statement => {
      return (out) => markCodec.write(markIs(bits, operator), out, {} as never);
    };
    const meets = (clearMark: number, ...of: Parameters<typeof mark>) => {
      const marked = chains(mark(...of), drop);
      return stopIn(marked, 'in', false, { ...packet, clearMark }) !== undefined;
    };
    expect([meets(0x4000, 0x4000, '!='), meets(0x4000, 0x4000, '==')]).toEqual([true, false]);
    expect([meets(0, 0x4000, '!='), meets(0x4000, 0xc000, '!=')]).toEqual([false, false]);
  });

  it('is for devices, as far as those are known by which a packet comes', () => {
    const meets = (operator: '==' | '!=', name: string, more: Partial<FirstPacket>) => {
      const all = chains(matchInterface(operator, name), drop);
      return stopIn(all, 'in', false, { ...packet, ...more }) !== undefined;
    };
    const by = (...names: string[]) => ({ devices: new Set(names) });
    const bridge = by('cni0');
    expect([meets('==', 'cni0', bridge), meets('!=', 'cni0', bridge)]).toEqual([true, false]);
    expect([meets('==', 'cni', bridge), meets('!=', 'cni', bridge)]).toEqual([false, true]);
    const mixed = by('cni0', 'eth0');
    expect([meets('==', 'cni0', mixed), meets('!=', 'cni0', mixed)]).toEqual([false, false]);
    const outside = { isFromOutside: true };
    expect([meets('!=', 'lo', outside), meets('!=', 'eth0', outside)]).toEqual([true, false]);
  });

  it('may redirect by an expression that has no record', () => {
    const unknown = (name: string): Statement => {
      return (out) => out.write('unknown', { name });
    };
    expect(stop(80, tcp, unknown('log'), unknown('redir'))).toBe('redirect');
    expect(stop(80, tcp, unknown('limit'), drop)).toBeUndefined();
    expect(stop(80, tcp, unknown('notrack'))).toBe('untrack');
  });
});

it('is read again after the rules of the node have changed', async () => {
  expect(await found({ in: { ...forward, rules: [[from('192.0.2.0/24'), drop]] } })).toEqual([]);
  const problems = async () => (await asked(app!, 'problems')).body.reasons;
  app!.kernel.foreign(table({ more: { ...forward, rules: [[to(endpoint), drop]] } }));
  await app!.clock.pass(2000);
  expect(await problems()).toEqual([{ reason: 'rule_in_the_way', services: 1 }]);
  const { remarks } = (await asked(app!, 'status')).body;
  expect(remarks).toContain(
    'Rules of other programs are in the way of 1 Service: fairlead problems names them.',
  );
  const gone = new RecordWriter(nftOps);
  gone.write('tableDelete', at);
  app!.kernel.foreign(gone.finish());
  await app!.clock.pass(2000);
  expect(await problems()).toEqual([]);
});

it('a rule is named once, with all endpoints that it keeps connections from', async () => {
  const kernel = new FakeKernel();
  const rules = new ForeignRules({
    ...common,
    clock: { now: () => 0 },
    kernel,
    mode: { name: 'nftables' },
    config: await configOf(),
  });
  const drops = [[tcp, to('10.0.0.0/31'), drop]];
  await kernel.apply(table({ in: { ...forward, rules: drops } }));
  await rules.refresh();
  const three = forwarding('three', pool(0, 1, 2));
  expect(rules.obstacles([{ forwarding: three }], []).map(({ endpoints }) => endpoints)).toEqual([
    ['10.0.0.0', '10.0.0.1'],
  ]);
});

it('leaves out of connection tracking what programs of the node answer, or IPVS translates', async () => {
  const kernel = new FakeKernel();
  const found = async (mode: ModeName, ownAddresses: readonly string[]): Promise<string[]> => {
    const rules = new ForeignRules({
      ...common,
      clock: { now: () => 0 },
      kernel,
      mode: { name: mode },
      config: await configOf(),
    });
    await rules.refresh();
    const own = ownAddresses.map(address);
    return rules.obstacles([{ forwarding: dns }], own).map(({ text }) => text());
  };
  const dns = forwarding('dns', pool(1));
  const { address: vip } = dns.frontends[0]!;
  await kernel.apply(table({ in: { ...early, rules: [[untracked]] } }));
  expect(await found('nftables', ['192.168.7.7'])).toHaveLength(1);
  expect(await found('iptables', ['192.168.7.7'])).toHaveLength(1);
  expect(await found('ipvs', ['192.168.7.7'])).toEqual([]);
  expect(await found('nftables', ['192.168.7.7', formatAddress(vip!.bytes)])).toEqual([]);
});

describe('a firewall that drops what comes in', () => {
  const established: Statement = (out) => {
    conntrackCodec.write(ctState(['ESTABLISHED']), out, { family: 'IPv4', protocol: undefined });
  };
  const usual = [
    [matchInterface('==', 'lo'), accept],
    [established, accept],
    [tcp, matchPort(22), accept],
  ];
  const local = forwarding('local', pool(1), { healthCheckNodePort: 31_990 });

  async function obstacles(mode: 'nftables' | 'ipvs', rules: Chain['rules']): Promise<string[]> {
    const kernel = new FakeKernel();
    const known = { clock: { now: () => 0 }, kernel, config: await configOf() };
    const foreignRules = new ForeignRules({
      ...common,
      ...known,
      mode: { name: mode, ownsChain: () => true },
    });
    const nodePorts = { rules: [[tcp, matchPort(31_990), accept]] };
    const chains = { 'KUBE-NODEPORTS': nodePorts, in: { hook: LOCAL_IN, policy: 0, rules } };
    await kernel.apply(table(chains));
    await foreignRules.refresh();
    const other = forwarding('other', pool(1));
    return foreignRules
      .obstacles([{ forwarding: other }, { forwarding: local }], [])
      .map(({ text }) => text())
      .filter((text) => text.includes('health-check node port'));
  }

  it.each(['nftables', 'ipvs'] as const)('is named for health checks, mode %s', async (mode) => {
    expect(await obstacles(mode, usual)).toEqual([
      'Chain ip guard in of another program drops packets that come in to health-check node port 31990, because none of its rules accepts them.',
    ]);
  });

  it.each([
    ['accepts the port', [tcp, matchPort(31_990), accept]],
    ["leads to kube-proxy's chain for it", [jump('KUBE-NODEPORTS')]],
    ['accepts it from an interface', [matchInterface('==', 'eth0'), accept]],
    ['accepts new connections', [stateNew, accept]],
  ])('is not named where a rule %s', async (_, rule) => {
    expect(await obstacles('nftables', [...usual, rule])).toEqual([]);
  });
});

it('is the same value as long as it has not changed, whatever else changes in the kernel', async () => {
  const kernel = new FakeKernel();
  let nowMs = 0;
  const foreignRules = new ForeignRules({
    ...common,
    clock: { now: () => nowMs },
    kernel,
    mode: { name: 'nftables' },
    config: await configOf(),
  });
  const read = async () => {
    nowMs += 60_000;
    await foreignRules.refresh();
    return foreignRules.found;
  };
  await kernel.apply(table({ in: { ...forward, rules: [[to(endpoint), drop]] } }));
  const first = await read();
  expect(first.all).toHaveLength(1);
  const other = new RecordWriter(nftOps);
  other.write('tableAdd', { family: 2, table: 'other', comment: '' });
  await kernel.apply(other.finish());
  expect(await read()).toBe(first);
  await kernel.apply(table({ in: { ...forward, rules: [[tcp, drop]] } }));
  const second = await read();
  expect(second).not.toBe(first);
  // What was read a minute ago is read again, but is looked for once a second.
  await kernel.apply(table({ in: { ...forward, rules: [[to(endpoint), drop]] } }));
  const foundAfter = async (ms: number) => {
    nowMs += ms;
    await foreignRules.refresh();
    return foreignRules.found;
  };
  expect(await foundAfter(59_500)).toBe(second);
  expect(await foundAfter(999)).toBe(second);
  expect(await foundAfter(1)).not.toBe(second);
});

it('waits a second for a kernel that is busy, and then uses what was known before', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const kernel = new FakeKernel();
  const { promise: free, resolve: release } = Promise.withResolvers<void>();
  const foreignRules = new ForeignRules({
    ...common,
    clock: { now: () => 0 },
    kernel: {
      dump: (request, take) => free.then(() => kernel.dump(request, take)),
      generation: () => kernel.generation(),
      commits: 0,
    },
    mode: { name: 'nftables' },
    config: await configOf(),
  });
  await kernel.apply(table({ in: { ...forward, rules: [[to(endpoint), drop]] } }));
  let answers = 0;
  const refresh = (): void => void foreignRules.refresh().then(() => (answers += 1));
  refresh();
  await vi.advanceTimersByTimeAsync(999);
  expect(answers).toBe(0);
  await vi.advanceTimersByTimeAsync(1);
  expect([answers, foreignRules.found.all]).toEqual([1, []]);
  refresh();
  release();
  await vi.advanceTimersByTimeAsync(999);
  expect([answers, foreignRules.found.all.length]).toEqual([2, 1]);
});

it('reads each chain once, however many jumps of other programs lead to it', () => {
  class Counted extends Map<string, readonly WalkedRule[]> {
    reads = 0;
    override get(name: string): readonly WalkedRule[] | undefined {
      this.reads += 1;
      return super.get(name);
    }
  }
  const chains = new Counted();
  const jumps = 8;
  for (let level = 0; level < 16; level += 1) {
    const action = { kind: 'jump', chain: `level ${level + 1}` } as const;
    const rule = { conditions: [() => undefined], action, text: () => '' };
    chains.set(`level ${level}`, Array(jumps).fill(rule));
  }
  const packet = {
    family: 'IPv4',
    protocol: 6,
    saddr: undefined,
    clearMark: 0,
    daddr: undefined,
    dport: 80,
    isTracked: true,
    isFromOutside: false,
    awaitsTranslation: true,
  } as const;
  expect(stopIn(chains, 'level 0', true, packet)).toEqual({ what: 'drop', rule: undefined });
  expect(canStop(chains, 'level 0')).toBe(false);
  expect(chains.reads).toBeLessThan(40);
});

it('is read again when others commit, and after a minute, but not when this proxy does', async () => {
  const kernel = new FakeKernel();
  let nowMs = 0;
  let readings = 0;
  const read: typeof kernel.dump = (request, take) => {
    if (request.kind === 'tablesDump') readings += 1;
    return kernel.dump(request, take);
  };
  const foreignRules = new ForeignRules({
    ...common,
    clock: { now: () => nowMs },
    kernel: kernelWith(kernel, { dump: read }),
    mode: { name: 'nftables' },
    config: await configOf(),
  });
  const readingsAfter = async (ms: number): Promise<number> => {
    nowMs += ms;
    await foreignRules.refresh();
    return readings;
  };
  const ops = table({ in: { ...forward, rules: [[to(endpoint), drop]] } });
  expect(await readingsAfter(0)).toBe(1);
  await kernel.apply(ops);
  expect(await readingsAfter(2000)).toBe(1);
  kernel.foreign(ops);
  expect(await readingsAfter(2000)).toBe(2);
  expect(await readingsAfter(59_000)).toBe(2);
  expect(await readingsAfter(2000)).toBe(3);
});
