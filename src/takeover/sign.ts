/**
 * A sign for programs that know kube-proxy's mode nftables by its table: Calico's Felix has its own
 * rules in nftables while that table has any chain, and restarts when this changes
 * (felix/nftables/utils.go of projectcalico/calico). The sign is a chain that no packet
 * meets. kube-proxy starts with it: it adds its own chains to the table.
 */
import { orNone } from '../kernel/errors.ts';
import { applyAll } from '../kernel/failures.ts';
import type { Kernel, KernelReader } from '../kernel/kernel.ts';
import { NFPROTO } from '../kernel/nft/constants.ts';
import { readTable } from '../kernel/nft/own-table.ts';
import { familyWord } from '../kernel/nft/words.ts';
import { nftOps } from '../kernel/ops.ts';
import { RecordWriter } from '../kernel/records.ts';
import type { ModeName } from '../modes/mode.ts';
import type { Family } from '../net/address.ts';
import { nftablesTable } from './names.ts';

const signChain = 'fairlead-runs-nftables';
const comment =
  "for programs that look for the table of kube-proxy's mode nftables; see docs/neighbours.md";

/**
 * Where mode nftables was chosen without being asked for, kube-proxy would have run iptables, and
 * Felix stays there.
 */
export function keepsProxyTable(
  asked: { readonly mode: ModeName | '' },
  running: { readonly name: ModeName },
): boolean {
  return asked.mode === 'nftables' && running.name === 'nftables';
}

/** In nft's words. */
export function signText(family: Family): string {
  return `chain ${familyWord(NFPROTO[family])} ${nftablesTable} ${signChain}`;
}

export function writeSign(writer: RecordWriter<typeof nftOps>, family: Family): void {
  const at = { family: NFPROTO[family], table: nftablesTable };
  writer.write('tableAdd', { ...at, comment: '' });
  writer.write('chainAdd', { ...at, chain: signChain, comment });
}

/**
 * What kube-proxy's table is: `sign` = nothing else is in it. A kernel without nf_tables has none.
 * Rejects as `steadyDump` does.
 */
export async function readProxyTable(
  kernel: KernelReader,
  family: Family,
): Promise<'absent' | 'sign' | 'kube-proxy' | 'both'> {
  const at = { family: NFPROTO[family], table: nftablesTable };
  if (!(await hasProxyTable(kernel, family))) return 'absent';
  const chains = await readTable(kernel, 'chain', { kind: 'chainsDump', ...at });
  if (!chains.some(({ chain }) => chain === signChain)) return 'kube-proxy';
  return chains.length === 1 ? 'sign' : 'both';
}

async function hasProxyTable(kernel: KernelReader, family: Family): Promise<boolean> {
  const at = { family: NFPROTO[family], table: nftablesTable };
  return (await orNone(readTable(kernel, 'table', { kind: 'tablesDump', ...at }))).length > 0;
}

/** Puts the sign where there is no such table. Rejects with KernelError. */
export async function addSign(kernel: Kernel, family: Family): Promise<void> {
  if (await hasProxyTable(kernel, family)) return;
  const writer = new RecordWriter(nftOps);
  writeSign(writer, family);
  await applyAll(kernel, writer.finish(), 'nft.apply', signText(family));
}

export async function hasSign(kernel: KernelReader, family: Family): Promise<boolean> {
  const found = await readProxyTable(kernel, family);
  return found === 'sign' || found === 'both';
}

/** With its table, if that has nothing else. Resolves to whether there was one. */
export async function removeSign(kernel: Kernel, family: Family): Promise<boolean> {
  const found = await readProxyTable(kernel, family);
  if (found !== 'sign' && found !== 'both') return false;
  const at = { family: NFPROTO[family], table: nftablesTable };
  const writer = new RecordWriter(nftOps);
  if (found === 'sign') writer.write('tableDelete', at);
  else writer.write('chainDelete', { ...at, chain: signChain });
  await applyAll(kernel, writer.finish(), 'nft.apply', signText(family));
  return true;
}
