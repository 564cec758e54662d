/** Owners against a table of who would own what if all Services were looked at together. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatFrontend } from '../../../src/state/conflict.ts';
import { FrontendOwners, type Ownership, transferred } from '../../../src/state/frontend-owners.ts';
import { keysOf, type NodeSockets } from '../../../src/state/node-sockets.ts';
import { hasPort } from '../../../src/state/port-range.ts';
import { resolve } from '../../../src/state/resolve.ts';
import type { Forwarding, Frontend, Service } from '../../../src/state/types.ts';
import { address, http, service } from './build.ts';

const addresses = ['10.0.0.1', '10.0.0.2', '10.0.0.3'];
/** Where node ports are open, and this process listens on one. */
const nodeAddress = '10.0.0.3';
const sockets: NodeSockets = {
  addresses: keysOf([address(nodeAddress)]),
  nodePorts: keysOf([address(nodeAddress)]),
  listening: new Set([80]),
};

const anyService: fc.Arbitrary<Service> = fc
  .record({
    name: fc.constantFrom('a', 'b', 'c', 'd'),
    createdMs: fc.nat(2),
    clusterIPs: fc.constantFrom(...addresses).map((ip) => [ip]),
    externalIPs: fc.subarray(addresses),
    loadBalancerIPs: fc.subarray(addresses, { maxLength: 1 }),
    healthCheckNodePort: fc.constantFrom(0, 0, 30000),
    externalTrafficPolicy: fc.constant('Local' as const),
    type: fc.constant('LoadBalancer' as const),
    port: fc.constantFrom(80, 30000),
    /** From its first port on. */
    range: fc.constantFrom(0, 0, 1, 29_920),
    nodePorts: fc.constantFrom([0], [30000], [30001], [0, 30000], [30000, 30001]),
  })
  .map(({ nodePorts, port, range, ...fields }) =>
    service({
      ...fields,
      portRange: range === 0 ? undefined : { first: port, last: port + range },
      ports: nodePorts.map((nodePort, i) => ({ ...http, name: `p${i}`, port: port + i, nodePort })),
    }),
  );

type Step = Service | { readonly gone: string };
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: anyService },
  { weight: 1, arbitrary: fc.record({ gone: fc.constantFrom('a', 'b', 'c', 'd') }) },
);

function resolved(of: Service): Forwarding[] {
  return resolve(of, [], { zone: '', nodeAddresses: [], externalIPsEnabled: true });
}

function texts(forwardings: readonly Forwarding[]): Map<string, string> {
  return new Map(
    forwardings.flatMap((forwarding) =>
      forwarding.frontends.map((frontend) => [textOf(frontend), frontend.kind]),
    ),
  );
}

/** An address has one range. */
function textOf(frontend: Frontend): string {
  return formatFrontend('TCP', frontend).replace(/:\d+-\d+$/, ':range');
}

/**
 * Takes steps, and keeps what each Service owns. Several Services are worked off side by side, as a
 * sync does it.
 */
class Sync {
  readonly owners = new FrontendOwners();
  readonly services = new Map<string, Service>();
  readonly owned = new Map<string, readonly Forwarding[]>();
  readonly queue = new Set<string>();
  readonly begun = new Map<string, Generator<undefined, void>>();

  /** Takes a step in, and works nothing off yet. */
  note(next: Step): void {
    if ('gone' in next) this.services.delete(next.gone);
    else this.services.set(next.name, next);
    this.queue.add('gone' in next ? next.gone : next.name);
  }

  /** Works off at most `limit` steps, of Services in the order in which they were named. */
  drain(limit: number): void {
    for (let steps = 0; steps < limit; steps += 1) {
      expect(steps, 'all steps end').toBeLessThan(2000);
      const name = [...this.queue].find((one) => !this.begun.has(one));
      const begins = name !== undefined && (this.begun.size < 2 || steps % 3 === 0);
      if (begins) {
        this.queue.delete(name);
        this.begun.set(name, this.refresh(name));
      }
      const [job] = this.begun;
      if (job === undefined) {
        this.expectOwnersAreRight();
        return;
      }
      const { done } = job[1].next();
      this.begun.delete(job[0]);
      if (!done) this.begun.set(...job);
    }
  }

  *refresh(name: string): Generator<undefined, void> {
    const of = this.services.get(name);
    if (of === undefined) {
      this.owned.delete(name);
      yield* this.apply(this.owners.release(`ns/${name}`));
    } else {
      const ownership = yield* this.owners.set(of, resolved(of), sockets);
      this.owned.set(name, ownership.forwardings);
      yield* this.apply(ownership);
    }
  }

  *apply({ affected, transfers }: Omit<Ownership, 'forwardings'>): Generator<undefined> {
    for (const transfer of transfers) {
      const name = transfer.service.slice('ns/'.length);
      const { family, forwarding } = transfer;
      const all = this.owned.get(name)!;
      const isIts = (one: Forwarding) => one.key === forwarding && one.family === family;
      expect(all.filter(isIts)).toHaveLength(1);
      this.owned.set(
        name,
        all.map((one) => (isIts(one) ? transferred(one, transfer) : one)),
      );
    }
    this.expectNobodyShares();
    for (const one of affected) {
      yield;
      if (one !== undefined) this.queue.add(one.slice('ns/'.length));
    }
  }

  get written(): Map<string, Map<string, string>> {
    return new Map([...this.owned].map(([name, owned]) => [name, texts(owned)]));
  }

  /** Each frontend has the owner that the table names, and no other. */
  expectOwnersAreRight(): void {
    for (const [name, forwardings] of this.owned) {
      for (const { family, frontends, servicePort } of forwardings) {
        for (const frontend of frontends) {
          expect(frontend.isInRange, textOf(frontend)).toBe(this.isInRange(name, frontend));
          expect(this.owners.ownerOf(family, servicePort.protocol, frontend)).toBe(`ns/${name}`);
        }
      }
    }
  }

  /** Whether a range has the port, too, and does not begin with it as that of the Service does. */
  isInRange(name: string, { address, lastPort, port }: Frontend): true | undefined {
    if (address === undefined || lastPort !== undefined) return undefined;
    const isIn = [...this.owned].some(([other, all]) => {
      const has = (one: Frontend): boolean =>
        one.address?.key === address.key &&
        hasPort({ port: one.port + (other === name ? 1 : 0), lastPort: one.lastPort ?? 0 }, port);
      return all.some(({ frontends }) => frontends.some(has));
    });
    return isIn || undefined;
  }

  /** A ClusterIP that is the node's own address has precedence without further facts. */
  expectNobodyShares(): void {
    const all = [...this.written.values()].flatMap((frontends) => {
      const own = [...frontends].flatMap(([text, kind]) => {
        if (kind === 'nodePort') return [text, atTheNode(text)];
        return kind === 'clusterIP' ? [] : [text];
      });
      return [...new Set(own)];
    });
    expect(new Set(all).size).toBe(all.length);
  }
}

/** `TCP node port 30000` at the address of the node. */
function atTheNode(nodePort: string): string {
  return nodePort.replace('TCP node port ', `TCP ${nodeAddress}:`);
}

/** What no Service may have at the node's address except as a ClusterIP, and which Service may. */
function takenAtTheNode(services: readonly Service[]): Map<string, Set<string>> {
  const taken = new Map([[`TCP ${nodeAddress}:80`, new Set(['this proxy'])]]);
  const take = (text: string, name: string): void => {
    taken.set(text, (taken.get(text) ?? new Set()).add(name));
  };
  for (const [text, name] of bestOfAll(services, () => true)) {
    if (text.startsWith('TCP node port')) take(atTheNode(text), name);
  }
  for (const { healthCheckNodePort: port, name } of services) {
    if (port !== 0) take(`TCP ${nodeAddress}:${port}`, name);
  }
  return taken;
}

/** The owner of each frontend, from all Services together. */
function bestHolders(all: Iterable<Service>): Map<string, string> {
  const services = [...all];
  const taken = takenAtTheNode(services);
  const ranges = bestClaims(services, (_, text, kind) => {
    return kind === 'clusterIP' || text !== `TCP ${nodeAddress}:range`;
  });
  const isTaken = (of: Service, text: string, kind: string): boolean => {
    const range = ranges.get(text.replace(/:\d+$/, ':range'));
    const { first, last } = range?.of.portRange ?? { first: 0, last: 0 };
    const at = Number(text.split(':').at(-1));
    const isIn = at >= first && at <= last && range!.of !== of;
    return isIn && isBetter(range!, { of, kind });
  };
  const mayHave = (of: Service, text: string, kind: string, port: string): boolean => {
    if (text.endsWith(':range')) return ranges.get(text)?.of === of;
    if (isTaken(of, text, kind)) return false;
    if (kind === 'clusterIP') return true;
    if ([...(taken.get(text) ?? [])].some((name) => name !== of.name)) return false;
    // Another port of the Service has it as its node port.
    return !of.ports.some(
      ({ name, nodePort }) => name !== port && text === `TCP ${nodeAddress}:${nodePort}`,
    );
  };
  return bestOfAll(services, mayHave);
}

type MayHave = (of: Service, text: string, kind: string, port: string) => boolean;

function bestOfAll(services: readonly Service[], mayHave: MayHave): Map<string, string> {
  const best = bestClaims(services, mayHave);
  return new Map([...best].map(([text, { of }]) => [text, of.name]));
}

function bestClaims(services: readonly Service[], mayHave: MayHave) {
  const best = new Map<string, { of: Service; kind: string }>();
  for (const of of services) {
    const first = new Map<string, { kind: string; port: string }>();
    for (const { frontends, servicePort } of resolved(of)) {
      for (const frontend of frontends) {
        const text = textOf(frontend);
        if (!first.has(text)) first.set(text, { kind: frontend.kind, port: servicePort.port });
      }
    }
    for (const [text, { kind, port }] of first) {
      if (!mayHave(of, text, kind, port)) continue;
      const other = best.get(text);
      if (other === undefined || isBetter({ of, kind }, other)) best.set(text, { of, kind });
    }
  }
  return best;
}

const kinds = ['clusterIP', 'loadBalancerIP', 'nodePort', 'externalIP'];

function isBetter(
  one: { of: Service; kind: string },
  other: { of: Service; kind: string },
): boolean {
  const rank = ({ of, kind }: typeof one): string =>
    `${kinds.indexOf(kind)} ${of.createdMs} ${of.name}`;
  return rank(one) < rank(other);
}

function holders(sync: Sync): Map<string, string> {
  return new Map(
    [...sync.written].flatMap(([name, held]) => [...held.keys()].map((text) => [text, name])),
  );
}

describe('owners of frontends', () => {
  it('are the same after any history, however late it is processed', () => {
    const history = fc.array(fc.record({ next: step, limit: fc.nat(12) }), { maxLength: 25 });
    fc.assert(
      fc.property(history, (steps) => {
        const sync = new Sync();
        for (const { next, limit } of steps) {
          sync.note(next);
          sync.drain(limit);
        }
        sync.drain(Number.POSITIVE_INFINITY);
        expect(holders(sync)).toEqual(bestHolders(sync.services.values()));
      }),
      { numRuns: 1000 },
    );
  });
});
