/** Downloads through the Service `web` of pod-b, of both families, from outside and from a pod. */
import { expect } from 'vitest';
import type { LoggedMessage } from '../../scripts/log-messages.ts';
import type { Addresses } from '../conformance/kube-proxy-rules.ts';
import {
  CLUSTER_CIDR,
  clusterIp,
  FAMILIES,
  type Family,
  lbVip,
  POD_A_IP,
  POD_B_IP,
} from '../lab/addresses.ts';
import type { Lab } from '../lab/lab.ts';
import { BASELINE, service, slices, settings as standard } from '../lab/objects.ts';
import { answerMs } from '../lab/pace.ts';
import { serverOf } from '../lab/who-answers.ts';
import { until } from '../process/program.ts';
import type { LogLine } from './fairlead-proxy.ts';

export const vip = clusterIp(10);
export const objects = [...BASELINE, service('web'), ...slices('web', ['pod-b'])];
export const settings = {
  ...standard,
} as const;

const clients = (['client', 'pod-a'] as const).flatMap((actor) =>
  FAMILIES.map((family) => ({ actor, family, flow: `download ${family}` })),
);

/** Who answers when all is well. */
export const allFromB: readonly string[] = clients.map(() => 'pod-b');

/** What rules of kube-proxy have for Service `web`, with the endpoints pod-a and pod-b. */
export function kubeProxyAddresses(family: Family): Addresses {
  return {
    vip: vip[family],
    loadBalancer: lbVip(1)[family],
    endpoints: [POD_A_IP[family], POD_B_IP[family]],
    pods: CLUSTER_CIDR[family],
    loopback: family === 'IPv4' ? '127.0.0.0/8' : '::1',
    target: (address) => (family === 'IPv4' ? `${address}:8080` : `[${address}]:8080`),
  };
}

export class Downloads {
  readonly #lab: Lab;

  constructor(lab: Lab) {
    this.#lab = lab;
  }

  async listen(): Promise<void> {
    const podB = this.#lab.actors['pod-b'];
    for (const family of FAMILIES) await podB.listen('TCP', POD_B_IP[family], 8080);
  }

  /** Begins one for each client, that ends when it is resumed; resolves to who serves them. */
  open(name: string): Promise<string[]> {
    return Promise.all(
      clients.map(async ({ actor, family, flow }) => {
        const { actors } = this.#lab;
        const download = { download: 'endless' } as const;
        return serverOf(await actors[actor].open(flow + name, attempt(family), download));
      }),
    );
  }

  /** Ends those of this name; resolves to who served them to the end. */
  resume(name: string): Promise<string[]> {
    return Promise.all(
      clients.map(async ({ actor, flow }) => {
        return serverOf(await this.#lab.actors[actor].resume(flow + name, answerMs));
      }),
    );
  }

  /** New connections work. */
  async connect(port = 80): Promise<void> {
    for (const { actor, family } of clients) {
      const tally = await this.#lab.actors[actor].connect(attempt(family, port), 8);
      for (const { outcome } of tally) expect(serverOf(outcome)).toBe('pod-b');
    }
  }
}

export async function untilTold(
  lines: readonly LogLine[],
  message: LoggedMessage,
  count = 1,
): Promise<void> {
  const logged = () => lines.filter(({ msg }) => msg === message).length;
  await until(() => logged() >= count, `${count} times in the log: ${message}`);
}

function attempt(family: Family, port = 80) {
  const to = { address: vip[family], port };
  return { protocol: 'TCP', to, timeoutMs: answerMs } as const;
}
