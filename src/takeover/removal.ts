/** Removes what was found of kube-proxy's. */
import { applyAll } from '../kernel/failures.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { legacyOps } from '../kernel/legacy-ops.ts';
import { NFPROTO } from '../kernel/nft/constants.ts';
import { nftOps } from '../kernel/ops.ts';
import { type FieldsOf, RecordWriter } from '../kernel/records.ts';
import type { Leftovers } from './leftovers.ts';
import { iptablesTables } from './names.ts';
import { writeSign } from './sign.ts';

/** Maximum size of a transaction. Clusters with 100,000 endpoints need several. */
const batchBytesMax = 4 * 1024 * 1024;

/**
 * Deletes first the jumps into kube-proxy's chains, then the chains, so that packets find either
 * all of its rules or none. Rejects with KernelError when the kernel refuses: then look again, as
 * others may have changed what was found. EAGAIN: another program holds the lock of
 * iptables-legacy. `instead`: what takes the place of its table, in the same transaction.
 */
export async function removeLeftovers(
  kernel: Kernel,
  leftovers: Leftovers,
  instead: 'sign' | 'nothing' = 'nothing',
): Promise<void> {
  if (leftovers.backend === 'legacy') return removeLegacy(kernel, leftovers);
  const family = NFPROTO[leftovers.family];
  for (const table of leftovers.tables) {
    const writer = new RecordWriter(nftOps);
    writer.write('tableDelete', { family, table });
    if (instead === 'sign') writeSign(writer, leftovers.family);
    await applyAll(kernel, writer.finish(), 'takeover.remove', `table ${table}`);
  }

  const chains = new Transactions(kernel, 'chains of kube-proxy');
  for (const { table, chain, handle } of leftovers.jumps) {
    await chains.write('ruleDelete', { family, table, chain, handle, echo: 0 });
  }
  for (const { table, chain } of leftovers.chains) {
    await chains.write('chainFlush', { family, table, chain });
  }
  for (const { table, chain } of leftovers.chains) {
    await chains.write('chainDelete', { family, table, chain });
  }
  await chains.finish();
}

/** Each table in one step. */
async function removeLegacy(
  kernel: Kernel,
  { family: name, jumps, chains }: Leftovers,
): Promise<void> {
  const family = NFPROTO[name];
  const writer = new RecordWriter(legacyOps);
  for (const table of iptablesTables) {
    for (const { chain, target, ...jump } of jumps) {
      if (jump.table === table) writer.write('legacyJumpsDelete', { family, table, chain, target });
    }
    for (const { chain, ...rest } of chains) {
      if (rest.table === table) writer.write('legacyChainDelete', { family, table, chain });
    }
  }
  if (writer.count === 0) return;
  await applyAll(kernel, writer.finish(), 'takeover.remove', `iptables-legacy of ${name}`);
}

/** Collects ops into as few transactions as their size allows. */
class Transactions {
  readonly #kernel: Kernel;
  readonly #subject: string;
  #writer = new RecordWriter(nftOps);

  constructor(kernel: Kernel, subject: string) {
    this.#kernel = kernel;
    this.#subject = subject;
  }

  async write<K extends keyof typeof nftOps>(
    kind: K,
    fields: FieldsOf<(typeof nftOps)[K]>,
  ): Promise<void> {
    this.#writer.write(kind, fields);
    if (this.#writer.byteLength >= batchBytesMax) await this.finish();
  }

  async finish(): Promise<void> {
    if (this.#writer.count === 0) return;
    const ops = this.#writer.finish();
    this.#writer = new RecordWriter(nftOps);
    await applyAll(this.#kernel, ops, 'takeover.remove', this.#subject);
  }
}
