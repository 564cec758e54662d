/** Defines the shape of the table of settings; the tables are in this folder. */
import type { Quantity, VModuleItem } from '../go-values.ts';
import type { Bounds, Fault, Values } from './checks.ts';

/** What a setting holds, by the name of its type. Durations are nanoseconds. */
export interface ValueByType {
  string: string;
  /** Of which `off` is a value, which is the boolean false in YAML 1.1. */
  'string-or-off': string;
  bool: boolean;
  int32: number;
  /** A log level, 0 to 2^31-1. */
  level: number;
  float32: number;
  duration: bigint;
  /** A duration that may also be written as a whole number of nanoseconds. */
  nanoseconds: bigint;
  strings: readonly string[];
  'bool-map': Readonly<Record<string, boolean>>;
  vmodule: readonly VModuleItem[];
  quantity: Quantity;
  ip: string;
  /** `IP` or `IP:port`. */
  'ip-port': string;
  /** `true`, `false`, `raw` or a version to report. */
  version: string;
}
export type ValueType = keyof ValueByType;

/** Groups of --help, in its order. */
export const flagGroups = {
  run: 'Start and stop',
  source: 'Kubernetes API',
  serve: 'Addresses and servers',
  mode: 'Mode and rules',
  ipvs: 'Mode ipvs',
  traffic: 'Local traffic and node ports',
  limits: 'Limits',
  host: 'Host',
  logging: 'Logging',
  other: 'Other',
} as const;
export type FlagGroup = keyof typeof flagGroups;

interface Spec<Type extends ValueType> {
  readonly type: Type;
  readonly meaning: string;
  /** Default as one would write it for a flag; absent = the type's zero value. */
  readonly default?: string;
  /** older: gone from kube-proxy 1.36; own: Fairlead's; windows: accepted, without effect here. */
  readonly origin?: 'older' | 'own' | 'windows';

  /**
   * An explicit 0 or false is kept (a pointer in kube-proxy). Without this, a zero value in a file
   * means "not given" and becomes the default.
   */
  readonly keepsZero?: true;
  readonly bounds?: Bounds;
  /** Validates a value, except its bounds. */
  check?(value: ValueByType[Type], all: Values): readonly Fault[];
  /** What `check` wants, in words, for the documentation. */
  readonly rules?: string;
  /** The modes (as requested) in which bounds and check are enforced; absent = in all. */
  readonly checkedIn?: readonly string[];
  /**
   * kube-proxy's name of the field in its validation errors, below `KubeProxyConfiguration`, where
   * it is not the one that `errorPath` makes of the path.
   */
  readonly errorPath?: string;
  /** A configuration that is written leaves the field out when it holds its zero value. */
  readonly omitted?: true;
  /**
   * A change in the file needs a new process: always, or while the mode of its section runs.
   * Absent = it takes effect while running, or has no effect at all.
   */
  readonly restart?: 'always' | 'in its mode';

  /** What an ipvs user of kube-proxy should know of it. */
  readonly forIpvs?: {
    /** What becomes of it in our mode ipvs. */
    readonly kept: string;
    /** What takes its place in mode nftables. */
    readonly nftables: string;
  };

  /** The flag's name; absent if the setting has no flag, or is only a flag. */
  readonly flag?: string;
  readonly group?: FlagGroup;
  /** What the flag means, where that differs from the field. */
  readonly flagMeaning?: string;
  readonly shorthand?: string;
  /** Completions of its value that shells offer: these words, files, or directories. */
  readonly offers?: readonly string[] | 'files' | 'directories';
  /** Value of the flag if it is given without one. Booleans have `true`. */
  readonly bare?: string;
  /** The flag still counts when --config is given; the others are dropped then. */
  readonly withConfig?: 'kept';
  /** Text after "has been deprecated, "; the flag works and is hidden from --help. */
  readonly deprecated?: string;
}

/** What Config has of a setting. */
interface Placed<Type extends ValueType, Place extends string, Made> {
  /** Where, with the unit in its name; absent: `build.ts` makes something of it, or nothing does. */
  readonly config?: Place;
  /** Converts a valid value; default: durations to milliseconds, others as they are. */
  make?(value: ValueByType[Type], all: Values): Made;
}

export type Setting<Type extends ValueType = ValueType> = Spec<Type> &
  Placed<Type, string, unknown>;

type AsIs<Type extends ValueType> = ValueByType[Type] extends bigint ? number : ValueByType[Type];

/** The place in Config of a setting of this type; never: it has none. */
export type ConfigPath<S> = S extends { readonly config?: infer Place }
  ? Extract<Place, string>
  : never;
/** What Config has of a setting of this type. */
export type MadeOf<S> = S extends { make?(value: never, all: never): infer Made } ? Made : never;

/** Of an entry of a table: `ipvs.scheduler --ipvs-scheduler` is at `ipvs.scheduler`. */
export type PathOf<Key> = Key extends `${infer Path} --${string}` ? Path : Key;

/** By the path of the field in the file, the flag with its hyphens, or both. */
type SettingTable = Readonly<Record<string, Spec<ValueType>>>;

type Details<Type extends ValueType> = Omit<Spec<Type>, 'type' | 'meaning' | 'group' | 'flag'>;

function of<Type extends ValueType>(type: Type) {
  return <const Place extends string = never, Made = AsIs<Type>>(
    meaning: string,
    details: Details<Type> & Placed<Type, Place, Made> = {},
  ): Spec<Type> & Placed<Type, Place, Made> => ({ type, meaning, ...details });
}

/** Makers of settings, by type: what it means, then the rest. */
export const string = of('string');
export const bool = of('bool');
export const int32 = of('int32');
export const duration = of('duration');
export const strings = of('strings');
export const other = of;

/** Settings of a file that kube-proxy does not have: Config has them by their paths. */
export function own<Table extends SettingTable>(table: Table) {
  const entries = Object.entries(table).map(([key, setting]) => {
    return [key, { config: key.split(' ', 1)[0], origin: 'own', omitted: true, ...setting }];
  });
  return Object.fromEntries(entries) as {
    readonly [Key in keyof Table]: Omit<Table[Key], 'config'> & { readonly config: PathOf<Key> };
  };
}

/** Puts the flags of a table into a group. */
export function grouped<Table extends SettingTable>(group: FlagGroup, table: Table): Table {
  const entries = Object.entries(table).map(([key, setting]) => [key, { ...setting, group }]);
  return Object.fromEntries(entries) as Table;
}

export const notNegative: Bounds = { min: 0 };
export const positive: Bounds = { min: 0, above: true };
