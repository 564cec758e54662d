import type { PathDescriber } from '../../../modes/packet-path.ts';
import { formatEndpoint } from '../../../net/address.ts';
import { type Forwarding, type Frontend, formatServicePortName } from '../../../state/types.ts';
import type { FamilySync } from '../../../sync/family.ts';
import type { AgentState, RunningEngine, Setting } from '../agent-state.ts';
import type { Client } from './client.ts';
import type { Target } from './question.ts';

/** The input of an explanation. */
export interface ExplainInput {
  readonly agent: AgentState;
  readonly engine: RunningEngine;
  readonly sync: FamilySync;
  readonly setting: Setting;
  readonly describer: PathDescriber;
  readonly target: Target;
  readonly client: Client;
}

const kinds = {
  clusterIP: 'the ClusterIP',
  externalIP: 'an external IP',
  loadBalancerIP: 'a load-balancer IP',
  nodePort: 'the node port',
} as const satisfies Record<Frontend['kind'], string>;

/** `the ClusterIP of ns/web:http` */
export function describeHolder({ servicePort }: Forwarding, { kind }: Frontend): string {
  return `${kinds[kind]} of ${formatServicePortName(servicePort)}`;
}

/** `10.96.0.1:80/TCP`, `[fd00::1]:80/UDP` */
export function targetText({ target: { address, port, protocol } }: ExplainInput): string {
  return `${formatEndpoint(address.bytes, port)}/${protocol}`;
}
