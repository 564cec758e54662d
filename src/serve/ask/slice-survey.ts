/**
 * What EndpointSlices say that cannot be true together. All of them are compared when answers and
 * metrics ask, seldom enough that it takes no more than a five-thousandth of a core; never for a
 * packet or a change.
 */
import { counted } from '../../ask/words.ts';
import type { Config } from '../../config/config.ts';
import { type Finding, warning } from '../../host/finding.ts';
import { addressBytes, type CIDR, cidrContains, formatAddress } from '../../net/address.ts';
import { madeAt } from '../../net/made-at.ts';
import type { ClusterState, ServiceFollower } from '../../state/store.ts';
import {
  addressAt,
  Condition,
  type EndpointSlice,
  latin1At,
  namespaceOf,
  podBytes,
} from '../../state/types.ts';
import type { Clock } from '../../time/clock.ts';
import { inTurns } from '../../time/pacer.ts';
import { answerPacer, type Refresh, refreshing } from './answer-pacer.ts';
import { podBlocks } from './pod-blocks.ts';
import type { Problem } from './problem.ts';

interface Known {
  readonly clock: Pick<Clock, 'now' | 'turn'>;
  readonly config: Pick<Config, 'clusterCIDR'>;
  readonly state: Pick<ClusterState, 'node' | 'serviceKeys' | 'slices'>;
  /** Called when other endpoints of a Service than before share their address. */
  readonly problemIndex: ServiceFollower;
}

/** How long a survey serves, and the shortest pause after it, in multiples of its duration. */
const kept = { keepMs: 10_000, restFactor: 5000 } as const;
/** The most endpoints that are compared with each other in one pass, for memory. */
const comparedMax = 1 << 14;
/** The most endpoints of a Service that are named; that are kept from one survey to the next. */
const namedMax = 3;
const keptMax = 64;

interface At {
  readonly slice: EndpointSlice;
  readonly index: number;
}

/** What is said of endpoints, by Service (`namespace/name`). */
type Shared = ReadonlyMap<string, ReadonlyMap<string, () => string>>;

export class SliceSurvey {
  readonly #known: Known;
  readonly refresh: Refresh;
  /** A survey finds suspects; those of two in a row are certain: controllers take their time. */
  #suspects: Shared = new Map();
  #certain: Shared = new Map();
  #findings: readonly Finding[] = [];

  constructor(known: Known) {
    this.#known = known;
    this.refresh = refreshing(known, kept, () => this.#survey());
  }

  /** What does not fit between EndpointSlices and the Node; see `refresh`. */
  get findings(): readonly Finding[] {
    return this.#findings;
  }

  problems(service: string): Problem[] {
    const texts = [...(this.#certain.get(service)?.values() ?? [])];
    return texts.slice(0, namedMax).map((text) => ({ reason: 'shared_address', text }));
  }

  async #survey(): Promise<void> {
    const { problemIndex, state } = this.#known;
    const zones = new ZoneCheck(state.node?.zone);
    const suspects = await this.#compared(zones);
    const certain = Array.from(suspects, ([service, own]) => {
      const last = this.#suspects.get(service);
      return [service, new Map([...own].filter(([address]) => last?.has(address)))] as const;
    });
    const before = this.#certain;
    this.#suspects = suspects;
    this.#certain = new Map(certain.filter(([, own]) => own.size > 0));
    this.#findings = zones.findings();
    for (const service of new Set([...before.keys(), ...this.#certain.keys()])) {
      const [old, now] = [before, this.#certain].map((all) => [
        ...(all.get(service)?.keys() ?? []),
      ]);
      if (old!.join() !== now!.join()) problemIndex.resolved(service);
    }
  }

  /** Endpoints with the address of another pod. */
  async #compared(zones: ZoneCheck): Promise<Shared> {
    const { config, state } = this.#known;
    const pacer = answerPacer(this.#known);
    const blocks = podBlocks(config, state.node);
    const found = new Map<string, Map<string, () => string>>();
    let count = 0;
    await inTurns(state.serviceKeys(), pacer.pause, (key) => {
      for (const { length } of state.slices(key)) count += length;
    });
    const passes = Math.ceil(count / comparedMax);
    for (let pass = 0; pass < passes; pass += 1) {
      const firsts = new Map<string, At>();
      for (const key of state.serviceKeys()) {
        for (const slice of state.slices(key)) {
          if (pacer.due) await pacer.rest();
          if (pass === 0) zones.look(slice);
          for (const at of comparable(slice, (last) => last % passes === pass)) {
            const address = latin1At(slice, at.index);
            const first = firsts.get(address);
            if (first === undefined) firsts.set(address, at);
            else if (areTwoPods(first, at, blocks)) note(found, address, [first.slice, slice]);
          }
        }
      }
    }
    return found;
  }
}

/** Endpoints that name their pod and do not end, where the last byte of their address fits. */
function* comparable(slice: EndpointSlice, fits: (last: number) => boolean): Generator<At> {
  const { addresses, conditions, family, length, pods } = slice;
  if (pods === undefined) return;
  const size = addressBytes[family];
  for (let index = 0; index < length; index += 1) {
    if (!fits(addresses.charCodeAt((index + 1) * size - 1))) continue;
    const isEnding = (conditions.charCodeAt(index) & Condition.terminating) !== 0;
    if (!isEnding && podAt(slice, index) !== undefined) yield { slice, index };
  }
}

/** What stands for the pod of endpoint `i`; undefined: none is named. */
function podAt({ pods }: EndpointSlice, i: number): string | undefined {
  const pod = pods?.slice(i * podBytes, (i + 1) * podBytes);
  return pod === '\0\0\0\0' ? undefined : pod;
}

/**
 * Whether these endpoints, which have one address, are two pods that cannot both have it. Pods in
 * the network of their node share its address, and each has ports of its own.
 */
function areTwoPods(a: At, b: At, blocks: readonly CIDR[]): boolean {
  const areOne =
    podAt(a.slice, a.index) === podAt(b.slice, b.index) &&
    namespaceOf(a.slice.key) === namespaceOf(b.slice.key);
  if (areOne) return false;
  const address = addressAt(a.slice, a.index);
  if (blocks.some((block) => cidrContains(block, address))) return true;
  return a.slice.ports.some(({ port, protocol }) =>
    b.slice.ports.some((one) => one.port === port && one.protocol === protocol),
  );
}

function note(found: Map<string, Map<string, () => string>>, latin1: string, slices: Two): void {
  for (const [one, other] of [slices, slices.toReversed()] as readonly Two[]) {
    const own = madeAt(found, one.service, () => new Map<string, () => string>());
    if (own.size === keptMax) continue;
    const text = () => {
      const address = formatAddress(Buffer.from(latin1, 'latin1'));
      return (
        `Endpoint ${address} is one pod in EndpointSlice ${one.key}, and another in ${other.key} of ` +
        `${other.service}: one of them is out of date. The pod that has the address is named by ` +
        `kubectl get pods -A --field-selector status.podIP=${address}.`
      );
    };
    own.set(latin1, text);
  }
}

type Two = readonly [EndpointSlice, EndpointSlice];

/** Compares the zone of the Node with what EndpointSlices say. */
class ZoneCheck {
  readonly #zone: string | undefined;
  #hinted = 0;
  #elsewhere = 0;
  #other = '';

  /** Undefined: the Node is not known. Empty: it has none. */
  constructor(zone: string | undefined) {
    this.#zone = zone;
  }

  look({ conditions, length, places, zoneHints }: EndpointSlice): void {
    if (zoneHints !== undefined) this.#hinted += 1;
    for (let i = 0; i < length && places !== undefined; i += 1) {
      if ((conditions.charCodeAt(i) & Condition.local) === 0) continue;
      const { zone } = places[i]!;
      if (zone === '' || zone === this.#zone) continue;
      this.#elsewhere += 1;
      this.#other = zone;
    }
  }

  findings(): Finding[] {
    const [zone, hinted, elsewhere] = [this.#zone, this.#hinted, this.#elsewhere];
    const slices = counted(hinted, 'EndpointSlice');
    const of = counted(elsewhere, 'endpoint');
    const [count, text] =
      zone === ''
        ? [hinted, `the Node has none, and ${slices} with hints for zones: they are ignored here`]
        : [elsewhere, `is ${zone}, and EndpointSlices say ${this.#other} for ${of} of this node`];
    return zone === undefined || count === 0 ? [] : [warning(label, text, '')];
  }
}

const label = 'label topology.kubernetes.io/zone';
