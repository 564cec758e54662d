/** The table of all settings: kube-proxy's flags and fields, and our own. */
import { serveSettings, sourceSettings } from './cluster.ts';
import { ipvsSettings, modeSettings } from './modes.ts';
import { loggingSettings, otherSettings, runSettings } from './other.ts';
import type { ConfigPath, MadeOf, PathOf, Setting, ValueByType } from './spec.ts';
import {
  connectionLimitSettings,
  hostSettings,
  limitSettings,
  trafficSettings,
} from './traffic.ts';

const byPathAndFlag = {
  ...runSettings,
  ...sourceSettings,
  ...serveSettings,
  ...modeSettings,
  ...ipvsSettings,
  ...trafficSettings,
  ...limitSettings,
  ...connectionLimitSettings,
  ...hostSettings,
  ...loggingSettings,
  ...otherSettings,
} as const;

type All = typeof byPathAndFlag;
type Table = { readonly [Key in keyof All as PathOf<Key>]: All[Key] };

const table = Object.fromEntries(
  Object.entries(byPathAndFlag).map(([key, setting]) => {
    const [path, flag] = key.split(' --');
    return [path, { ...setting, ...(flag && { flag }) }];
  }),
) as unknown as Table;

/** The path of a field in the file, e.g. `iptables.syncPeriod`, or only a flag: `--cleanup`. */
export type SettingKey = keyof Table;
/** Settings that a file has. */
export type FieldPath = Exclude<SettingKey, `--${string}`>;

/** The value of a setting. Durations are nanoseconds. */
export type SettingValue<Key extends SettingKey> = ValueByType[Table[Key]['type']];

export const settingTable: Readonly<Record<SettingKey, Setting>> = table;
export const settingKeys = Object.keys(table) as readonly SettingKey[];
export const fieldPaths = settingKeys.filter((key) => !key.startsWith('--')) as FieldPath[];

type Flat = { readonly [Key in SettingKey as ConfigPath<Table[Key]>]: MadeOf<Table[Key]> };
type SectionOf<Place> = Place extends `${infer Section}.${string}` ? Section : never;
/** The parts of Config that the table makes. */
export type Made = {
  readonly [Place in keyof Flat as Place extends `${string}.${string}`
    ? never
    : Place]: Flat[Place];
} & {
  readonly [Section in SectionOf<keyof Flat>]: {
    readonly [Place in keyof Flat as Place extends `${Section}.${infer Name}`
      ? Name
      : never]: Flat[Place];
  };
};

/** A value for every field. */
export type Settings = { readonly [Path in FieldPath]: SettingValue<Path> };
/** Values for some fields: what a file or a command line gives. */
export type GivenSettings = { readonly [Path in FieldPath]?: Settings[Path] };

/** The flags by name, without hyphens. */
export const flagKeys: ReadonlyMap<string, SettingKey> = new Map(
  settingKeys.flatMap((key) => {
    const name = flagOf(key);
    return name === undefined ? [] : [[name, key] as const];
  }),
);

/** The name of the flag that sets it; undefined = only a file can. */
export function flagOf(key: SettingKey): string | undefined {
  return key.startsWith('--') ? key.slice(2) : settingTable[key].flag;
}
