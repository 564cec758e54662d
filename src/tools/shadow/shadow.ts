/** Reads the kernel while kube-proxy runs, and compares. Writes nothing. */
import type { Kernel } from '../../kernel/kernel.ts';
import type { Family } from '../../net/address.ts';
import { findIPVSLeftovers } from '../../takeover/ipvs-leftovers.ts';
import { findLegacyLeftovers } from '../../takeover/leftovers.ts';
import type { ShadowCluster } from './cluster.ts';
import { compare, type Difference, differenceKey } from './compare.ts';
import { readIptables } from './iptables.ts';
import { readNFTables } from './nftables.ts';
import { desiredFrontends, type Programmed } from './reach.ts';

/** The result of one comparison. */
export interface Look {
  /** What was compared, in each family; empty = kube-proxy has programmed nothing. */
  readonly compared: readonly Pick<Programmed, 'family' | 'mode'>[];
  /** Frontends that were compared. */
  readonly frontends: number;
  /** Frontends, with their family, whose rules could not be read or changed during the dump. */
  readonly unread: readonly string[];
  readonly differences: readonly Difference[];
}

interface LookOptions {
  readonly kernel: Kernel;
  readonly cluster: ShadowCluster;
  readonly families: readonly Family[];
}

/**
 * The look with the differences and unread frontends alone that the one before had, too: kube-proxy
 * needs time to program a change of the cluster.
 */
export function lastingOf(before: Look | undefined, now: Look): Look {
  if (before === undefined) return now;
  const [keys, unread] = [new Set(before.differences.map(differenceKey)), new Set(before.unread)];
  return {
    ...now,
    differences: now.differences.filter((one) => keys.has(differenceKey(one))),
    unread: now.unread.filter((frontend) => unread.has(frontend)),
  };
}

/** Nothing can be compared, now or at all; the message says why. */
export class NothingProgrammedError extends Error {
  override readonly name = 'NothingProgrammedError';
}

/** Rejects with KernelError, or NothingProgrammedError. */
export async function look({ kernel, cluster, families }: LookOptions): Promise<Look> {
  const found: Programmed[] = [];
  for (const family of families) {
    for (const read of [readNFTables, readIptables]) {
      const programmed = await read(kernel, family);
      if (programmed !== undefined) found.push(programmed);
    }
  }
  if (found.length === 0) throw new NothingProgrammedError(await absence(kernel));
  // As late as possible, because kube-proxy sees changes of the cluster, too.
  const forwardings = [...cluster.forwardings()];
  const parts = found.map((programmed) => {
    const { family, frontends } = programmed;
    const desired = desiredFrontends(forwardings, family);
    const unread = [...frontends].filter(([, held]) => held === undefined);
    return {
      differences: compare(desired, programmed, cluster.state),
      unread: unread.map(([frontend]) => `${frontend} (${family})`),
      frontends: new Set([...desired.keys(), ...frontends.keys()]).size,
    };
  });
  return {
    compared: found.map(({ family, mode }) => ({ family, mode })),
    frontends: parts.reduce((sum, { frontends }) => sum + frontends, 0),
    unread: parts.flatMap(({ unread }) => unread),
    differences: parts.flatMap(({ differences }) => differences),
  };
}

async function absence(kernel: Kernel): Promise<string> {
  const { interface: hasLink, services } = await findIPVSLeftovers(kernel, 'all');
  if (hasLink || services.length > 0) {
    return 'kube-proxy runs in mode ipvs here, which is not compared';
  }
  const legacy = await findLegacyLeftovers(kernel, 'IPv4', 'all').catch(() => undefined);
  if (legacy !== undefined && legacy.chains.length > 0) {
    return 'kube-proxy uses iptables-legacy here, which is not compared';
  }
  return 'kube-proxy has programmed nothing here that can be compared: is this its network namespace?';
}
