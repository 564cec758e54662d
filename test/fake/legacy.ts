/** Tables of iptables-legacy in memory: tests write them, the product reads and removes. */
import type { legacyOps, legacyReplies } from '../../src/kernel/legacy-ops.ts';
import { NF_INET, NFPROTO, VERDICT } from '../../src/kernel/nft/constants.ts';
import { unknownIndex } from '../../src/kernel/ops.ts';
import type { RecordOf } from '../../src/kernel/records.ts';
import type { Family } from '../../src/net/address.ts';
import { Refusal } from './refusal.ts';

export type LegacyOp = RecordOf<typeof legacyOps>;

/** Chains by name; each rule is the chain that it jumps to, or '' for one that jumps to none. */
type Chains = Map<string, string[]>;

const hooks: Readonly<Record<string, number>> = {
  PREROUTING: NF_INET.PRE_ROUTING,
  INPUT: NF_INET.LOCAL_IN,
  FORWARD: NF_INET.FORWARD,
  OUTPUT: NF_INET.LOCAL_OUT,
  POSTROUTING: NF_INET.POST_ROUTING,
};

export class FakeLegacy {
  /** Whether another program holds the lock. */
  isLocked = false;
  /** Built-in chains whose policy is to drop. */
  readonly dropping = new Set<string>();
  readonly #tables: Readonly<Record<Family, Map<string, Chains>>> = {
    IPv4: new Map(),
    IPv6: new Map(),
  };

  /** Appends rules, as another program does. */
  write(family: Family, table: string, rules: Readonly<Record<string, readonly string[]>>): void {
    const chains: Chains = this.#tables[family].get(table) ?? new Map();
    this.#tables[family].set(table, chains);
    for (const [chain, targets] of Object.entries(rules)) {
      chains.set(chain, [...(chains.get(chain) ?? []), ...targets]);
    }
  }

  /** The rules of a table's chains. */
  rules(family: Family, table: string): Record<string, string[]> {
    return Object.fromEntries(this.#tables[family].get(table) ?? []);
  }

  /** Applies ops. Consecutive ops for one table are one step. Throws Refusal. */
  run(ops: readonly LegacyOp[]): void {
    if (this.isLocked) throw new Refusal('EAGAIN');
    const edited = new Map<Chains, Chains>();
    for (const op of ops) {
      const before = this.#tables[familyOf(op.family)].get(op.table);
      if (before === undefined) continue;
      const after: Chains = edited.get(before) ?? new Map(before);
      edited.set(before, after);
      if (op.kind === 'legacyChainDelete') {
        after.delete(op.chain);
      } else {
        const left = (after.get(op.chain) ?? []).filter((target) => target !== op.target);
        if (after.has(op.chain)) after.set(op.chain, left);
      }
    }
    for (const after of edited.values()) {
      const isDangling = (target: string): boolean => target !== '' && !after.has(target);
      if ([...after.values()].flat().some(isDangling)) throw new Refusal('EBUSY');
    }
    for (const [before, after] of edited) {
      before.clear();
      for (const [chain, rules] of after) before.set(chain, rules);
    }
  }

  answer(family: number): RecordOf<typeof legacyReplies>[] {
    return [...this.#tables[familyOf(family)]].flatMap(([table, chains]) => [
      { kind: 'legacyTable', family, table, rules: [...chains.values()].flat().length },
      ...[...chains].flatMap(([chain, rules]): RecordOf<typeof legacyReplies>[] => {
        const hook = hooks[chain] ?? unknownIndex;
        const policy = this.dropping.has(chain) ? VERDICT.drop : VERDICT.accept;
        const jumps = rules.filter((target) => target !== '');
        return [
          { kind: 'legacyChain', family, table, chain, hook, policy },
          ...jumps.map((target) => ({ kind: 'legacyJump', target }) as const),
        ];
      }),
    ]);
  }
}

function familyOf(family: number): Family {
  return family === NFPROTO.IPv4 ? 'IPv4' : 'IPv6';
}
