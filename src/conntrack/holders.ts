/** Who fills the table of connection tracking. */
import type { Conntrack } from '../kernel/conntrack.ts';
import type { ConntrackEntries } from '../kernel/conntrack-entries.ts';
import { orElse } from '../kernel/errors.ts';
import { Address } from '../net/address.ts';
import { type Protocol, protocols } from '../net/protocol.ts';
import {
  type ProgrammedFamily,
  ServicesByFrontend,
  type Whom,
} from '../state/services-by-frontend.ts';
import type { Clock } from '../time/clock.ts';
import { inTurns, Pacer } from '../time/pacer.ts';

interface HoldersOptions {
  readonly conntrack: Conntrack;
  readonly agent: { readonly families: readonly ProgrammedFamily[] };
  readonly clock: Clock;
}

/** A Service port and the entries of its connections. */
interface ConntrackHolder extends Whom {
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

/** How long entries are looked at without a pause. */
const sliceMs = 2;

/** Reads the whole table, and names the `most` Service ports that have most of it. */
export async function topOfConntrack(
  options: HoldersOptions,
  most: number,
): Promise<ConntrackHolders> {
  const counts = new Map<Whom, number>();
  let [entries, others, complete] = [0, 0, true];
  for (const { family, inForce } of options.agent.families) {
    const { pause } = new Pacer(options.clock, sliceMs);
    const services = await ServicesByFrontend.from(family, inForce.values(), pause);
    for (const protocol of protocols) {
      const request = { family, protocol, state: 'any', zone: 0 } as const;
      // The kernel may not track the protocol.
      const dump = await orElse(options.conntrack.dump(request), undefined);
      if (dump === undefined) continue;
      complete &&= dump.complete;
      entries += dump.entries.length;
      await inTurns(Array(dump.entries.length).keys(), pause, (i) => {
        const whom = services.at(destinationOf(dump.entries, i, protocol));
        if (whom.service === '') others += 1;
        else counts.set(whom, (counts.get(whom) ?? 0) + 1);
      });
    }
  }
  const holders = [...counts]
    .map(([whom, held]) => ({ ...whom, entries: held }))
    .sort((a, b) => b.entries - a.entries)
    .slice(0, most);
  return { entries, others, services: holders, complete };
}

function destinationOf(entries: ConntrackEntries, index: number, protocol: Protocol) {
  const address = Address.from(entries.address(index, 'originalDestination'));
  const port = entries.port(index, 'originalDestination');
  return { address, port, protocol };
}
