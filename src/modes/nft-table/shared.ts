/**
 * What Forwardings share in a table of nf_tables: elements, and chains and sets with their content.
 * The chains that are always there, and the ranges of ServiceCIDRs, are such objects too.
 */
import type { ChainDefinition } from '../../kernel/nft/chain.ts';
import { packedRanges } from '../../kernel/nft/element-buffer.ts';
import { compileRule } from '../../kernel/nft/rule.ts';
import type { SetDefinition } from '../../kernel/nft/sets.ts';
import type { CIDR } from '../../net/address.ts';
import { rangesOf } from '../../net/address-ranges.ts';
import { binary } from '../elements.ts';
import type { SharedObject } from '../shared-objects.ts';
import { idOf, isNamedSet, type NamedObject, rankOf } from './objects.ts';

/** Its key is in its id only: it is kept, and there is one for each ClusterIP. */
interface SharedElement<Name extends string> extends SharedObject {
  readonly set: Name;
}

/**
 * A chain or a set that is named after its content. It is made in one transaction and never
 * changed. When no Forwarding needs it any more, a later transaction deletes it.
 */
interface SharedContent extends SharedObject {
  readonly object: NamedObject;
}

export type TableObject<Name extends string> = SharedElement<Name> | SharedContent;

/**
 * Ids of elements begin with this character or a later one, those of chains and sets with a letter.
 */
const firstMark = 0x80;

/** Approximate bytes of an element in a batch. */
const elementBytes = 48;

/** The elements of some sets, each of which Forwardings may share. */
export class SharedElements<const Name extends string> {
  readonly sets: readonly Name[];

  constructor(sets: readonly Name[]) {
    this.sets = sets;
  }

  of(set: Name, key: Uint8Array): SharedElement<Name> {
    return this.ofText(set, binary(key));
  }

  /** `key` as `binary` has it. */
  ofText(set: Name, key: string): SharedElement<Name> {
    return { id: this.idOf(set, key), isShared: true, set, bytes: elementBytes };
  }

  /** `key` as `binary` has it. */
  idOf(set: Name, key: string): string {
    return String.fromCharCode(firstMark + this.sets.indexOf(set)) + key;
  }

  /** Its key, as `binary` has it. */
  keyOf({ id }: SharedElement<Name>): string {
    return id.slice(1);
  }

  /**
   * The element of this id, with its key as `binary` has it; undefined = the id is of no element.
   */
  find(id: string): { readonly set: Name; readonly key: string } | undefined {
    const set = this.sets[id.charCodeAt(0) - firstMark];
    return set && { set, key: id.slice(1) };
  }
}

/**
 * What it costs to make a chain or a set, in bytes of ops. The kernel walks the names of all sets
 * when it makes one, and for each rule that uses it: with 10,000 sets half a millisecond.
 */
const chainBytes = 512;
const setBytes = 4096;

const known = new WeakMap<NamedObject, SharedContent>();

export function sharedContent(object: NamedObject): SharedContent {
  let shared = known.get(object);
  if (shared === undefined) {
    const bytes = isNamedSet(object)
      ? setBytes + (object.elements?.entries.length ?? 0)
      : chainBytes;
    shared = { id: idOf(object), isShared: true, object, laterRank: rankOf(object), bytes };
    known.set(object, shared);
  }
  return shared;
}

/**
 * A chain that is always there. Its rules may change with the environment. `isHook`: see
 * `SharedObject`.
 */
export function fixedChain(object: ChainDefinition, isHook = false): SharedContent {
  const content = object.rules.map((rule) => binary(compileRule(rule))).join('\n');
  return { id: idOf(object), isShared: true, isHook, object, content, bytes: chainBytes };
}

/** All that a set of ranges holds, which is always there. */
export function fixedRanges(definition: SetDefinition, cidrs: readonly CIDR[]): SharedContent {
  const elements = packedRanges(definition, rangesOf(cidrs));
  const object = { definition, elements };
  const content = binary(elements.entries);
  const bytes = elements.entries.length;
  return { id: idOf(object), isShared: true, object, content, bytes };
}
