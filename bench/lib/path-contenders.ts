/** The ways that packets can take to an endpoint, each made on a stage of its own. */
import { existsSync, readFileSync } from 'node:fs';
import { availableParallelism, release } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { decodeChange, decodeContext } from '../../src/source/decode.ts';
import { FakeApi } from '../../test/fake/api-server-process.ts';
import { canTranslate } from '../../test/lab/connect-time.ts';
import { inPlace } from '../connect-time.ts';
import { objects } from './cluster.ts';
import { KubeProxy } from './kube-proxy.ts';
import { inNamespace, type Namespace } from './namespace.ts';
import {
  clusterCIDRs,
  clusterIPs,
  endpoints,
  type PathStage,
  serverPorts,
  servicePorts,
} from './path-stage.ts';
import { Product } from './product.ts';
import { withRig } from './rig.ts';

export interface Contender {
  readonly name: string;
  readonly toService: boolean;
  /** Why this machine, or one size, is without it; undefined: it can be measured. */
  lack(services: number): string | undefined;
  /** Programs the node of the stage, and runs `work` with the cgroup for clients, where it has one. */
  program(
    stage: PathStage,
    services: number,
    work: (cgroup?: string) => Promise<void>,
  ): Promise<void>;
}

/** kube-proxy takes minutes beyond. */
const theirServicesMax = 10_000;

export async function contenders(): Promise<readonly Contender[]> {
  const noFlowtables = await lackOfFlowtables();
  const noIPVS = lackOfIPVS();
  const peer = (mode: 'nftables' | 'iptables'): Contender => ({
    name: `kube-proxy, ${mode}`,
    toService: true,
    lack: (services) => {
      if (process.env.KUBE_PROXY === undefined) return 'KUBE_PROXY names no binary';
      return services > theirServicesMax ? 'takes minutes to program' : undefined;
    },
    program: (stage, services, work) => programTheirs(stage, services, mode, work),
  });
  const ours = (name: string, flags: readonly string[], lack?: string): Contender => ({
    name,
    toService: true,
    lack: () => lack,
    program: (stage, services, work) => programOurs(stage, services, flags, work),
  });
  return [
    { name: 'direct', toService: false, lack: () => undefined, program: (_, __, work) => work() },
    ours(rules, []),
    ours(flowtable, ['--fast-path=flowtable'], noFlowtables),
    {
      name: 'connect time',
      toService: true,
      lack: () => lackOfPrograms(),
      program: (stage, services, work) => programSockets(stage, services, work),
    },
    ours('mode ipvs', ['--proxy-mode=ipvs'], noIPVS),
    peer('nftables'),
    peer('iptables'),
  ];
}

export const rules = 'rules';
export const flowtable = 'rules, flowtable';

export function kernelName(): string {
  const kind = isUserMode() ? ' (user-mode Linux)' : '';
  return `Linux ${release()}${kind}, processors: ${availableParallelism()}`;
}

/** Its processor is a process of the host. */
function isUserMode(): boolean {
  return /^host\s/m.test(readFileSync('/proc/cpuinfo', 'utf8'));
}

function lackOfIPVS(): string | undefined {
  return existsSync('/proc/net/ip_vs') ? undefined : 'no IPVS in this kernel';
}

/** Mode ipvs, whose connections are looked up in the set `resets` a number of times. */
export function ipvsLooking(times: number): Contender {
  return {
    name: `look-ups: ${times}`,
    toService: true,
    lack: lackOfIPVS,
    program: (stage, services, work) =>
      programOurs(stage, services, ['--proxy-mode=ipvs'], async () => {
        lookIn(stage.node, times);
        await work();
      }),
  };
}

/** The chain's first rule is the look-up; others follow it. */
function lookIn(node: Namespace, times: number): void {
  const chain = ['ip', 'fairlead-ipvs', 'endpoints-check'];
  const listing = node.run('nft', ['-a', 'list', 'chain', ...chain]);
  const [, rule, handle] = /^\s*(.*@resets .*) # handle (\d+)$/m.exec(listing) ?? [];
  if (rule === undefined) throw new Error(`no look-up in set resets:\n${listing}`);
  const more = Array.from({ length: times }, () => `insert rule ${chain.join(' ')} ${rule}`);
  node.run(
    'nft',
    ['-f', '-'],
    [...more, `delete rule ${chain.join(' ')} handle ${handle}`].join('\n'),
  );
}

function lackOfPrograms(): string | undefined {
  if (!canTranslate()) return 'needs root, eBPF and cgroup2';
  // The memory of maps is refilled by irq_work, which comes there with the clock's tick alone.
  return isUserMode() ? 'user-mode Linux has no memory for the maps (ENOMEM)' : undefined;
}

function lackOfFlowtables(): Promise<string | undefined> {
  return inNamespace('flowtables', (namespace) => {
    const flow = 'flowtable f { hook ingress priority 0; devices = { lo }; }';
    const rule = 'chain c { type filter hook forward priority 0; ct packets > 20 flow add @f\n}';
    try {
      namespace.run('nft', ['-f', '-'], `table inet t {\n${flow}\n${rule}\n}\n`, 'ignore');
      return undefined;
    } catch {
      return 'no flowtables in this kernel';
    }
  });
}

const named = { namespace: 'bench', uid: 'path', creationTimestamp: '2026-01-01T00:00:00Z' };
const families = ['IPv4', 'IPv6'] as const;
const protocolOf = { requests: 'TCP', stream: 'TCP', packets: 'UDP' } as const;
const ports = ['requests', 'stream', 'packets'] as const;

/** The Service whose endpoint is the stage's server. */
const service = {
  kind: 'Service',
  metadata: { name: 'path', ...named },
  spec: {
    type: 'ClusterIP',
    clusterIP: clusterIPs.IPv4,
    clusterIPs: families.map((family) => clusterIPs[family]),
    ipFamilies: families,
    ipFamilyPolicy: 'RequireDualStack',
    ports: ports.map((name) => {
      const numbers = { port: servicePorts[name], targetPort: serverPorts[name] };
      return { name, protocol: protocolOf[name], ...numbers };
    }),
  },
  status: { loadBalancer: {} },
};

const slices = families.map((family) => ({
  kind: 'EndpointSlice',
  metadata: {
    ...{ name: `path-${family.toLowerCase()}`, ...named },
    labels: { 'kubernetes.io/service-name': 'path' },
  },
  addressType: family,
  endpoints: [
    {
      addresses: [endpoints[family]],
      conditions: { ready: true, serving: true, terminating: false },
    },
  ],
  ports: ports.map((name) => ({ name, protocol: protocolOf[name], port: serverPorts[name] })),
}));

const node = {
  kind: 'Node',
  metadata: { name: 'node-1' },
  status: { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] },
};

/** Runs `work` with an API server in the node's namespace that has the cluster. */
async function withApi(
  namespace: Namespace,
  services: number,
  work: (api: FakeApi) => Promise<void>,
): Promise<void> {
  const api = await FakeApi.start(namespace);
  try {
    await api.ask({ do: 'apply', object: node });
    await api.ask({ do: 'populate', services, endpoints: 1 });
    for (const object of [service, ...slices]) await api.ask({ do: 'apply', object });
    await work(api);
  } finally {
    await api.close();
  }
}

/** What is measured are the rules: the process has ended, as after a crash. */
async function programOurs(
  stage: PathStage,
  services: number,
  flags: readonly string[],
  work: () => Promise<void>,
): Promise<void> {
  await withApi(stage.node, services, async (api) => {
    const all = [...flags, `--cluster-cidr=${clusterCIDRs}`];
    const product = new Product(stage.node, api.kubeconfig, all, { isProbed: false });
    try {
      await product.programmedMs;
      await stage.answers();
      if (flags.includes('--fast-path=flowtable')) await hasDevices(stage.node);
    } finally {
      await product.stop();
    }
  });
  await work();
}

/** Resolves when the flowtable has both links. */
async function hasDevices(namespace: Namespace): Promise<void> {
  for (let waitedMs = 0; waitedMs < 60_000; waitedMs += 100) {
    const listing = namespace.run('nft', ['list', 'flowtables']);
    if (listing.includes('to-client') && listing.includes('to-server')) return;
    await sleep(100);
  }
  throw new Error('the fast path does not begin');
}

async function programTheirs(
  stage: PathStage,
  services: number,
  mode: 'nftables' | 'iptables',
  work: () => Promise<void>,
): Promise<void> {
  await withApi(stage.node, services, async (api) => {
    const peer = new KubeProxy(process.env.KUBE_PROXY!, stage.node, api.kubeconfig, mode);
    try {
      await stage.answers();
    } finally {
      await peer.stop();
    }
  });
  await work();
}

/** Connections are translated when they are made; the maps stay until then. */
function programSockets(
  stage: PathStage,
  services: number,
  work: (cgroup?: string) => Promise<void>,
): Promise<void> {
  return inPlace((place, placement) =>
    withRig(
      stage.node,
      async (rig) => {
        const context = decodeContext('node-1');
        const raws = [['services', service] as const, ['endpointslices', slices[0]] as const];
        const target = raws.map(([resource, raw]) => decodeChange(resource, raw, context).change!);
        await rig.load([...objects({ services, endpoints: 1 }), ...target]);
        await work(place.cgroup);
      },
      undefined,
      undefined,
      placement,
    ),
  );
}
