/** What is wrong with a Service, and what decides about its endpoints, each a sentence. */
import type { ServiceAnswer } from '../../ask/service.ts';
import { portTitle } from '../../ask/service-words.ts';
import { counted } from '../../ask/words.ts';
import { type Excess, formatExcess } from '../../state/budget.ts';
import { choose } from '../../state/categorise.ts';
import type { Seen } from '../../state/resolve.ts';
import { whyIgnored } from '../../state/topology.ts';
import type { EndpointSlice, Service } from '../../state/types.ts';
import { failureText } from '../refusal-text.ts';
import {
  otherFamilyProblems,
  serviceAddressProblems,
  unknownNodeProblems,
} from './endpoint-problems.ts';
import type { Inside } from './inside.ts';
import { forwardingKeys } from './port-state.ts';

type Port = ServiceAnswer['ports'][number];

interface Subject {
  readonly service: Service;
  readonly ports: readonly Port[];
  readonly excess: readonly Excess[];
}

/** Why connections to it may fail. */
export function serviceProblems(inside: Inside, { service, ports, excess }: Subject): string[] {
  const slices = inside.state.slices(service.key);
  return [
    ...noEndpoints(slices),
    ...ports.flatMap((port) => [
      ...otherFamilyProblems(port, slices),
      ...missingPort(port, slices),
      ...portProblems(port),
    ]),
    ...serviceAddressProblems(inside.state, slices),
    ...unknownNodeProblems(service, slices),
    ...refusals(inside, service),
    ...excess.map((one) => `It asks for too much and gets a part: ${formatExcess(one)}.`),
  ];
}

export function noEndpoints(slices: readonly EndpointSlice[]): string[] {
  if (slices.length === 0) {
    return [
      'No EndpointSlice with IP addresses belongs to it: it has no selector, nothing makes ' +
        'EndpointSlices, or their label kubernetes.io/service-name or their addressType is wrong.',
    ];
  }
  if (slices.some(({ length }) => length > 0)) return [];
  return ['Its EndpointSlices name no endpoint: its selector matches no pod.'];
}

function portProblems(port: Port): string[] {
  const of = `Port ${portTitle(port)} in ${port.family}`;
  const lost = port.frontends.flatMap(({ address, heldBy, kind, port: number }) => {
    if (heldBy === undefined) return [];
    return [`${of} does not get ${kind} ${address ?? '*'}:${number}, which ${heldBy} holds.`];
  });
  const treatments = new Set(port.frontends.map(({ treatment }) => treatment));
  const { endpointCount } = port;
  const none =
    endpointCount === 1
      ? 'its only endpoint is not'
      : `none of its ${counted(endpointCount, 'endpoint')} is`;
  return [
    ...lost,
    ...(treatments.has('reject') && endpointCount > 0
      ? [`${of} refuses connections: ${none} ready.`]
      : []),
    ...(treatments.has('drop')
      ? [
          `${of} drops connections: internalTrafficPolicy is Local, and ${none} on this node and ready.`,
        ]
      : []),
    ...(treatments.has('external-local') && port.local === 0
      ? [
          `${of} drops connections from outside: externalTrafficPolicy is Local, and ${none} on this node and ready.`,
        ]
      : []),
  ];
}

function refusals(inside: Inside, service: Service): string[] {
  const keys = new Set(forwardingKeys(service));
  return (inside.engine()?.families ?? []).flatMap(({ family, quarantined }) =>
    Array.from(quarantined)
      .filter(({ key }) => keys.has(key))
      .map(({ failure, inForce, key }) => {
        const before =
          inForce === undefined ? 'nothing of it is in force' : 'it is as it was before';
        return `The kernel refuses ${key} in ${family}: ${failureText(failure)}; ${before}.`;
      }),
  );
}

/** What decides about a port's endpoints. */
export function portRemarks(seen: Seen, zone: string): string[] {
  const { external, internal } = seen.policy;
  return [
    ...(internal === 'Local' ? ['Pods of this node reach endpoints of this node only.'] : []),
    ...(external === 'Local'
      ? ['From outside, endpoints of this node only are reached, and see the client’s address.']
      : []),
    ...endpointRemarks(seen, zone),
  ];
}

/** What the endpoints themselves decide: topology, hints, readiness. */
export function endpointRemarks({ candidates, policy }: Seen, zone: string): string[] {
  const { flags } = candidates;
  const { cluster, local } = choose(flags, policy);
  const ignored = cluster && whyIgnored(flags, zone);
  const isLast = [cluster, local].some((choice) => {
    return choice?.standard === 'serving' && flags.some(choice.takes);
  });
  return [
    ...(cluster?.topology === 'SameNode' ? ['Hints choose endpoints for this node.'] : []),
    ...(cluster?.topology === 'SameZone' ? [`Hints choose endpoints for zone ${zone}.`] : []),
    ...(ignored === undefined ? [] : [`Hints are ignored: ${ignored}.`]),
    ...(isLast ? ['Where none is ready, endpoints are used that terminate and still serve.'] : []),
  ];
}

/** Finds the most frequent mistake: the names of ports differ. */
export function missingPort(
  {
    endpointCount,
    family,
    name,
    protocol,
  }: Pick<Port, 'endpointCount' | 'family' | 'name' | 'protocol'>,
  all: readonly EndpointSlice[],
): string[] {
  const slices = all.filter((slice) => slice.family === family && slice.length > 0);
  if (endpointCount > 0 || slices.length === 0) return [];
  const known = firstPorts(slices);
  const offered = known.length === 0 ? 'no port' : known.join(', ');
  return [
    `No EndpointSlice of ${family} has a port named "${name}" for ${protocol}, they have ` +
      `${offered}: targetPort may name a port that no container has.`,
  ];
}

/** The first few distinct values. */
function firstPorts(slices: readonly EndpointSlice[]): string[] {
  const known = new Set<string>();
  for (const { ports } of slices) {
    for (const { name, port, protocol } of ports) {
      known.add(`"${name}" (${port}/${protocol})`);
      if (known.size === 5) return [...known];
    }
  }
  return [...known];
}
