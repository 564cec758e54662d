/** The shape of the flag table. */
import type { FieldPath } from './fields/index.ts';
import type { FieldType, ValueByType } from './fields/spec.ts';

/** What a flag holds, by the name of its type. */
export interface FlagValueByType extends ValueByType {
  ip: string;
  /** `IP` or `IP:port`. */
  'ip-port': string;
  /** `true`, `false`, `raw` or a version to report. */
  version: string;
}
export type FlagType = FieldType | 'ip' | 'ip-port' | 'version';

/** Groups of --help, in its order. */
export const flagGroups = {
  run: 'Start and stop',
  source: 'Kubernetes API',
  serve: 'Addresses and servers',
  mode: 'Mode and rules',
  ipvs: 'Mode ipvs',
  traffic: 'Local traffic and node ports',
  limits: 'Limits of one Service',
  host: 'Host',
  logging: 'Logging',
  other: 'Other',
} as const;
export type FlagGroup = keyof typeof flagGroups;

export interface FlagSpec {
  readonly type: FlagType;
  readonly group: FlagGroup;
  /** The field of the file that the flag sets; its default and meaning are the field's. */
  readonly field?: FieldPath;
  /** Only without `field`, as one would write it; absent = the type's zero value. */
  readonly default?: string;
  /** Only where the field's meaning does not fit, or without `field`. */
  readonly meaning?: string;
  readonly shorthand?: string;
  /** What shells offer as its value: these words, files, or directories. */
  readonly offers?: readonly string[] | 'files' | 'directories';
  /** Value when the flag stands without one. Booleans have `true`. */
  readonly bare?: string;
  /** The flag still counts when --config is given; the others are dropped then. */
  readonly withConfig?: 'kept';
  /** Text after "has been deprecated, "; the flag works and is hidden from --help. */
  readonly deprecated?: string;
  /** Not one of kube-proxy's. */
  readonly own?: true;
}

export type FlagTable = Readonly<Record<string, FlagSpec>>;
