/**
 * Feature gates (behaviour document 2.7): those that concern a service proxy, with their stages by
 * release and what they do here. `gate-names.ts` has those of other components.
 */
import { formerGates, otherGates } from './gate-names.ts';
import { nearest } from './spelling.ts';
import { kubernetesVersion } from './version.ts';

/** What a gate is from a release on. */
interface Stage {
  /** `1.36` */
  readonly since: string;
  readonly stage: 'ALPHA' | 'BETA' | 'GA' | 'DEPRECATED';
  /** Whether it is on by default. */
  readonly value: boolean;
  /** The value cannot be changed. */
  readonly locked?: true;
}

interface Gate {
  readonly meaning: string;
  /** Oldest first. Those of releases to come are what the enhancement proposal plans. */
  readonly stages: readonly [Stage, ...Stage[]];
  /** Our default, where it differs from kube-proxy's. */
  readonly ours?: boolean;
}

const alpha = (since: string): Stage => ({ since, stage: 'ALPHA', value: false });
const beta = (since: string, value = true): Stage => ({ since, stage: 'BETA', value });
const ga = (since: string): Stage => ({ since, stage: 'GA', value: true });
const deprecated = (since: string, value: boolean): Stage => {
  return { since, stage: 'DEPRECATED', value };
};
const locked = (stage: Stage): Stage => ({ ...stage, locked: true });

export const proxyGates: Readonly<Record<string, Gate>> = {
  AllowServiceExternalIPs: {
    meaning: 'Program the externalIPs of Services.',
    stages: [ga('1.36'), deprecated('1.40', false), locked(deprecated('1.43', false))],
  },
  ComponentFlagz: { meaning: 'Serve /flagz.', stages: [alpha('1.32'), beta('1.36')] },
  ComponentStatusz: { meaning: 'Serve /statusz.', stages: [alpha('1.32'), beta('1.36')] },
  ContextualLogging: {
    meaning: 'Accepted; log lines always carry their context.',
    stages: [alpha('1.24'), beta('1.30')],
  },
  KubeProxyIPVS: {
    meaning: 'Accepted; mode ipvs is available with either value.',
    stages: [
      deprecated('1.37', true),
      deprecated('1.40', false),
      locked(deprecated('1.43', false)),
    ],
  },
  KubeProxyNFTablesLocalhostNodePorts: {
    meaning: 'Let sockets accept node ports on loopback addresses that are named, in every mode.',
    stages: [alpha('1.37'), beta('1.38')],
    ours: true,
  },
  LoggingAlphaOptions: {
    meaning: 'Allow splitStream and infoBufferSize.',
    stages: [alpha('1.24')],
  },
  LoggingBetaOptions: { meaning: 'Allow format json.', stages: [beta('1.24')] },
  MultiCIDRServiceAllocator: {
    meaning: 'Watch ServiceCIDR objects.',
    stages: [alpha('1.27'), beta('1.31', false), ga('1.33'), locked(ga('1.34'))],
  },
  NFTablesNetlink: {
    meaning: 'Accepted; the kernel is always asked by netlink.',
    stages: [beta('1.37')],
  },
  NFTablesProxyMode: {
    meaning: 'Allow mode nftables.',
    stages: [alpha('1.29'), beta('1.31'), locked(ga('1.33'))],
  },
  NativeHistograms: {
    meaning: 'Accepted; histograms are exposed with classic buckets.',
    stages: [alpha('1.36'), beta('1.37')],
  },
  PreferSameTrafficDistribution: {
    meaning: 'Honour hints that name nodes.',
    stages: [alpha('1.33'), beta('1.34'), locked(ga('1.35'))],
  },
  WinDSR: {
    meaning: 'For Windows nodes.',
    stages: [alpha('1.14'), beta('1.33'), locked(ga('1.34'))],
  },
  WinOverlay: {
    meaning: 'For Windows nodes.',
    stages: [alpha('1.14'), beta('1.20'), locked(ga('1.34'))],
  },
};

/** The release whose stages count: `1.36` of `v1.36.2`. */
export const ownRelease = /^v(\d+\.\d+)\./.exec(kubernetesVersion)![1]!;

function minorOf(release: string): number {
  return Number(release.split('.')[1]);
}

/** What a gate is in a release. A gate that is newer than the release is as it will be first. */
export function stageIn({ stages }: Gate, release: string): Stage {
  const reached = ({ since }: Stage): boolean => minorOf(since) <= minorOf(release);
  return stages.findLast(reached) ?? stages[0];
}

/** Bulk switches: they set every gate of their stage that is not named itself. */
const bulk: Readonly<Record<string, Stage['stage']>> = { AllAlpha: 'ALPHA', AllBeta: 'BETA' };

interface GateError {
  readonly gate: string;
  readonly text: string;
}

interface ResolvedGates {
  /** Every gate of the proxy with its effective value. */
  readonly values: Readonly<Record<string, boolean>>;
  readonly errors: readonly GateError[];
  readonly warnings: readonly string[];
}

/** Errors and warnings are kube-proxy's words of a release. */
export function resolveGates(
  given: Readonly<Record<string, boolean>>,
  release = ownRelease,
): ResolvedGates {
  const values: Record<string, boolean> = {};
  for (const [name, gate] of Object.entries(proxyGates)) {
    const { stage, value } = stageIn(gate, release);
    const switches = Object.keys(bulk).filter((name) => bulk[name] === stage);
    const switched = switches.map((name) => given[name]).find((on) => on !== undefined);
    values[name] = switched ?? gate.ours ?? value;
  }
  const errors: GateError[] = [];
  const warnings: string[] = [];
  for (const [name, value] of Object.entries(given).sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (Object.hasOwn(bulk, name)) continue;
    const gate = Object.hasOwn(proxyGates, name) ? proxyGates[name] : undefined;
    const foreign = foreignTo(release, name, gate);
    if (foreign !== undefined) warnings.push(foreign);
    if (gate === undefined) {
      if (!otherGates.has(name)) errors.push({ gate: name, text: unrecognized(name) });
      continue;
    }
    const stage = stageIn(gate, release);
    if (stage.locked && value !== stage.value) {
      const change = `cannot set feature gate ${name} to ${value}`;
      errors.push({ gate: name, text: `${change}, feature is locked to ${stage.value}` });
      continue;
    }
    values[name] = value;
    const leaving = { GA: 'GA', DEPRECATED: 'deprecated', ALPHA: '', BETA: '' }[stage.stage];
    if (leaving === '' || foreign !== undefined) continue;
    const setting = `Setting ${leaving} feature gate ${name}=${value}`;
    warnings.push(`${setting}. It will be removed in a future release.`);
  }
  return { values, errors, warnings };
}

/** A gate that other releases of Kubernetes know; kube-proxy of this release would not start. */
function foreignTo(release: string, name: string, gate: Gate | undefined): string | undefined {
  const known = gate === undefined ? otherGates.get(name) : { first: gate.stages[0].since };
  if (known === undefined) return undefined;
  const here = `kube-proxy ${release} does not know it`;
  if (minorOf(known.first) > minorOf(release)) {
    return `Feature gate ${name} is new in Kubernetes ${known.first}; ${here}.`;
  }
  if (known.last === undefined || minorOf(known.last) >= minorOf(release)) return undefined;
  return `Feature gate ${name} was last in Kubernetes ${known.last}; ${here}.`;
}

function unrecognized(name: string): string {
  const last = formerGates.get(name);
  if (last !== undefined) {
    const next = `1.${minorOf(last) + 1}`;
    return `unrecognized feature gate: ${name} (removed in Kubernetes ${next}: delete the line)`;
  }
  const guess = nearest(name, [...Object.keys(proxyGates), ...otherGates.keys()]);
  const hint = guess === undefined ? '' : ` (did you mean ${guess}?)`;
  return `unrecognized feature gate: ${name}${hint}`;
}
