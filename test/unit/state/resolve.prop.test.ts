/** `resolve` against a slow and simple reading of the behaviour document's section 5.3. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { addressBytes, type Family } from '../../../src/net/address.ts';
import type { EndpointList } from '../../../src/net/endpoint-list.ts';
import { resolve } from '../../../src/state/resolve.ts';
import { Condition, type EndpointSlice, type Forwarding } from '../../../src/state/types.ts';
import { column, http, service, slice, slicePort } from './build.ts';

const contextIn = (zone: string) => ({ zone, nodeAddresses: [], externalIPsEnabled: true });
const context = contextIn('zone-a');
/** Of the node; empty: it has none. */
const zone = fc.constantFrom('zone-a', 'zone-b', 'zone-x', '');

interface Model {
  readonly lastByte: number;
  readonly port: number;
  readonly bits: number;
  readonly zones: readonly string[];
}

/** nodeHintedHere only with nodeHinted; all else in any combination. */
const bits = fc
  .nat(63)
  .map((value) => (value & Condition.nodeHintedHere ? value | Condition.nodeHinted : value));
const zones = fc.subarray(['zone-a', 'zone-b', '']);
const endpoint = fc.record({
  lastByte: fc.nat(7),
  port: fc.constantFrom(80, 8080),
  bits,
  zones,
});
const family = fc.constantFrom<Family>('IPv4', 'IPv6');
const policy = fc.constantFrom('Cluster' as const, 'Local' as const);
const anyService = fc.record({
  internalTrafficPolicy: policy,
  externalTrafficPolicy: policy,
  nodePort: fc.constantFrom(0, 30080),
  type: fc.constantFrom('ClusterIP' as const, 'NodePort' as const),
});

/** Endpoints cut into slices: one for each port number and each of `parts` pieces. */
function slicesOf(endpoints: readonly Model[], of: Family, parts: number): EndpointSlice[] {
  return [80, 8080].flatMap((port) =>
    Array.from({ length: parts }, (_, part) => {
      const mine = endpoints.filter((e, i) => e.port === port && i % parts === part);
      const zeroes = new Array<number>(addressBytes[of] - 1).fill(0);
      return {
        key: `ns/web-${port}-${part}`,
        service: 'ns/web',
        family: of,
        ports: [{ name: 'http', protocol: 'TCP' as const, port }],
        length: mine.length,
        addresses: column(...mine.flatMap(({ lastByte }) => [...zeroes, lastByte])),
        conditions: column(...mine.map((e) => e.bits)),
        zoneHints: mine.map((e) => e.zones),
        places: undefined,
        triggerTimeMs: undefined,
      };
    }),
  );
}

function serviceOf(fields: {
  internalTrafficPolicy: 'Cluster' | 'Local';
  externalTrafficPolicy: 'Cluster' | 'Local';
  nodePort: number;
  type: 'ClusterIP' | 'NodePort';
}) {
  const { nodePort, ...rest } = fields;
  return service({ ...rest, clusterIPs: ['10.96.0.1', 'fd00::1'], ports: [{ ...http, nodePort }] });
}

function resolveIn(of: Family, forwardings: readonly Forwarding[]): Forwarding {
  return forwardings.find((forwarding) => forwarding.family === of)!;
}

function idsOf(list: EndpointList): string[] {
  return Array.from({ length: list.length }, (_, i) => `${list.address(i).at(-1)}:${list.port(i)}`);
}

const has = (e: Model, name: keyof typeof Condition): boolean => (e.bits & Condition[name]) !== 0;
const isReady = (e: Model): boolean => has(e, 'ready');
const isDraining = (e: Model): boolean => has(e, 'serving') && has(e, 'terminating');

function firstNotEmpty(...lists: Model[][]): Model[] {
  return lists.find((list) => list.length > 0) ?? [];
}

function clusterModel(endpoints: readonly Model[], zone: string): Model[] {
  const usable = endpoints.filter(isReady);
  const forNode = usable.filter((e) => has(e, 'nodeHintedHere'));
  const forZone = usable.filter((e) => zone !== '' && e.zones.includes(zone));
  const byNode = usable.every((e) => has(e, 'nodeHinted')) ? forNode : [];
  const byZone = usable.every((e) => e.zones.length > 0) ? forZone : [];
  return firstNotEmpty(byNode, byZone, usable, endpoints.filter(isDraining));
}

function localModel(endpoints: readonly Model[]): Model[] {
  const here = endpoints.filter((e) => has(e, 'local'));
  return firstNotEmpty(here.filter(isReady), here.filter(isDraining));
}

const ids = (models: readonly Model[]): string[] =>
  [...models]
    .sort((x, y) => x.lastByte - y.lastByte || x.port - y.port)
    .map((e) => `${e.lastByte}:${e.port}`);

const unique = fc.uniqueArray(endpoint, { selector: (e) => `${e.lastByte}:${e.port}` });

describe('resolve', () => {
  it('puts the endpoints into the pools of the behaviour document', () => {
    fc.assert(
      fc.property(unique, anyService, family, zone, (endpoints, fields, of, zone) => {
        const all = resolve(serviceOf(fields), slicesOf(endpoints, of, 2), contextIn(zone));
        const forwarding = resolveIn(of, all);
        const external = fields.nodePort !== 0;
        const externalLocal =
          external && fields.type === 'NodePort' && fields.externalTrafficPolicy === 'Local';
        const internalLocal = fields.internalTrafficPolicy === 'Local';
        const cluster = internalLocal && !external ? [] : clusterModel(endpoints, zone);
        const local = internalLocal || externalLocal ? localModel(endpoints) : [];
        const reachable = new Set([...cluster, ...local].filter((e) => has(e, 'local')));
        expect({
          cluster: idsOf(forwarding.cluster),
          local: idsOf(forwarding.local),
          hairpin: idsOf(forwarding.hairpin),
          serving: idsOf(forwarding.serving),
        }).toEqual({
          cluster: ids(cluster),
          local: ids(local),
          hairpin: ids([...reachable]),
          serving: ids(endpoints.filter((e) => has(e, 'serving'))),
        });

        const hasAny = endpoints.some((e) => isReady(e) || isDraining(e));
        const fewer = { to: local.length > 0 ? 'local' : 'drop', isMasqueraded: false };
        const anywhere = { to: 'cluster', isMasqueraded: false };
        const masked = (path: { to: string }) => ({ ...path, isMasqueraded: true });
        const inside = internalLocal ? fewer : anywhere;
        const there = inside.to === 'drop' ? inside : masked(inside);
        const refused = { to: 'reject', isMasqueraded: false };
        const expected = [
          { pod: inside, node: there, outside: there },
          externalLocal
            ? { pod: anywhere, node: masked(anywhere), outside: fewer }
            : { pod: masked(anywhere), node: masked(anywhere), outside: masked(anywhere) },
        ].map((paths) => (hasAny ? paths : { pod: refused, node: refused, outside: refused }));
        expect(forwarding.frontends.map(({ paths }) => paths)).toEqual(
          expected.slice(0, external ? 2 : 1),
        );
      }),
      { numRuns: 1000 },
    );
  });

  it('does not depend on order and division of slices, even if they contradict each other', () => {
    const disagreeing = fc.array(endpoint, { maxLength: 12 });
    fc.assert(
      fc.property(
        disagreeing,
        anyService,
        family,
        fc.infiniteStream(fc.nat()),
        (endpoints, fields, of, random) => {
          const slices = slicesOf(endpoints, of, 3);
          const shuffled = slices
            .map((slice) => ({ slice, at: random.next().value }))
            .sort((x, y) => x.at - y.at)
            .map(({ slice }) => slice);
          const one = resolve(serviceOf(fields), slices, context);
          expect(resolve(serviceOf(fields), shuffled, context)).toEqual(one);
          expect(resolve(serviceOf(fields), slicesOf(endpoints, of, 1), context)).toEqual(one);
          const serving = idsOf(resolveIn(of, one).serving);
          expect(new Set(serving).size).toBe(serving.length);
        },
      ),
      { numRuns: 500 },
    );
  });

  it('resolves each port as if it were the only one of its Service', () => {
    const host = fc.record({ lastByte: fc.nat(5), bits });
    const hosts = fc.uniqueArray(host, { selector: (e) => e.lastByte, maxLength: 4 });
    const number = fc.constantFrom(80, 8080, undefined);
    const four = { minLength: 4, maxLength: 4 };
    const weight = fc.constantFrom(undefined, 1, 3, 100);
    const ofSome = fc.record({ hosts, weight, numbers: fc.array(number, four) });
    const nodePorts = fc.array(fc.constantFrom(0, 30_000), four);
    fc.assert(
      fc.property(fc.array(ofSome, { maxLength: 4 }), nodePorts, anyService, family, (...given) => {
        const [all, numbers, fields, of] = given;
        const ports = numbers.map((nodePort, i) => {
          return { ...http, name: `p${i}`, port: 1000 + i, nodePort: nodePort && nodePort + i };
        });
        const zeroes = new Array<number>(addressBytes[of] - 1).fill(0);
        const slices = all.map(({ hosts, weight, numbers }, i): EndpointSlice => {
          const sliced = numbers.flatMap((port, at) => {
            return port === undefined ? [] : [slicePort(`p${at}`, port)];
          });
          const addresses = column(...hosts.flatMap(({ lastByte }) => [...zeroes, lastByte]));
          const conditions = column(...hosts.map((e) => e.bits));
          const { length } = hosts;
          const key = `ns/web-${i}`;
          return {
            ...slice({}),
            family: of,
            key,
            ports: sliced,
            length,
            addresses,
            conditions,
            weight,
          };
        });
        const asked = { ...serviceOf({ ...fields, nodePort: 0 }), ports };
        const alone = ports.map((port) => resolve({ ...asked, ports: [port] }, slices, context));
        const expected = [0, 1].flatMap((at) => alone.map((one) => one[at]!));
        expect(resolve(asked, slices, context)).toEqual(expected);
        // What is known of its ports by then may have changed.
        resolve(asked, [], context);
        expect(resolve(asked, slices, context)).toEqual(expected);
      }),
      { numRuns: 300 },
    );
  });
});
