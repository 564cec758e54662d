/**
 * Pods that connect to Services that change: what connection tracking keeps of them, and whom
 * session affinity binds them to.
 */
import { joinHostPort } from '../../src/net/address.ts';
import type { Random } from '../chaos/random.ts';
import { areTranslated, endpointsAtConnectTime } from '../fake/connect-time.ts';
import { FakeConntrack, kernelRefusal } from '../fake/conntrack.ts';
import type { FakeKernel } from '../fake/kernel.ts';
import { address } from '../unit/state/build.ts';
import { nodeAddresses } from './machine.ts';
import { type ObjectLife, randomTarget } from './objects.ts';

type Target = ReturnType<typeof randomTarget>;

/** Connections of one step, and the most that are kept between two checks. */
const aStep = 8;
const keptMost = 100;

/** More than any pool has endpoints. */
const drawsMost = 40;

export class Clients {
  readonly conntrack = new FakeConntrack();
  readonly #kernel: FakeKernel;
  readonly #life: ObjectLife;
  readonly #random: Random;
  #sent: { readonly target: Target; readonly text: string }[] = [];
  /** Virtual services of IPVS, and the real servers to which they have a connection. */
  #held: { readonly service: string; readonly server: string }[] = [];
  #refusals = 0;
  /** A program has not seen all that came and went since the last check. */
  areUnwatched = false;

  constructor(kernel: FakeKernel, life: ObjectLife, random: Random) {
    this.#kernel = kernel;
    this.#life = life;
    this.#random = random;
    this.conntrack.before = () => {
      if (this.#refusals === 0) return;
      this.#refusals -= 1;
      throw kernelRefusal('ENOBUFS');
    };
  }

  /** The next dumps and deletions fail. */
  refuse(times: number): void {
    this.#refusals = times;
  }

  heal(): void {
    this.#refusals = 0;
    this.conntrack.interruptions = 0;
    this.forget();
  }

  /** The connections of IPVS end. */
  forget(): void {
    const { ipvs } = this.#kernel;
    for (const { server, service } of this.#held) {
      if (typeof ipvs.connections(service, server) === 'number')
        ipvs.traffic(service, server, { activeConnections: 0 });
    }
    this.#held = [];
  }

  /** Some pods connect. */
  send(): void {
    for (let i = 0; i < aStep && this.#sent.length < keptMost; i += 1) {
      const target = this.#life.someTarget();
      const from = podOf(target, this.#random.below(6));
      const { to: answeredBy, translated, verdict } = this.#reached(this.#kernel, target, from);
      if (verdict !== 'accept' || !translated) continue;
      const { address, port, protocol } = target;
      const [client, to] = [
        joinHostPort(from, 1024 + this.#sent.length),
        joinHostPort(address, port),
      ];
      if (protocol === 'TCP') this.#hold(`TCP ${to}`, answeredBy);
      const entry = { protocol, from: client, to, answeredBy, answered: protocol !== 'TCP' };
      this.conntrack.add(entry);
      this.#sent.push({ target, text: `${protocol} ${client} > ${to}, reply ${answeredBy} >` });
    }
  }

  #hold(service: string, server: string): void {
    const { ipvs } = this.#kernel;
    if (ipvs.connections(service, server) === undefined) return;
    ipvs.traffic(service, server, { activeConnections: 1, connections: 1 });
    this.#held.push({ service, server });
  }

  /** Connections of IPVS whose real server has gone, while their virtual service stays. */
  cut(): string[] {
    const { ipvs } = this.#kernel;
    const cut: string[] = [];
    const before = this.#held;
    this.#held = [];
    for (const one of before) {
      const connections = ipvs.connections(one.service, one.server);
      if (connections === 'none') cut.push(`${one.service} -> ${one.server}`);
      else if (connections !== undefined) this.#held.push(one);
    }
    return cut;
  }

  /** Entries whose endpoint has left their Service. Afterwards the table is empty. */
  stale(): string[] {
    const kept = this.conntrack.texts;
    const stale = this.#sent.filter(({ target, text }) => {
      if (!kept.some((one) => one.startsWith(text))) return false;
      const endpoints = this.#life.endpointsOf(target);
      if (endpoints === undefined) return !this.areUnwatched;
      return ![...endpoints].some((one) => text.endsWith(`, reply ${one} >`));
    });
    this.conntrack.expire();
    this.#sent = [];
    this.areUnwatched = false;
    return stale.map(({ text }) => text);
  }

  /** Clients that reach what they could not reach in a kernel without their past. */
  astray(fresh: FakeKernel): string[] {
    const found: string[] = [];
    for (let i = 0; i < drawsMost; i += 1) {
      const target = randomTarget(this.#random);
      const from = podOf(target, this.#random.below(6));
      const { to } = this.#reached(this.#kernel, target, from);
      const others = Array.from({ length: drawsMost }, (_, at) => podOf(target, 10 + at));
      const draws = [from, ...others].map((one, at) => this.#reached(fresh, target, one, at).to);
      if (!draws.includes(to))
        found.push(`${to} by ${target.protocol} ${target.address}:${target.port}`);
      const [own, expected] = [this.#kernel, fresh].map(({ bpf }) => {
        const to = address(target.address);
        if (!areTranslated(bpf, to)) return undefined;
        return endpointsAtConnectTime(bpf, to, target.port)?.texts().sort();
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
