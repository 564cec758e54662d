/** A client of `kubectl fairlead test`: makes all attempts, and prints a line for each. */
import {
  type Attempt,
  attemptsOf,
  type Client,
  type Frontends,
  type Scene,
  type Server,
} from './checks.ts';
import type { Exchange } from './exchange.ts';
import { judge } from './judge.ts';

/** The most bytes that the kubelet takes of a message of a container that ends. */
const messageBytesMax = 4096;

/**
 * A line for each failure: check, target, node that decides, the client as that node sees it, and
 * what is wrong. Then one for each check with the number of attempts that passed, and `end`.
 */
export async function report(scene: Scene, exchange: Exchange): Promise<string> {
  const attempts = attemptsOf(scene);
  const verdicts = await Promise.all(attempts.map((one) => judge(one, scene, exchange)));
  const failed = attempts.flatMap((one, i) =>
    verdicts[i] === undefined ? [] : [`fail\t${line(one)}\t${verdicts[i].slice(0, 120)}\n`],
  );
  const passed = new Map<string, number>();
  for (const [i, { check }] of attempts.entries()) {
    if (verdicts[i] === undefined) passed.set(check, (passed.get(check) ?? 0) + 1);
  }
  const rest = [...passed].map(([check, count]) => `pass\t${check}\t${count}\n`).join('');
  const end = 'end\n';
  let text = '';
  for (const [i, one] of failed.entries()) {
    const more = `more\t${failed.length - i}\n`;
    if (text.length + one.length + more.length + rest.length + end.length > messageBytesMax) {
      text += more;
      break;
    }
    text += one;
  }
  return `${text}${rest}${end}`;
}

function line({ address, check, decidedOn, family, port, protocol, seenAs }: Attempt): string {
  const target = `${family === 'IPv6' ? `[${address}]` : address}:${port}/${protocol}`;
  return [check, target, decidedOn, seenAs].join('\t');
}

/** The objects of the API that the test has made: a list of Services and pods. */
interface Listed {
  readonly items: readonly {
    readonly kind: string;
    readonly metadata: { readonly name: string };
    readonly spec: {
      readonly clusterIPs?: readonly string[];
      readonly externalIPs?: readonly string[];
      readonly healthCheckNodePort?: number;
      readonly nodeName?: string;
      readonly ports?: readonly {
        readonly nodePort?: number;
        readonly port: number;
        readonly protocol: 'TCP' | 'UDP';
      }[];
    };
    readonly status: {
      readonly loadBalancer?: { readonly ingress?: readonly { readonly ip?: string }[] };
      readonly podIPs?: readonly { readonly ip: string }[];
    };
  }[];
}

/** `nodes`: addresses by the names of nodes. Servers are in the order of their names. */
export function sceneOf(
  listed: Listed,
  nodes: ReadonlyMap<string, readonly string[]>,
  { network, node }: Pick<Client, 'network' | 'node'>,
): Scene {
  const services = listed.items
    .filter(({ kind }) => kind === 'Service')
    .flatMap(({ metadata: { name }, spec, status }): Frontends[] => {
      const { clusterIPs = [], externalIPs = [], healthCheckNodePort: TCP, ports = [] } = spec;
      const nodePorts = Object.fromEntries(ports.map((one) => [one.protocol, one.nodePort]));
      const ingress = status.loadBalancer?.ingress ?? [];
      const loadBalancerIPs = ingress.flatMap(({ ip }) => ip ?? []);
      const port = ports[0]?.port ?? 0;
      const all = { name, clusterIPs, externalIPs, loadBalancerIPs, nodePorts, port };
      return [all, { ...all, name: `${name}-health`, nodePorts: { TCP } }];
    });
  const servers = listed.items
    .filter(({ kind }) => kind === 'Pod')
    .map(({ metadata: { name }, spec: { nodeName = '' }, status }): Server => {
      const podAddresses = (status.podIPs ?? []).map(({ ip }) => ip);
      return { name, node: nodeName, podAddresses, nodeAddresses: nodes.get(nodeName) ?? [] };
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  return { services, servers, client: { network, node, addresses: nodes.get(node) ?? [] } };
}
