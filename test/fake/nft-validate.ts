/** The validation before a commit: checks the paths of packets from each base chain. */
import { NF_INET, NFT_NAT_DNAT, NFT_REG_VERDICT } from '../../src/kernel/nft/constants.ts';
import type { Expression } from '../../src/kernel/ops.ts';
import { readRule } from './nft-rule.ts';
import type { BaseChain, Chain, Table } from './nft-state.ts';
import { Refusal } from './refusal.ts';

/** Statements that are allowed in some hooks only. */
type Place = 'dnat' | 'snat' | 'reject' | XtTarget;
/** Targets of iptables. */
type XtTarget = keyof typeof hooksOfTarget;

interface Reach {
  /** Chains on the longest path from here, this one included. */
  readonly depth: number;
  readonly places: ReadonlySet<Place>;
}

/** The hooks that allow each target (struct xt_target). `checkExtension` checks their tables. */
const hooksOfTarget = {
  DNAT: [NF_INET.PRE_ROUTING, NF_INET.LOCAL_OUT] as readonly number[],
  MASQUERADE: [NF_INET.POST_ROUTING] as readonly number[],
  REJECT: [NF_INET.LOCAL_IN, NF_INET.FORWARD, NF_INET.LOCAL_OUT] as readonly number[],
};

function isXtTarget(name: string): name is XtTarget {
  return Object.hasOwn(hooksOfTarget, name);
}

/** NFT_JUMP_STACK_SIZE */
const depthMax = 16;

/** Throws Refusal, like nft_table_validate. */
export function validate(table: Table): void {
  const known = new Map<string, Reach>();
  for (const chain of table.chains.values()) {
    if (chain.base === undefined) continue;
    const { depth, places } = reach(table, chain, known, 1);
    if (depth > depthMax) throw new Refusal('EMLINK');
    for (const place of places) {
      if (isAllowed(chain.base, place)) continue;
      throw new Refusal(isXtTarget(place) ? 'EINVAL' : 'EOPNOTSUPP');
    }
  }
}

function isAllowed({ type, hook }: BaseChain, place: Place): boolean {
  switch (place) {
    case 'dnat':
      return type === 'nat' && (hook === NF_INET.PRE_ROUTING || hook === NF_INET.LOCAL_OUT);
    case 'snat':
      return type === 'nat' && (hook === NF_INET.POST_ROUTING || hook === NF_INET.LOCAL_IN);
    case 'reject':
      return hook !== NF_INET.POST_ROUTING;
    default:
      return hooksOfTarget[place].includes(hook);
  }
}

function reach(table: Table, chain: Chain, known: Map<string, Reach>, level: number): Reach {
  if (level > depthMax) throw new Refusal('EMLINK');
  const memo = known.get(chain.name);
  if (memo !== undefined) return memo;
  const places = new Set<Place>();
  let depth = 0;
  const targets = new Set<string>();
  for (const { expressions } of chain.rules) {
    for (const expression of readRule(expressions)) {
      const place = placeNeededBy(expression);
      if (place !== undefined) places.add(place);
      for (const target of targetsOf(table, expression)) targets.add(target);
    }
  }
  for (const name of targets) {
    const below = reach(table, table.chains.get(name) as Chain, known, level + 1);
    depth = Math.max(depth, below.depth);
    for (const place of below.places) places.add(place);
  }
  const result = { depth: depth + 1, places };
  known.set(chain.name, result);
  return result;
}

function placeNeededBy(expression: Expression): Place | undefined {
  switch (expression.kind) {
    case 'nat':
      return expression.type === NFT_NAT_DNAT ? 'dnat' : 'snat';
    case 'masquerade':
      return 'snat';
    case 'reject':
      return 'reject';
    case 'target':
      return isXtTarget(expression.name) ? expression.name : undefined;
    default:
      return undefined;
  }
}

function* targetsOf(table: Table, expression: Expression): Generator<string> {
  if (expression.kind === 'immediateVerdict' && expression.chain !== '') yield expression.chain;
  if (expression.kind !== 'lookup' || expression.destination !== NFT_REG_VERDICT) return;
  for (const { verdict } of table.sets.get(expression.set)?.elements.values() ?? []) {
    if (verdict !== undefined && verdict.chain !== '') yield verdict.chain;
  }
}
