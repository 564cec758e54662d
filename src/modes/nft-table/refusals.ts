/**
 * Counts refusals: packets fill one set for each reason (docs/decisions/0018-counted-elements.md).
 * A separate rule counts, because a full set ends the evaluation of a rule, and the next rule must
 * still refuse the packet.
 */
import type { ChainDefinition } from '../../kernel/nft/chain.ts';
import { NFT_SET, type NFTypeName } from '../../kernel/nft/constants.ts';
import {
  daddr,
  drop,
  goto,
  l4proto,
  matchProtocol,
  matchSyn,
  reject,
  resetTCP,
  type Statement,
  updateSet,
} from '../../kernel/nft/rule.ts';
import type { Family } from '../../net/address.ts';
import type { ModeConfig } from '../mode.ts';
import { addressType, chain, frontendSelectors, set } from './parts.ts';

/** Refuses connections to Services without endpoints. */
export const rejectChain = 'reject-chain';
/** Drops connections for which the policy allows no endpoint. */
export const dropChain = 'no-local-endpoints';
/** Drops connections from outside of source ranges. */
const sourceRangesChain = 'outside-source-ranges';
/** Refuses connections to a port that the ClusterIP does not have. */
export const noPortChain = 'no-such-port';
/** Refuses connections to a ClusterIP that no Service has. */
export const noServiceChain = 'no-such-service';

/** The most frontends whose refusals are counted. Most frontends have none. */
const countedRefusalsMax = 2 ** 14;

/** A day. After that, elements of endpoints and frontends that are gone expire. */
const forgetAfterMs = 24 * 60 * 60 * 1000;

/** A set that packets fill, whose elements count. */
export function countingSet<Name extends string>(
  name: Name,
  key: readonly NFTypeName[],
  comment: string,
  size: number,
) {
  const flags = NFT_SET.EVAL | NFT_SET.TIMEOUT;
  return {
    ...set(name, key, comment),
    isCounted: true,
    size,
    flags,
    timeoutMs: forgetAfterMs,
  };
}

/** One for each reason. */
export function refusalSets(family: Family) {
  const address = addressType(family);
  const frontend = [address, 'inet_proto', 'inet_service'] as const;
  const refused = <Name extends string>(name: Name, key: readonly NFTypeName[], why: string) =>
    countingSet(name, key, `refused, because ${why}`, countedRefusalsMax);
  return [
    refused('refused-no-endpoints', frontend, 'there is no endpoint'),
    refused('refused-no-local-endpoints', frontend, 'the policy allows none of the endpoints'),
    refused('refused-source-ranges', frontend, 'the client is in no source range'),
    refused('refused-ports', [address], 'no Service has the port'),
    refused('refused-addresses', ['inet_proto'], 'no Service has the address'),
  ] as const;
}

/** Rejects, and counts that before if traffic is counted. */
export function rejecting(family: Family, countsTraffic: boolean): ChainDefinition {
  const counting = updateSet('refused-no-endpoints', frontendSelectors(family));
  return chain(rejectChain, [...(countsTraffic ? [[counting]] : []), [reject(family)]]);
}

/** The chains that count what is refused for other reasons, and refuse it. */
export function refusalChains(family: Family): ChainDefinition[] {
  const frontend = frontendSelectors(family);
  return [
    chain(dropChain, [[updateSet('refused-no-local-endpoints', frontend)], [drop]]),
    chain(sourceRangesChain, [[updateSet('refused-source-ranges', frontend)], [drop]]),
    chain(noPortChain, [[updateSet('refused-ports', [daddr(family)])], [reject(family)]]),
    chain(noServiceChain, [[updateSet('refused-addresses', [l4proto])], [drop]]),
  ];
}

/** Names of chains that refuse new connections, and reset those that were open. */
export const resettingChain = { reject: 'reset-or-reject', drop: 'reset-or-drop' } as const;

/**
 * The chain for frontends whose connections are ended: a connection of which nothing is known any
 * more is reset.
 */
export function resetting(
  refusal: keyof typeof resettingChain,
  { countsTraffic }: Pick<ModeConfig, 'countsTraffic'>,
): ChainDefinition {
  const dropped = countsTraffic ? goto(dropChain) : drop;
  const isNew = [matchProtocol('TCP'), matchSyn];
  return chain(resettingChain[refusal], [
    [...isNew, refusal === 'reject' ? goto(rejectChain) : dropped],
    [matchProtocol('TCP'), resetTCP],
  ]);
}

/** The last statement for packets of clients outside of source ranges. */
export function refuseClient({ countsTraffic }: Pick<ModeConfig, 'countsTraffic'>): Statement {
  return countsTraffic ? gotoSourceRanges : drop;
}

const gotoSourceRanges = goto(sourceRangesChain);
