/** Writes the element changes that take one frontend from one state to another. */
import type { Family } from '../../net/address.ts';
import { type EndpointList, endpointBytes } from '../../net/endpoint-list.ts';
import type { FrontendChange } from '../changes.ts';
import { type Deferred, poolMaps } from './deferred.ts';
import { type FrontendElements, learnOf, recallOf, verdictOf } from './frontends.ts';
import { type Lanes, verdictOfMap, writeRefusal } from './lanes.ts';
import type { SetName } from './layout.ts';
import { learnElement } from './places.ts';

export class FrontendWriter {
  readonly #lanes: Lanes;
  readonly #deferred: Deferred;
  readonly #stride: number;

  constructor(family: Family, lanes: Lanes, deferred: Deferred) {
    this.#lanes = lanes;
    this.#deferred = deferred;
    this.#stride = endpointBytes[family];
  }

  write({ owner, before, after }: FrontendChange<FrontendElements>): void {
    const frontend = after ?? before;
    if (frontend === undefined) return;
    for (const { set, pool } of poolMaps(frontend.place)) {
      this.#pool(owner, set, frontend, before?.[pool], after?.[pool]);
    }
    const { place, key } = frontend;
    const [verdicts, sticky] = [place.verdicts, place.sticky].map((set) => ({ set, key }));
    this.#verdict(owner, verdicts!, verdictOf(before), verdictOf(after));
    this.#verdict(owner, sticky!, recallOf(before), recallOf(after));
    this.#verdict(owner, learnElement(place, key), learnOf(before), learnOf(after));
    this.#refusal(owner, frontend, before?.refusal, after?.refusal);
    const firewalls = [before?.firewall?.chain, after?.firewall?.chain] as const;
    this.#verdict(owner, { set: 'firewall-ips', key }, ...firewalls);
  }

  #pool(
    owner: string,
    set: SetName,
    { id, key }: FrontendElements,
    before: EndpointList | undefined,
    after: EndpointList | undefined,
  ): void {
    const oldLength = before?.length ?? 0;
    const newLength = after?.length ?? 0;
    const list = after as EndpointList;
    for (let i = 0; i < Math.min(oldLength, newLength); i += 1) {
      if (list.sameAt(i, before as EndpointList, i)) continue;
      this.#lanes.to('delete', set, owner).keyIndex(key, i);
      this.#lanes.to('add', set, owner).endpoints(key, i, i + 1, list, this.#stride);
    }
    if (newLength > oldLength) {
      for (const i of this.#deferred.revive(set, id, newLength)) {
        this.#lanes.to('delete', set, owner).keyIndex(key, i);
      }
      this.#lanes.to('add', set, owner).endpoints(key, oldLength, newLength, list, this.#stride);
    }
    if (newLength < oldLength) this.#deferred.retire(set, id, key, newLength, oldLength);
  }

  #verdict(
    owner: string,
    { set: map, key }: { readonly set: SetName; readonly key: Uint8Array },
    before: string | undefined,
    after: string | undefined,
  ): void {
    if (before === after) return;
    if (before !== undefined) this.#lanes.to('delete', map, owner).key(key);
    if (after === undefined) return;
    this.#lanes.to('add', map, owner).verdict(key, verdictOfMap(map), after);
  }

  #refusal(
    owner: string,
    { place, key }: FrontendElements,
    before: FrontendElements['refusal'],
    after: FrontendElements['refusal'],
  ): void {
    if (before === after) return;
    if (before !== undefined) this.#lanes.to('delete', place.noEndpoints, owner).key(key);
    if (after !== undefined) {
      writeRefusal(this.#lanes.to('add', place.noEndpoints, owner), key, after);
    }
  }
}
