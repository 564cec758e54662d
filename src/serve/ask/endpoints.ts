/**
 * The endpoints of a Service port, with their conditions in EndpointSlices and the pools that use
 * them.
 */
import type { ServiceAnswer } from '../../ask/service.ts';
import { addressBytes, formatAddress } from '../../net/address.ts';
import { type EndpointKey, type EndpointList, endpointBytes } from '../../net/endpoint-list.ts';
import { EndpointFlag } from '../../state/candidates.ts';
import { type Choices, choose, whyNot } from '../../state/categorise.ts';
import { slotCounts } from '../../state/deal.ts';
import type { Seen } from '../../state/resolve.ts';
import { type EndpointSlice, latin1At } from '../../state/types.ts';
import type { Pacer } from '../../time/pacer.ts';

type Shown = ServiceAnswer['ports'][number]['endpoints'][number];

interface Row {
  readonly slice: EndpointSlice;
  readonly index: number;
}

const pools = ['cluster', 'local'] as const;

export class EndpointsSaid {
  /** Rows by address: a string with one character for each byte. */
  readonly #rows = new Map<string, Row>();
  /** Names of pods by address in text. */
  readonly #pods: ReadonlyMap<string, string>;

  private constructor(pods: ReadonlyMap<string, string>) {
    this.#pods = pods;
  }

  static async read(
    slices: readonly EndpointSlice[],
    pods: ReadonlyMap<string, string>,
    pacer: Pacer,
  ): Promise<EndpointsSaid> {
    const said = new EndpointsSaid(pods);
    for (const slice of slices) {
      for (let index = 0; index < slice.length; index += 1) {
        said.#rows.set(latin1At(slice, index), { slice, index });
        if (pacer.due) await pacer.rest();
      }
    }
    return said;
  }

  /** The first `most` endpoints of a port. */
  async of(seen: Seen, most: number, pacer: Pacer): Promise<Shown[]> {
    const shown: Shown[] = [];
    const { endpoints, flags } = seen.candidates;
    const choices = choose(flags, seen.policy);
    const shares = sharesOf(seen.forwarding);
    const inUse = pools.filter((pool) => choices[pool] !== undefined).length;
    for (let i = 0; i < flags.length && shown.length < most; i += 1) {
      if (pacer.due) await pacer.rest();
      const flag = flags[i]!;
      const place = this.#saidOf(endpoints, i, flag);
      const usedBy = pools.filter((pool) => choices[pool]?.takes(flag));
      const address = formatAddress(endpoints.address(i));
      const pod = this.#pods.get(address);
      shown.push({
        address,
        port: endpoints.port(i),
        ...(pod === undefined ? {} : { pod }),
        ...conditions(flag),
        ...place,
        usedBy,
        ...(shares && { shares: usedBy.map((pool) => shares[pool](endpoints.key(i))) }),
        ...(usedBy.length === inUse
          ? {}
          : { because: because(flag, choices, place.node === undefined) }),
      });
    }
    return shown;
  }

  #saidOf(endpoints: EndpointList, index: number, flag: number): Partial<Shown> {
    const at = index * endpointBytes[endpoints.family];
    const place = this.#rows.get(endpoints.latin1.slice(at, at + addressBytes[endpoints.family]));
    const where = place?.slice.places?.[place.index];
    const zones = place?.slice.zoneHints?.at(place.index) ?? [];
    const isHere = (flag & EndpointFlag.nodeHintedHere) !== 0;
    return {
      ...(where?.node ? { node: where.node } : {}),
      ...(where?.zone ? { zone: where.zone } : {}),
      ...(zones.length > 0 ? { zoneHints: zones } : {}),
      ...((flag & EndpointFlag.nodeHinted) !== 0
        ? { nodeHints: isHere ? ('this node' as const) : ('other nodes' as const) }
        : {}),
    };
  }
}

/** The part of new connections that an endpoint gets, by pool; undefined: all get the same. */
function sharesOf({ deal }: Seen['forwarding']) {
  if (deal === undefined) return undefined;
  const [cluster, local] = pools.map((pool) => {
    const slots = deal[pool];
    const counts = slotCounts(slots);
    return (key: EndpointKey): number => {
      return Math.round((1e4 * (counts.get(key) ?? 0)) / Math.max(1, slots.length)) / 1e4;
    };
  });
  return { cluster: cluster!, local: local! };
}

function conditions(flag: number) {
  return {
    ready: (flag & EndpointFlag.ready) !== 0,
    serving: (flag & EndpointFlag.serving) !== 0,
    terminating: (flag & EndpointFlag.terminating) !== 0,
    local: (flag & EndpointFlag.local) !== 0,
  };
}

/** Why it is missing in pools: by pool, or a single reason if all pools in use have the same. */
function because(flag: number, choices: Choices, isNodeless: boolean): string {
  const inUse = pools.flatMap((pool) => {
    const choice = choices[pool];
    return choice === undefined ? [] : [{ pool, reason: whyNot(flag, choice, pool, isNodeless) }];
  });
  const why = inUse.filter(({ reason }) => reason !== undefined);
  const reasons = new Set(why.map(({ reason }) => reason));
  const [only] = reasons;
  if (only !== undefined && reasons.size === 1 && why.length === inUse.length) return only;
  return why.map(({ pool, reason }) => `${pool}: ${reason}`).join('; ');
}
