/**
 * What nf_tables does with ops: cases of steps that are applied one after the other, each with its
 * outcome. The fake kernel and the real one must both give these outcomes.
 */
import {
  NF_INET,
  NFPROTO,
  NFT_DATA_VERDICT,
  NFT_SET,
  VERDICT,
} from '../../src/kernel/nft/constants.ts';
import {
  compileRule,
  daddr,
  dnatTo,
  drop,
  goto,
  inSet,
  jump,
  masquerade,
  random,
  reject,
  type Statement,
  saddr,
  updateMap,
  vmap,
} from '../../src/kernel/nft/rule.ts';
import { ElementShape, type NftOp } from '../../src/kernel/ops.ts';
import { addressSet, bytes, type Part, u32, verdict } from './ops.ts';

/** The code and position of each error: `ENOENT at 1`, `EEXIST at 2 entry 0`. */
export type Outcome = 'applied' | readonly string[];

/** What a step may depend on: the generation, and the handles of the rules in their order. */
export interface Seen {
  readonly generation: number;
  readonly handles: readonly number[];
}

export interface Step {
  readonly ops: readonly NftOp[] | ((seen: Seen) => readonly NftOp[]);
  readonly outcome: Outcome;
}

export interface Case {
  readonly title: string;
  readonly steps: readonly Step[];
}

export function caseOf(title: string, steps: readonly Step[]): Case {
  return { title, steps };
}

const inTable = { family: NFPROTO.IPv4, table: 't' };
const comment = '';

export const addTable: NftOp = { kind: 'tableAdd', ...inTable, comment: 'a table' };
const deleteTable: NftOp = { kind: 'tableDelete', ...inTable };

function chain(name: string): NftOp {
  return { kind: 'chainAdd', ...inTable, chain: name, comment: name === 'a' ? 'chain a' : '' };
}

function baseChain(name: string, type: string, hook: number, priority: number, policy = 1): NftOp {
  return { kind: 'baseChainAdd', ...inTable, chain: name, type, hook, priority, policy, comment };
}

const deleteChain = (name: string): NftOp => ({ kind: 'chainDelete', ...inTable, chain: name });
const flushChain = (name: string): NftOp => ({ kind: 'chainFlush', ...inTable, chain: name });

function rule(name: string, ...statements: Statement[]): NftOp {
  const expressions = compileRule(statements);
  return { kind: 'ruleAdd', ...inTable, chain: name, expressions, comment };
}

const xtFields = { protocol: 0, echo: 0 } as const;

function insert(name: string, ...statements: Statement[]): NftOp {
  const expressions = compileRule(statements);
  return { kind: 'xtRuleInsert', ...inTable, chain: name, position: 0, ...xtFields, expressions };
}

type SetOp = Extract<NftOp, { kind: 'setAdd' }>;

function set(name: string, fields: Partial<SetOp> = {}): NftOp {
  return { kind: 'setAdd', ...inTable, ...addressSet, set: name, comment: 'elements', ...fields };
}

const verdictMap = { flags: NFT_SET.MAP, dataType: NFT_DATA_VERDICT };
const dataMap = { flags: NFT_SET.MAP, dataType: 7, dataLength: 4 };
const endpointMap = { flags: NFT_SET.MAP, dataType: 7 * 64 + 13, dataLength: 8 };
const ranges = { flags: NFT_SET.INTERVAL };
const filledByPackets = {
  ...dataMap,
  flags: NFT_SET.MAP | NFT_SET.EVAL | NFT_SET.TIMEOUT,
};
const remember = (name: string): Statement => updateMap(name, [saddr('IPv4')], [daddr('IPv4')], 60);
const deleteSet = (name: string): NftOp => ({ kind: 'setDelete', ...inTable, set: name });
const flushSet = (name: string): NftOp => ({ kind: 'setFlush', ...inTable, set: name });

/** Entries of a set. `shape` and lengths default to those of a plain set. */
function elements(
  kind: 'elementsAdd' | 'elementsDelete',
  name: string,
  entries: readonly (readonly Part[])[],
  fields: { shape?: number; keyLength?: number; dataLength?: number } = {},
): NftOp {
  const lengths = { shape: 0, keyLength: 4, dataLength: 0, ...fields };
  const packed = bytes(...entries.flat());
  return { kind, ...inTable, set: name, ...lengths, count: entries.length, entries: packed };
}

type Entries = readonly (readonly Part[])[];
const add = (name: string, ...entries: Entries): NftOp => elements('elementsAdd', name, entries);
const remove = (name: string, ...entries: Entries): NftOp =>
  elements('elementsDelete', name, entries);

const withVerdict = { shape: ElementShape.verdict };
const withData = { shape: ElementShape.data, dataLength: 4 };
const withFlags = { shape: ElementShape.flags };

const addVerdicts = (name: string, ...entries: Entries): NftOp =>
  elements('elementsAdd', name, entries, withVerdict);
const addData = (name: string, ...entries: Entries): NftOp =>
  elements('elementsAdd', name, entries, withData);

/** Adds key A with a verdict and a comment. */
function addCommented(name: string, text: string): NftOp {
  const padded = text.padEnd((text.length + 3) & ~3, '\0');
  const entry = [A, verdict(VERDICT.drop), u32(text.length), Buffer.from(padded)];
  return elements('elementsAdd', name, [entry], {
    shape: ElementShape.verdict | ElementShape.comment,
  });
}

/** Edges of ranges in `ranges`: addresses as hexadecimal digits, a final `end` for an end. */
function edges(kind: 'elementsAdd' | 'elementsDelete', ...texts: readonly string[]): NftOp {
  const entries = texts.map((text) => {
    const [address, end] = text.split(' ');
    return [address as string, u32(end === undefined ? 0 : 1)];
  });
  return elements(kind, 'ranges', entries, withFlags);
}

const ok = (...ops: NftOp[]): Step => ({ ops, outcome: 'applied' });
const refused = (outcome: readonly string[], ...ops: NftOp[]): Step => ({ ops, outcome });

const A = '0a000001';
const B = '0a000002';
const C = '0a000003';
const port80 = '00500000';
const goTo = (name: string): Uint8Array => verdict(-4, name);

const tables: Case[] = [
  caseOf('keeps what another program has when a table or chain is added again', [
    ok(addTable, chain('a'), rule('a', drop)),
    ok(addTable, chain('a')),
  ]),
  caseOf('deletes a table with all that is in it, and makes it anew in the same transaction', [
    ok(addTable, chain('a'), rule('a', drop), set('s'), add('s', [A])),
    ok(deleteTable, addTable, chain('b')),
  ]),
  caseOf('refuses each op on a table that is not there, and goes on to the next one', [
    refused(['ENOENT at 0', 'ENOENT at 1', 'ENOENT at 2'], deleteTable, chain('a'), set('s')),
    refused(['ENOENT at 1', 'ENOENT at 2'], addTable, deleteChain('a'), flushChain('a')),
  ]),
  caseOf('takes back everything when the last op is refused', [
    ok(addTable, set('s'), add('s', [A]), chain('a'), rule('a', drop)),
    refused(
      ['ENOENT at 4 entry 0'],
      add('s', [B]),
      remove('s', [A]),
      flushChain('a'),
      chain('b'),
      remove('s', [C]),
    ),
  ]),
];

const chains: Case[] = [
  caseOf('refuses a base chain with another hook, type or priority than it has', [
    ok(addTable, baseChain('in', 'filter', NF_INET.LOCAL_IN, 0)),
    ok(baseChain('in', 'filter', NF_INET.LOCAL_IN, 0)),
    refused(['EOPNOTSUPP at 0'], baseChain('in', 'filter', NF_INET.LOCAL_IN, 1)),
    refused(['EOPNOTSUPP at 0'], baseChain('in', 'filter', NF_INET.FORWARD, 0)),
    refused(['EEXIST at 0'], baseChain('in', 'nat', NF_INET.LOCAL_IN, 0)),
  ]),
  caseOf('gives a base chain another policy', [
    ok(addTable, baseChain('in', 'filter', NF_INET.LOCAL_IN, 0)),
    ok(baseChain('in', 'filter', NF_INET.LOCAL_IN, 0, 0)),
  ]),
  caseOf('refuses to make a base chain of another chain, but not the reverse', [
    ok(addTable, chain('a'), baseChain('in', 'filter', NF_INET.LOCAL_IN, 0)),
    refused(['EOPNOTSUPP at 0'], baseChain('a', 'filter', NF_INET.LOCAL_IN, 0)),
    ok(chain('in')),
  ]),
  caseOf('refuses hooks, types and policies that there are not', [
    ok(addTable),
    refused(['EOPNOTSUPP at 0'], baseChain('x', 'nat', NF_INET.FORWARD, 0)),
    refused(['EOPNOTSUPP at 0'], baseChain('x', 'nat', NF_INET.PRE_ROUTING, -200)),
    refused(['ENOENT at 0'], baseChain('x', 'fliter', NF_INET.LOCAL_IN, 0)),
    refused(['EINVAL at 0'], baseChain('x', 'filter', NF_INET.LOCAL_IN, 0, 5)),
  ]),
  caseOf('deletes a chain with its rules, unless a rule goes to it', [
    ok(addTable, chain('a'), chain('b'), rule('a', goto('b')), rule('b', drop)),
    refused(['EBUSY at 0'], deleteChain('b')),
    ok(deleteChain('a'), deleteChain('b')),
  ]),
  caseOf('deletes a chain whose last reference is flushed in the same transaction', [
    ok(addTable, chain('a'), chain('b'), rule('a', jump('b'))),
    ok(flushChain('a'), deleteChain('b')),
  ]),
  caseOf('refuses to delete a chain that a verdict goes to', [
    ok(addTable, chain('a'), set('v', verdictMap), addVerdicts('v', [A, goTo('a')])),
    refused(['EBUSY at 0'], deleteChain('a')),
    ok(remove('v', [A]), deleteChain('a')),
  ]),
  caseOf('lets go of chains when a verdict map is flushed or deleted', [
    ok(addTable, chain('a'), set('v', verdictMap), addVerdicts('v', [A, goTo('a')])),
    ok(flushSet('v'), deleteChain('a')),
    ok(chain('b'), addVerdicts('v', [A, goTo('b')])),
    ok(deleteSet('v'), deleteChain('b')),
  ]),
];

const rules: Case[] = [
  caseOf('keeps rules in order, appended or inserted', [
    ok(addTable, chain('a'), chain('b')),
    ok(rule('a', jump('b')), rule('a', drop), insert('a', reject('IPv4'))),
  ]),
  caseOf('refuses a rule whose chain, target or set is not there', [
    ok(addTable, chain('a')),
    refused(['ENOENT at 0'], rule('x', drop)),
    refused(['ENOENT at 0'], rule('a', goto('x'))),
    refused(['ENOENT at 0'], rule('a', inSet([daddr('IPv4')], 'x'))),
  ]),
  caseOf('refuses a jump to a base chain', [
    ok(addTable, chain('a'), baseChain('in', 'filter', NF_INET.LOCAL_IN, 0)),
    refused(['EOPNOTSUPP at 0'], rule('a', jump('in'))),
  ]),
  caseOf('refuses lookups that do not fit the set', [
    ok(addTable, chain('a'), set('s'), set('m', dataMap), set('v', verdictMap)),
    refused(['EINVAL at 0'], rule('a', vmap([daddr('IPv4')], 's'))),
    refused(['EINVAL at 0'], rule('a', vmap([daddr('IPv4')], 'm'))),
    ok(rule('a', vmap([daddr('IPv4')], 'v'))),
  ]),
  caseOf('refuses a random number of nothing', [
    ok(addTable, chain('a'), set('s')),
    refused(['ERANGE at 0'], rule('a', inSet([random(0)], 's'))),
  ]),
  caseOf('refuses to delete a rule that is not there', [
    ok(addTable, chain('a')),
    refused(['ENOENT at 0'], {
      kind: 'ruleDelete',
      echo: 0,
      ...inTable,
      chain: 'a',
      handle: 999,
    }),
  ]),
  caseOf('refuses statements where packets do not come by that may meet them', [
    ok(addTable, chain('a'), set('e', endpointMap)),
    ok(baseChain('in', 'filter', NF_INET.LOCAL_IN, 0), rule('in', jump('a'))),
    refused(['EOPNOTSUPP at 0'], rule('a', dnatTo('IPv4', [daddr('IPv4')], 'e'))),
    refused(['EOPNOTSUPP at 0'], rule('a', masquerade)),
    ok(rule('a', reject('IPv4'))),
  ]),
  caseOf('refuses loops through rules and through verdicts', [
    ok(addTable, chain('a'), chain('b'), set('v', verdictMap)),
    ok(baseChain('in', 'filter', NF_INET.LOCAL_IN, 0), rule('in', jump('a'))),
    ok(rule('a', vmap([daddr('IPv4')], 'v')), addVerdicts('v', [A, goTo('b')])),
    refused(['EMLINK at 0'], rule('b', goto('a'))),
    refused(['EMLINK at 0'], addVerdicts('v', [B, goTo('a')])),
  ]),
];

const byHandle: Case[] = [
  caseOf('deletes rules by their handles', [
    ok(addTable, chain('a'), chain('b'), rule('a', jump('b')), rule('a', drop)),
    {
      ops: ({ handles: [first] }) => [
        { kind: 'ruleDelete', echo: 0, ...inTable, chain: 'a', handle: first as number },
        deleteChain('b'),
      ],
      outcome: 'applied',
    },
    {
      ops: ({ handles: [left] }) => [
        { kind: 'ruleDelete', echo: 0, ...inTable, chain: 'a', handle: left as number },
      ],
      outcome: 'applied',
    },
  ]),
  caseOf('counts no generation for what changes nothing', [
    ok(addTable, set('s'), add('s', [A])),
    ok(addTable, add('s', [A])),
    ok(chain('a')),
  ]),
];

const sets: Case[] = [
  caseOf('refuses another set of the same name, and keeps the elements of the same set', [
    ok(addTable, set('s'), add('s', [A])),
    ok(set('s')),
    refused(['EEXIST at 0'], set('s', { keyType: 8, keyLength: 16 })),
    refused(['EEXIST at 0'], set('s', ranges)),
    refused(['EEXIST at 0'], set('s', dataMap)),
  ]),
  caseOf('refuses sets that do not make sense', [
    ok(addTable),
    refused(['EINVAL at 0'], set('s', { keyLength: 0 })),
    refused(['EINVAL at 0'], set('s', { keyLength: 65 })),
    refused(['EINVAL at 0'], set('s', { flags: NFT_SET.MAP, dataType: 7 })),
    refused(['EINVAL at 0'], set('s', { timeoutMs: 1000 })),
    refused(['EINVAL at 0'], set('s', { flags: NFT_SET.CONCAT })),
  ]),
  caseOf('refuses to delete a set that a rule uses', [
    ok(addTable, chain('a'), set('s'), add('s', [A]), rule('a', inSet([daddr('IPv4')], 's'))),
    refused(['EBUSY at 0'], deleteSet('s')),
    ok(flushChain('a'), deleteSet('s')),
  ]),
  caseOf('refuses to flush or delete a set that is not there', [
    ok(addTable),
    refused(['ENOENT at 0', 'ENOENT at 1'], flushSet('s'), deleteSet('s')),
  ]),
  caseOf('refuses what does not fit into a set of limited size', [
    ok(addTable, set('s', { size: 2 }), add('s', [A], [B])),
    refused(['ENFILE at 0 entry 0'], add('s', [C])),
  ]),
  caseOf('gives a set that packets fill a size, unless it has one', [
    ok(addTable, chain('a'), set('s', filledByPackets), set('t', { ...filledByPackets, size: 9 })),
    ok(rule('a', remember('s')), rule('a', remember('t'))),
    ok(set('s', filledByPackets)),
  ]),
];

const elementCases: Case[] = [
  caseOf('takes an element that is there already, and refuses it with other data', [
    ok(addTable, set('s'), add('s', [A]), add('s', [A])),
    ok(set('m', dataMap), addData('m', [A, B])),
    ok(addData('m', [A, B])),
    refused(['EEXIST at 0 entry 1'], addData('m', [C, B], [A, C])),
    ok(remove('m', [A]), addData('m', [A, C])),
  ]),
  caseOf('refuses to delete what is not there, also twice', [
    ok(addTable, set('s'), add('s', [A], [B])),
    refused(['ENOENT at 0 entry 1'], remove('s', [A], [C], [B])),
    refused(['ENOENT at 1 entry 0'], remove('s', [A]), remove('s', [A])),
    refused(['ENOENT at 0'], remove('x', [A])),
  ]),
  caseOf('refuses verdicts to chains that are not there and to base chains', [
    ok(addTable, chain('a'), set('v', verdictMap)),
    ok(baseChain('in', 'filter', NF_INET.LOCAL_IN, 0)),
    ok(addVerdicts('v', [A, goTo('a')], [B, verdict(0)])),
    refused(['ENOENT at 0 entry 0'], addVerdicts('v', [C, goTo('x')])),
    refused(['EOPNOTSUPP at 0 entry 0'], addVerdicts('v', [C, goTo('in')])),
    refused(['EEXIST at 0 entry 0'], addVerdicts('v', [A, verdict(-3, 'a')])),
    refused(['EINVAL at 0 entry 0'], addVerdicts('v', [C, verdict(77)])),
  ]),
  caseOf('refuses elements without data in a map, and with data in a set', [
    ok(addTable, set('s'), set('m', dataMap), set('v', verdictMap)),
    refused(['EINVAL at 0 entry 0'], add('m', [A])),
    refused(['EINVAL at 0 entry 0'], addData('s', [A, B])),
    refused(['EINVAL at 0 entry 0'], addData('v', [A, B])),
  ]),
  caseOf('keeps the first comment of an element until it is made anew', [
    ok(addTable, set('v', verdictMap), addCommented('v', 'ns/a:http')),
    ok(addCommented('v', 'ns/b')),
    ok(remove('v', [A]), addCommented('v', 'ns/b')),
    ok(remove('v', [A]), addCommented('v', '')),
  ]),
  caseOf('refuses keys of another length', [
    ok(addTable, set('s')),
    refused(['EINVAL at 0 entry 0'], elements('elementsAdd', 's', [[A, port80]], { keyLength: 8 })),
  ]),
  caseOf('keeps ranges by their edges', [
    ok(addTable, set('ranges', ranges), edges('elementsAdd', '0a000000', '0b000000 end')),
    ok(edges('elementsAdd', '0b000000', '0c000000 end', 'f0000000')),
    ok(edges('elementsAdd', '0a000000', '0b000000 end')),
    refused(['EEXIST at 0 entry 0'], edges('elementsAdd', '0a100000', '0a200000 end')),
    refused(['EEXIST at 0 entry 1'], edges('elementsAdd', '09000000', '0a000005 end')),
    ok(edges('elementsAdd', '05000000', '06000000 end')),
    refused(['ENOENT at 0 entry 0'], edges('elementsDelete', '05000001', '06000000 end')),
    ok(edges('elementsDelete', '0a000000', '0b000000 end', 'f0000000')),
    ok(edges('elementsAdd', '0a000000', '0a000001 end', '0a000002', '0b000000 end')),
  ]),
  caseOf('refuses edges in a set without ranges', [
    ok(addTable, set('s'), set('ranges', ranges)),
    refused(['EINVAL at 0 entry 0'], elements('elementsAdd', 's', [[A, u32(1)]], withFlags)),
  ]),
  caseOf('flushes a set and fills it again in one transaction', [
    ok(addTable, set('m', dataMap), addData('m', [A, B], [B, C])),
    ok(flushSet('m'), addData('m', [A, C])),
  ]),
];

export const cases: readonly Case[] = [
  ...tables,
  ...chains,
  ...rules,
  ...byHandle,
  ...sets,
  ...elementCases,
];
