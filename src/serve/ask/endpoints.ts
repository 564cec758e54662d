/**
 * The endpoints of a Service port, with their conditions in EndpointSlices and the pools that use
 * them.
 */
import type { ServiceAnswer } from '../../ask/service.ts';
import { addressBytes, formatAddress } from '../../net/address.ts';
import type { EndpointKey } from '../../net/endpoint-list.ts';
import { EndpointFlag } from '../../state/candidates.ts';
import { choose, whyNot } from '../../state/categorise.ts';
import type { Seen } from '../../state/resolve.ts';
import type { EndpointSlice } from '../../state/types.ts';
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
      const stride = addressBytes[slice.family];
      for (let index = 0; index < slice.length; index += 1) {
        const at = index * stride;
        said.#rows.set(slice.addresses.slice(at, at + stride), { slice, index });
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
    for (let i = 0; i < flags.length && shown.length < most; i += 1) {
      if (pacer.due) await pacer.rest();
      const flag = flags[i]!;
      const place = this.#saidOf(endpoints.address(i), flag);
      const inUse = pools.flatMap((pool) => choices[pool] ?? []);
      const usedBy = pools.filter((pool) => choices[pool]?.takes(flag));
      const why = pools.flatMap((pool) => {
        const choice = choices[pool];
        const reason = choice && whyNot(flag, choice, pool, place.node === undefined);
        return reason === undefined ? [] : [{ pool, reason }];
      });
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
        ...(usedBy.length === inUse.length ? {} : { because: because(why, inUse.length) }),
      });
    }
    return shown;
  }

  #saidOf(address: Uint8Array, flag: number): Partial<Shown> {
    const place = this.#rows.get(Buffer.from(address).toString('latin1'));
    const where = place?.slice.places?.[place.index];
    const zones = place?.slice.zoneHints?.[place.index] ?? [];
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
    const counts = new Map<EndpointKey, number>();
    for (let i = 0; i < slots.length; i += 1) {
      counts.set(slots.key(i), (counts.get(slots.key(i)) ?? 0) + 1);
    }
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

/** The reasons by pool, or a single one if all pools in use have the same. */
function because(
  why: readonly { readonly pool: string; readonly reason: string }[],
  poolsInUse: number,
): string | undefined {
  const reasons = [...new Set(why.map(({ reason }) => reason))];
  if (reasons.length === 1 && why.length === poolsInUse) return reasons[0];
  return why.map(({ pool, reason }) => `${pool}: ${reason}`).join('; ');
}
