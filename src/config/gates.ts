/**
 * Feature gates (behaviour document 2.7): those that touch a service proxy, with what they do
 * here, and the names of all others that kube-proxy 1.36 accepts because it is built from the same
 * tree as the rest of Kubernetes; clusters hand one list of gates to every component.
 */
import { otherGateNames } from './gate-names.ts';
import { nearest } from './spelling.ts';

interface Gate {
  readonly value: boolean;
  readonly stage: 'ALPHA' | 'BETA' | 'GA';
  /** locked: the value cannot be changed. */
  readonly state: 'locked' | 'free';
  readonly meaning: string;
}

const ga = (value: boolean, state: Gate['state'], meaning: string): Gate => {
  return { value, stage: 'GA', state, meaning };
};

export const proxyGates: Readonly<Record<string, Gate>> = {
  AllowServiceExternalIPs: ga(true, 'free', 'Program the externalIPs of Services.'),
  ComponentFlagz: { value: true, stage: 'BETA', state: 'free', meaning: 'Serve /flagz.' },
  ComponentStatusz: { value: true, stage: 'BETA', state: 'free', meaning: 'Serve /statusz.' },
  ContextualLogging: {
    value: true,
    stage: 'BETA',
    state: 'free',
    meaning: 'Accepted; log lines always carry their context.',
  },
  // Of Kubernetes 1.37, where it is off by default.
  KubeProxyNFTablesLocalhostNodePorts: {
    value: true,
    stage: 'ALPHA',
    state: 'free',
    meaning: 'Let sockets accept node ports on loopback addresses that are named, in every mode.',
  },
  LoggingAlphaOptions: {
    value: false,
    stage: 'ALPHA',
    state: 'free',
    meaning: 'Allow splitStream and infoBufferSize.',
  },
  LoggingBetaOptions: { value: true, stage: 'BETA', state: 'free', meaning: 'Allow format json.' },
  MultiCIDRServiceAllocator: ga(true, 'locked', 'Watch ServiceCIDR objects.'),
  NFTablesProxyMode: ga(true, 'locked', 'Allow mode nftables.'),
  NativeHistograms: {
    value: false,
    stage: 'ALPHA',
    state: 'free',
    meaning: 'Accepted; histograms are exposed with classic buckets.',
  },
  PreferSameTrafficDistribution: ga(true, 'locked', 'Honour hints that name nodes.'),
  WinDSR: ga(true, 'locked', 'For Windows nodes.'),
  WinOverlay: ga(true, 'locked', 'For Windows nodes.'),
};

/** Bulk switches: they set every gate of their stage that is not named itself. */
const bulk: Readonly<Record<string, Gate['stage']>> = { AllAlpha: 'ALPHA', AllBeta: 'BETA' };

interface ResolvedGates {
  /** Every gate of the proxy with its effective value. */
  readonly values: Readonly<Record<string, boolean>>;
  readonly errors: readonly string[];
  readonly warnings: readonly string[];
}

export function resolveGates(given: Readonly<Record<string, boolean>>): ResolvedGates {
  const values: Record<string, boolean> = {};
  for (const [name, gate] of Object.entries(proxyGates)) {
    const switches = Object.entries(bulk).filter(([, stage]) => stage === gate.stage);
    values[name] =
      switches.map(([name]) => given[name]).find((on) => on !== undefined) ?? gate.value;
  }
  const errors: string[] = [];
  const warnings: string[] = [];
  for (const [name, value] of Object.entries(given).sort(([a], [b]) => (a < b ? -1 : 1))) {
    const gate = Object.hasOwn(proxyGates, name) ? proxyGates[name] : undefined;
    if (gate === undefined) {
      const known = Object.hasOwn(bulk, name) || otherGateNames.has(name);
      if (!known) errors.push(unrecognized(name));
    } else if (gate.state === 'locked' && value !== gate.value) {
      const change = `cannot set feature gate ${name} to ${value}`;
      errors.push(`${change}, feature is locked to ${gate.value}`);
    } else {
      values[name] = value;
      if (gate.stage === 'GA') {
        warnings.push(
          `Setting GA feature gate ${name}=${value}. It will be removed in a future release.`,
        );
      }
    }
  }
  return { values, errors, warnings };
}

function unrecognized(name: string): string {
  const guess = nearest(name, [...Object.keys(proxyGates), ...otherGateNames]);
  const hint = guess === undefined ? '' : ` (did you mean ${guess}?)`;
  return `unrecognized feature gate: ${name}${hint}`;
}
