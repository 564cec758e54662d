/** Readers of flag values: the types of the fields, and a few that only flags have. */
import { parseAddress } from '../net/address.ts';
import { fieldTypes, type TypeRules } from './field-types.ts';
import type { FlagSpec, FlagType } from './flag-spec.ts';
import { type FlagName, flagTable } from './flag-table.ts';
import { quote } from './go-values.ts';
import { splitHostPort } from './host-port.ts';
import { bad, good, type Parsed } from './parsed.ts';
import { kubernetesVersion } from './version.ts';

/** What flags need of a type; the value's type is forgotten here and known in `flag-table.ts`. */
interface FlagRules extends Pick<TypeRules<unknown>, 'parse' | 'format' | 'zero'> {
  /** pflag's name of the type, which --help and the documentation show. */
  readonly shown: string;
  /** Joins the values of a flag that stands twice; absent = the last one counts. */
  readonly join?: (before: unknown, after: unknown) => unknown;
}

function parseIp(text: string): Parsed<string> {
  return parseAddress(text) ? good(text) : bad(`${quote(text)} is not a valid IP address`);
}

function parseIpPort(text: string): Parsed<string> {
  if (text === '' || parseAddress(text)) return good(text);
  const split = splitHostPort(text);
  if (!split) {
    return bad(`${quote(text)} is not in a valid format (ip or ip:port): no port in it`);
  }
  const host = parseIp(split.host);
  if (!host.ok) return host;
  const isPort = /^\d{1,5}$/.test(split.port) && Number(split.port) <= 65535;
  return isPort ? good(text) : bad(`${quote(split.port)} is not a valid number`);
}

/** `--version=v1.36.2-vendor` may add to the version, not claim another one. */
function parseVersion(text: string): Parsed<string> {
  if (text === 'raw') return good(text);
  if (!text.startsWith('v')) {
    const bool = fieldTypes.bool.parse(text);
    return bool.ok ? good(String(bool.value)) : bad(bool.error);
  }
  const core = /^(v\d+\.\d+\.\d+)(?:[-+][0-9A-Za-z.+-]+)?$/.exec(text)?.[1];
  if (core === kubernetesVersion) return good(text);
  return bad(`version ${quote(text)} must match major, minor and patch of ${kubernetesVersion}`);
}

function ofField(type: keyof typeof fieldTypes, shown: string): FlagRules {
  return { ...(fieldTypes[type] as TypeRules<unknown>), shown };
}

const text = { format: String, zero: '' };
const concatenate = (before: unknown, after: unknown): unknown => [
  ...(before as readonly unknown[]),
  ...(after as readonly unknown[]),
];

const flagTypes: Readonly<Record<FlagType, FlagRules>> = {
  string: ofField('string', 'string'),
  'string-or-off': ofField('string-or-off', 'string'),
  bool: ofField('bool', ''),
  int32: ofField('int32', 'int32'),
  level: ofField('level', 'level'),
  float32: ofField('float32', 'float32'),
  duration: ofField('duration', 'duration'),
  nanoseconds: ofField('nanoseconds', 'duration'),
  strings: { ...ofField('strings', 'strings'), join: concatenate },
  'bool-map': {
    ...ofField('bool-map', 'name=bool,...'),
    join: (before, after) => ({ ...(before as object), ...(after as object) }),
  },
  vmodule: { ...ofField('vmodule', 'pattern=N,...'), join: concatenate },
  quantity: ofField('quantity', 'quantity'),
  ip: { ...text, shown: 'ip', parse: parseIp },
  'ip-port': { ...text, shown: 'ip[:port]', parse: parseIpPort },
  version: { ...text, shown: 'true|false|raw|vX.Y.Z', parse: parseVersion },
};

export function flagRules(name: FlagName): FlagRules {
  return flagTypes[flagTable[name].type];
}

/** The value that a flag has when it stands without one; undefined = it needs one. */
export function bareValue(spec: FlagSpec): string | undefined {
  return spec.type === 'bool' ? 'true' : spec.bare;
}
