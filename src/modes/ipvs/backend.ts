/**
 * Mode ipvs for one family: virtual services, addresses, and a table that filters and masquerades.
 */
import type { KernelReader } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { ElementBuffers } from '../../kernel/nft/element-buffer.ts';
import { familyWord } from '../../kernel/nft/words.ts';
import { kernelOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import { IFA_F } from '../../kernel/route-ops.ts';
import { formatAddress, formatEndpoint } from '../../net/address.ts';
import type { Forwarding } from '../../state/types.ts';
import type { Pause } from '../../time/pacer.ts';
import type {
  Backend,
  EndOfRepair,
  ObjectDifference,
  ObjectOf,
  RepairPart,
  WriteLater,
  Writer,
} from '../backend.ts';
import {
  type Applied,
  defaultIPVSSettings,
  type Environment,
  type IPVSSettings,
  type ModeConfig,
  type WrittenBatch,
} from '../mode.ts';
import { EarlyTransaction, inOrder } from '../nft-table/early-transaction.ts';
import type { TableLayout } from '../nft-table/layout.ts';
import { TableOwnership } from '../nft-table/ownership.ts';
import { refuseClient } from '../nft-table/refusals.ts';
import { addMissingSets, isUsable, recreateTable } from '../nft-table/repair.ts';
import { fixedChain, fixedRanges } from '../nft-table/shared.ts';
import { firewallPrefix } from '../nft-table/source-ranges.ts';
import { TableWriter } from '../nft-table/writer.ts';
import { addressFields } from '../own-addresses.ts';
import { chains } from './chains.ts';
import { Draining } from './draining.ts';
import {
  addressOf,
  type IPVSFrontend,
  type IPVSShared,
  ipvsFrontends,
  sharedObjects,
} from './frontends.ts';
import {
  ipvsadmOption,
  linkName,
  type SetName,
  sharedElements,
  tableLayout,
  tableName,
} from './layout.ts';
import { type IPVSObservation, observe, observeServers } from './observation.ts';
import type { IPVSObjects } from './observed.ts';
import {
  type PlannedOp,
  type ServiceBatch,
  type ServiceSettings,
  ServiceWriter,
  schedulerOf,
} from './service-writer.ts';

export interface IPVSTypes extends IPVSObjects {
  readonly found: IPVSObservation;
  readonly writer: IPVSBatchWriter;
}

export class IPVSBackend implements Backend<IPVSTypes> {
  readonly tables: TableOwnership;
  readonly #draining = new Draining();
  readonly #config: ModeConfig;
  readonly #ipvs: IPVSSettings;
  readonly #layout: TableLayout<SetName>;
  readonly #chains: readonly IPVSShared[];
  /** Virtual services of others at addresses that the operator leaves to them (`excludeCIDRs`). */
  #foreign: ReadonlySet<string> = new Set();

  constructor(config: ModeConfig) {
    this.#config = config;
    this.#ipvs = config.ipvs ?? defaultIPVSSettings;
    this.#layout = tableLayout(config.family, config.countsTraffic);
    this.#chains = chains(config).map((one) => fixedChain(one));
    this.tables = new TableOwnership(this.#layout, config.ownTables);
  }

  describe(forwarding: Forwarding, environment: Environment): readonly string[] {
    return describe(ipvsFrontends(forwarding, environment), this.#ipvs.scheduler);
  }

  objects(forwarding: Forwarding, environment: Environment): ObjectOf<IPVSTypes>[] {
    const refuse = refuseClient(this.#config);
    const frontends = ipvsFrontends(forwarding, environment, refuse);
    return [...sharedObjects(forwarding, frontends, environment), ...frontends];
  }

  ofEnvironment({ serviceCIDRs }: Environment): IPVSShared[] {
    const ranges = fixedRanges(this.#layout.sets['service-cidrs'], serviceCIDRs);
    return [...this.#chains, ranges];
  }

  writer(): IPVSBatchWriter {
    return new IPVSBatchWriter(this.#layout, {
      family: this.#config.family,
      scheduler: this.#ipvs.scheduler,
      draining: this.#draining,
      isForeign: (id) => this.#foreign.has(id),
    });
  }

  async read(kernel: KernelReader, pause: Pause): Promise<IPVSObservation> {
    const { excludeCIDRs: excluded } = this.#ipvs;
    const { countsTraffic } = this.#config;
    return observe(kernel, this.#config.family, { countsTraffic, excluded }, pause);
  }

  get deferred(): WriteLater<IPVSBatchWriter> | undefined {
    return this.#draining.isAny ? this.#writeDrained : undefined;
  }

  /** Real servers are deleted when they have no connections any more. */
  readonly #writeDrained: WriteLater<IPVSBatchWriter> = async (kernel, { services }) => {
    const written = new Set<string>();
    const drains = this.#draining.entries();
    const ofServices = drains.map(({ service }) => service);
    const found = await observeServers(kernel, this.#config.family, ofServices);
    for (const { service, servers } of drains) {
      const observed = found.get(service.id);
      if (observed === undefined) continue;
      for (const [key, endpoint] of servers) {
        const server = observed.get(key);
        if (server === undefined) this.#draining.remove(service.id, key);
        else if (server.connections === 0) services.deleteServer('', service, endpoint);
        else continue;
        written.add(service.id);
      }
    }
    return written;
  };

  taken(): void {
    this.#draining.taken();
  }

  settle(outcome: Applied | 'nothing to write' | 'refused'): void {
    if (outcome === 'refused') this.#draining.rollback();
    else this.#draining.confirm();
  }

  async repairFixed(
    found: IPVSObservation,
    repair: RepairPart<IPVSTypes>,
  ): Promise<EndOfRepair<IPVSTypes>> {
    this.#foreign = found.foreignServices();
    const { drift, pause, writer } = repair;
    const table = { content: found.table, writer: writer.table, drift };
    if (await isUsable(found.table, repair.shared(), pause)) addMissingSets(table);
    else {
      recreateTable(table, this.tables);
      found.clearTable();
    }
    deleteForeignVerdicts(found, repair);
    this.#repairTimeouts(found, repair);
    if (!found.link) {
      writer.addLink();
      drift.missing += 1;
    }
    return ({ touched }) => this.#forgetDrained(found, touched);
  }

  #forgetDrained(found: IPVSObservation, touched: ReadonlySet<string>): void {
    for (const { service } of this.#draining.entries()) {
      const isThere = found.services.has(service.id) || touched.has(service.id);
      if (!isThere) this.#draining.forget(service.id);
    }
  }

  #repairTimeouts(
    { timeouts }: IPVSObservation,
    { drift, writer: { additions } }: RepairPart<IPVSTypes>,
  ): void {
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

/**
 * Deletes verdicts that jump to chains to which ours never do, in the first transaction. It also
 * restores rules, and the kernel refuses a rule that a wrong verdict makes reachable from a hook
 * where it is not allowed.
 */
function deleteForeignVerdicts(
  { firewalls }: IPVSObservation,
  { drift, touched, writer: { early, first } }: RepairPart<IPVSTypes>,
): void {
  for (const [id, verdict] of firewalls) {
    if (verdict.startsWith(`goto ${firewallPrefix}`) || touched.has(id)) continue;
    first.to('delete', 'firewall-ips', '').key(id);
    early.keepWhole();
    firewalls.delete(id);
    drift.unwanted += 1;
  }
}

/** What belongs to a Forwarding, as ipvsadm and nft name it. */
function describe(frontends: readonly IPVSFrontend[], scheduler: string): string[] {
  return frontends.flatMap((frontend) => {
    const { address, firewall, pool, port, protocol, sets, timeoutSeconds } = frontend;
    const text = formatAddress(address.bytes);
    const at = formatEndpoint(address.bytes, port);
    const persistent = timeoutSeconds === 0 ? '' : ` -p ${timeoutSeconds}`;
    const table = `${familyWord(NFPROTO[address.family])} ${tableName}`;
    const key = `${text} . ${protocol.toLowerCase()} . ${port}`;
    return [
      `-A ${ipvsadmOption[protocol]} ${at} -s ${schedulerOf(frontend, scheduler)}${persistent}, ${pool.length} real servers`,
      ...sets.map((set) => `set ${table} ${set} { ${key} }`),
      ...(firewall === undefined ? [] : [`chain ${table} ${firewall.chain}`]),
    ];
  });
}

type Out = RecordWriter<typeof kernelOps>;

interface PlannedAddress {
  readonly owner: string;
  readonly bytes: Uint8Array;
}

/**
 * Collects the ops of one batch and puts them into an order that is safe at each step: only its
 * parts about nf_tables are transactions. A frontend appears when all that it needs exists, and
 * what it needed is deleted after it.
 */
class IPVSBatchWriter implements Writer<IPVSObjects>, ServiceBatch {
  readonly first: ElementBuffers<SetName>;
  readonly last: ElementBuffers<SetName>;
  readonly additions: PlannedOp[] = [];
  readonly removals: PlannedOp[] = [];
  readonly services: ServiceWriter;
  /** Writes the part of the first transaction that is not elements. */
  readonly table: TableWriter<SetName>;
  /** Chains and sets that elements lead to: a transaction before the first one. */
  readonly early: EarlyTransaction<SetName>;
  readonly #layout: TableLayout<SetName>;
  readonly #out: Out = new RecordWriter(kernelOps);
  /** Ids of chains and sets. */
  readonly #unused: string[] = [];
  readonly #bound: PlannedAddress[] = [];
  readonly #unbound: PlannedAddress[] = [];
  #link: 'is there' | 'missing' = 'is there';

  constructor(layout: TableLayout<SetName>, settings: ServiceSettings) {
    this.#layout = layout;
    this.first = new ElementBuffers(layout, layout.sets);
    this.last = new ElementBuffers(layout, layout.sets);
    this.services = new ServiceWriter(settings, this);
    this.table = new TableWriter(layout, this.#out, this.first);
    this.early = new EarlyTransaction(layout);
  }

  write(difference: ObjectDifference<IPVSObjects>): void {
    if (difference.of === 'frontend') {
      this.services.write(difference);
      return;
    }
    const { after, id, isThere, owner } = difference;
    if (after === undefined) this.#delete(id, owner);
    else this.#put(after, owner, isThere);
  }

  #put(shared: IPVSShared, owner: string, isThere: boolean): void {
    if ('object' in shared) this.early.put(shared, isThere, this.#firstChanges);
    else if ('set' in shared) {
      this.first.to('add', shared.set, owner).key(sharedElements.keyOf(shared));
    } else this.#bound.push({ owner, bytes: shared.address });
  }

  #delete(id: string, owner: string): void {
    const element = sharedElements.find(id);
    const address = addressOf(id);
    if (element !== undefined) this.last.to('delete', element.set, owner).key(element.key);
    else if (address !== undefined) this.#unbound.push({ owner, bytes: address });
    else this.#unused.push(id);
  }

  addLink(): void {
    this.#link = 'missing';
  }

  get #firstChanges() {
    return { table: this.table, buffers: this.first };
  }

  batch(): WrittenBatch | undefined {
    const early = this.early.finish(this.#firstChanges);
    return inOrder(early, this.#rest());
  }

  #rest(): WrittenBatch | undefined {
    const out = this.#out;
    this.first.write(out);
    for (const write of this.additions) write(out);
    this.#writeLink(out);
    for (const write of this.removals) write(out);
    this.last.write(out);
    this.table.deleteObjects(this.#unused);
    if (out.count === 0) return undefined;
    const buffers = this.first.count + this.last.count;
    const links = this.#link === 'missing' ? 1 : 0;
    const others = this.additions.length + this.removals.length + links;
    const addresses = this.#bound.length + this.#unbound.length;
    return {
      ops: out.finish(),
      writes: this.table.count + buffers + others + addresses,
      culprits: (failure) => out.ownersOf(failure),
    };
  }

  #writeLink(out: Out): void {
    if (this.#link === 'missing') out.write('linkAdd', { link: linkName, type: 'dummy' });
    for (const [kind, planned] of [
      ['addressesAdd', this.#bound],
      ['addressesDelete', this.#unbound],
    ] as const) {
      if (planned.length === 0) continue;
      const bytes = planned.map((one) => one.bytes);
      const fields = addressFields(this.#layout.family, linkName, bytes);
      const ownerOf = (entry = planned.length === 1 ? 0 : -1): string | undefined =>
        planned[entry]?.owner;
      if (kind === 'addressesDelete') out.write(kind, fields, ownerOf);
      else out.write(kind, { ...fields, flags: IFA_F.NODAD }, ownerOf);
    }
  }
}
