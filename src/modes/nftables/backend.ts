/** Mode nftables for one family: all Services in one table whose chains and sets are constant. */
import type { KernelReader } from '../../kernel/kernel.ts';
import { localhost } from '../../net/special-address.ts';
import type { Forwarding } from '../../state/types.ts';
import { inTurns, type Pause } from '../../time/pacer.ts';
import {
  type Backend,
  type ObjectOf,
  type RepairPart,
  signOf,
  type Tally,
  type WriteLater,
} from '../backend.ts';
import { hairpinKeys } from '../elements.ts';
import type { Applied, Environment, ModeConfig } from '../mode.ts';
import type { TableLayout } from '../nft-table/layout.ts';
import { TableOwnership } from '../nft-table/ownership.ts';
import { addMissingSets, isUsable, recreateTable } from '../nft-table/repair.ts';
import { fixedChain, fixedRanges, sharedContent, type TableObject } from '../nft-table/shared.ts';
import { selfClientKeys } from '../nft-table/source-ranges.ts';
import { AffinityKeeper } from './affinity.ts';
import { NFTablesBatchWriter } from './batch-writer.ts';
import { ChainClasses } from './chain-classes.ts';
import { fixedChains, opensLoopback } from './chains.ts';
import { describe } from './describe.ts';
import { ElementCounts } from './element-counts.ts';
import { FrontendWriter } from './frontend-writer.ts';
import {
  elementOf,
  frontendElements,
  objectsOfFrontend,
  verdictKinds,
  verdictParts,
} from './frontends.ts';
import type { NFTablesObjects } from './held.ts';
import { type SetName, type SharedSet, sharedElements, tableLayout } from './layout.ts';
import { NFTablesObservation } from './observation.ts';

export interface NFTablesTypes extends NFTablesObjects {
  readonly found: NFTablesObservation;
  readonly writer: NFTablesBatchWriter;
}

export class NFTablesBackend implements Backend<NFTablesTypes> {
  readonly allowsBatches = true;
  readonly tables: TableOwnership;
  readonly tally: Tally<NFTablesTypes>;
  readonly #config: ModeConfig;
  readonly #layout: TableLayout<SetName>;
  readonly #classes: ChainClasses;
  readonly #counts = new ElementCounts();
  readonly #affinity: AffinityKeeper;

  constructor(config: ModeConfig) {
    this.#config = config;
    this.#layout = tableLayout(config.family, config.countsTraffic, config.table);
    this.#classes = new ChainClasses(config);
    this.#affinity = new AffinityKeeper(config.family, this.#layout.table);
    this.tables = new TableOwnership(this.#layout, config.ownTables);
    this.tally = {
      ...tallyOf(this.#counts, this.#affinity),
      miscounts: (kernel) => this.#counts.miscounts(kernel, this.#layout),
    };
  }

  describe(forwarding: Forwarding): readonly string[] {
    return describe(this.#layout.table, forwarding, frontendElements(this.#classes, forwarding));
  }

  objects(forwarding: Forwarding): ObjectOf<NFTablesTypes>[] {
    const frontends = frontendElements(this.#classes, forwarding);
    const objects: ObjectOf<NFTablesTypes>[] = [];
    for (const frontend of frontends) {
      for (const object of objectsOfFrontend(frontend)) objects.push(sharedContent(object));
    }
    for (const { kind, address, lastPort } of forwarding.frontends) {
      if (kind === 'clusterIP' && lastPort === undefined)
        objects.push(sharedElements.ofText('cluster-ips', address!.latin1));
    }
    const { maybeLocal } = forwarding;
    const hairpins = [
      ...hairpinKeys(forwarding),
      // kube-proxy's mode iptables does not ask where an endpoint is.
      ...(this.#config.asIptables && maybeLocal ? hairpinKeys(forwarding, maybeLocal) : []),
    ];
    for (const key of hairpins) objects.push(sharedElements.of('hairpin', key));
    for (const key of selfClientKeys(forwarding)) {
      objects.push(sharedElements.of('self-clients', key));
    }
    for (const frontend of frontends) objects.push(frontend);
    return objects;
  }

  ofEnvironment(environment: Environment): TableObject<SharedSet>[] {
    const { nodePortAddresses, serviceCIDRs } = environment;
    const chains = fixedChains(this.#config, environment);
    const listed = nodePortAddresses === 'all' ? [] : nodePortAddresses;
    const local = opensLoopback(this.#config) && nodePortAddresses !== 'all' ? [localhost] : [];
    const addresses = [...listed, ...local];
    return [
      ...chains.map((one) => fixedChain(one, one.base !== undefined)),
      fixedRanges(this.#layout.sets['service-cidrs'], serviceCIDRs),
      ...addresses.map(({ bytes }) => sharedElements.of('nodeport-ips', bytes)),
    ];
  }

  writer(): NFTablesBatchWriter {
    return new NFTablesBatchWriter(this.#layout, (writer, difference) => {
      FrontendWriter.write(writer, difference);
      if (difference.from === 'belief') this.#affinity.note(difference);
    });
  }

  get sweep(): WriteLater<NFTablesBatchWriter> | undefined {
    return this.#affinity.due ? this.#writeSweep : undefined;
  }

  readonly #writeSweep: WriteLater<NFTablesBatchWriter> = async (kernel, { buffers }) => {
    for (const { set, keys } of await this.#affinity.stale(kernel)) {
      const buffer = buffers.to('delete', set, '');
      for (const key of keys) buffer.key(key);
    }
    return [];
  };

  get unswept(): ((forwarding: Forwarding) => boolean) | undefined {
    return this.#affinity.unswept;
  }

  settle(outcome: Applied | 'nothing to write' | 'refused'): void {
    if (outcome !== 'refused') this.#affinity.settle();
  }

  async read(kernel: KernelReader, pause: Pause): Promise<NFTablesObservation> {
    const found = new NFTablesObservation(this.#layout);
    await found.read(kernel, pause);
    return found;
  }

  async repairFixed(
    found: NFTablesObservation,
    repair: RepairPart<NFTablesTypes>,
  ): Promise<undefined> {
    const { drift, pause, writer } = repair;
    const table = { content: found.table, writer: writer.table, drift };
    if (await isUsable(found.table, repair.shared(), pause)) addMissingSets(table);
    else {
      // The table is recreated, because sets and hooks can't be changed in place.
      repair.startOver(found.table.exists ? 'indivisible' : undefined);
      recreateTable(table, this.tables);
      found.clear();
      this.#affinity.startOver();
    }
    await deleteForeignVerdicts(found, repair);
  }
}

function tallyOf(counts: ElementCounts, affinity: AffinityKeeper): Tally<NFTablesTypes> {
  return {
    count: (object, step) => {
      if (object.isShared === true) {
        if ('set' in object) counts.shared(object.set, signOf(step));
        return;
      }
      counts.frontend(object, signOf(step));
      if (step === 'resumed') affinity.resume(object);
    },
    clear: () => {
      counts.clear();
      affinity.reset();
    },
  };
}

/**
 * Deletes verdicts that jump to chains to which ours never do. Call it before rules are restored:
 * the kernel refuses a rule that a wrong verdict makes reachable from a hook where it is not
 * allowed.
 */
async function deleteForeignVerdicts(
  { frontends }: NFTablesObservation,
  { drift, pause, touched, writer }: RepairPart<NFTablesTypes>,
): Promise<void> {
  const { buffers, early } = writer;
  await inTurns(frontends, pause, ([id, held]) => {
    if (touched.has(id)) return;
    for (const part of verdictParts) {
      const words = held.verdicts[part];
      if (words === undefined || verdictKinds[part].usual.test(words)) continue;
      const { set, key } = elementOf(held.location, part);
      buffers.to('delete', set, '').key(key);
      early.keepWhole();
      held.verdicts[part] = undefined;
      drift.unwanted += 1;
    }
  });
}
