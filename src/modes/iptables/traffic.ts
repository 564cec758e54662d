/**
 * What rules have counted. Chains of table nat see the first packet of each connection, so that the
 * rules which lead to a Service count connections; those in table filter count what they refuse.
 * They stay while endpoints come and go, and when this process ends. What the kernel says of a rule
 * that goes is added up.
 */
import type { GoneRule, KernelReader, ReplyOf } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { readRule } from '../../kernel/xt/compile.ts';
import type { XtRule } from '../../kernel/xt/rule.ts';
import { addressBytes, type Family } from '../../net/address.ts';
import { frontendKey, keyPort } from '../../state/frontend-key.ts';
import type { Destination } from '../../state/frontends-in-force.ts';
import { inTurns, type Pause } from '../../time/pacer.ts';
import type { Count, RefusalReason } from '../traffic-counts.ts';
import type { TableChain } from './layout.ts';
import { isServiceChain } from './names.ts';

/** The chains whose rules count. */
const chains: readonly TableChain[] = [
  { table: 'nat', chain: 'KUBE-SERVICES' },
  { table: 'nat', chain: 'KUBE-NODEPORTS' },
  { table: 'filter', chain: 'KUBE-SERVICES' },
  { table: 'filter', chain: 'KUBE-EXTERNAL-SERVICES' },
  { table: 'filter', chain: 'KUBE-PROXY-FIREWALL' },
];

interface Tally extends Count {
  count: number;
}

type Meaning = Omit<Count, 'count'>;

/** Of frontends that are gone: beyond this, those that went first are forgotten. */
const goneMax = 65_536;

export class RuleTraffic {
  readonly #accounts: Readonly<Record<Family, Account>> = { IPv4: account(), IPv6: account() };

  /** A rule of this chain was deleted. */
  add(family: Family, chain: TableChain, { expressions, packets }: GoneRule): void {
    const { gone } = this.#accounts[family];
    for (const meaning of packets === 0 ? [] : meaningsOf(family, chain, expressions)) {
      count(gone, meaning, packets);
      if (gone.size <= goneMax) continue;
      const [first] = gone.keys();
      gone.delete(first!);
    }
  }

  /** As `trafficCounts` of a mode. */
  async read(
    kernel: KernelReader,
    family: Family,
    pause: Pause,
    report: (count: Count) => void,
  ): Promise<void> {
    const known = this.#accounts[family];
    const tallies = new Map([...known.gone].map(([id, tally]) => [id, { ...tally }]));
    for (const chain of chains) {
      const rules = await rulesOf(kernel, family, chain);
      await inTurns(rules, pause, ({ expressions, packets }) => {
        const meanings = packets === 0 ? [] : meaningsOf(family, chain, expressions);
        for (const meaning of meanings) count(tallies, meaning, packets);
      });
    }
    const before = known.reported;
    known.reported = new Map();
    await inTurns(tallies.values(), pause, (tally) => {
      // A rule that went, or moved, while the kernel was read may be missing: its count is not.
      tally.count = Math.max(tally.count, before.get(tally.id) ?? 0);
      known.reported.set(tally.id, tally.count);
      report(tally);
    });
  }
}

/** What is known of one family. */
interface Account {
  /** Counts of deleted rules, by id. */
  readonly gone: Map<string, Tally>;
  /** Counts that were reported last, by id. */
  reported: Map<string, number>;
}

function account(): Account {
  return { gone: new Map(), reported: new Map() };
}

/** Each once, although rules may move while the kernel is read. */
async function rulesOf(kernel: KernelReader, family: Family, { chain, table }: TableChain) {
  const request = { kind: 'rulesDump', family: NFPROTO[family], table, chain } as const;
  const rules = new Map<number, ReplyOf<'rule'>>();
  for (const record of (await kernel.dump(request)).records) {
    if (record.kind === 'rule') rules.set(record.handle, record);
  }
  return rules.values();
}

function count(tallies: Map<string, Tally>, meaning: Meaning, packets: number): void {
  const tally = tallies.get(meaning.id);
  if (tally === undefined) tallies.set(meaning.id, { ...meaning, count: packets });
  else tally.count += packets;
}

/** What a packet says that such a rule has counted. */
function meaningsOf(family: Family, chain: TableChain, expressions: Uint8Array): Meaning[] {
  const rule = readRule(family, expressions);
  const destination = rule && destinationOf(family, rule);
  if (destination === undefined) return [];
  const { address, port, protocol } = destination;
  const at = `${protocol} ${frontendKey({ address, port })}`;
  const connections: Meaning = {
    id: `connections ${at}`,
    destination,
    of: { kind: 'connections' },
  };
  const reason = reasonOf(chain, rule!);
  if (reason === undefined) {
    const { target } = rule!;
    const isWay = chain.table === 'nat' && target?.kind === 'jump' && isServiceChain(target.chain);
    return isWay ? [connections] : [];
  }
  const refusals: Meaning = {
    id: `${reason} ${at}`,
    destination,
    of: { kind: 'refusals', reason },
  };
  return hasWay(chain, reason) ? [refusals] : [connections, refusals];
}

function reasonOf({ chain, table }: TableChain, { target }: XtRule): RefusalReason | undefined {
  if (table !== 'filter') return undefined;
  if (target?.kind === 'reject') return 'no_endpoints';
  if (target?.kind !== 'drop') return undefined;
  return chain === 'KUBE-PROXY-FIREWALL' ? 'source_ranges' : 'no_local_endpoints';
}

/** Whether a rule in table nat counts the connection too (see `frontendRules`). */
function hasWay({ chain }: TableChain, reason: RefusalReason): boolean {
  if (reason === 'source_ranges') return true;
  return reason === 'no_local_endpoints' && chain === 'KUBE-EXTERNAL-SERVICES';
}

/** Node ports on loopback addresses are node ports. */
function destinationOf(
  family: Family,
  { destination, matches = [], protocol }: XtRule,
): (Destination & { readonly port: number }) | undefined {
  const match = matches.find(({ kind }) => kind === 'port');
  const { dport, lastPort } = match?.kind === 'port' ? match : {};
  const port = dport && keyPort({ port: dport, lastPort });
  if (port === undefined) return undefined;
  const cidr = destination?.cidr;
  const isOne = cidr?.prefixLength === addressBytes[family] * 8;
  return { address: isOne ? cidr.address : undefined, port, protocol };
}
