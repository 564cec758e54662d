/** A node in one mode, on a fake kernel: what its program makes of objects, and of packets. */
import { isDeepStrictEqual } from 'node:util';
import { Engine } from '../../src/agent/engine.ts';
import { engineSettings } from '../../src/agent/engine-settings.ts';
import type { Config } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load.ts';
import { standardLeaseMs, standardRoom } from '../../src/connect-time/maps/placement.ts';
import { iptablesMode, likeIptables } from '../../src/modes/iptables/mode.ts';
import { ipvsMode } from '../../src/modes/ipvs/mode.ts';
import type { ModeConfig, ModeName } from '../../src/modes/mode.ts';
import { nftablesMode } from '../../src/modes/nftables/mode.ts';
import type { ProxyMode } from '../../src/modes/proxy-mode.ts';
import type { Family } from '../../src/net/address.ts';
import type { EndpointList } from '../../src/net/endpoint-list.ts';
import { decodeChange, decodeContext, goneChange, kindOf } from '../../src/source/decode.ts';
import { type Resource, resources } from '../../src/state/change.ts';
import { hasPort } from '../../src/state/port-range.ts';
import { ClusterState } from '../../src/state/store.ts';
import type { Forwarding, Frontend } from '../../src/state/types.ts';
import type { Raw } from '../fake/api-server-store.ts';
import { type Odds, oddsOf } from '../fake/chance.ts';
import { bpfDirectory, endpointsAtConnectTime } from '../fake/connect-time.ts';
import { FakeConntrack } from '../fake/conntrack.ts';
import { FakeKernel } from '../fake/kernel.ts';
import type { Outcome, Packet } from '../fake/nft-packet.ts';
import { userspaceWith, WrittenSockets } from '../fake/sockets.ts';
import { address } from '../unit/state/build.ts';
import { ToyClock } from '../unit/sync/double.ts';
import { type Edit, interfaces, ownNode } from './worlds.ts';

/** `default`: an empty mode. */
export type Subject = ModeName | 'default';
export const subjects = [
  'nftables',
  'default',
  'iptables',
  'ipvs',
  'userspace',
] as const satisfies readonly Subject[];

/** A connection that a client makes. */
export type Flow = Pick<Packet, 'saddr' | 'daddr' | 'protocol' | 'dport' | 'iif'>;

export interface Taking {
  readonly forwarding: Forwarding;
  readonly frontend: Frontend;
}

export class ModeNode {
  readonly subject: Subject;
  readonly kernel = new FakeKernel();
  readonly #config: Config;
  readonly #mode: ProxyMode;
  readonly #sockets = new WrittenSockets();
  readonly #clock = new ToyClock(turns);
  readonly #objects = new Map<string, Raw>();
  readonly #decoding = decodeContext(ownNode);
  #interfaces: readonly string[] = interfaces;
  /** Since the last edit, by flow. */
  readonly #answers = new Map<string, Odds>();
  #interfacesChanged = (): void => {};
  #state = new ClusterState(0, () => this.#clock.now());
  #engine!: Engine;
  #settings: unknown;
  #end = new AbortController();
  #running: Promise<void> = Promise.resolve();
  #failure: Error | undefined;

  constructor(subject: Subject, flags: readonly string[]) {
    this.subject = subject;
    this.#config = configOf(subject, flags);
    this.#mode = modeOf(subject, this.#sockets);
    this.kernel.ipvs.present = subject === 'ipvs';
  }

  /** Brings changes into force. Rejects if it fails, or if the kernel refuses anything. */
  async take(edits: readonly Edit[]): Promise<void> {
    this.#answers.clear();
    let isRestarted = false;
    for (const edit of edits) {
      if ('put' in edit) this.#put(edit.put);
      else if ('gone' in edit) this.#delete(edit.gone);
      else if ('restart' in edit) isRestarted = true;
      else this.#interfaces = edit.interfaces;
    }
    if (isRestarted) await this.#restart();
    const settings = this.#engineSettings();
    if (!isDeepStrictEqual(settings, this.#settings)) await this.#replaceEngine(settings);
    this.#interfacesChanged();
    this.#engine.wake();
    // Longest rest, twice.
    for (let i = 0; i < 200 && !this.#engine.upToDate; i += 1) {
      await this.#clock.pass(10);
      if (this.#failure !== undefined) throw this.#failure;
    }
    if (!this.#engine.upToDate) throw new Error('not everything is in force after 2 s');
    const aside = this.#engine.families.flatMap(({ quarantined }) => [...quarantined]);
    if (aside.length > 0) throw new Error(`set aside: ${aside}`);
  }

  get objects(): Iterable<Raw> {
    return this.#objects.values();
  }

  async stop(): Promise<void> {
    this.#end.abort();
    await this.#running;
  }

  /** The addresses of the node, and those of Services that it has. */
  isLocal(text: string): boolean {
    return this.#interfaces.includes(text) || this.kernel.links.isBound(text);
  }

  config(family: Family): ModeConfig {
    return this.#engine.setting(family)!.config;
  }

  /** Which frontend takes the packet. */
  frontendAt(flow: Flow): Taking | undefined {
    const { key } = address(flow.daddr);
    const found = this.#frontendsOf(flow).find(({ frontend }) => frontend.address?.key === key);
    return found ?? this.nodePortAt(flow);
  }

  /** `anywhere`: also at an address that has no node ports. */
  nodePortAt(flow: Flow, where?: 'anywhere'): Taking | undefined {
    const { daddr } = flow;
    const to = address(daddr);
    const { nodePortAddresses } = this.#engine.setting(to.family)!.environment;
    const isOpen =
      nodePortAddresses === 'all' || where === 'anywhere'
        ? this.#interfaces.includes(daddr)
        : nodePortAddresses.some(({ key }) => key === to.key);
    const all = isOpen ? this.#frontendsOf(flow) : [];
    return all.find(({ frontend }) => frontend.address === undefined);
  }

  #frontendsOf({ daddr, dport, protocol }: Flow): Taking[] {
    const { family } = address(daddr);
    const sync = this.#engine.families.find((one) => one.family === family)!;
    return [...sync.desired.values()]
      .filter(({ servicePort }) => servicePort.protocol === protocol)
      .flatMap((forwarding) => forwarding.frontends.map((frontend) => ({ forwarding, frontend })))
      .filter(({ frontend }) => hasPort(frontend, dport))
      .sort((a, b) => Number(isRange(a)) - Number(isRange(b)));
  }

  /** Those that are in force at an address, whatever their port. */
  frontends(text: string): Frontend[] {
    const { key, family } = address(text);
    const sync = this.#engine.families.find((one) => one.family === family)!;
    const all = [...sync.desired.values()].flatMap(({ frontends }) => frontends);
    return all.filter((frontend) => frontend.address?.key === key);
  }

  /** What becomes of the first packet of a connection, in words, with the probability of each. */
  answer(flow: Flow): Odds {
    const { daddr, dport, iif, protocol, saddr } = flow;
    const key = `${protocol} ${saddr} ${iif} ${daddr} ${dport}`;
    const known = this.#answers.get(key);
    if (known !== undefined) return known;
    const odds = this.subject === 'userspace' ? this.#bySocket(flow) : this.#byRules(flow, true);
    this.#answers.set(key, odds);
    return odds;
  }

  /** Makes the connection: what is remembered of it stays. */
  connect(flow: Flow): string {
    return [...this.#byRules(flow, false).keys()][0]!;
  }

  /** The same where programs translate, for processes of the node and its pods. */
  answerAtConnectTime(flow: Flow): Odds | undefined {
    if (flow.protocol !== 'TCP') return undefined;
    const to = address(flow.daddr);
    const pool = endpointsAtConnectTime(this.kernel.bpf, to, flow.dport);
    return pool && oddsOfPool(pool, '');
  }

  #byRules(flow: Flow, isTrial: boolean): Odds {
    const { daddr, iif } = flow;
    // A connection of the node to an address that it has itself comes from there.
    const saddr = iif === undefined && this.isLocal(daddr) ? daddr : flow.saddr;
    const nodeAddresses = this.#interfaces;
    const packet = { ...flow, saddr, nodeAddresses, random: 0, isTrial };
    const once = (chance?: Packet['chance']): string =>
      endOf(this.kernel.evaluate({ ...packet, ...(chance && { chance }) }));
    return isTrial ? oddsOf(once) : new Map([[once(), 1]]);
  }

  #bySocket({ daddr, dport, iif, protocol, saddr }: Flow): Odds {
    const pool = this.#sockets.poolOf(
      { daddr, dport, protocol },
      iif === undefined ? daddr : saddr,
    );
    const isBound = this.kernel.links.isBound(daddr);
    if (pool === undefined) return new Map([[isBound ? 'reject' : 'untouched', 1]]);
    if (pool.length > 0) return oddsOfPool(pool, ' masqueraded');
    return new Map([[protocol === 'UDP' ? 'drop' : 'reject', 1]]);
  }

  #put(raw: Raw): void {
    const resource = resourceOf(String(raw.kind));
    const { name, namespace } = raw.metadata as Raw;
    const key = namespace === undefined ? `${name}` : `${namespace}/${name}`;
    this.#objects.set(`${raw.kind} ${key}`, raw);
    const { change } = decodeChange(resource, raw, this.#decoding);
    this.#state.apply(change ?? goneChange(resource, key));
  }

  #delete(subject: string): void {
    const [kind = '', key = ''] = subject.split(' ');
    this.#objects.delete(subject);
    this.#state.apply(goneChange(resourceOf(kind), key));
  }

  async #restart(): Promise<void> {
    await this.stop();
    this.kernel.restart();
    this.#settings = undefined;
    this.#state = new ClusterState(0, () => this.#clock.now());
    for (const raw of this.#objects.values()) this.#put(raw);
  }

  #engineSettings() {
    return engineSettings({
      config: this.#config,
      mode: this.#mode,
      families: ['IPv4', 'IPv6'],
      node: this.#state.node,
      isLiberal: false,
      // The maps are those of no other mode's rules.
      connectTime:
        this.subject !== 'nftables'
          ? undefined
          : {
              ...{
                directory: bpfDirectory,
                cgroup: '/sys/fs/cgroup',
                reach: 'all',
                excludes: false,
              },
              ...{ room: standardRoom, secret: new Uint8Array(16), leaseMs: standardLeaseMs },
            },
    });
  }

  async #replaceEngine(settings: ReturnType<typeof engineSettings>): Promise<void> {
    await this.stop();
    this.#settings = settings;
    this.#end = new AbortController();
    for (const resource of resources) this.#state.markSynced(resource);
    this.#engine = new Engine({
      ...{ settings, mode: this.#mode, state: this.#state, clock: this.#clock },
      ...{ kernel: this.kernel, conntrack: new FakeConntrack() },
      interfaces: () => ['127.0.0.1', '::1', ...this.#interfaces].map(address),
      followInterfaces: (changed) => {
        this.#interfacesChanged = changed;
        return () => {};
      },
      observer: () => {},
      conntrackObserver: () => {},
      health: { isAny: false, maxEjected: 0, parts: () => undefined, services: () => [] },
      followers: [],
    });
    this.#running = this.#engine.run(this.#end.signal).catch((error: Error) => {
      this.#failure = error;
    });
  }
}

export function isRange(taking: Taking | undefined): boolean {
  return taking?.frontend.lastPort !== undefined;
}

/** In words. */
export function endOf({ masqueraded, to, translated, verdict }: Outcome): string {
  if (verdict !== 'accept') return verdict;
  return `${translated ? to : 'untouched'}${masqueraded ? ' masqueraded' : ''}`;
}

function modeOf(subject: Subject, sockets: WrittenSockets): ProxyMode {
  switch (subject) {
    case 'nftables':
      return nftablesMode;
    case 'default':
      return likeIptables(nftablesMode);
    case 'iptables':
      return iptablesMode();
    case 'ipvs':
      return ipvsMode;
    case 'userspace':
      return userspaceWith(sockets);
  }
}

function configOf(subject: Subject, flags: readonly string[]): Config {
  const name = subject === 'default' ? '' : subject;
  const loaded = loadConfig([`--proxy-mode=${name}`, '--master=http://api', ...flags], {
    readFile: () => {
      throw new Error('there is no file');
    },
  });
  if (loaded.kind !== 'run') throw new Error(JSON.stringify(loaded));
  return loaded.config;
}

/** Lets what waits for nothing else run. */
async function turns(): Promise<void> {
  for (let i = 0; i < 3; i += 1) await new Promise((resolve) => setImmediate(resolve));
}

function oddsOfPool(pool: EndpointList, words: string): Odds {
  const odds = new Map<string, number>();
  for (const text of pool.texts()) {
    odds.set(`${text}${words}`, (odds.get(`${text}${words}`) ?? 0) + 1 / pool.length);
  }
  return odds;
}

function resourceOf(kind: string): Resource {
  return resources.find((resource) => kindOf[resource] === kind)!;
}
