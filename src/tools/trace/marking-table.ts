/**
 * The table that turns on tracing of packets. Its owner is the socket that creates it, so the
 * kernel removes it when the process ends, even if it is killed.
 *
 * A rule before all others marks the first packet of each client's socket, until a set of limited
 * size is full: so the kernel bounds the number of traced packets. Chains after all others show
 * that a packet has passed a hook, and which addresses it has then.
 */

import { type ChainDefinition, type Rule, writeChain, writeRules } from '../../kernel/nft/chain.ts';
import { NF_INET, NFPROTO, NFT_SET } from '../../kernel/nft/constants.ts';
import { matchPort } from '../../kernel/nft/ports.ts';
import {
  inSet,
  matchCIDR,
  matchProtocol,
  matchSyn,
  returnToCaller,
  type Statement,
  saddr,
  setTrace,
  sport,
  updateSet,
} from '../../kernel/nft/rule.ts';
import { fieldsOfSet, type SetDefinition } from '../../kernel/nft/sets.ts';
import { hookWord, ipHooks } from '../../kernel/nft/words.ts';
import { nftOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import { type Address, addressBytes, type Family } from '../../net/address.ts';
import type { Sender, Target } from './target.ts';

/** After fragments are reassembled (NF_IP_PRI_CONNTRACK_DEFRAG), before everything else. */
export const first = -350;
/** Only connection tracking's confirmation is later (NF_IP_PRI_CONNTRACK_CONFIRM). */
const last = 2 ** 31 - 2;

/** Longer than a trace takes. */
const forgetAfterMs = 24 * 60 * 60 * 1000;

/** The chains that mark packets, by hook. */
export const beginnings = {
  'begin-prerouting': NF_INET.PRE_ROUTING,
  'begin-output': NF_INET.LOCAL_OUT,
};

const tablePrefix = 'fairlead-trace-';

/** A name for the table of a trace. */
export function traceTableName(id: string): string {
  return `${tablePrefix}${id}`;
}

/** Whether it is the table of a trace: several may run at a time, and none changes a packet. */
export function isOfTrace(table: string): boolean {
  return table.startsWith(tablePrefix);
}

/** Whether the chain marks packets; the others show that a packet has reached them. */
export function isBeginning(chain: string): boolean {
  return chain.startsWith('begin-');
}

/** One transaction that creates the table. `count`: the most packets to mark. */
export function markingTable(
  table: string,
  target: Target,
  sender: Sender,
  count: number,
): Uint8Array {
  const { family } = target.address;
  const inTable = { family: NFPROTO[family], table };
  const writer = new RecordWriter(nftOps);
  writer.write('tableBorrow', { ...inTable, comment: 'traces packets, while fairlead trace runs' });
  writer.write('setAdd', fieldsOfSet(family, table, clients(family, count)));
  for (const chain of chains(target, sender)) {
    writeChain(writer, inTable, chain);
    writeRules(writer, inTable, chain);
  }
  return writer.finish();
}

function clients(family: Family, count: number): SetDefinition {
  return {
    name: 'clients',
    key: [family === 'IPv4' ? 'ipv4_addr' : 'ipv6_addr', 'inet_service'],
    data: undefined,
    flags: NFT_SET.EVAL | NFT_SET.TIMEOUT,
    size: count,
    timeoutMs: forgetAfterMs,
    comment: 'whose packets are traced',
  };
}

function chains(target: Target, sender: Sender): ChainDefinition[] {
  const rules = markingRules(target, sender);
  const begin = Object.entries(beginnings)
    .filter(([, hook]) => sender.kind !== 'node' || hook === NF_INET.LOCAL_OUT)
    .map(([name, hook]) => chain(name, hook, first, rules));
  return [...begin, ...ipHooks.map((hook) => endChain(hook))];
}

/** A chain that shows that a packet has passed the hook. */
export function endChain(hook: number, rules: readonly Rule[] = []): ChainDefinition {
  return chain(`end-${hookWord(NFPROTO.IPv4, hook)}`, hook, last, rules);
}

/** A chain at a hook, which accepts what no rule of it decides about. */
export function chain(name: string, hook: number, priority: number, rules: readonly Rule[]) {
  return { name, base: { type: 'filter', hook, priority }, rules } as const;
}

function markingRules({ address, port, protocol }: Target, sender: Sender): Rule[] {
  const { family } = address;
  const key = [saddr(family), sport];
  const from: Statement[] =
    sender.kind === 'addresses' ? [matchCIDR('saddr', '==', sender.block)] : [];
  const isIt = [
    matchCIDR('daddr', '==', whole(address)),
    ...from,
    matchProtocol(protocol),
    matchPort(port),
    ...(protocol === 'TCP' ? [matchSyn] : []),
  ];
  return [
    [...isIt, inSet(key, 'clients'), returnToCaller],
    // If the set is full, the rule does not match.
    [...isIt, updateSet('clients', key), setTrace],
  ];
}

function whole(address: Address) {
  return { address, prefixLength: 8 * addressBytes[address.family] };
}
