/**
 * Pods that connect to Services that change: what connection tracking keeps of them, and whom
 * session affinity binds them to.
 */
import { type Family, joinHostPort } from '../../src/net/address.ts';
import type { Random } from '../chaos/random.ts';
import { areTranslated, endpointsAtConnectTime } from '../fake/connect-time.ts';
import { FakeConntrack, kernelRefusal } from '../fake/conntrack.ts';
import type { FakeKernel } from '../fake/kernel.ts';
import { address } from '../unit/state/build.ts';
import { nodeAddresses } from './machine.ts';
import type { ObjectLife, Target } from './objects.ts';

/** Connections of one step, and the most that are kept between two checks. */
const aStep = 8;
const keptMost = 100;

/** More than any pool has endpoints. */
const drawsMost = 40;

/** Pods that connect, by number. */
const podsMost = 6;

/** Interruptions in a row: a dump is tried once more than that. */
const interruptionsMost = 4;

export class Clients {
  readonly conntrack = new FakeConntrack();
  readonly #kernel: FakeKernel;
  readonly #life: ObjectLife;
  readonly #random: Random;
  #sent: { readonly target: Target; readonly text: string; readonly isAging: boolean }[] = [];
  /** Virtual services of IPVS, and the real servers to which they have a connection. */
  #held: { readonly service: string; readonly server: string }[] = [];
  #refusals = 0;
  /** Until the next check, dumps of connection tracking are interrupted, often several in a row. */
  areInterrupted = false;
  /** Interruptions of a family's dumps until one is whole. */
  readonly #interruptions = new Map<Family, number>();
  /** A program has not seen all that came and went since the last check. */
  areUnwatched = false;

  constructor(kernel: FakeKernel, life: ObjectLife, random: Random) {
    this.#kernel = kernel;
    this.#life = life;
    this.#random = random;
    this.conntrack.before = (operation) => {
      this.conntrack.dumps = this.conntrack.dumps.slice(-1);
      if (this.areInterrupted && operation === 'dump') this.#interrupt();
      if (this.#refusals === 0) return;
      this.#refusals -= 1;
      throw kernelRefusal('ENOBUFS');
    };
  }

  /** The next dumps and deletions fail. */
  refuse(times: number): void {
    this.#refusals = times;
  }

  #interrupt(): void {
    const { family } = this.conntrack.dumps.at(-1)!;
    const left = this.#interruptions.get(family) ?? this.#random.below(interruptionsMost + 1);
    this.conntrack.interruptions = Math.min(left, 1);
    if (left > 0) this.#interruptions.set(family, left - 1);
    else this.#interruptions.delete(family);
  }

  heal(): void {
    this.#refusals = 0;
    this.areInterrupted = false;
    this.conntrack.interruptions = 0;
    this.forget();
  }

  /** The connections of IPVS end. */
  forget(): void {
    const { ipvs } = this.#kernel;
    for (const { server, service } of this.#held) {
      if (ipvs.connections(service, server).own !== undefined)
        ipvs.traffic(service, server, { activeConnections: 0 });
    }
    this.#held = [];
  }

  /** Some pods connect. */
  send(): void {
    for (let i = 0; i < aStep && this.#sent.length < keptMost; i += 1) {
      const target = this.#life.someTarget();
      const from = podOf(target, this.#random.below(podsMost));
      const { to: answeredBy, translated, verdict } = this.#reached(this.#kernel, target, from);
      if (verdict !== 'accept' || !translated) continue;
      const { address, port, protocol } = target;
      const [client, to] = [
        joinHostPort(from, 1024 + this.#sent.length),
        joinHostPort(address, port),
      ];
      if (protocol === 'TCP') this.#hold(`TCP ${to}`, answeredBy);
      const isAging = protocol === 'TCP' && this.#life.endsOld(address);
      const answered = protocol !== 'TCP' || isAging;
      const entry = { protocol, from: client, to, answeredBy, answered };
      this.conntrack.add(entry);
      // Some open many, which slots of `least-connections` follow.
      const more = this.#sent.length % 16 === 0 && !isAging ? 40 : 0;
      for (let n = 0; n < more; n += 1) {
        this.conntrack.add({ ...entry, from: joinHostPort(from, 2000 + n) });
      }
      const text = `${protocol} ${client} > ${to}, reply ${answeredBy} >`;
      this.#sent.push({ target, text, isAging });
    }
  }

  #hold(service: string, server: string): void {
    const { ipvs } = this.#kernel;
    if (ipvs.connections(service, server).own === undefined) return;
    ipvs.traffic(service, server, { activeConnections: 1, connections: 1 });
    this.#held.push({ service, server });
  }

  /** Connections of IPVS whose real server has gone, or was made again, while its service stays. */
  cut(): string[] {
    const { ipvs } = this.#kernel;
    const cut: string[] = [];
    const before = this.#held;
    this.#held = [];
    for (const one of before) {
      const { all = 0, own = 0 } = ipvs.connections(one.service, one.server);
      if (own > 0) this.#held.push(one);
      else if (all > 0) cut.push(`${one.service} -> ${one.server}`);
    }
    return cut;
  }

  /** Entries whose endpoint has left their Service, and where `endsOld`, those that are too old. */
  stale(endsOld: boolean): string[] {
    const kept = this.conntrack.texts;
    const stale = this.#sent.filter(({ isAging, target, text }) => {
      if (!kept.some((one) => one.startsWith(text))) return false;
      const endpoints = this.#life.endpointsOf(target);
      // Others of TCP whose server has answered may stay.
      if (isAging) return endsOld && endpoints !== undefined && this.#life.endsOld(target.address);
      if (endpoints === undefined) return !this.areUnwatched;
      return ![...endpoints].some((one) => text.endsWith(`, reply ${one} >`));
    });
    return stale.map(({ text }) => text);
  }

  /** All connections end. Returns the addresses and ports to which they were. */
  end(): Target[] {
    const ended = Array.from(this.conntrack.texts, (text) => {
      const [, protocol, address = '', port] = /^(\w+) .* > \[?(\S+?)\]?:(\d+),/.exec(text)!;
      return { address, port: Number(port), protocol: protocol as Target['protocol'] };
    });
    this.conntrack.expire();
    this.#sent = [];
    this.areUnwatched = false;
    return ended;
  }

  /** Clients that reach what they could not reach in a kernel without their past. */
  astray(fresh: FakeKernel): string[] {
    const found: string[] = [];
    for (const target of this.#life.targets()) {
      const to = `${target.protocol} ${target.address}:${target.port}`;
      const others = Array.from({ length: drawsMost }, (_, at) => {
        return this.#reached(fresh, target, podOf(target, 10 + at), at).to;
      });
      for (let pod = 0; pod < podsMost; pod += 1) {
        const from = podOf(target, pod);
        const { to: server } = this.#reached(this.#kernel, target, from);
        const draws = [this.#reached(fresh, target, from, pod).to, ...others];
        if (!draws.includes(server)) found.push(`${server} by ${to}`);
      }
      const [own, expected] = [this.#kernel, fresh].map(({ bpf }) => {
        const ip = address(target.address);
        if (!areTranslated(bpf, ip)) return undefined;
        return endpointsAtConnectTime(bpf, ip, target.port)?.texts().sort();
      });
      // After a refusal, rules may decide for a while.
      if (own !== undefined && String(own) !== String(expected))
        found.push(`${own} instead of ${expected} at connect time`);
    }
    return found;
  }

  #reached(kernel: FakeKernel, { address, port, protocol }: Target, saddr: string, draw?: number) {
    const random = draw ?? this.#random.below(1000);
    const packet = { saddr, daddr: address, protocol, dport: port, iif: 'veth0' };
    return kernel.evaluate({ ...packet, nodeAddresses, random });
  }
}

function podOf({ address }: Target, n: number): string {
  return address.includes(':') ? `fd00:10:244:1::a${n.toString(16)}` : `10.244.1.${100 + n}`;
}
