/**
 * Whether endpoints of other nodes answer this node (setting `healthzNetwork`). Only those count
 * that have answered before: policies may keep nodes out of pods.
 */
import { type ReachTarget, reach } from '../host/reach.ts';
import { type CIDR, cidrContains, formatAddress } from '../net/address.ts';
import type { ClusterState } from '../state/store.ts';
import { addressAt, Condition, type EndpointSlice, latin1At, namespaceOf } from '../state/types.ts';
import { type Clock, pause } from '../time/clock.ts';
import type { Logger } from './log.ts';

interface Options {
  readonly clock: Clock;
  readonly state: Pick<ClusterState, 'serviceKeys' | 'slice' | 'slices'>;
  /** `clusterCIDR`: where pods are; what else answers says nothing of their network. */
  readonly config: { readonly clusterCIDR: readonly CIDR[] };
  readonly health: { isCutOff: boolean };
  readonly http: { changed(): void };
  readonly log: Pick<Logger, 'info' | 'warn'>;
  /** Default: of this process. */
  readonly connect?: typeof reach;
}

/** An endpoint on another node. */
interface Witness extends ReachTarget {
  /** Key of its EndpointSlice. */
  readonly slice: string;
  readonly node: string;
  /** Its address as in the slice. */
  readonly bytes: string;
}

const periodMs = 10_000;
const timeoutMs = 2000;
/** One node may have gone. */
const witnessesLeast = 2;
const witnessesMost = 16;
/** Others that are tried in a round. */
const othersMost = 4;
const silentRoundsLeast = 3;

export class NetworkHealth {
  readonly #options: Options;
  /** Each of another namespace, so that no tenant decides, and on another node. */
  #witnesses: readonly Witness[] = [];
  #silentRounds = 0;

  constructor(options: Options) {
    this.#options = options;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock, health, http, log } = this.#options;
    while (!signal.aborted) {
      await this.#round();
      const isCutOff = this.#silentRounds >= silentRoundsLeast;
      if (isCutOff !== health.isCutOff) {
        if (isCutOff) log.warn('No endpoint of another node answers');
        else log.info('Endpoints of other nodes answer again');
        health.isCutOff = isCutOff;
        http.changed();
      }
      await pause(periodMs, signal, clock);
    }
  }

  async #round(): Promise<void> {
    const { clock, connect = reach, state } = this.#options;
    const some = <T>(all: readonly T[]) => all[Math.floor(clock.random() * all.length)];
    const known = this.#witnesses.filter(({ bytes, slice }) => {
      const now = state.slice(slice);
      return elsewhere(now).some((i) => latin1At(now!, i) === bytes);
    });
    const services = [...state.serviceKeys()];
    const others = Array.from({ length: othersMost }).flatMap(() => {
      return this.#witnessIn(some(state.slices(some(services) ?? ''))) ?? [];
    });
    const tried = [...known, ...others];
    const isAnswered = async (one: Witness): Promise<boolean> => {
      const answer = (await connect('TCP', one, timeoutMs))?.answer;
      return answer === 'connected' || answer === 'refused';
    };
    const answered = await Promise.all(tried.map(isAnswered));
    const witnesses = [...known];
    for (const one of tried.filter((_, i) => answered[i])) {
      const isOther = ({ node, slice }: Witness): boolean =>
        node !== one.node && namespaceOf(slice) !== namespaceOf(one.slice);
      if (witnesses.length < witnessesMost && witnesses.every(isOther)) witnesses.push(one);
    }
    this.#witnesses = witnesses;
    if (answered.includes(true)) this.#silentRounds = 0;
    else if (known.length >= witnessesLeast) this.#silentRounds += 1;
  }

  /** The first pod from a random endpoint on: a slice may have thousands. */
  #witnessIn(slice: EndpointSlice | undefined): Witness | undefined {
    const { clock, config } = this.#options;
    const all = elsewhere(slice);
    const first = Math.floor(clock.random() * all.length);
    for (const i of [...all.slice(first), ...all.slice(0, first)]) {
      const at = addressAt(slice!, i);
      const isPod = (one: CIDR): boolean => cidrContains(one, at);
      if (config.clusterCIDR.length > 0 && !config.clusterCIDR.some(isPod)) continue;
      const { family, key, places } = slice!;
      const to = { family, address: formatAddress(at.bytes), port: portOf(slice!)! };
      return { ...to, slice: key, node: places![i]!.node, bytes: latin1At(slice!, i) };
    }
    return undefined;
  }
}

/** Endpoints of the slice that are ready on other nodes. */
function elsewhere(slice: EndpointSlice | undefined): number[] {
  if (slice?.places === undefined || portOf(slice) === undefined) return [];
  const { conditions, places } = slice;
  return Array.from(places.keys()).filter((i) => {
    const where = conditions.charCodeAt(i) & (Condition.ready | Condition.local);
    return where === Condition.ready && places[i]!.node !== '';
  });
}

function portOf({ ports }: EndpointSlice): number | undefined {
  return ports.filter(({ protocol }) => protocol === 'TCP')[0]?.port;
}
