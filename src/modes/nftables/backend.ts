/** Mode nftables for one family: all Services in one table whose chains and sets are constant. */
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
  type Sweep,
  type Tables,
  type Tally,
} from '../backend.ts';
import { hairpinKeys } from '../elements.ts';
import { type Environment, inTurns, type ModeConfig, type Pause } from '../mode.ts';
import type { TableLayout } from '../nft-table/layout.ts';
import { TableOwnership, tablesOf } from '../nft-table/ownership.ts';
import { dropChain, rejectChain } from '../nft-table/refusals.ts';
import { addMissingSets, isUsable, recreateTable } from '../nft-table/repair.ts';
import { fixedChain, fixedRanges, sharedContent, type TableObject } from '../nft-table/shared.ts';
import { firewallPrefix, selfClientKeys } from '../nft-table/source-ranges.ts';
import { AffinityKeeper } from './affinity.ts';
import { BatchWriter } from './batch-writer.ts';
import { ChainClasses } from './chain-classes.ts';
import { fixedChains } from './chains.ts';
import { Deferred } from './deferred.ts';
import { describe } from './describe.ts';
import { ElementCounts } from './element-counts.ts';
import { FrontendWriter } from './frontend-writer.ts';
import {
  elementOf,
  frontendElements,
  objectsOfFrontend,
  type VerdictPart,
  verdictParts,
} from './frontends.ts';
import type { NFTablesObjects } from './held.ts';
import { type SetName, type SharedSet, sharedElements, tableLayout } from './layout.ts';
import { NFTablesObservation } from './observation.ts';

interface NFTablesTypes extends NFTablesObjects {
  readonly found: NFTablesObservation;
  readonly writer: BatchWriter;
}

/** Approximate bytes of an element in a batch. */
const elementBytes = 48;

export class NFTablesBackend implements Backend<NFTablesTypes> {
  readonly family: Family;
  readonly tables: Tables<NFTablesTypes>;
  readonly late: LateDeletions<BatchWriter>;
  readonly tally: Tally<NFTablesTypes>;
  readonly #config: ModeConfig;
  readonly #layout: TableLayout<SetName>;
  readonly #classes: ChainClasses;
  readonly #counts = new ElementCounts();
  readonly #deferred = new Deferred();
  readonly #affinity: AffinityKeeper;
  readonly #ownership: TableOwnership;
  /** The table has no base chains, so that no packet meets it yet. */
  #isStaged = false;

  constructor(config: ModeConfig) {
    this.family = config.family;
    this.#config = config;
    this.#layout = tableLayout(config.family, config.countsTraffic);
    this.#classes = new ChainClasses(config);
    this.#affinity = new AffinityKeeper(config.family);
    this.#ownership = new TableOwnership(this.#layout, config.ownTables);
    this.tables = tablesOf(this.#ownership, {
      stage: (found: NFTablesObservation) => {
        this.#isStaged ||= !found.isHooked;
        return this.#isStaged;
      },
      hook: () => {
        this.#isStaged = false;
      },
      miscounts: (kernel) => this.#counts.miscounts(kernel, this.family, this.#deferred),
      sweep: sweepOf(this.#affinity),
    });
    this.late = lateDeletions(this.#deferred);
    this.tally = tallyOf(this.#counts, this.#affinity);
  }

  twin(): NFTablesBackend {
    return new NFTablesBackend(this.#config);
  }

  describe(forwarding: Forwarding): readonly string[] {
    return describe(forwarding, frontendElements(this.#classes, forwarding));
  }

  objects(forwarding: Forwarding): Objects<NFTablesTypes> {
    const frontends = frontendElements(this.#classes, forwarding);
    const shared: TableObject<SharedSet>[] = [];
    let elements = 0;
    for (const frontend of frontends) {
      const { endpoints, isCounted, local } = frontend;
      elements += endpoints.length + local.length + (isCounted ? 2 : 1);
      for (const object of objectsOfFrontend(frontend)) shared.push(sharedContent(object));
    }
    for (const { kind, address } of forwarding.frontends) {
      if (kind === 'clusterIP') shared.push(sharedElements.of('cluster-ips', address!.bytes));
    }
    for (const key of hairpinKeys(forwarding)) shared.push(sharedElements.of('hairpin', key));
    for (const key of selfClientKeys(forwarding)) {
      shared.push(sharedElements.of('self-clients', key));
    }
    return { frontends, shared, bytes: elements * elementBytes };
  }

  ofEnvironment(environment: Environment): TableObject<SharedSet>[] {
    const { nodePortAddresses, serviceCIDRs } = environment;
    const chains = fixedChains(this.#config, environment);
    const made = this.#isStaged ? chains.filter(({ base }) => base === undefined) : chains;
    const addresses = nodePortAddresses === 'all' ? [] : nodePortAddresses;
    return [
      ...made.map(fixedChain),
      fixedRanges(this.#layout.sets['service-cidrs'], serviceCIDRs),
      ...addresses.map(({ bytes }) => sharedElements.of('nodeport-ips', bytes)),
    ];
  }

  writer(): BatchWriter {
    return new BatchWriter(this.#layout, (buffers, difference) => {
      FrontendWriter.write(buffers, this.#deferred, difference);
      if (difference.from === 'belief') this.#affinity.note(difference);
    });
  }

  async read(
    kernel: Kernel,
    pause: Pause,
    begun: (found: NFTablesObservation) => void,
  ): Promise<NFTablesObservation> {
    const found = new NFTablesObservation(this.#layout);
    // From now on `touched` gets what batches write, whether it was read before or after.
    begun(found);
    await found.read(kernel, pause);
    return found;
  }

  async repairFixed(
    found: NFTablesObservation,
    writer: BatchWriter,
    fixed: Fixed<NFTablesTypes>,
    pause: Pause,
  ): Promise<FixedRepair<BatchWriter>> {
    const drift = noCounts();
    const repair = { content: found.table, writer: writer.table, drift };
    const isAnew = !(await isUsable(found.table, fixed.shared(), pause));
    const isIndivisible = isAnew && found.table.exists;
    if (isAnew) this.#recreate(found, writer, drift);
    else addMissingSets(repair);
    await deleteForeignVerdicts(found, writer, drift, pause);
    return { drift, isAnew, isIndivisible, prune: () => this.#prune(found) };
  }

  /** Recreates the table, because sets and hooks can't be changed in place. */
  #recreate(found: NFTablesObservation, writer: BatchWriter, drift: Counts): void {
    recreateTable({ content: found.table, writer: writer.table, drift }, this.#ownership);
    found.clear();
    this.#deferred.keep(() => false);
    this.#affinity.startOver();
  }

  async #prune(found: NFTablesObservation): Promise<number> {
    // Deleting an element that is gone would fail, and the whole transaction with it.
    this.#deferred.keep((id) => found.touched.has(id) || found.frontends.has(id));
    return 0;
  }
}

function lateDeletions(deferred: Deferred): LateDeletions<BatchWriter> {
  return {
    get isAny(): boolean {
      return deferred.size > 0;
    },
    confirm: () => deferred.confirm(),
    rollback: () => deferred.rollback(),
    write: (_kernel, { buffers }) => {
      const ranges = deferred.due();
      for (const { set, key, from, to } of ranges) {
        const buffer = buffers.to('delete', set, '');
        for (let i = from; i < to; i += 1) buffer.keyIndex(key, i);
      }
      return ranges.map(({ id }) => id);
    },
  };
}

function sweepOf(affinity: AffinityKeeper): Sweep<BatchWriter> {
  return {
    get isDue(): boolean {
      return affinity.due;
    },
    write: async (kernel, { buffers }) => {
      for (const { set, keys } of await affinity.stale(kernel)) {
        const buffer = buffers.to('delete', set, '');
        for (const key of keys) buffer.key(key);
      }
    },
  };
}

function tallyOf(counts: ElementCounts, affinity: AffinityKeeper): Tally<NFTablesTypes> {
  return {
    frontend: (frontend, step) => {
      counts.frontend(frontend, step === 'released' ? -1 : 1);
      if (step === 'resumed') affinity.resume(frontend);
    },
    shared: (object, step) => {
      if ('set' in object) counts.shared(object.set, step);
    },
    clear: () => {
      counts.clear();
      affinity.reset();
    },
  };
}

/** The verdicts that we write, for each kind of map. */
const usual: Readonly<Record<VerdictPart, RegExp>> = {
  verdict: /^goto (nodeport-)?(cluster|external)-/,
  sticky: /^jump recall-/,
  learn: /^goto learn-/,
  refusal: new RegExp(`^(drop|goto (${rejectChain}|${dropChain}))( comment |$)`),
  firewall: new RegExp(`^goto ${firewallPrefix}`),
};

/**
 * Deletes verdicts that jump to chains to which ours never do. Call it before rules are restored:
 * the kernel refuses a rule that a wrong verdict makes reachable from a hook where it is not
 * allowed.
 */
async function deleteForeignVerdicts(
  { frontends, touched }: NFTablesObservation,
  { buffers }: BatchWriter,
  drift: Counts,
  pause: Pause,
): Promise<void> {
  await inTurns(frontends, pause, ([id, held]) => {
    if (touched.has(id)) return;
    for (const part of verdictParts) {
      if (held[part] === undefined || usual[part].test(held[part])) continue;
      const { set, key } = elementOf(held.location, part);
      buffers.to('delete', set, '').key(key);
      held[part] = undefined;
      drift.unwanted += 1;
    }
  });
}
