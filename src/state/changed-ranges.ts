/** Finds the Services that a range of ports takes ports from, or gives them back. */
import type { AddressKey } from '../net/address.ts';
import { type Claim, type Claims, firstOf, isSameRange } from './claims.ts';
import type { ClaimKey } from './frontend-key.ts';
import { hasPort, type Ports } from './port-range.ts';

/** The number of claims that are judged in one step. */
const judgedAStep = 128;

/** The number of claims that are passed over in the time in which one is judged. */
const passedAJudged = 16;

const noServices: readonly string[] = [];
const nowhere = { address: undefined, port: 0 } as const;

type AllClaims = ReadonlyMap<ClaimKey, Claims | undefined>;
/** Which Services are to be set again for the frontend. */
type Judge = (key: ClaimKey) => readonly string[];

export class ChangedRanges {
  /** How often a range has changed. */
  count = 0;
  /** All ports of the ranges at each address that have changed since the last pass began. */
  #noted = new Map<AddressKey, Required<Ports>>();
  /** Goes through all claims. */
  #pass: Iterator<string | undefined> | undefined;
  #passes = 0;

  /** A claim to a frontend, or its owner, before and after a change. Notes those of ranges. */
  note(had: Claim | undefined, has: Claim | undefined): void {
    if ((had ?? has)?.frontend.lastPort === undefined) return;
    if (had !== undefined && has !== undefined && isSameRange(had, has)) return;
    this.count += 1;
    for (const { frontend } of [had, has].flatMap((one) => one ?? [])) {
      const { key } = frontend.address!;
      const { lastPort = 0, port = frontend.port } = this.#noted.get(key) ?? {};
      this.#noted.set(key, {
        port: Math.min(port, frontend.port),
        lastPort: Math.max(lastPort, frontend.lastPort!),
      });
    }
  }

  /**
   * Looks for them in steps, each of which is undefined. Callers that come at the same time share
   * passes, so that many ranges take little longer than one.
   */
  *affected(claims: AllClaims, judge: Judge): Generator<string | undefined> {
    // A pass that has begun knows nothing of what was noted since.
    const last = this.#passes + (this.#pass === undefined ? 1 : 2);
    while (this.#passes < last) {
      this.#pass ??= this.#look(claims, judge);
      const { done, value } = this.#pass.next();
      if (!done) yield value;
      else {
        this.#pass = undefined;
        this.#passes += 1;
      }
    }
  }

  *#look(all: AllClaims, judge: Judge): Generator<string | undefined> {
    const noted = this.#noted;
    if (noted.size === 0) return;
    this.#noted = new Map();
    let left = judgedAStep;
    let last: string | undefined;
    for (const [key, claims] of all) {
      const { address, port } = claims === undefined ? nowhere : firstOf(claims).frontend;
      const ports = address && noted.get(address.key);
      const isWithin = ports !== undefined && hasPort(ports, port);
      for (const one of isWithin ? judge(key) : noServices) {
        if (one !== last) yield one;
        last = one;
      }
      left -= isWithin ? 1 : 1 / passedAJudged;
      if (left > 0) continue;
      left = judgedAStep;
      yield undefined;
    }
  }
}
