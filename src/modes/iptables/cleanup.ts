/** What this mode has among the tables of iptables, and its removal (behaviour document 3.6). */
import { applyAll } from '../../kernel/failures.ts';
import type { Kernel, KernelReader } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { familyWord } from '../../kernel/nft/words.ts';
import { atOneGeneration } from '../../kernel/steady.ts';
import { type Family, families } from '../../net/address.ts';
import { noPause } from '../../time/pacer.ts';
import type { OwnedObject } from '../mode.ts';
import { chainId, hairpinChain, isOurs } from './layout.ts';
import { chainAt } from './objects.ts';
import { type IptablesObservation, jumpTarget, observe } from './observation.ts';
import { isOwnJump } from './repair.ts';
import { Transaction } from './transaction.ts';

export async function owned(kernel: KernelReader): Promise<OwnedObject[]> {
  const objects: OwnedObject[] = [];
  for (const family of families) {
    const found = await observeSteadily(kernel, family);
    if (!isMarked(found)) continue;
    objects.push({
      object: `${ownChains(found).length} chains KUBE-* of family ${familyWord(NFPROTO[family])}`,
      because: `only Fairlead's iptables mode has ${hairpinChain} among them`,
    });
  }
  return objects;
}

/** Chains that others refer to stay. So do chains that may be kube-proxy's. */
export async function cleanup(kernel: Kernel): Promise<void> {
  for (const family of families) await removeAll(kernel, family);
}

async function removeAll(kernel: Kernel, family: Family): Promise<void> {
  const found = await observeSteadily(kernel, family);
  if (!isMarked(found)) return;
  const transaction = new Transaction(family);
  const needed = new Set<string>();
  for (const reference of found.references) {
    const { from, handle, to } = reference;
    if (!isOwnJump(found, reference)) needed.add(chainId(to));
    else transaction.deleteRule({ ...from, id: undefined, handle, owner: '' });
  }
  // What stays needs what it refers to. (The Set grows while it is walked.)
  for (const id of needed) {
    const { table } = chainAt(id);
    for (const { expressions } of found.rulesOf(id) ?? []) {
      const chain = jumpTarget(expressions);
      if (chain !== undefined) needed.add(chainId({ table, chain }));
    }
  }
  for (const chain of ownChains(found)) {
    if (!needed.has(chainId(chain))) transaction.deleteChain(chain, '');
  }
  const batch = transaction.batch();
  if (batch === undefined) return;
  await applyAll(kernel, batch.ops, 'iptables.cleanup', `chains KUBE-* of ${family}`);
}

async function observeSteadily(kernel: KernelReader, family: Family): Promise<IptablesObservation> {
  return (await atOneGeneration(kernel, () => observe(kernel, family, noPause))).found;
}

/** kube-proxy has chains of the same names, except for one: where that is, the chains are ours. */
function isMarked(found: IptablesObservation): boolean {
  return found.rulesOf(chainId({ table: 'nat', chain: hairpinChain })) !== undefined;
}

function ownChains(found: IptablesObservation) {
  return [...found.chainIds()].map(chainAt).filter(({ table, chain }) => isOurs(table, chain));
}
