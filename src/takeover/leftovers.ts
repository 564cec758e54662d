/**
 * Finds what kube-proxy has left: in its own table of nf_tables, in the tables of iptables-nft, and
 * in those of iptables-legacy. Changes nothing.
 */
import type { Kernel, ReplyOf } from '../kernel/kernel.ts';
import { readClauses } from '../kernel/nft/clauses.ts';
import { NFPROTO } from '../kernel/nft/constants.ts';
import type { Reply } from '../kernel/ops.ts';
import { steadyDump } from '../kernel/steady.ts';
import { legacyTables } from '../kernel/xt/legacy.ts';
import type { ModeFacts } from '../modes/mode.ts';
import type { Family } from '../net/address.ts';
import { legacyPrograms } from './legacy-tables.ts';
import {
  type IptablesTable,
  iptablesTables,
  isIPVSChain,
  isIptablesChain,
  isServiceChain,
  nftablesTable,
} from './names.ts';
import {
  type Found,
  findRemovable,
  type Reference,
  type Removable,
  type Scope,
} from './removable.ts';
import { readProxyTable } from './sign.ts';

/**
 * Kube-proxy's objects in nf_tables: the table of its nftables mode, chains of its iptables mode,
 * whose names those of ours may have, and chains that only its ipvs mode has.
 */
export const kinds = ['own table', 'shared names', 'IPVS chains'] as const;
export type Kind = (typeof kinds)[number];

/**
 * Where kube-proxy's rules may be. `backend`: in the words of `iptables --version`; `word`: its name
 * in texts.
 */
export const variants = [
  { backend: 'nf_tables', family: 'IPv4', word: 'ip' },
  { backend: 'nf_tables', family: 'IPv6', word: 'ip6' },
  { backend: 'legacy', family: 'IPv4', word: legacyPrograms.IPv4 },
  { backend: 'legacy', family: 'IPv6', word: legacyPrograms.IPv6 },
] as const;
export type Variant = (typeof variants)[number];
export type Backend = Variant['backend'];

export interface Leftovers extends Removable {
  readonly backend: Backend;
  readonly family: Family;
  /** Tables of nftables mode. */
  readonly tables: readonly string[];
}

/** The mode that runs: its chains with kube-proxy's names stay. */
type Owner = Pick<ModeFacts, 'ownsChain'>;

type IsOwn = (table: IptablesTable, chain: string) => boolean;

type ChainReply = ReplyOf<'chain'>;
type RuleReply = ReplyOf<'rule'>;

/** As `findLeftovers` or `findLegacyLeftovers`. `sought` and `owner` are for nf_tables. */
export function findIn(
  kernel: Kernel,
  { backend, family }: Variant,
  scope: Scope,
  sought: readonly Kind[] = kinds,
  owner: Owner = {},
): Promise<Leftovers> {
  if (backend === 'legacy') return findLegacyLeftovers(kernel, family, scope);
  return findLeftovers(kernel, family, sought, scope, owner);
}

/** In nf_tables. Rejects with KernelError: EINTR if another program writes during a dump. */
export async function findLeftovers(
  kernel: Kernel,
  family: Family,
  sought: readonly Kind[],
  scope: Scope,
  { ownsChain }: Owner = {},
): Promise<Leftovers> {
  const tables = sought.includes('own table') ? await findTables(kernel, family) : [];
  const variant = { backend: 'nf_tables', family, tables } as const;
  const isOurs = !sought.includes('shared names');
  const all = await steadyDump(kernel, { kind: 'chainsDump', family: NFPROTO[family], table: '' });
  const found = iptablesTables.map((table): Found => {
    // Our chains may be tens of thousands, and none refers to chains of kube-proxy's ipvs mode.
    const isHere = (one: Reply): one is ChainReply =>
      one.kind === 'chain' && one.table === table && !(isOurs && isServiceChain(one.chain));
    const chains = all.filter(isHere).map(({ chain, type, policy }) => {
      return [chain, { isBuiltIn: type !== '', policy }] as const;
    });
    const referencesIn = (chain: string) => references(kernel, family, table, chain);
    return { table, chains: new Map(chains), referencesIn };
  });
  const isOwned: IsOwn = (table, chain) => ownsChain?.(table, chain) === true;
  return { ...variant, ...(await removableIn(found, sought, scope, isOwned)) };
}

/** In the tables of iptables-legacy, which no mode of ours has. Rejects with KernelError. */
export async function findLegacyLeftovers(
  kernel: Kernel,
  family: Family,
  scope: Scope,
): Promise<Leftovers> {
  const all = await legacyTables(kernel, family);
  const found = iptablesTables.flatMap((table): Found[] => {
    const chains = all.find((one) => one.table === table)?.chains;
    if (chains === undefined) return [];
    const referencesIn = async (chain: string): Promise<Reference[]> =>
      (chains.get(chain)?.targets ?? []).map((target) => ({ target, handle: 0 }));
    return [{ table, chains, referencesIn }];
  });
  return {
    backend: 'legacy',
    family,
    tables: [],
    ...(await removableIn(found, kinds, scope)),
  };
}

async function removableIn(
  found: readonly Found[],
  sought: readonly Kind[],
  scope: Scope,
  isOwned: IsOwn = () => false,
): Promise<Removable> {
  const parts: Removable[] = [];
  for (const one of found) {
    const isOwn = (chain: string): boolean =>
      (sought.includes('shared names') &&
        isIptablesChain(one.table, chain) &&
        !isOwned(one.table, chain)) ||
      (sought.includes('IPVS chains') && isIPVSChain(one.table, chain));
    parts.push(await findRemovable(one, isOwn, scope));
  }
  return {
    jumps: parts.flatMap(({ jumps }) => jumps),
    chains: parts.flatMap(({ chains }) => chains),
    kept: parts.flatMap(({ kept }) => kept),
  };
}

async function findTables(kernel: Kernel, family: Family): Promise<string[]> {
  const found = await readProxyTable(kernel, family);
  return found === 'kube-proxy' || found === 'both' ? [nftablesTable] : [];
}

async function references(
  kernel: Kernel,
  family: Family,
  table: IptablesTable,
  chain: string,
): Promise<Reference[]> {
  const request = { kind: 'rulesDump', family: NFPROTO[family], table, chain } as const;
  const rules = (await steadyDump(kernel, request)).filter((one): one is RuleReply => {
    return one.kind === 'rule';
  });
  return rules.flatMap(({ expressions, handle }) =>
    readClauses(expressions).flatMap((one) =>
      one.kind === 'immediateVerdict' && one.chain !== '' ? [{ handle, target: one.chain }] : [],
    ),
  );
}
