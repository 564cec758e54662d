/** Who fills the table of connection tracking. */
import type { Conntrack } from '../kernel/conntrack.ts';
import { orElse } from '../kernel/errors.ts';
import { protocols } from '../net/protocol.ts';
import { nodePortKey } from '../state/frontend-key.ts';
import {
  type FrontendsByFamily,
  rangeOf,
  type ServedPort,
  servedPortOf,
} from '../state/frontends-in-force.ts';
import type { Forwarding } from '../state/types.ts';
import type { Clock } from '../time/clock.ts';
import { inTurns, Pacer } from '../time/pacer.ts';

interface HoldersOptions {
  readonly conntrack: Conntrack;
  readonly agent: { readonly engine: { readonly frontends: FrontendsByFamily } | undefined };
  readonly clock: Clock;
}

/** A Service port and the entries of its connections. */
interface ConntrackHolder extends ServedPort {
  readonly entries: number;
}

export interface ConntrackHolders {
  /** Entries that were looked at: of TCP, UDP and SCTP, in the default zone. */
  readonly entries: number;
  /** Those of them whose client connected to no Service. */
  readonly others: number;
  /** Who has most, first. */
  readonly services: readonly ConntrackHolder[];
  /** False if entries changed during the dump, so that some may be missing. */
  readonly complete: boolean;
}

/** Reads the whole table, and names the `most` Service ports that have most of it. */
export async function topOfConntrack(
  options: HoldersOptions,
  most: number,
): Promise<ConntrackHolders> {
  const holders: ConntrackHolder[] = [];
  let [entries, others, complete] = [0, 0, true];
  const { pause } = new Pacer(options.clock);
  for (const inForce of Object.values(options.agent.engine?.frontends ?? {})) {
    const { family } = inForce;
    for (const protocol of protocols) {
      const request = { family, protocol, state: 'any', zone: 0 } as const;
      // The kernel may not track the protocol.
      const dump = await orElse(options.conntrack.dump(request), undefined);
      if (dump === undefined) continue;
      complete &&= dump.complete;
      entries += dump.entries.length;
      const held = inForce.of(protocol);
      const counts = new Map<string, { readonly of: Forwarding; entries: number }>();
      await inTurns(Array(dump.entries.length).keys(), pause, (i) => {
        const port = dump.entries.port(i, 'originalDestination');
        const key = dump.entries.key(i, 'originalDestination');
        const of = held.get(key) ?? rangeOf(held, key, port) ?? held.get(nodePortKey(port));
        const count = of && counts.get(of.key);
        if (of === undefined) others += 1;
        else if (count === undefined) counts.set(of.key, { of, entries: 1 });
        else count.entries += 1;
      });
      for (const one of counts.values())
        holders.push({ ...servedPortOf(one.of), entries: one.entries });
    }
  }
  const services = holders.sort((a, b) => b.entries - a.entries).slice(0, most);
  return { entries, others, services, complete };
}
