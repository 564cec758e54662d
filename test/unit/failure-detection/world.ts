/** Failure detection on the fake kernel, with clients, endpoints and a clock that a test drives. */
import { onTestFinished } from 'vitest';
import { FailureDetection } from '../../../src/failure-detection/failure-detection.ts';
import type { Known } from '../../../src/failure-detection/ports.ts';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import { ElementShape, type Reply, type Request } from '../../../src/kernel/ops.ts';
import { binary } from '../../../src/modes/elements.ts';
import {
  type Address,
  type CIDR,
  type Family,
  formatAddress,
  joinHostPort,
} from '../../../src/net/address.ts';
import type { HostPort } from '../../../src/net/host-port.ts';
import type { Detection, EndpointEvent } from '../../../src/state/detection.ts';
import { resolve } from '../../../src/state/resolve.ts';
import type { Forwarding, Node, Service } from '../../../src/state/types.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { address, cidr, context, http, ready, service, slice, slicePort } from '../state/build.ts';
import { ToyClock } from '../sync/double.ts';

export const eject: Detection = { mode: 'eject', probes: false };
/** Endpoints of tests are in these blocks. */
const clusterCIDR = ['10.0.0.0/8', '192.168.0.0/16', '203.0.0.0/16'].map(cidr);
export const off = {
  failureDetection: 'off',
  failureDetectionMaxEjected: 50,
  clusterCIDR,
} as const;
export const byAnnotation = { ...off, failureDetection: 'by-annotation' } as const;

/** Nothing is known of the node and of other Services. */
export const unknown: Known = {
  interfaces: () => [],
  podCIDRs: () => clusterCIDR,
  serviceCIDRs: () => [],
  ownerOf: () => undefined,
};

function* keys(services: ReadonlyMap<string, Service>): Generator<string> {
  yield* services.keys();
}

export class World {
  readonly fake = new FakeKernel();
  readonly clock = new ToyClock();
  readonly services = new Map<string, Service>();
  readonly desired = new Map<string, Forwarding>();
  readonly events: EndpointEvent[] = [];
  readonly dealt: string[] = [];
  readonly noticed: string[] = [];
  readonly lines: string[] = [];
  /** Addresses that answer nothing, and those that only probes of this node do not reach. */
  readonly deaf = new Set<string>();
  readonly refusing = new Set<string>();
  /** Of connect(2) for all probes; undefined: this node can try them. */
  exhausted: string | undefined;
  /** What the node knows, at present. */
  own: readonly Address[] = [address('192.0.2.1')];
  serviceCIDRs: readonly CIDR[] = [];
  /** Services by address and port of their frontends. */
  readonly owners = new Map<string, string>();
  readonly state = {
    node: undefined as Node | undefined,
    service: (key: string) => this.services.get(key),
    serviceCIDRs: () => this.serviceCIDRs,
    serviceKeys: () => keys(this.services),
    touch: (key: string) => void this.dealt.push(key),
  };
  readonly probed: string[] = [];
  /** With their ports. */
  readonly probedAt: string[] = [];
  /** What the elements of each set count, by the first four bytes of their key. */
  readonly counts = new Map<string, number>();
  readonly detection: FailureDetection;
  /** How long the kernel takes to list something. */
  dumpMs = 0;
  openProbes = 0;
  mostOpen = 0;

  constructor() {
    const line = (_: object, message: string): void => void this.lines.push(message);
    this.detection = new FailureDetection({
      kernel: this.#counting(),
      clock: this.clock,
      log: { info: line, warn: line },
      state: this.state,
      agent: { families: [{ family: 'IPv4', desired: this.desired }], engine: this.#engine() },
      observer: (event) => void this.events.push(event),
      problems: { resolved: (key) => void this.noticed.push(key) },
      connect: async ({ address: to, port }, timeoutMs) => {
        this.probed.push(to);
        this.probedAt.push(joinHostPort(to, port));
        this.openProbes += 1;
        this.mostOpen = Math.max(this.mostOpen, this.openProbes);
        const { exhausted: code } = this;
        const isAccepted = !this.deaf.has(to) && !this.refusing.has(to);
        if (!isAccepted && code === undefined) {
          await new Promise<void>((done) => this.clock.after(timeoutMs, done));
        }
        this.openProbes -= 1;
        if (code !== undefined) return { result: 'not_tried', isSent: false, code, error: code };
        return { result: isAccepted ? 'accepted' : 'failed', isSent: true };
      },
    });
    onTestFinished(() => this.detection.close());
  }

  /** What the engine knows of the node. */
  #engine() {
    const ownerOf = (_: Family, __: string, { address: at, port }: HostPort) =>
      this.owners.get(joinHostPort(formatAddress(at.bytes), port));
    const own = () => this.own;
    return {
      owners: { ownerOf },
      get interfaces() {
        return own();
      },
    };
  }

  /** The fake's elements count nothing: these do. */
  #counting(): Kernel {
    const { counts, fake } = this;
    const dump: Kernel['dump'] = async (request: Request, take) => {
      if (this.dumpMs > 0) await new Promise<void>((done) => this.clock.after(this.dumpMs, done));
      const result = await fake.dump(request, take);
      for (const record of result.records) count(record);
      return result;
    };
    const count = (record: Reply): void => {
      if (record.kind !== 'elements' || (record.shape & ElementShape.counter) === 0) return;
      const { entries, keyLength } = record;
      const view = new DataView(entries.buffer, entries.byteOffset);
      for (let at = 0; at < entries.length; at += keyLength + 8) {
        const key = `${record.set} ${binary(entries.subarray(at, at + 4))}`;
        view.setBigUint64(at + keyLength, BigInt(counts.get(key) ?? 0), true);
      }
    };
    return new Proxy<Kernel>(fake, {
      get: (target, name) => {
        if (name === 'dump') return dump;
        const value: unknown = Reflect.get(target, name);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
  }

  add(set: 'attempts' | 'answers' | 'resets', to: string, count = 1): void {
    const key = `${set} ${binary(address(to).bytes)}`;
    this.counts.set(key, (this.counts.get(key) ?? 0) + count);
  }

  /** Clients connect to all of these in each turn, and those that are not deaf answer. */
  async traffic(endpoints: readonly string[], turns: number): Promise<void> {
    for (let i = 0; i < turns; i += 1) {
      for (const one of endpoints) {
        this.add('attempts', one, 3);
        if (!this.deaf.has(one)) this.add('answers', one, 3);
      }
      await this.clock.pass(250);
    }
  }

  say(
    name: string,
    endpoints: readonly string[],
    detection?: Detection,
    namespace = 'ns',
    ports = [http],
    target = (_: number) => 8080,
  ): string {
    const one = service({ name, namespace, detection, ports });
    const all = Object.fromEntries(endpoints.map((ip) => [ip, ready]));
    const slices = [slice(all, { ports: ports.map(({ name }, i) => slicePort(name, target(i))) })];
    for (const forwarding of resolve(one, slices, context)) {
      this.desired.set(forwarding.key, forwarding);
    }
    this.services.set(one.key, one);
    this.detection.resolved(one.key);
    return one.key;
  }

  /** Deletes a Service. */
  forget(key: string): void {
    this.services.delete(key);
    for (const [id, { servicePort }] of this.desired) {
      if (`${servicePort.namespace}/${servicePort.name}` === key) this.desired.delete(id);
    }
    this.detection.resolved(key);
  }

  /** The Forwarding of a Service of one port. */
  of(key: string): Forwarding {
    return [...this.desired.values()].find(
      ({ servicePort }) => `${servicePort.namespace}/${servicePort.name}` === key,
    )!;
  }

  /** The endpoints of a Service that have not all of their share, as text, and their part. */
  parts(key: string): Record<string, number> {
    const { cluster, family, key: forwarding } = this.of(key);
    const parts = this.detection.parts(family, forwarding);
    const found: Record<string, number> = {};
    for (let i = 0; i < cluster.length; i += 1) {
      const part = parts?.get(cluster.key(i));
      if (part !== undefined) found[cluster.text(i)] = part;
    }
    return found;
  }

  async tables(): Promise<number> {
    const { records } = await this.fake.dump({ kind: 'tablesDump', family: 2 });
    return records.length;
  }
}
