/** Reads what rules of kube-proxy's iptables mode do with connections (behaviour document 7). */

import type { Kernel } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { readRule } from '../../kernel/xt/compile.ts';
import type { Match, XtRule } from '../../kernel/xt/rule.ts';
import { addressBits, type CIDR, type Family } from '../../net/address.ts';
import { EndpointList } from '../../net/endpoint-list.ts';
import { madeAt } from '../../net/made-at.ts';
import { Chains } from './chains.ts';
import {
  blocksOf,
  fromOutside,
  frontendText,
  type HeldFrontend,
  nowhere,
  type Pool,
  type Programmed,
  type Reach,
} from './reach.ts';

/**
 * Reads the tables of iptables-nft. Undefined when kube-proxy's iptables mode has no chains there.
 * Its ipvs mode uses the same chain names, but has no chains for Services.
 */
export async function readIptables(
  kernel: Kernel,
  family: Family,
): Promise<Programmed | undefined> {
  const nat = await Chains.open(kernel, { family: NFPROTO[family], table: 'nat' });
  const filter = await Chains.open(kernel, { family: NFPROTO[family], table: 'filter' });
  if (nat === undefined || filter === undefined) return undefined;
  if (!nat.has('KUBE-SERVICES') || !nat.has('KUBE-NODEPORTS')) return undefined;
  const reader = new Reader(family, nat, filter);
  return { mode: 'iptables', family, frontends: await reader.frontends() };
}

/** Returns the effect of a chain on connections, or undefined if its rules can't be read. */
type Way = Omit<Reach, 'refusal'> | undefined;

const plain = { nearby: undefined, masquerade: false, clients: undefined } as const;
const markChain = 'KUBE-MARK-MASQ';
const externalChain = 'KUBE-EXT-';
const firewallChain = 'KUBE-FW-';
const serviceChain = /^KUBE-(?:SVC|SVL|EXT|FW)-/;

class Reader {
  readonly #family: Family;
  readonly #nat: Chains;
  readonly #filter: Chains;
  readonly #ways = new Map<string, Promise<Way>>();

  constructor(family: Family, nat: Chains, filter: Chains) {
    this.#family = family;
    this.#nat = nat;
    this.#filter = filter;
  }

  async frontends(): Promise<Map<string, HeldFrontend | undefined>> {
    const refusals = new Map<string, Pick<HeldFrontend, 'owner'> & Pick<Reach, 'refusal'>>();
    for (const chain of ['KUBE-SERVICES', 'KUBE-EXTERNAL-SERVICES']) {
      for (const rule of await this.#readAll(this.#filter, chain)) {
        const frontend = frontendOf(rule);
        const kind = rule.target?.kind;
        if (frontend === undefined || (kind !== 'reject' && kind !== 'drop')) continue;
        refusals.set(frontend, { owner: ownerOf(rule), refusal: kind });
      }
    }
    const found = new Map<string, HeldFrontend | undefined>();
    for (const chain of ['KUBE-SERVICES', 'KUBE-NODEPORTS']) {
      for (const rule of await this.#readAll(this.#nat, chain)) {
        const frontend = frontendOf(rule);
        if (frontend === undefined || rule.target?.kind !== 'jump') continue;
        const way = serviceChain.test(rule.target.chain) && (await this.#way(rule.target.chain));
        if (way === false || found.has(frontend)) continue;
        const refusal = refusals.get(frontend)?.refusal;
        found.set(frontend, way && { reach: { ...way, refusal }, owner: ownerOf(rule) });
      }
    }
    for (const [frontend, { owner, refusal }] of refusals) {
      if (found.has(frontend)) continue;
      found.set(frontend, { reach: { ...nowhere, ...plain, refusal }, owner });
    }
    return found;
  }

  /** Reads a chain of all Services. A rule that can't be read could be of any of them. */
  async #readAll(table: Chains, chain: string): Promise<XtRule[]> {
    const rules = await this.#read(table, chain);
    const unread = rules.filter((rule) => rule === undefined).length;
    if (unread === 0) return rules.filter((rule) => rule !== undefined);
    throw new Error(
      `${unread} rules of chain ${chain} (${this.#family}) cannot be read: they are not as ` +
        'iptables-nft 1.8.9 writes those of kube-proxy',
    );
  }

  /** The rules of a chain. A rule that can't be read is undefined. */
  async #read(table: Chains, chain: string): Promise<(XtRule | undefined)[]> {
    return (await table.rules(chain)).map((bytes) => readRule(this.#family, bytes));
  }

  #way(chain: string): Promise<Way> {
    return madeAt(this.#ways, chain, () => this.#readWay(chain));
  }

  async #readWay(chain: string): Promise<Way> {
    if (chain.startsWith(firewallChain)) return this.#guarded(chain);
    if (chain.startsWith(externalChain)) return this.#external(chain);
    const pool = await this.#pool(chain);
    return pool && { ...pool, ...plain };
  }

  /** Reads a chain `KUBE-FW-`. Its last rule has no target, but only a comment. */
  async #guarded(chain: string): Promise<Way> {
    const ranges: CIDR[] = [];
    let next: string | undefined;
    for (const rule of await this.#read(this.#nat, chain)) {
      if (rule === undefined) return undefined;
      if (rule.target?.kind !== 'jump') continue;
      if (rule.source?.operator === '==') ranges.push(rule.source.cidr);
      next = rule.target.chain;
    }
    const way = next === undefined ? { ...nowhere, ...plain } : await this.#way(next);
    return way && { ...way, clients: blocksOf(ranges) };
  }

  /** Reads a chain `KUBE-EXT-`. Rules with conditions are for the node and its pods. */
  async #external(chain: string): Promise<Way> {
    let [everyone, nearby]: [Pool, Pool | undefined] = [nowhere, undefined];
    let masquerade = false;
    for (const rule of await this.#read(this.#nat, chain)) {
      if (rule?.target?.kind !== 'jump') return undefined;
      const isForAll = !isConditional(rule);
      if (rule.target.chain === markChain) {
        masquerade ||= isForAll;
        continue;
      }
      const pool = await this.#pool(rule.target.chain);
      if (pool === undefined) return undefined;
      if (isForAll) everyone = pool;
      else nearby = pool;
    }
    return { ...plain, ...fromOutside(everyone, nearby, masquerade) };
  }

  /** Reads a chain `KUBE-SVC-` or `KUBE-SVL-`. */
  async #pool(chain: string): Promise<Pool | undefined> {
    if (!this.#nat.has(chain)) return undefined;
    const endpoints = new Set<string>();
    let affinitySeconds = 0;
    for (const rule of await this.#read(this.#nat, chain)) {
      if (rule?.target?.kind !== 'jump') return undefined;
      if (rule.target.chain === markChain) continue;
      const recent = matchOf(rule, 'recent');
      if (recent?.action === 'rcheck') {
        affinitySeconds = recent.seconds;
        continue;
      }
      const endpoint = await this.#endpoint(rule.target.chain);
      if (endpoint === undefined) return undefined;
      endpoints.add(endpoint);
    }
    return { endpoints, affinitySeconds };
  }

  /** Reads a chain `KUBE-SEP-`. */
  async #endpoint(chain: string): Promise<string | undefined> {
    for (const rule of await this.#read(this.#nat, chain)) {
      if (rule?.target?.kind !== 'dnat') continue;
      const { address, port = 0 } = rule.target;
      return EndpointList.of(this.#family, [{ address: address.bytes, port }]).text(0);
    }
    return undefined;
  }
}

function isConditional(rule: XtRule): boolean {
  const { source, inputInterface } = rule;
  return source !== undefined || inputInterface !== undefined || !!matchOf(rule, 'addrtype');
}

function matchOf<K extends Match['kind']>(
  { matches = [] }: XtRule,
  kind: K,
): Extract<Match, { kind: K }> | undefined {
  return matches.find((match): match is Extract<Match, { kind: K }> => match.kind === kind);
}

/** Undefined when the rule is for no frontend. Rules for loopback blocks repeat a node port. */
function frontendOf(rule: XtRule): string | undefined {
  const { destination, protocol } = rule;
  const port = matchOf(rule, 'port')?.dport;
  if (protocol === undefined || port === undefined) return undefined;
  if (destination === undefined) return frontendText(undefined, port, protocol);
  const { address, prefixLength } = destination.cidr;
  if (prefixLength < addressBits(address)) return undefined;
  return frontendText(address.bytes, port, protocol);
}

/** Comments begin with the Service port: `ns/name:port cluster IP`. */
function ownerOf(rule: XtRule): HeldFrontend['owner'] {
  const text = matchOf(rule, 'comment')?.text ?? '';
  const match = /^([^/ ]+\/[^: ]+):?(\S*)/.exec(text);
  return match === null ? undefined : { service: match[1]!, port: match[2]! };
}
