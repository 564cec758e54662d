/** A Service of many ports, whose claims are compared in steps, between which others claim. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { FrontendOwners, type Ownership } from '../../../src/state/frontend-owners.ts';
import { resolve } from '../../../src/state/resolve.ts';
import { finish } from '../../../src/state/steps.ts';
import type { Service } from '../../../src/state/types.ts';
import { context, portsOf, service } from './build.ts';

const least = 300;
const [clusterIP, externalIP] = ['10.96.0.1', '203.0.113.1'];

/** The ports of a Service at its own address and at one that all Services have. */
interface Ports {
  readonly first: number;
  readonly count: number;
  readonly hasNodePorts: boolean;
  /** Of ports that begin at its first one; 0: no range. */
  readonly range: number;
}

const ports = fc.record({
  first: fc.nat(200).map((i) => 1000 + i),
  count: fc.nat(40).map((i) => least + i),
  hasNodePorts: fc.boolean(),
  range: fc.constantFrom(0, 0, 150, 500),
});

function of(
  name: 'large' | 'other',
  { count, first, hasNodePorts, range }: Ports,
  best: string,
): Service {
  const all = portsOf(count, {}, first).map((port, i) => {
    return { ...port, nodePort: hasNodePorts && i % 50 === 0 ? 30_000 + port.port : 0 };
  });
  return service({
    portRange: range === 0 ? undefined : { first, last: first + range },
    ...{ name, createdMs: name === best ? 0 : 1, ports: all, externalIPs: [externalIP] },
    clusterIPs: [name === 'large' ? clusterIP : '10.96.0.2'],
  });
}

function set(owners: FrontendOwners, one: Service) {
  return owners.set(one, resolve(one, [], context));
}

it('a Service of many ports has the same frontends, whenever another one claims some of them', () => {
  const other = fc.option(fc.record({ ports, atStep: fc.nat(14) }), { nil: undefined });
  const round = fc.record({ ports, other });
  const best = fc.constantFrom('large', 'other');
  fc.assert(
    fc.property(best, fc.array(round, { minLength: 2, maxLength: 4 }), (best, rounds) => {
      const owners = new FrontendOwners();
      let others: Service | undefined;
      for (const { ports, other } of rounds) {
        const large = of('large', ports, best);
        const affected = new Set<string | undefined>();
        const noted = (result: Ownership): Ownership => {
          for (const one of result.affected) affected.add(one);
          return result;
        };
        const steps = set(owners, large);
        let owned = steps.next();
        for (let step = 0; !owned.done; step += 1) {
          if (step === other?.atStep) {
            others = of('other', other.ports, best);
            noted(finish(set(owners, others)));
          }
          owned = steps.next();
        }
        let { forwardings: has } = noted(owned.value);
        while (affected.size > 0) {
          if (affected.delete('ns/other')) noted(finish(set(owners, others!)));
          if (affected.delete('ns/large')) has = noted(finish(set(owners, large))).forwardings;
          affected.delete(undefined);
        }
        const expected = new FrontendOwners();
        if (others !== undefined) finish(set(expected, others));
        const { forwardings } = finish(set(expected, large));
        const frontends = has.flatMap((one) => one.frontends);
        expect(frontends).toEqual(forwardings.flatMap((one) => one.frontends));
        const all = resolve(large, [], context).flatMap((one) => one.frontends);
        const ownersOfAll = (of: FrontendOwners) =>
          all.map((frontend) => of.ownerOf('IPv4', 'TCP', frontend));
        expect(ownersOfAll(owners)).toEqual(ownersOfAll(expected));
      }
      owners.release('ns/large');
      owners.release('ns/other');
      const [at] = service({ externalIPs: [externalIP] }).externalIPs;
      for (let port = 1000; port < 1600; port += 1) {
        if (owners.ownerOf('IPv4', 'TCP', { address: at!, port }) !== undefined) {
          expect.fail(`port ${port} has an owner`);
        }
      }
    }),
    { numRuns: 20 },
  );
});
