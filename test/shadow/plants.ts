/** What a cluster says after kube-proxy has stopped: each plant makes one Service's rules wrong. */
import { nameOf, type Raw, serviceOf, slicesOf } from './mixed.ts';

export interface Plant {
  /** `ns/name` */
  readonly service: string;
  /** The difference that reports it. */
  readonly says: RegExp;
  /** Objects as they are now. */
  readonly apply: readonly Raw[];
  /** The Service is gone. */
  readonly isDeleted: boolean;
}

interface Kind {
  /** The Services that it can be done to. */
  readonly fits: (service: Spec) => boolean;
  readonly says: (firstEndpoint: string) => RegExp;
  readonly service?: (raw: Raw, spec: Spec) => Raw;
  readonly endpoints?: (endpoints: readonly Raw[]) => readonly Raw[];
  readonly isDeleted?: true;
}

type Spec = Raw & {
  readonly type: string;
  readonly ports: readonly Raw[];
  readonly loadBalancerSourceRanges?: readonly string[];
  readonly externalTrafficPolicy?: string;
  readonly sessionAffinity: string;
};

const any = (): boolean => true;
const escaped = (text: string): string => text.replaceAll('.', '\\.');
const changed = (spec: (before: Spec) => Raw) => (raw: Raw, before: Spec) => {
  return { ...raw, spec: { ...before, ...spec(before) } };
};
const first = (conditions: Raw) => (endpoints: readonly Raw[]) =>
  endpoints.map((one, i) => (i === 0 ? { ...one, conditions } : one));
const addressOf = (endpoint: Raw): string => (endpoint.addresses as string[])[0]!;

const kinds: readonly Kind[] = [
  {
    fits: any,
    endpoints: first({ ready: false, serving: false, terminating: false }),
    says: (address) =>
      new RegExp(`^kube-proxy sends to ${escaped(address)}:\\d+, which is not ready`),
  },
  {
    fits: any,
    endpoints: first({ ready: false, serving: true, terminating: true }),
    says: (address) =>
      new RegExp(`^kube-proxy sends to ${escaped(address)}:\\d+, which is termina`),
  },
  {
    fits: any,
    endpoints: (endpoints) => endpoints.slice(1),
    says: (address) =>
      new RegExp(`^kube-proxy sends to ${escaped(address)}:\\d+, which is in no End`),
  },
  {
    fits: any,
    endpoints: (endpoints) => [...endpoints, { ...endpoints[0], addresses: ['10.249.9.9'] }],
    says: () => /^endpoint missing: kube-proxy does not send to 10\.249\.9\.9:\d+/,
  },
  { fits: any, isDeleted: true, says: () => /^stale: there is no such Service/ },
  {
    fits: any,
    service: changed(({ ports: [port, ...more] }) => ({ ports: [{ ...port, port: 81 }, ...more] })),
    says: () => /^frontend missing in the kernel/,
  },
  {
    fits: ({ sessionAffinity }) => sessionAffinity === 'None',
    service: changed(() => ({
      sessionAffinity: 'ClientIP',
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 77 } },
    })),
    says: () => /^session affinity differs: kube-proxy has none, expected 77 s/,
  },
  {
    fits: ({ type, externalTrafficPolicy }) => {
      return type === 'NodePort' && externalTrafficPolicy === 'Cluster';
    },
    service: changed(() => ({ externalTrafficPolicy: 'Local' })),
    says: () => /^policy differs: kube-proxy has Cluster, expected Local/,
  },
  {
    fits: ({ loadBalancerSourceRanges }) => loadBalancerSourceRanges !== undefined,
    service: changed(() => ({ loadBalancerSourceRanges: ['203.0.113.0/25'] })),
    says: () => /^source ranges differ: kube-proxy lets in .*, expected 203\.0\.113\.0\/25/,
  },
  {
    fits: any,
    endpoints: () => [],
    says: () => /^refusal differs: kube-proxy has no rule for it, expected reject/,
  },
];

/** Plants in a cluster of these mixed Services, of each kind in its turn, from the first one on. */
export function plants(services: Iterable<number>, count: number, firstKind = 0): Plant[] {
  const found: Plant[] = [];
  for (const i of services) {
    if (found.length === count) break;
    const plant = isPlain(i) && plantAt(i, kinds[(firstKind + found.length) % kinds.length]!);
    if (plant) found.push(plant);
  }
  return found;
}

/** Of IPv4 alone, with endpoints that are all used, whatever the policies. */
function isPlain(i: number): boolean {
  const spec = serviceOf(i).spec as Spec & Raw;
  const endpoints = endpointsOf(i);
  const isUsed = (one: Raw): boolean => (one.conditions as Raw).ready === true && !one.hints;
  const ingress = (serviceOf(i).status as { loadBalancer: Raw }).loadBalancer.ingress as Raw[];
  const isVIP = ingress === undefined || ingress[0]?.ipMode === 'VIP';
  const families = spec.ipFamilies as string[];
  return (
    families.join() === 'IPv4' &&
    spec.internalTrafficPolicy === 'Cluster' &&
    endpoints.length >= 2 &&
    endpoints.every(isUsed) &&
    isVIP
  );
}

function endpointsOf(i: number): readonly Raw[] {
  return slicesOf(i)[0]!.endpoints as readonly Raw[];
}

function plantAt(i: number, { fits, isDeleted, ...kind }: Kind): Plant | undefined {
  const service = serviceOf(i);
  const spec = service.spec as Spec;
  if (!fits(spec)) return undefined;
  const { namespace, name } = nameOf(i);
  const [slice] = slicesOf(i);
  const apply = [
    ...(kind.service ? [kind.service(service, spec)] : []),
    ...(kind.endpoints ? [{ ...slice, endpoints: kind.endpoints(endpointsOf(i)) }] : []),
  ];
  return {
    service: `${namespace}/${name}`,
    says: kind.says(addressOf(endpointsOf(i)[0]!)),
    apply,
    isDeleted: isDeleted ?? false,
  };
}
