/** Runs: consecutive ops of one schema, as the addon divides a buffer that mixes families. */
import { acctOps } from '../../src/kernel/acct-ops.ts';
import { bpfOps } from '../../src/kernel/bpf-ops.ts';
import { ipsetOps } from '../../src/kernel/ipset-ops.ts';
import { ipvsOps } from '../../src/kernel/ipvs-ops.ts';
import { legacyOps } from '../../src/kernel/legacy-ops.ts';
import type { KernelOp, NftOp } from '../../src/kernel/ops.ts';
import { routeOps } from '../../src/kernel/route-ops.ts';
import type { AcctOp } from './acct.ts';
import { type BpfOp, bpfElements } from './bpf.ts';
import type { IpsetOp } from './ipsets.ts';
import type { IpvsOp } from './ipvs.ts';
import type { LegacyOp } from './legacy.ts';
import type { RouteOp } from './links.ts';

export type Run = { readonly first: number } & (
  | { readonly family: 'nft'; readonly ops: NftOp[] }
  | { readonly family: 'legacy'; readonly ops: LegacyOp[] }
  | { readonly family: 'single'; readonly ops: (IpvsOp | RouteOp | IpsetOp | AcctOp | BpfOp)[] }
);

/** `single`: IPVS, links and sets, whose ops are each by itself. `first`: index of the run's first op. */
export function runsOf(ops: readonly KernelOp[]): Run[] {
  const runs: Run[] = [];
  let schema: ReturnType<typeof schemaOf> | undefined;
  for (const [first, op] of ops.entries()) {
    const own = schemaOf(op);
    if (own !== schema) {
      runs.push(
        own === 'nft' || own === 'legacy'
          ? { family: own, first, ops: [] }
          : { family: 'single', first, ops: [] },
      );
    }
    schema = own;
    (runs.at(-1)!.ops as KernelOp[]).push(op);
  }
  return runs;
}

function schemaOf(op: KernelOp): 'nft' | 'ipvs' | 'route' | 'ipset' | 'legacy' | 'acct' | 'bpf' {
  if (isBpf(op)) return 'bpf';
  if (isAcct(op)) return 'acct';
  if (op.kind in legacyOps) return 'legacy';
  if (isIpset(op)) return 'ipset';
  return isIpvs(op) ? 'ipvs' : isRoute(op) ? 'route' : 'nft';
}

export function isIpset(op: KernelOp): op is IpsetOp {
  return op.kind in ipsetOps;
}

export function isAcct(op: KernelOp): op is AcctOp {
  return op.kind in acctOps;
}

export function isBpf(op: KernelOp): op is BpfOp {
  return op.kind in bpfOps;
}

export function isIpvs(op: KernelOp): op is IpvsOp {
  return op.kind in ipvsOps;
}

function isRoute(op: KernelOp): op is RouteOp {
  return op.kind in routeOps;
}

/** How many writes an op is: its entries, or one without entries. */
export function writesOf(op: KernelOp): number {
  switch (op.kind) {
    case 'addressesAdd':
    case 'addressesDelete':
      return op.addresses.length / (op.family === 2 ? 4 : 16);
    case 'bpfElementsAdd':
    case 'bpfElementsDelete':
      return bpfElements(op);
    case 'elementsAdd':
    case 'elementsDelete':
      return op.count;
    default:
      return 1;
  }
}
