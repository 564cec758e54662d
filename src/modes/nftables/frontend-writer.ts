/** Writes the difference of one frontend as changes of elements. */
import type { ElementBuffers } from '../../kernel/nft/element-buffer.ts';
import { printComment, printVerdict } from '../../kernel/nft/print-verdict.ts';
import { type EndpointList, endpointBytes } from '../../net/endpoint-list.ts';
import type { Counts, Difference } from '../backend.ts';
import type { EarlyTransaction } from '../nft-table/early-transaction.ts';
import {
  commentOf,
  elementOf,
  type FrontendElements,
  type Location,
  type Verdict,
  type VerdictPart,
  verdictKinds,
  verdictParts,
} from './frontends.ts';
import type { SetName } from './layout.ts';
import { type NFTablesObjects, ObservedFrontend, ObservedPool } from './observed.ts';

type Before = FrontendElements | ObservedFrontend | undefined;

/** What takes the changes. */
interface Changes {
  readonly buffers: ElementBuffers<SetName>;
  readonly early: EarlyTransaction<SetName>;
  readonly late: ElementBuffers<SetName>;
}

export class FrontendWriter {
  readonly #changes: Changes;
  readonly #owner: string;
  /** Undefined: what differs is not counted. */
  readonly #drift: Counts | undefined;

  constructor(changes: Changes, owner: string, drift: Counts | undefined) {
    this.#changes = changes;
    this.#owner = owner;
    this.#drift = drift;
  }

  static write(changes: Changes, difference: Difference<NFTablesObjects>): void {
    const { before, after, owner } = difference;
    const location = after ?? (before instanceof ObservedFrontend ? before.location : before);
    if (location === undefined) return;
    // A frontend without any element left counts as one fault.
    const isMissing = difference.from === 'kernel' && before === undefined;
    if (isMissing) difference.drift.missing += 1;
    const drift = difference.from === 'kernel' && !isMissing ? difference.drift : undefined;
    const writer = new FrontendWriter(changes, owner, drift);
    writer.#write(location, before, after);
  }

  #write(location: Location, before: Before, after: FrontendElements | undefined): void {
    const { endpoints, localEndpoints } = location.maps;
    this.#pool(endpoints, location, before?.endpoints, after?.endpoints);
    const isServed = after !== undefined && after.refusal === undefined;
    this.#pool(localEndpoints, location, before?.local, after?.local, isServed);
    for (const part of verdictParts) this.#verdict(location, part, before, after);
    this.#counter(location, before?.isCounted === true, after?.isCounted === true);
  }

  #pool(
    set: SetName,
    { key }: Location,
    before: EndpointList | ObservedPool | undefined,
    after: EndpointList | undefined,
    isServed = false,
  ): void {
    const oldLength = before?.length ?? 0;
    const newLength = after?.length ?? 0;
    for (const i of before === undefined || after === undefined ? [] : changed(before, after)) {
      if (i >= oldLength) break;
      this.#to('delete', set).keyIndex(key, i);
      this.#endpoints(set, key, i, i + 1, after!);
      this.#drifted('wrong');
    }
    if (newLength > oldLength) {
      this.#endpoints(set, key, oldLength, newLength, after!);
      this.#drifted('missing', newLength - oldLength);
    }
    // A packet may be about to draw from a pool in whose place clients get another.
    const { buffers, late } = this.#changes;
    const shrinking = isServed && newLength === 0 ? late : buffers;
    for (let i = newLength; i < oldLength; i += 1) {
      shrinking.to('delete', set, this.#owner).keyIndex(key, i);
      this.#drifted('unwanted');
    }
    if (!(before instanceof ObservedPool)) return;
    for (const index of before.stray) {
      this.#to('delete', set).keyIndex(key, index);
      this.#drifted('unwanted');
    }
  }

  #endpoints(set: SetName, key: string, from: number, to: number, list: EndpointList): void {
    this.#to('add', set).endpoints(key, from, to, list, endpointBytes[list.family]);
  }

  #verdict(
    location: Location,
    part: VerdictPart,
    before: Before,
    after: FrontendElements | undefined,
  ): void {
    const verdict = after && verdictKinds[part].of(after);
    // Words are compared only where both have a verdict: most frontends are new.
    if (before === undefined && verdict === undefined) return;
    const words = before === undefined ? '' : wordsOf(after, part);
    const existing = wordsOf(before, part);
    if (existing === words) return;
    if (existing !== undefined) {
      const { set, key } = elementOf(location, part);
      this.#to('delete', set).key(key);
    }
    if (verdict !== undefined) {
      // Otherwise a packet that has passed the check before it was there would be translated.
      if (part === 'firewall' && existing === undefined) this.#addEarly(after!, part, verdict);
      else this.#add(after!, part, verdict, this.#changes.buffers);
    }
    this.#drifted(existing === undefined ? 'missing' : words === undefined ? 'unwanted' : 'wrong');
  }

  #addEarly(after: FrontendElements, part: VerdictPart, verdict: Verdict): void {
    this.#changes.early.add(({ buffers }) => this.#add(after, part, verdict, buffers));
  }

  #add(
    after: FrontendElements,
    part: VerdictPart,
    { chain, code }: Verdict,
    buffers: ElementBuffers<SetName>,
  ): void {
    const { set, key } = elementOf(after, part);
    buffers.to('add', set, this.#owner).verdict(key, code, chain, commentOf(after, part));
  }

  /** Keeps the element as long as the frontend exists, so that it continues to count. */
  #counter({ maps, key }: Location, exists: boolean, isDesired: boolean): void {
    if (exists === isDesired) return;
    this.#to(isDesired ? 'add' : 'delete', maps.counts).key(key);
    this.#drifted(isDesired ? 'missing' : 'unwanted');
  }

  #drifted(how: keyof Counts, count = 1): void {
    if (this.#drift !== undefined) this.#drift[how] += count;
  }

  #to(purpose: 'add' | 'delete', set: SetName) {
    return this.#changes.buffers.to(purpose, set, this.#owner);
  }
}

/** The indexes of `after` at which `before` has another endpoint, or none, ascending. */
function changed(before: EndpointList | ObservedPool, after: EndpointList): readonly number[] {
  if (!(before instanceof ObservedPool)) return after.changedAt(before);
  const indexes = Array.from({ length: Math.min(before.length, after.length) }, (_, i) => i);
  return indexes.filter((i) => !before.agrees(i, after));
}

/** The verdict and the element's comment in nft's words; undefined = none. */
function wordsOf(before: Before, part: VerdictPart): string | undefined {
  if (before === undefined || before instanceof ObservedFrontend) return before?.verdicts[part];
  const verdict = verdictKinds[part].of(before);
  if (verdict === undefined) return undefined;
  return `${printVerdict(verdict.code, verdict.chain)}${printComment(commentOf(before, part))}`;
}
