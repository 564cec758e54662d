/**
 * Source ranges in a table of nf_tables: a chain that all frontends with the same ranges share, and
 * a set where the ranges are many.
 */
import { createHash } from 'node:crypto';
import type { Rule } from '../../kernel/nft/chain.ts';
import { NFT_SET } from '../../kernel/nft/constants.ts';
import { packedRanges } from '../../kernel/nft/element-buffer.ts';
import {
  daddr,
  drop,
  inSet,
  matchCIDR,
  returnToCaller,
  type Statement,
  saddr,
} from '../../kernel/nft/rule.ts';
import type { CIDR, Family } from '../../net/address.ts';
import { type AddressRanges, rangesOf } from '../../net/address-ranges.ts';
import { cidrsOf } from '../../net/interval.ts';
import { isGuarded } from '../../state/guards.ts';
import type { Forwarding, Frontend } from '../../state/types.ts';
import { selfClients } from '../source-ranges.ts';
import type { NamedObject, NamedSet } from './objects.ts';
import { addressType, chain, set } from './parts.ts';

/** Source ranges as they are in a table. */
export interface Firewall {
  /** The set of clients that may connect, if there is one, then the chain that drops all others. */
  readonly objects: readonly NamedObject[];
  /** The name of the chain. */
  readonly chain: string;
}

const setPrefix = 'source-ranges-';
const chainPrefix = 'firewall-';

/** Names of the chains that judge clients of a frontend begin with this. */
export { chainPrefix as firewallPrefix };

/** The types of a set of source ranges; undefined = no such set has this name. */
export function sourceRangesTypes(family: Family, name: string) {
  if (!name.startsWith(setPrefix)) return undefined;
  return { key: [addressType(family)], data: undefined };
}

/**
 * 128 bits as hexadecimal digits. Tenants choose what is hashed, and two lists with one name would
 * be a hole in a firewall.
 */
const digestLength = 32;

/**
 * The most blocks of a list that uses rules instead of a set. Most lists are short, and the kernel
 * walks all sets by name for each set that it creates.
 */
const rulesMax = 8;

/** The ranges of one list. */
interface List {
  /** A hash of the merged ranges, in the form in which a set has them. */
  readonly digest: string;
  /** The set that the chain looks up; undefined = the chain has a rule for each block. */
  readonly set: NamedSet | undefined;
  readonly blocks: readonly CIDR[];
}

/** The objects of one list of ranges. Each is made when it is first asked for. */
interface Made {
  readonly refuse: Statement;
  list?: List;
  /** By whether the node may connect. */
  others?: Firewall;
  node?: Firewall;
}

/** A Service keeps its list while its endpoints come and go, and all its frontends share it. */
const made = new WeakMap<readonly CIDR[], Made>();

function madeOf(ranges: readonly CIDR[], refuse: Statement): Made {
  let known = made.get(ranges);
  if (known?.refuse !== refuse) {
    known = { refuse };
    made.set(ranges, known);
  }
  return known;
}

/** Keys of `self-clients`: address of the frontend . address of the client. */
export function selfClientKeys(forwarding: Forwarding): Uint8Array[] {
  if (!forwarding.nodeInSourceRanges) return [];
  return forwarding.frontends.flatMap((frontend) =>
    selfClients(forwarding, frontend).map(
      ({ bytes }) => new Uint8Array(Buffer.concat([frontend.address!.bytes, bytes])),
    ),
  );
}

/**
 * What keeps clients out of a frontend; undefined = all may connect. `refuse` says what becomes of
 * those that may not.
 */
export function firewallOf(
  forwarding: Forwarding,
  frontend: Frontend,
  refuse: Statement = drop,
): Firewall | undefined {
  if (!isGuarded(forwarding, frontend)) return undefined;
  const { family, nodeInSourceRanges, sourceRanges } = forwarding;
  const known = madeOf(sourceRanges, refuse);
  known.list ??= listOf(family, rangesOf(sourceRanges));
  if (nodeInSourceRanges) known.node ??= firewall(family, known.list, 'node-', refuse);
  else known.others ??= firewall(family, known.list, '', refuse);
  return nodeInSourceRanges ? known.node : known.others;
}

function listOf(family: Family, ranges: AddressRanges): List {
  const comment = 'clients that may connect';
  const unnamed = set('', [addressType(family)], comment, NFT_SET.INTERVAL);
  const elements = packedRanges(unnamed, ranges);
  const hash = createHash('sha256').update(elements.entries).digest('hex');
  const digest = hash.slice(0, digestLength);
  const few = ranges.length <= rulesMax;
  const blocks = few ? [...ranges].flatMap(cidrsOf) : [];
  if (few && blocks.length <= rulesMax) return { digest, set: undefined, blocks };
  const definition = { ...unnamed, name: `${setPrefix}${digest}` };
  return { digest, set: { definition, elements }, blocks: [] };
}

function firewall(family: Family, list: List, variant: '' | 'node-', refuse: Statement): Firewall {
  const itself = [inSet([daddr(family), saddr(family)], 'self-clients'), returnToCaller];
  const rules = [...(variant === '' ? [] : [itself]), ...refusalOf(family, list, refuse)];
  const definition = chain(`${chainPrefix}${variant}${list.digest}`, rules);
  const objects = list.set === undefined ? [definition] : [list.set, definition];
  return { objects, chain: definition.name };
}

/** Rules that refuse clients who are not in the list. */
function refusalOf(family: Family, { set, blocks }: List, refuse: Statement): Rule[] {
  if (set !== undefined) return [[inSet([saddr(family)], set.definition.name, '!='), refuse]];
  const letIn = blocks.map((block) => [matchCIDR('saddr', '==', block), returnToCaller]);
  return [...letIn, [refuse]];
}
