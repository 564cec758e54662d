/** Answers to dump requests, as the addon gives them. */
import { NFT_CHAIN_BASE } from '../../src/kernel/nft/constants.ts';
import { ElementShape, type NftRequest, type Reply, unknownIndex } from '../../src/kernel/ops.ts';
import { compareEdges, kindOf } from './nft-elements.ts';
import { pack } from './nft-entries.ts';
import type { Chain, Flowtable, NftSet, Table, Tables } from './nft-state.ts';
import { Refusal } from './refusal.ts';

type ElementsDump = Extract<NftRequest, { kind: 'elementsDump' }>;

/** The elements in one reply. The kernel's number depends on the size of its messages. */
const elementsPerReply = 100;

export function answer(tables: Tables, generation: number, request: NftRequest): Reply[] {
  if (request.kind === 'generationGet') return [{ kind: 'generation', generation }];
  const only = request.kind === 'tablesDump' ? '' : request.table;
  return [...tables.values()]
    .filter(({ family }) => request.family === 0 || request.family === family)
    .filter(({ name }) => only === '' || only === name)
    .flatMap((table) => recordsOf(table, request));
}

function recordsOf(table: Table, request: Exclude<NftRequest, { kind: 'generationGet' }>): Reply[] {
  const { family, name } = table;
  const inTable = { family, table: name };
  switch (request.kind) {
    case 'tablesDump': {
      const { handle, flags, owner, comment } = table;
      return [{ kind: 'table', ...inTable, handle, flags, owner, comment }];
    }
    case 'chainsDump':
      return [...table.chains.values()].map((chain) => chainRecord(table, chain));
    case 'rulesDump':
      return [...table.chains.values()]
        .filter((chain) => request.chain === '' || chain.name === request.chain)
        .flatMap((chain) =>
          chain.rules.map((rule) => ({
            kind: 'rule' as const,
            ...inTable,
            chain: chain.name,
            ...rule,
          })),
        );
    case 'setsDump':
      return [...table.sets.values()].map((set) => ({
        kind: 'set' as const,
        handle: set.handle,
        ...set.fields,
        policy: 0,
        gcIntervalMs: 0,
        count: countOf(set),
      }));
    case 'objectsDump':
    case 'flowtablesDump': {
      const isFlowtable = request.kind === 'flowtablesDump';
      return [...table.others.values()]
        .filter(({ type }) => (type === 0) === isFlowtable)
        .map((other) =>
          isFlowtable
            ? flowtableRecord(inTable, other.object, table.flowtables.get(other.object))
            : { kind: 'object' as const, ...inTable, ...other },
        );
    }
    case 'elementsDump':
      return elementRecords(table, request);
  }
}

function flowtableRecord(
  inTable: { family: number; table: string },
  flowtable: string,
  held: Flowtable = { priority: 0, flags: 0, devices: '' },
): Reply {
  const shape = { ...held, use: 0 };
  return { kind: 'flowtable', ...inTable, flowtable, ...shape };
}

/** As nft_set_userspace_size counts: a range that is stored as two edges counts once. */
function countOf(set: NftSet): number {
  const { size } = set.elements;
  return kindOf(set) === 'edges' ? Math.floor(size / 2) : size;
}

function chainRecord(table: Table, chain: Chain): Reply {
  const { name, handle, comment, rules, base } = chain;
  return {
    kind: 'chain',
    family: table.family,
    table: table.name,
    chain: name,
    handle,
    type: base?.type ?? '',
    hook: base?.hook ?? unknownIndex,
    priority: base?.priority ?? 0,
    policy: base?.policy ?? 0,
    use: rules.length + (table.uses.get(`chain ${name}`) ?? 0),
    flags: base === undefined ? 0 : NFT_CHAIN_BASE,
    comment,
  };
}

function elementRecords(table: Table, request: ElementsDump): Reply[] {
  const { kind: _, ...ofSet } = request;
  const set = table.sets.get(request.set);
  if (set === undefined) throw new Refusal('ENOENT');
  const elements = [...set.elements.values()].sort(compareEdges);
  const isCommented = (request.shape & ElementShape.comment) !== 0;
  const records: Reply[] = [];
  for (let at = 0; at < elements.length; at += elementsPerReply) {
    const some = elements.slice(at, at + elementsPerReply);
    const strange = isCommented ? 0 : some.filter(({ comment }) => comment !== '').length;
    records.push({ kind: 'elements', ...ofSet, ...pack(some, request), strange });
  }
  return records;
}
