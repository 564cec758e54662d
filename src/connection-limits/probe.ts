/** Probes which features the kernel lacks for limits of connections. */
import type { Kernel } from '../kernel/kernel.ts';
import { baseChain } from '../kernel/nft/chain.ts';
import { NF_INET } from '../kernel/nft/constants.ts';
import { type MissingFeature, type ProbedStatement, probeInetTable } from '../kernel/nft/probe.ts';
import { matchLocalAddress, rejectAny } from '../kernel/nft/rule.ts';
import { connectionsOver, rateOver } from '../kernel/nft/stateful.ts';

const statements: readonly ProbedStatement[] = [
  ['expression limit', 'CONFIG_NFT_LIMIT', 'nft_limit', rateOver(1)],
  ['expression reject', 'CONFIG_NFT_REJECT_INET', 'nft_reject_inet', rejectAny],
  ['expression fib', 'CONFIG_NFT_FIB_INET', 'nft_fib_inet', matchLocalAddress('daddr')],
];

const counting: ProbedStatement = [
  ...['expression connlimit', 'CONFIG_NFT_CONNLIMIT', 'nft_connlimit'],
  connectionsOver(1),
] as const;

interface Lack {
  /** Without this there are no limits at all. */
  readonly all: string | undefined;
  /** Without this, connections that are open are not counted. */
  readonly counts: string | undefined;
}

/** Rejects with KernelError if the kernel cannot answer. */
export async function lackOf(kernel: Kernel): Promise<Lack> {
  const base = baseChain('nat', NF_INET.PRE_ROUTING, 0);
  const all = await probeInetTable(kernel, base, statements);
  const counts = await probeInetTable(kernel, base, [counting]);
  return { all: wordsOf(all), counts: wordsOf(counts) };
}

function wordsOf(missing: readonly MissingFeature[]): string | undefined {
  if (missing.length === 0) return undefined;
  return `the kernel lacks ${missing.map((one) => `${one.feature}: ${one.advice}`).join('; ')}`;
}
