/**
 * Mode ipvs for one family: virtual services, addresses, and a table that filters and masquerades.
 */
import type { Kernel } from '../../kernel/kernel.ts';
import type { Family } from '../../net/address.ts';
import type { Forwarding } from '../../state/types.ts';
import {
  type Backend,
  type Counts,
  type Fixed,
  type FixedRepair,
  type LateDeletions,
  noCounts,
  type Objects,
  type Tables,
} from '../backend.ts';
import { bytesOf } from '../elements.ts';
import {
  defaultIPVSSettings,
  type Environment,
  type IPVSSettings,
  type ModeConfig,
  type Pause,
} from '../mode.ts';
import type { TableLayout } from '../nft-table/layout.ts';
import { TableOwnership, tablesOf } from '../nft-table/ownership.ts';
import { refuseClient } from '../nft-table/refusals.ts';
import { addMissingSets, isUsable, recreateTable } from '../nft-table/repair.ts';
import { fixedChain, fixedRanges } from '../nft-table/shared.ts';
import { firewallPrefix } from '../nft-table/source-ranges.ts';
import { BatchWriter } from './batch-writer.ts';
import { chains } from './chains.ts';
import { describe } from './describe.ts';
import { Draining } from './draining.ts';
import { type IPVSShared, ipvsFrontends, sharedObjects } from './frontends.ts';
import type { IPVSObjects } from './held.ts';
import { type SetName, tableLayout } from './layout.ts';
import { type IPVSObservation, observe, observeServers } from './observation.ts';

interface IPVSTypes extends IPVSObjects {
  readonly found: IPVSObservation;
  readonly writer: BatchWriter;
}

/** Approximate bytes that one real server or element takes in a batch. */
const entryBytes = 64;

export class IPVSBackend implements Backend<IPVSTypes> {
  readonly family: Family;
  readonly tables: Tables<IPVSTypes>;
  readonly late: LateDeletions<BatchWriter>;
  readonly #draining = new Draining();
  readonly #config: ModeConfig;
  readonly #ipvs: IPVSSettings;
  readonly #layout: TableLayout<SetName>;
  readonly #ownership: TableOwnership;
  readonly #chains: readonly IPVSShared[];
  /** Virtual services of others at addresses that the operator leaves to them (`excludeCIDRs`). */
  #foreign: ReadonlySet<string> = new Set();

  constructor(config: ModeConfig) {
    this.family = config.family;
    this.#config = config;
    this.#ipvs = config.ipvs ?? defaultIPVSSettings;
    this.#layout = tableLayout(config.family, config.countsTraffic);
    this.#chains = chains(config).map(fixedChain);
    this.late = lateDeletions(config.family, this.#draining);
    this.#ownership = new TableOwnership(this.#layout, config.ownTables);
    this.tables = tablesOf(this.#ownership);
  }

  twin(): IPVSBackend {
    return new IPVSBackend(this.#config);
  }

  describe(forwarding: Forwarding, environment: Environment): readonly string[] {
    return describe(ipvsFrontends(forwarding, environment), this.#ipvs.scheduler);
  }

  objects(forwarding: Forwarding, environment: Environment): Objects<IPVSTypes> {
    const refuse = refuseClient(this.#config);
    const frontends = ipvsFrontends(forwarding, environment, refuse);
    const entries = frontends.reduce((sum, { pool, sets }) => sum + pool.length + sets.length, 0);
    const shared = sharedObjects(forwarding, frontends, environment);
    return { frontends, shared, bytes: entries * entryBytes };
  }

  ofEnvironment({ serviceCIDRs }: Environment): IPVSShared[] {
    const ranges = fixedRanges(this.#layout.sets['service-cidrs'], serviceCIDRs);
    return [...this.#chains, ranges];
  }

  writer(): BatchWriter {
    return new BatchWriter(this.#layout, {
      family: this.family,
      scheduler: this.#ipvs.scheduler,
      draining: this.#draining,
      isForeign: (id) => this.#foreign.has(id),
    });
  }

  async read(kernel: Kernel, pause: Pause): Promise<IPVSObservation> {
    const { excludeCIDRs: excluded } = this.#ipvs;
    const { countsTraffic = false } = this.#config;
    const found = await observe(kernel, this.family, { countsTraffic, excluded }, pause);
    const fixed = this.#chains.map((object) => ({ object }));
    found.intact = await isUsable(found.table, fixed, pause);
    return found;
  }

  async repairFixed(
    found: IPVSObservation,
    writer: BatchWriter,
    fixed: Fixed<IPVSTypes>,
    pause: Pause,
  ): Promise<FixedRepair<BatchWriter>> {
    this.#foreign = found.foreignServices();
    const drift = noCounts();
    const repair = { content: found.table, writer: writer.table, drift };
    const isAnew = !(await isUsable(found.table, fixed.shared(), pause));
    if (isAnew) {
      recreateTable(repair, this.#ownership);
      found.clearTable();
    } else addMissingSets(repair);
    deleteForeignVerdicts(found, writer, drift);
    this.#repairTimeouts(found, writer, drift);
    if (!found.link) {
      writer.addLink();
      drift.missing += 1;
    }
    return { drift, prune: () => this.#prune(found) };
  }

  async #prune(found: IPVSObservation): Promise<number> {
    for (const { service } of this.#draining.entries()) {
      const isThere = found.services.has(service.id) || found.touched.has(service.id);
      if (!isThere) this.#draining.forget(service.id);
    }
    return 0;
  }

  #repairTimeouts({ timeouts }: IPVSObservation, { additions }: BatchWriter, drift: Counts): void {
    const fields = {
      tcpSeconds: this.#ipvs.tcpTimeoutSeconds,
      tcpFinSeconds: this.#ipvs.tcpFinTimeoutSeconds,
      udpSeconds: this.#ipvs.udpTimeoutSeconds,
    };
    const names = Object.keys(fields) as (keyof typeof fields)[];
    if (names.every((name) => fields[name] === 0 || fields[name] === timeouts[name])) return;
    additions.push((out) => out.write('ipvsTimeoutsSet', fields));
    drift.wrong += 1;
  }
}

/** Real servers go when they have no connections any more. */
function lateDeletions(family: Family, draining: Draining): LateDeletions<BatchWriter> {
  return {
    get isAny(): boolean {
      return draining.isAny;
    },
    confirm: () => draining.confirm(),
    rollback: () => draining.rollback(),
    write: async (kernel, { services }) => {
      const written = new Set<string>();
      const drains = draining.entries();
      const ofServices = drains.map(({ service }) => service);
      const found = await observeServers(kernel, family, ofServices);
      for (const { service, servers } of drains) {
        const held = found.get(service.id);
        if (held === undefined) continue;
        for (const [key, endpoint] of servers) {
          const server = held.get(key);
          if (server === undefined) draining.remove(service.id, key);
          else if (server.connections === 0) services.deleteServer('', service, endpoint);
          else continue;
          written.add(service.id);
        }
      }
      return written;
    },
  };
}

/**
 * Deletes verdicts that jump to chains to which ours never do, in the first transaction. It also
 * restores rules, and the kernel refuses a rule that a wrong verdict makes reachable from a hook
 * where it is not allowed.
 */
function deleteForeignVerdicts(
  { firewalls, touched }: IPVSObservation,
  { first }: BatchWriter,
  drift: Counts,
): void {
  for (const [id, verdict] of firewalls) {
    if (verdict.startsWith(`goto ${firewallPrefix}`) || touched.has(id)) continue;
    first.to('delete', 'firewall-ips', '').key(bytesOf(id));
    firewalls.delete(id);
    drift.unwanted += 1;
  }
}
