/**
 * How long does it take to replace all source ranges of a Service, and how long does another
 * Service's change wait in that time? It is compared with `nft -f` that loads an equal set, and
 * with a layout without a set for each list: one set `frontend . client` for all frontends.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Address } from '../src/net/address.ts';
import type { Change } from '../src/state/change.ts';
import type { Service } from '../src/state/types.ts';
import { objects, slice } from './lib/cluster.ts';
import { LongestTurn } from './lib/longest-turn.ts';
import { inNamespace, type Namespace } from './lib/namespace.ts';
import { type Rig, withRig } from './lib/rig.ts';
import { number, ratio, type Summary, summarise, table } from './lib/stats.ts';
import { timed } from './lib/timed.ts';

interface Case {
  readonly ranges: number;
  readonly ports: number;
}

const cases: readonly Case[] = [
  { ranges: 50, ports: 1 },
  { ranges: 5000, ports: 1 },
  { ranges: 5000, ports: 10 },
  { ranges: 20_000, ports: 1 },
];
const cluster = { services: 1000, endpoints: 10 };
const replacements = 12;
/** The time from one replacement to the next. */
const periodMs = 1000;
/** The time from a replacement to the other Service's change. */
const behindMs = 2;
const nftRuns = 5;
/** The most ranges for the single set: its cost grows with the square of their number. */
const sharedMax = 5000;
/**
 * Services with a list of their own, and its ranges: a short list becomes rules, a long one a set.
 */
const lists = [
  { services: 0, ranges: 0 },
  { services: 1000, ranges: 5 },
  { services: 5000, ranges: 5 },
  { services: 1000, ranges: 20 },
  { services: 5000, ranges: 20 },
];
/** Retired objects are deleted within this time. */
const deletedMs = 4000;

interface Ours {
  readonly replace: Summary;
  readonly victim: Summary;
  readonly alone: Summary;
  readonly longestTurn: number;
  readonly setsLeft: number;
}

export async function sourceRanges(): Promise<string> {
  return [await replacing(), await coexisting()].join('\n\n');
}

async function replacing(): Promise<string> {
  const rows: string[][] = [];
  for (const one of cases) {
    const ours = await measureOurs(one);
    const nft = await measureNft(one, freshSet);
    const tooMany = one.ranges > sharedMax || one.ports > 1;
    const shared = tooMany ? Number.NaN : (await measureNft(one, sharedSet)).p50;
    rows.push([
      `${one.ranges.toLocaleString('en')}, ports: ${one.ports}`,
      number(ours.replace.p50),
      number(ours.replace.max),
      number(nft.p50),
      ratio(ours.replace.p50, nft.p50),
      number(shared),
      number(ours.alone.p50),
      number(ours.victim.p50),
      number(ours.victim.max),
      number(ours.longestTurn),
      String(ours.setsLeft),
    ]);
  }
  const head = ['ranges', 'replaced', 'max', 'nft -f', 'ratio', 'one set for all'];
  const others = ['change alone', 'meanwhile', 'max', 'turn', 'sets left'];
  return [
    `All source ranges of one Service replaced by others, once a second (${replacements} times), and
an endpoint of another Service ${behindMs} ms behind, among 1,000 × 10; ms`,
    table([...head, ...others], rows),
  ].join('\n\n');
}

/** The cost of a change while other Services have lists. */
async function coexisting(): Promise<string> {
  const rows: string[][] = [];
  for (const { services, ranges } of lists) {
    const row = await inNamespace('lists', async (namespace) => {
      const changes = [...objects(cluster)];
      for (let i = 1; i <= services; i += 1) changes.push(tenant({ ranges, ports: 1 }, i, i));
      const load = await withRig(namespace, (rig) => timed(() => rig.load(changes)));
      return withRig(namespace, async (rig) => {
        const restart = await timed(() => rig.load(changes));
        const replaced = await changesAlone(rig);
        const scaled: number[] = [];
        for (let i = 1; i <= replacements; i += 1) {
          const grown = slice(i, cluster.endpoints + 1);
          scaled.push(await timed(() => rig.changeAll([{ kind: 'slice', slice: grown }])));
        }
        return [load, restart, replaced.p50, summarise(scaled).p50];
      });
    });
    rows.push([`${services.toLocaleString('en')} × ${ranges}`, ...row.map(number)]);
  }
  return [
    `Services with a list of ranges each, all different, beside 1,000 × 10 without: load, restart with
nothing changed; an endpoint of another Service replaced, and another Service scaled, p50; ms`,
    table(['lists × ranges', 'load', 'restart', 'replace', 'scale'], rows),
  ].join('\n\n');
}

/** Blocks /28 that neither overlap nor touch, others in each `round`. */
function rangeNumbers(count: number, round: number): number[] {
  return Array.from({ length: count }, (_, i) => 0x14_00_00_00 + (i * 131 + round * 2) * 16);
}

function bytes(value: number): Uint8Array {
  return Uint8Array.of(value >>> 24, (value >>> 16) & 0xff, (value >>> 8) & 0xff, value & 0xff);
}

const vip = Uint8Array.of(198, 51, 0, 1);

function tenant({ ranges, ports }: Case, round: number, index = 0): Change {
  const name = `guarded-${index}`;
  const service: Service = {
    key: `tenant/${name}`,
    namespace: 'tenant',
    name,
    uid: name,
    createdMs: 0,
    type: 'LoadBalancer',
    clusterIPs: [Address.ofIPv4(0x0a_c8_00_01 + index)],
    externalIPs: [],
    loadBalancerIPs: [Address.ofIPv4(0xc6_33_00_01 + index)],
    loadBalancerSourceRanges: rangeNumbers(ranges, round).map((value) => ({
      address: Address.ofIPv4(value),
      prefixLength: 28,
    })),
    internalTrafficPolicy: 'Cluster',
    externalTrafficPolicy: 'Cluster',
    healthCheckNodePort: 0,
    affinityTimeoutSeconds: 0,
    rulesOnly: false,
    awaitedLoadBalancer: undefined,
    ports: Array.from({ length: ports }, (_, i) => ({
      name: `p${i}`,
      protocol: 'TCP' as const,
      port: 80 + i,
      nodePort: 0,
    })),
  };
  return { kind: 'service', service };
}

async function measureOurs(one: Case): Promise<Ours> {
  return inNamespace('ranges', (namespace) =>
    withRig(namespace, async (rig) => {
      await rig.load([...objects(cluster), tenant(one, 0)]);
      const alone = await changesAlone(rig);
      const turns = new LongestTurn();
      let longestTurn = 0;
      const replace: number[] = [];
      const victim: number[] = [];
      for (let round = 1; round <= replacements; round += 1) {
        const next = tenant(one, round);
        await sleep(periodMs);
        turns.take();
        const replaced = timed(() => rig.changeAll([next]));
        await sleep(behindMs);
        victim.push(await timed(() => rig.changeAll([change(round)])));
        replace.push(await replaced);
        longestTurn = Math.max(longestTurn, turns.take());
      }
      turns.close();
      await sleep(deletedMs);
      const listing = namespace.run('nft', ['-t', 'list', 'sets', 'ip']);
      const setsLeft = listing.match(/set source-ranges-/g)?.length ?? 0;
      const summaries = { replace: summarise(replace), victim: summarise(victim), alone };
      return { ...summaries, longestTurn, setsLeft };
    }),
  );
}

async function changesAlone(rig: Rig): Promise<Summary> {
  const tookMs: number[] = [];
  for (let i = 1; i <= replacements; i += 1) {
    tookMs.push(await timed(() => rig.changeAll([change(1000 + i)])));
  }
  return summarise(tookMs);
}

function change(replaced: number): Change {
  const of = (replaced * 37) % cluster.services;
  return { kind: 'slice', slice: slice(of, cluster.endpoints, replaced) };
}

/** The file that replaces the ranges of round `round - 1`. */
type Script = (one: Case, round: number) => string;

function measureNft(one: Case, script: Script): Promise<Summary> {
  return inNamespace('nft', async (namespace) => {
    loadNft(namespace, skeleton);
    loadNft(namespace, script(one, 0));
    const tookMs: number[] = [];
    for (let round = 1; round <= nftRuns; round += 1) {
      const text = script(one, round);
      tookMs.push(await timed(() => loadNft(namespace, text)));
    }
    return summarise(tookMs);
  });
}

function loadNft(namespace: Namespace, script: string): void {
  namespace.run('nft', ['-f', '-'], script);
}

const frontend = 'ip daddr . meta l4proto . th dport';
const frontendType = 'ipv4_addr . inet_proto . inet_service';
const skeleton = `table ip bench {
  map firewall-ips { type ${frontendType} : verdict; }
  set guarded { type ${frontendType}; }
  set source-ranges { type ${frontendType} . ipv4_addr; flags interval; }
  chain filter {
    type filter hook prerouting priority -110;
    ${frontend} vmap @firewall-ips
    ${frontend} @guarded ${frontend} . ip saddr != @source-ranges drop
  }
}
`;

function addressText(value: number): string {
  return bytes(value).join('.');
}

function frontendTexts(ports: number): string[] {
  return Array.from({ length: ports }, (_, i) => `${vip.join('.')} . tcp . ${80 + i}`);
}

/** Adds the set and the chain of these ranges, changes the verdicts, and deletes the old ones. */
function freshSet({ ranges, ports }: Case, round: number): string {
  const elements = rangeNumbers(ranges, round).map((value) => `${addressText(value)}/28`);
  const keys = frontendTexts(ports);
  const verdicts = keys.map((key) => `${key} : goto firewall-${round}`);
  const lines = [
    `add set ip bench ranges-${round} { type ipv4_addr; flags interval; }`,
    `add element ip bench ranges-${round} { ${elements.join(', ')} }`,
    `add chain ip bench firewall-${round}`,
    `add rule ip bench firewall-${round} ip saddr != @ranges-${round} drop`,
    ...(round === 0 ? [] : [`delete element ip bench firewall-ips { ${keys.join(', ')} }`]),
    `add element ip bench firewall-ips { ${verdicts.join(', ')} }`,
  ];
  return `${lines.join('\n')}\n`;
}

/** The kernel copies a set of this kind with each write. */
function sharedSet({ ranges, ports }: Case, round: number): string {
  const keys = frontendTexts(ports);
  const elements = keys.flatMap((key) =>
    rangeNumbers(ranges, round).map((value) => `${key} . ${addressText(value)}/28`),
  );
  return [
    'flush set ip bench source-ranges',
    `add element ip bench guarded { ${keys.join(', ')} }`,
    `add element ip bench source-ranges { ${elements.join(', ')} }`,
    '',
  ].join('\n');
}
