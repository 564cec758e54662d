/** Another program that edits our table, in any way that the kernel allows. */
import fc from 'fast-check';
import { NFPROTO, NFT_SET, VERDICT } from '../../../../src/kernel/nft/constants.ts';
import {
  compileRule,
  daddr,
  drop,
  inSet,
  jump,
  type Statement,
} from '../../../../src/kernel/nft/rule.ts';
import { fieldsOfSet } from '../../../../src/kernel/nft/sets.ts';
import { ElementShape, type NftOp } from '../../../../src/kernel/ops.ts';
import { tableName } from '../../../../src/modes/nftables/layout.ts';
import type { Family } from '../../../../src/net/address.ts';
import { batch } from '../../../conformance/ops.ts';
import type { FakeKernel } from '../../../fake/kernel.ts';
import { kindOf } from '../../../fake/nft-elements.ts';
import { pack } from '../../../fake/nft-entries.ts';
import type { Chain, Element, NftSet, Table } from '../../../fake/nft-state.ts';

export const deeds = [
  'delete element',
  'change element',
  'add element',
  'flush set',
  'delete rule',
  'add rule',
  'insert rule',
  'flush chain',
  'delete chain',
  'add chain',
  'add base chain',
  'change policy',
  'move base chain',
  'take the name of a chain',
  'change set',
  'add set',
  'add object',
  'comment on rule',
  'comment on element',
  'delete table',
] as const;

export interface Meddling {
  readonly deed: (typeof deeds)[number];
  /** What the deed is done to: counted among all that it could be done to. */
  readonly which: number;
  readonly how: number;
}

const rare: ReadonlySet<string> = new Set([
  'delete table',
  'change set',
  'move base chain',
  'comment on element',
]);
const common = deeds.filter((deed) => !rare.has(deed));

export const meddlings: fc.Arbitrary<Meddling> = fc.record({
  deed: fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom(...common) },
    { weight: 1, arbitrary: fc.constantFrom(...deeds) },
  ),
  which: fc.nat(10_000),
  how: fc.nat(10_000),
});

/** Does the deed, if the kernel lets it. */
export function meddle(kernel: FakeKernel, family: Family, meddling: Meddling): void {
  const table = kernel.table(NFPROTO[family], tableName);
  if (table === undefined) return;
  if (meddling.deed === 'add object') {
    // A flowtable, a counter or a quota.
    kernel.addObject(
      { family: table.family, table: tableName },
      meddling.how % 3,
      `foreign-${meddling.which % 3}`,
    );
    return;
  }
  if (meddling.deed === 'comment on element') {
    const filled = filledSets(table);
    const { fields } = filled[meddling.which % filled.length]!;
    kernel.comment({ family: table.family, table: tableName }, fields.set, meddling.how);
    return;
  }
  try {
    kernel.foreign(batch(...opsOf(table, meddling)));
  } catch (error) {
    if (!String(error).includes('refused')) throw error;
  }
}

function opsOf(table: Table, { deed, which, how }: Meddling): NftOp[] {
  const inTable = { family: table.family, table: table.name };
  const family = table.family === NFPROTO.IPv4 ? 'IPv4' : 'IPv6';
  switch (deed) {
    case 'delete element':
    case 'change element':
    case 'add element':
    case 'flush set':
    case 'change set':
      return setOps(table, { deed, which, how });
    case 'delete table':
      return [{ kind: 'tableDelete', ...inTable }];
    case 'add chain': {
      const chain = `foreign-${how % 3}`;
      const target = `foreign-${which % 3}`;
      const add = (name: string): NftOp => ({
        kind: 'chainAdd',
        ...inTable,
        chain: name,
        comment: '',
      });
      return [add(target), add(chain), ruleOp(table, chain, jump(target))];
    }
    case 'add set': {
      const [set, chain] = [`foreign-${how % 2}`, `foreign-${which % 3}`];
      const definition = { name: set, key: ['ipv4_addr'], data: undefined } as const;
      const plain = { ...definition, flags: 0, size: 0, comment: '' };
      return [
        { kind: 'setAdd', ...fieldsOfSet(family, table.name, plain) },
        { kind: 'chainAdd', ...inTable, chain, comment: '' },
        ruleOp(table, chain, inSet([daddr('IPv4')], set)),
      ];
    }
    case 'add base chain':
      return [baseChainOp(table, `foreign-base-${how % 2}`, -5, 1)];
    default: {
      const chains = [...table.chains.values()];
      const chain = chains[which % chains.length];
      return chain === undefined ? [] : chainOps(table, chain, { deed, which, how });
    }
  }
}

function chainOps(table: Table, { name, base, rules }: Chain, { deed, how }: Meddling): NftOp[] {
  const at = { family: table.family, table: table.name, chain: name };
  const rule = rules[how % Math.max(1, rules.length)];
  switch (deed) {
    case 'delete rule':
      return rule === undefined
        ? []
        : [{ kind: 'ruleDelete', echo: 0, ...at, handle: rule.handle }];
    case 'add rule':
      return [ruleOp(table, name, how % 2 === 0 ? drop : jump('reject-chain'))];
    case 'insert rule':
      return [
        { kind: 'chainFlush', ...at },
        ruleOp(table, name, drop),
        ...rules.map(({ expressions, comment }) => {
          return { kind: 'ruleAdd', ...at, expressions, comment } as const;
        }),
      ];
    case 'comment on rule': {
      if (rule === undefined) return [];
      const { expressions, handle } = rule;
      return [
        { kind: 'ruleDelete', echo: 0, ...at, handle },
        { kind: 'ruleAdd', ...at, expressions, comment: 'not ours' },
      ];
    }
    case 'flush chain':
      return [{ kind: 'chainFlush', ...at }];
    case 'delete chain':
      return [{ kind: 'chainDelete', ...at }];
    case 'change policy':
      return base === undefined
        ? []
        : [{ kind: 'baseChainAdd', ...at, ...base, policy: 0, comment: '' }];
    case 'move base chain':
      if (base === undefined) return [];
      return [
        { kind: 'chainDelete', ...at },
        baseChainOp(table, name, base.priority + 1, base.hook),
      ];
    default:
      return [{ kind: 'chainDelete', ...at }, baseChainOp(table, name, -7, 2)];
  }
}

function ruleOp({ family, name: table }: Table, chain: string, ...rule: Statement[]): NftOp {
  return { kind: 'ruleAdd', family, table, chain, expressions: compileRule(rule), comment: '' };
}

function baseChainOp(
  { family, name: table }: Table,
  chain: string,
  priority: number,
  hook: number,
): NftOp {
  const base = { type: 'filter', hook, priority, policy: 1, comment: '' };
  return { kind: 'baseChainAdd', family, table, chain, ...base };
}

/** Elements that packets add could not be distinguished from foreign ones. */
function filledSets(table: Table): NftSet[] {
  return [...table.sets.values()].filter(({ fields }) => (fields.flags & NFT_SET.EVAL) === 0);
}

function setOps(table: Table, { deed, which, how }: Meddling): NftOp[] {
  const sets = [...table.sets.values()];
  if (deed === 'change set' || deed === 'flush set') {
    const { fields } = sets[which % sets.length]!;
    if (deed === 'flush set') return [{ kind: 'setFlush', ...fields }];
    return [{ kind: 'setAdd', ...fields, size: 1000 }];
  }
  const elements = filledSets(table).flatMap((set) =>
    [...set.elements.values()].map((element) => ({ set, element })),
  );
  const chosen = elements[which % Math.max(1, elements.length)];
  if (chosen === undefined) return [];
  const { set, element } = chosen;
  switch (deed) {
    case 'delete element':
      return [elementsOp('elementsDelete', set, element)];
    case 'add element': {
      const key = element.key.slice();
      key[how % key.length]! ^= 1 << (how % 8);
      return [elementsOp('elementsAdd', set, { ...changed(table, element, how), key })];
    }
    default:
      return [
        elementsOp('elementsDelete', set, element),
        elementsOp('elementsAdd', set, changed(table, element, how)),
      ];
  }
}

function changed(table: Table, element: Element, how: number): Element {
  const { data, verdict } = element;
  if (data !== undefined) {
    const other = data.slice();
    // The last two bytes are padding, which no text shows.
    other[how % (other.length - 2)]! ^= 1 << (how % 8);
    return { ...element, data: other };
  }
  if (verdict === undefined) return element;
  const chains = [...table.chains.values()].filter(({ base }) => base === undefined);
  const chain = chains[how % chains.length]!.name;
  const verdicts = [
    { code: VERDICT.drop, chain: '' },
    { code: VERDICT.accept, chain: '' },
    { code: VERDICT.jump, chain: verdict.chain === '' ? chain : verdict.chain },
    { code: VERDICT.goto, chain },
  ];
  return { ...element, verdict: verdicts[how % verdicts.length]! };
}

function elementsOp(
  kind: 'elementsAdd' | 'elementsDelete',
  { fields }: NftSet,
  element: Element,
): NftOp {
  const { family, table, set, keyLength, dataLength, flags } = fields;
  const setKind = kindOf({ fields });
  const content = kind === 'elementsAdd' && (flags & NFT_SET.MAP) !== 0;
  const shape =
    (setKind === 'edges' ? ElementShape.flags : 0) |
    (content && element.data !== undefined ? ElementShape.data : 0) |
    (content && element.verdict !== undefined ? ElementShape.verdict | ElementShape.comment : 0);
  return { kind, family, table, set, ...pack([element], { shape, keyLength, dataLength }) };
}
