/**
 * Programs of the node that listen at node ports of Services. They are looked for when answers and
 * metrics ask, not more often than every five seconds; never for a packet or a change.
 */
import type { NodePrograms, ProgramSocket } from '../../host/node-programs.ts';
import type { Environment } from '../../modes/mode.ts';
import { type Family, isLoopback } from '../../net/address.ts';
import type { ReadonlyOwners } from '../../state/frontend-owners.ts';
import type { ServiceFollower } from '../../state/store.ts';
import type { Clock } from '../../time/clock.ts';
import { type Refresh, refreshing, seldomKept } from './answer-pacer.ts';
import type { Problem } from './problem.ts';

interface Engine {
  readonly owners: ReadonlyOwners;
  setting(
    family: Family,
  ): { readonly environment: Pick<Environment, 'nodePortAddresses'> } | undefined;
}

interface Known {
  readonly clock: Pick<Clock, 'now'>;
  readonly engine: Engine | undefined;
  readonly options: { readonly programs?: Pick<NodePrograms, 'listening'> };
  /** Called when other node ports of a Service than before are taken. */
  readonly problemIndex: ServiceFollower;
}

export class TakenNodePorts {
  readonly #known: Known;
  /** By Service (`namespace/name`): `30080/TCP`. */
  #found: ReadonlyMap<string, ReadonlySet<string>> = new Map();
  readonly refresh: Refresh;

  constructor(known: Known) {
    this.#known = known;
    this.refresh = refreshing(known, seldomKept, () => this.#look());
  }

  problems(service: string): Problem[] {
    return Array.from(this.#found.get(service) ?? [], (port) => {
      const text = () =>
        `A program of this node listens at node port ${port}: its clients reach this Service instead (ss -lnp names it).`;
      return { reason: 'address_taken', text };
    });
  }

  #look(): void {
    const { engine, options, problemIndex } = this.#known;
    if (engine === undefined) return;
    const before = this.#found;
    const found = new Map<string, Set<string>>();
    for (const socket of options.programs?.listening() ?? []) {
      const { family, port, protocol } = socket;
      const service = engine.owners.ownerOf(family, protocol, { address: undefined, port });
      if (service === undefined || !isReached(engine, socket)) continue;
      found.set(service, (found.get(service) ?? new Set()).add(`${port}/${protocol}`));
    }
    this.#found = found;
    for (const service of new Set([...before.keys(), ...found.keys()])) {
      const [old, now] = [before, found].map((all) => [...(all.get(service) ?? [])].join());
      if (old !== now) problemIndex.resolved(service);
    }
  }
}

/** Whether node ports are open at an address of the socket. */
function isReached(engine: Engine, { address, family }: ProgramSocket): boolean {
  const open = engine.setting(family)?.environment.nodePortAddresses ?? [];
  if (address === undefined) return open.length > 0;
  if (isLoopback(address)) return false;
  return open === 'all' || open.some(({ key }) => key === address.key);
}
