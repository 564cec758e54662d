/** Named counters (nfacct) in memory. */
import type { acctOps, acctReplies } from '../../src/kernel/acct-ops.ts';
import { KernelError } from '../../src/kernel/errors.ts';
import { expressions } from '../../src/kernel/ops.ts';
import { type RecordOf, readRecords } from '../../src/kernel/records.ts';
import { readNfacct } from '../../src/kernel/xt/matches/nfacct.ts';
import type { Tables } from './nft-state.ts';
import { Refusal } from './refusal.ts';

export type AcctOp = RecordOf<typeof acctOps>;

export class FakeAccts {
  /** Whether the kernel has nfnetlink_acct. */
  present = true;
  /** Packets by name of the counter. Tests set them. */
  readonly packets = new Map<string, number>();
  readonly #tables: Tables;

  constructor(tables: Tables) {
    this.#tables = tables;
  }

  run({ kind, name }: AcctOp): void {
    if (!this.present) throw new Refusal('EINVAL');
    const isThere = this.packets.has(name);
    if (kind === 'acctAdd') {
      if (isThere) throw new Refusal('EBUSY');
      this.packets.set(name, 0);
      return;
    }
    if (!isThere) throw new Refusal('ENOENT');
    if (this.#references(name) > 0) throw new Refusal('EBUSY');
    this.packets.delete(name);
  }

  answer(): RecordOf<typeof acctReplies>[] {
    if (!this.present) {
      const { code, message: words } = new Refusal('EINVAL');
      throw new KernelError({ operation: 'acct.acctsDump', subject: 'fake', code, words });
    }
    return [...this.packets].map(([name, packets]) => {
      const references = this.#references(name);
      return { kind: 'acct', name, packets, bytes: 60 * packets, references };
    });
  }

  /** The number of rules that use the counter. */
  #references(name: string): number {
    const rules = [...this.#tables.values()]
      .flatMap(({ chains }) => [...chains.values()])
      .flatMap((chain) => chain.rules);
    return rules.filter(({ expressions: bytes }) =>
      [...readRecords(expressions, bytes)].some(
        (one) =>
          one.kind === 'match' && one.name === 'nfacct' && readNfacct(one.info).counter === name,
      ),
    ).length;
  }
}
