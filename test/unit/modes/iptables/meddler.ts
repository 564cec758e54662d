/** Another program that edits our chains, in any way that the kernel allows. */
import fc from 'fast-check';
import { NFPROTO } from '../../../../src/kernel/nft/constants.ts';
import type { NftOp } from '../../../../src/kernel/ops.ts';
import { compileRule } from '../../../../src/kernel/xt/compile.ts';
import type { XtRule } from '../../../../src/kernel/xt/rule.ts';
import { accept, drop, jump } from '../../../../src/kernel/xt/targets/verdict.ts';
import { firewallChain, isOurs, tableNames } from '../../../../src/modes/iptables/layout.ts';
import { jumpTarget } from '../../../../src/modes/iptables/observation.ts';
import type { Family } from '../../../../src/net/address.ts';
import { batch } from '../../../conformance/ops.ts';
import type { FakeKernel } from '../../../fake/kernel.ts';
import type { Chain, Table } from '../../../fake/nft-state.ts';

export const deeds = [
  'delete rule',
  'add rule',
  'insert rule',
  'copy rule',
  'flush chain',
  'flush table',
  'delete chain',
  'add chain',
  'delete table',
] as const;

export interface Meddling {
  readonly deed: (typeof deeds)[number];
  /** What the deed is done to: counted among all that it could be done to. */
  readonly which: number;
  readonly how: number;
}

export const meddlings: fc.Arbitrary<Meddling> = fc.record({
  deed: fc.constantFrom(...deeds),
  which: fc.nat(10_000),
  how: fc.nat(10_000),
});

/** Does the deed, if the kernel lets it. */
export function meddle(kernel: FakeKernel, family: Family, { deed, which, how }: Meddling): void {
  const known = tableNames.map((name) => kernel.table(NFPROTO[family], name));
  const tables = known.filter((table) => table !== undefined);
  const table = tables[which % tables.length];
  if (table === undefined) return;
  try {
    kernel.foreign(batch(...opsOf(family, table, { deed, which, how })));
  } catch (error) {
    if (!String(error).includes('refused')) throw error;
  }
}

/** Chains that are ours, and the built-in ones with our jumps. */
function chainsOf(table: Table): Chain[] {
  return [...table.chains.values()].filter(
    ({ name, base }) => base !== undefined || isOurs(table.name as 'nat', name),
  );
}

function opsOf(family: Family, table: Table, { deed, which, how }: Meddling): NftOp[] {
  const inTable = { family: table.family, table: table.name };
  const chains = chainsOf(table);
  if (deed === 'delete table') return [{ kind: 'tableDelete', ...inTable }];
  if (deed === 'flush table') {
    return chains.map(({ name }) => ({ kind: 'chainFlush', ...inTable, chain: name }));
  }
  if (deed === 'add chain') {
    const chain = `KUBE-SVC-${'ABCDEFGHIJKLMNO'}${'ABC'[how % 3]}`;
    return [{ kind: 'chainAdd', ...inTable, table: 'nat', chain, comment: '' }];
  }
  const chain = chains[which % Math.max(1, chains.length)];
  if (chain === undefined) return [];
  const at = { ...inTable, chain: chain.name };
  const rule = chain.rules[how % Math.max(1, chain.rules.length)];
  switch (deed) {
    case 'delete rule':
      return rule === undefined
        ? []
        : [{ kind: 'ruleDelete', echo: 0, ...at, handle: rule.handle }];
    case 'copy rule': {
      if (rule === undefined) return [];
      // The kubelet makes the same jumps to its own chain, so a second one stays.
      if (chain.base !== undefined && jumpTarget(rule.expressions) === firewallChain) return [];
      const fields = { ...at, position: 0, echo: 0, protocol: 0, expressions: rule.expressions };
      return [{ kind: 'xtRuleAdd', ...fields }];
    }
    case 'flush chain':
      return [{ kind: 'chainFlush', ...at }];
    case 'delete chain':
      return [{ kind: 'chainDelete', ...at }];
    default: {
      // What others put into built-in chains is theirs.
      if (chain.base !== undefined) return [];
      // A jump to a chain that only some hooks may reach would make the kernel refuse ours.
      const words: readonly XtRule[] = [
        { target: drop },
        { target: accept },
        { target: table.name === 'nat' ? jump('KUBE-MARK-MASQ') : accept },
      ];
      const compiled = compileRule(family, words[how % words.length]!);
      const kind = deed === 'add rule' ? 'xtRuleAdd' : 'xtRuleInsert';
      return [{ kind, ...at, position: 0, echo: 0, ...compiled }];
    }
  }
}
