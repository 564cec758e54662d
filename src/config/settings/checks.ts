/** What values must be, in kube-proxy's words. */
import { isModeName, modeNames } from '../../modes/mode-table.ts';
import { parseAddress, parseCIDR } from '../../net/address.ts';
import { splitHostPort } from '../../net/host-port.ts';
import { quote, type VModuleItem } from '../go-values.ts';

/** One thing that is wrong with a value. */
export interface Fault {
  /** The value, or its part that is wrong; absent = errors do not show it. */
  readonly shown?: string;
  readonly detail: string;
  /** `[1]`: which item of a list. */
  readonly at?: string;
  /** kube-proxy's word for it; absent = "Invalid value". */
  readonly kind?: 'Unsupported value' | 'Forbidden' | 'Required value';
}

/** The values of all settings by their paths, and those of feature gates as `gates`. */
export type Values = Readonly<Record<string, unknown>>;

export type Check<T> = (value: T, all: Values) => readonly Fault[];

export interface Bounds {
  readonly min: number;
  readonly max?: number;
  /** `min` itself is out of bounds. */
  readonly above?: true;
}

/** What a value must be to keep the bounds. */
export function describeBounds({ min, max, above }: Bounds): string {
  if (max !== undefined) return `must be within the range [${min}, ${max}]`;
  return `must be greater than ${above ? '' : 'or equal to '}${min}`;
}

/** The same in a few words, for --help and the documentation. */
export function boundsInShort({ min, max, above }: Bounds): string {
  if (max !== undefined) return `${min} to ${max}`;
  return above ? `above ${min}` : `${min} or more`;
}

export function keepsBounds({ min, max, above }: Bounds, value: unknown): boolean {
  if (typeof value !== 'number' && typeof value !== 'bigint') return true;
  return (above ? value > min : value >= min) && (max === undefined || value <= max);
}

function unless(isGood: (text: string) => boolean, detail: string): Check<string> {
  return (text) => (isGood(text) ? [] : [{ shown: quote(text), detail }]);
}

function eachUnless(isGood: (text: string) => boolean, detail: string): Check<readonly string[]> {
  return (texts) =>
    texts.flatMap((text, index) =>
      isGood(text) ? [] : [{ shown: quote(text), detail, at: `[${index}]` }],
    );
}

const isCIDR = (text: string): boolean => parseCIDR(text) !== undefined;

export const areCIDRs = eachUnless(isCIDR, 'must be a valid CIDR');

/** Words in nodePortAddresses for these blocks. */
export const addressKeywords: Readonly<Record<string, readonly string[]>> = {
  localhost: ['127.0.0.0/8', '::1/128'],
  all: ['0.0.0.0/0', '::/0'],
};

const addressWords = ['primary', ...Object.keys(addressKeywords)];
export const areNodePortAddresses = eachUnless(
  (text) => addressWords.includes(text) || isCIDR(text),
  `must be a valid CIDR, or one of ${addressWords.map(quote).join(', ')}`,
);

export const areNamespaces = eachUnless(
  (name) => /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(name),
  'must be the name of a namespace: small letters, digits and hyphens',
);

export const isIP = unless(
  (text) => parseAddress(text) !== undefined,
  'not a valid textual representation of an IP address',
);

export const isHiddenVersion = unless(
  (version) => version === '' || version === '1.35',
  "must be omitted or '1.35', the previous minor version",
);

/** A second proxy has what tables keep apart, and not what a node has once. */
export const isServiceProxyName: Check<string> = (name, all) => {
  if (name === '') return [];
  if (!new RegExp(`^${labelName}$`).test(name)) {
    return [{ shown: quote(name), detail: 'must be a label value' }];
  }
  const { connectTime, failureDetection, fastPath, mode } = all;
  const isApart = [connectTime, failureDetection, fastPath].every((value) => value === 'off');
  const detail = 'needs mode nftables, without connectTime, fastPath and failureDetection';
  return mode === 'nftables' && isApart ? [] : [{ shown: quote(name), detail }];
};

export function isOneOf(words: readonly string[], or = ', '): Check<string> {
  return unless((text) => words.includes(text), `must be ${words.join(or)}`);
}

const labelName = '[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?';
const labelPart = '[a-z0-9](?:[-a-z0-9]*[a-z0-9])?';
/** `app`, `security.istio.io/tlsMode` */
const labelKey = String.raw`(?:${labelPart}(?:\.${labelPart})*/)?${labelName}`;
/** It may be empty. */
const labelValue = `(?:${labelName})?`;

const requirements = [
  String.raw`!?\s*${labelKey}`,
  String.raw`${labelKey}\s*(?:==?|!=)\s*${labelValue}`,
  String.raw`${labelKey}\s*[<>]\s*\d+`,
  String.raw`${labelKey}\s+(?:in|notin)\s*\(\s*${labelValue}(?:\s*,\s*${labelValue})*\s*\)`,
];
const requirement = new RegExp(`^(?:${requirements.join('|')})$`);
const requirementsInWords = 'a, !a, a=b, a!=b, a in (b, c), a notin (b, c)';

/** A label selector, as the API server reads them: `app=web,tier!=db,env in (a, b),!old`. */
export const isSelector: Check<string> = (text) => {
  if (text === '') return [];
  // Commas within parentheses part values, the others requirements.
  const parts = text.split(/,(?![^()]*\))/).map((part) => part.trim());
  const wrong = parts.find((part) => !requirement.test(part));
  if (wrong === undefined) return [];
  const what = `is no requirement of a label selector (${requirementsInWords})`;
  return [{ shown: quote(text), detail: `${JSON.stringify(wrong)} ${what}` }];
};

export const isMode: Check<string> = (mode) => {
  if (mode === '' || isModeName(mode)) return [];
  const modes = [...modeNames].sort().join(', ');
  const detail =
    mode === 'kernelspace'
      ? `kernelspace is the mode of Windows nodes; on Linux it must be ${modes} or blank`
      : `must be ${modes} or blank (blank means the best mode that the kernel can do)`;
  return [{ shown: quote(mode), detail }];
};

/** Empty means "not served"; a file cannot say it, only a flag can. */
export const isHostPort: Check<string> = (text) => {
  if (text === '') return [];
  const split = splitHostPort(text);
  if (!split) return [{ shown: quote(text), detail: 'must be IP:port' }];
  const port = /^[+-]?\d{1,10}$/.test(split.port) ? Number(split.port) : 0;
  const isPort = port >= 1 && port <= 65535;
  return [
    ...(parseAddress(split.host)
      ? []
      : [{ shown: quote(split.host), detail: 'must be a valid IP' }]),
    ...(isPort ? [] : [{ shown: quote(split.port), detail: 'must be a valid port' }]),
  ];
};

const detectLocalModes = ['ClusterCIDR', 'NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix', ''];

export const isDetectLocalMode: Check<string> = (mode) => {
  if (detectLocalModes.includes(mode)) return [];
  const detail = `supported values: ${detectLocalModes.map(quote).join(', ')}`;
  return [{ kind: 'Unsupported value', shown: quote(mode), detail }];
};

/** In one mode of detecting local traffic. */
export function isGivenIn(mode: string): Check<string> {
  return (text, { detectLocalMode }) =>
    detectLocalMode === mode && text === '' ? [{ shown: '""', detail: 'must not be empty' }] : [];
}

/** Split at commas without trimming, as kube-proxy does. */
export const areClusterCIDRs: Check<string> = (text, { detectLocalMode }) => {
  if (text === '' || detectLocalMode !== 'ClusterCIDR') return [];
  const parts = text.split(',');
  const example = '10.100.0.0/16,fde4:8dba:82e1::/48';
  const whole = {
    shown: `[${parts.map(quote).join(', ')}]`,
    detail: `must be one CIDR or one of each family (e.g. ${example})`,
  };
  if (parts.length > 2) return [whole];
  const faults = areCIDRs(parts, {});
  const families = new Set(parts.map((part) => parseCIDR(part)?.address.family));
  return faults.length === 0 && families.size < parts.length ? [whole] : faults;
};

/** `30000-32767`, `30000+100` (the first and 100 more), one port, or nothing. */
export const isPortRange = unless((text) => {
  const [, first, sign, second = '0'] = /^(\d{1,6})(?:([-+])(\d{1,6}))?$/.exec(text.trim()) ?? [];
  const last = sign === '-' ? Number(second) : Number(first) + Number(second);
  return text.trim() === '' || (Number(first) <= last && last <= 65535);
}, 'must be a valid port range (e.g. 300-2000)');

function isOn({ gates }: Values, gate: string): boolean {
  return (gates as Readonly<Record<string, boolean>>)[gate] === true;
}

export const isLogFormat: Check<string> = (format, all) => {
  if (format !== 'text' && format !== 'json') {
    return [{ shown: quote(format), detail: 'Unsupported log format' }];
  }
  if (format === 'text' || isOn(all, 'LoggingBetaOptions')) return [];
  const detail = 'Log format json is disabled, see LoggingBetaOptions feature';
  return [{ kind: 'Forbidden', detail }];
};

/** The value is its type's zero value, unless the gate is on. */
export function needsAlphaOptions<T>(isUsed: (value: T) => boolean): Check<T> {
  return (value, all) => {
    if (isOn(all, 'LoggingAlphaOptions') || !isUsed(value)) return [];
    return [{ kind: 'Forbidden', detail: 'Feature LoggingAlphaOptions is disabled' }];
  };
}

export const areVModules: Check<readonly VModuleItem[]> = (items, all) => {
  const faults: Fault[] = [];
  if (items.length > 0 && all['logging.format'] !== 'text') {
    faults.push({ kind: 'Forbidden', detail: 'Only supported for text log format' });
  }
  for (const [index, { filePattern }] of items.entries()) {
    const at = `[${index}]`;
    if (filePattern === '') {
      faults.push({ kind: 'Required value', detail: 'File pattern must not be empty', at });
    } else if (/[=,]/.test(filePattern)) {
      const detail = 'File pattern must not contain equal sign or comma';
      faults.push({ shown: quote(filePattern), detail, at });
    }
  }
  return faults;
};
