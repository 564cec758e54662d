/**
 * The state of the fake kernel as text, as nft prints it. The order does not depend on the history:
 * tables, sets, chains and elements are sorted, and rules keep their order.
 */
import { NFPROTO, NFT_DATA_VERDICT } from '../../src/kernel/nft/constants.ts';
import { printRule } from '../../src/kernel/nft/print-rule.ts';
import { ElementShape } from '../../src/kernel/ops.ts';
import { readRule } from '../../src/kernel/xt/compile.ts';
import { printRule as printXtRule } from '../../src/kernel/xt/print.ts';
import { concatParts, printEntries, printHook, printSetBody, type SetTypes } from '../print/nft.ts';
import { compareEdges, kindOf } from './nft-elements.ts';
import { pack } from './nft-entries.ts';
import type { Chain, Element, NftSet, Table, Tables } from './nft-state.ts';

const collator = new Intl.Collator('en', { numeric: true });

export function rulesetText(tables: Tables): string {
  return sorted(tables)
    .flatMap((table) => [...tableLines(table), ''])
    .join('\n');
}

function sorted<V>(map: ReadonlyMap<string, V>): V[] {
  return [...map].sort(([a], [b]) => collator.compare(a, b)).map(([, value]) => value);
}

function tableLines(table: Table): string[] {
  return [
    `table ${table.family === 2 ? 'ip' : 'ip6'} ${table.name} {`,
    ...(table.comment === '' ? [] : [`  comment "${table.comment}"`]),
    ...sorted(table.sets).flatMap(setLines),
    ...[...table.others.keys()].sort().map((other) => `  object ${other}`),
    ...sorted(table.chains).flatMap((chain) => chainLines(table, chain)),
    '}',
  ];
}

function setLines(set: NftSet): string[] {
  const types = typesOf(set.fields);
  const body = printSetBody(set.fields, types).filter((words) => words !== '');
  return [
    `  ${types.data === undefined ? 'set' : 'map'} ${set.fields.set} {`,
    ...body.map((words) => `    ${words}`),
    ...elementTexts(set).map((text) => `    ${text}`),
    '  }',
  ];
}

function chainLines({ family }: Table, { name, base, rules, comment }: Chain): string[] {
  const words = comment === '' ? [] : [`comment "${comment}" ;`];
  return [
    `  chain ${name} {`,
    ...[...(base === undefined ? [] : printHook(base)), ...words].map((line) => `    ${line}`),
    ...rules.map(({ expressions }) => `    ${ruleText(family, expressions)}`),
    '  }',
  ];
}

/** A rule of iptables in its words, any other in nft's. */
function ruleText(family: number, expressions: Uint8Array): string {
  const named = family === NFPROTO.IPv4 ? 'IPv4' : 'IPv6';
  const rule = readRule(named, expressions);
  if (rule === undefined) return printRule(family, expressions);
  return `iptables ${printXtRule(named, rule)}`.trimEnd();
}

/** There are few, and each element asks. */
const knownTypes = new Map<string, SetTypes>();

function typesOf({ keyType, dataType }: NftSet['fields']): SetTypes {
  const id = `${keyType} ${dataType}`;
  let types = knownTypes.get(id);
  if (types === undefined) {
    const data = dataType === NFT_DATA_VERDICT ? 'verdict' : concatParts(dataType);
    types = { key: concatParts(keyType), data: dataType === 0 ? undefined : data };
    knownTypes.set(id, types);
  }
  return types;
}

/** The elements of a set as text, sorted; the two edges of a range as one. */
export function elementTexts(set: NftSet): string[] {
  const { fields, elements } = set;
  if (kindOf(set) === 'edges') {
    const edges = [...elements.values()].sort(compareEdges);
    const comments = edges.filter(({ comment }) => comment !== '');
    return [...printed(fields, edges), ...comments.map(({ comment }) => `comment "${comment}"`)];
  }
  return [...elements.values()]
    .map((element) => elementText(fields, element))
    .sort(collator.compare);
}

/** One element as text. */
export function elementText(fields: NftSet['fields'], element: Element): string {
  return printed(fields, [element]).join();
}

function printed(fields: NftSet['fields'], elements: readonly Element[]): string[] {
  const { keyLength, dataLength, dataType } = fields;
  const kind = kindOf({ fields });
  const shape =
    (kind === 'edges' ? ElementShape.flags : ElementShape.comment) |
    (dataLength > 0 ? ElementShape.data : 0) |
    (dataType === NFT_DATA_VERDICT ? ElementShape.verdict : 0);
  return printEntries(pack(elements, { shape, keyLength, dataLength }), typesOf(fields));
}
