/** Adds elements to sets of each kind, and deletes them. */
import {
  NFT_DATA_VERDICT,
  NFT_SET,
  NFT_SET_ELEM_INTERVAL_END,
} from '../../src/kernel/nft/constants.ts';
import { checkVerdict } from './nft-rule.ts';
import { type Element, elementId, type Journal, type NftSet, type Table } from './nft-state.ts';
import { Refusal } from './refusal.ts';

/** `hash`: exact keys; `edges`: starts and ends of ranges. */
type SetKind = 'hash' | 'edges';

export function kindOf({ fields }: Pick<NftSet, 'fields'>): SetKind {
  return (fields.flags & NFT_SET.INTERVAL) === 0 ? 'hash' : 'edges';
}

function isEnd({ flags }: Element): boolean {
  return flags === NFT_SET_ELEM_INTERVAL_END;
}

export class ElementWriter {
  readonly #table: Table;
  readonly #set: NftSet;
  readonly #journal: Journal;

  constructor(table: Table, set: NftSet, journal: Journal) {
    this.#table = table;
    this.#set = set;
    this.#journal = journal;
  }

  /** Adds an element. Does nothing when the set has it (nft_add_set_elem without NLM_F_EXCL). */
  add(element: Element): void {
    const { elements, fields } = this.#set;
    this.#check(element);
    if (element.verdict !== undefined) checkVerdict(this.#table, element.verdict);
    const clash = this.#clash(element);
    if (clash !== undefined) {
      if (sameData(clash, element)) return;
      throw new Refusal('EEXIST');
    }
    if (fields.size > 0 && elements.size >= fields.size) throw new Refusal('ENFILE');
    this.#journal.set(elements, elementId(element), element);
    this.#count(element, 1);
  }

  delete(element: Element): void {
    this.#checkKey(element);
    const found = this.#set.elements.get(elementId(element));
    if (found === undefined) throw new Refusal('ENOENT');
    this.#journal.delete(this.#set.elements, elementId(found));
    this.#count(found, -1);
  }

  flush(): void {
    for (const element of [...this.#set.elements.values()]) this.delete(element);
  }

  #count({ verdict }: Element, step: 1 | -1): void {
    if (verdict === undefined || verdict.chain === '') return;
    this.#journal.count(this.#table.uses, `chain ${verdict.chain}`, step);
  }

  #checkKey({ key, flags }: Element): void {
    const kind = kindOf(this.#set);
    if (key.length !== this.#set.fields.keyLength) throw new Refusal('EINVAL');
    if (flags !== 0 && (kind !== 'edges' || flags !== NFT_SET_ELEM_INTERVAL_END)) {
      throw new Refusal('EINVAL');
    }
  }

  #check(element: Element): void {
    this.#checkKey(element);
    const { flags, dataType, dataLength } = this.#set.fields;
    const { data, verdict } = element;
    const isMap = (flags & NFT_SET.MAP) !== 0 && !isEnd(element);
    const wantsVerdict = isMap && dataType === NFT_DATA_VERDICT;
    if ((verdict !== undefined) !== wantsVerdict) throw new Refusal('EINVAL');
    if ((data !== undefined) !== (isMap && !wantsVerdict)) throw new Refusal('EINVAL');
    if (data !== undefined && data.length !== dataLength) throw new Refusal('EINVAL');
  }

  /** The equal element that the set has. Throws Refusal when one only overlaps. */
  #clash(element: Element): Element | undefined {
    const same = this.#set.elements.get(elementId(element));
    if (same !== undefined) return same;
    switch (kindOf(this.#set)) {
      case 'hash':
        return undefined;
      case 'edges':
        return this.#checkEdge(element);
    }
  }

  /** The overlaps that __nft_rbtree_insert finds by the neighbours of a new edge. */
  #checkEdge(edge: Element): undefined {
    let below: Element | undefined;
    let above: Element | undefined;
    for (const other of this.#set.elements.values()) {
      const order = compareEdges(other, edge);
      if (order < 0 && (below === undefined || compareEdges(other, below) > 0)) below = other;
      if (order > 0 && (above === undefined || compareEdges(other, above) < 0)) above = other;
    }
    const inside = below !== undefined && isEnd(below) === isEnd(edge);
    const around = isEnd(edge) && above !== undefined && isEnd(above);
    if (inside || around) throw new Refusal('EEXIST');
  }
}

/** Ascending; the end of one range comes before the start of the next at the same address. */
export function compareEdges(a: Element, b: Element): number {
  return Buffer.compare(a.key, b.key) || Number(isEnd(b)) - Number(isEnd(a));
}

function sameData(a: Element, b: Element): boolean {
  if (a.verdict !== undefined && b.verdict !== undefined) {
    return a.verdict.code === b.verdict.code && a.verdict.chain === b.verdict.chain;
  }
  return a.data === undefined || Buffer.compare(a.data, b.data ?? new Uint8Array(0)) === 0;
}
