/** The table of all fields of KubeProxyConfiguration, and the type of a set of their values. */
import { generalFields } from './general.ts';
import { limitFields } from './limits.ts';
import { loggingFields } from './logging.ts';
import { modeFields } from './modes.ts';
import { otherFields } from './other.ts';
import type { FieldSpec, ValueByType } from './spec.ts';
import { trafficFields } from './traffic.ts';

const table = {
  ...generalFields,
  ...modeFields,
  ...trafficFields,
  ...limitFields,
  ...loggingFields,
  ...otherFields,
} as const;

/** Where a field stands in the file, e.g. `iptables.syncPeriod`. */
export type FieldPath = keyof typeof table;

export const fieldPaths = Object.keys(table) as readonly FieldPath[];

export const fields: Readonly<Record<FieldPath, FieldSpec>> = table;

/** A value for every field. Durations are nanoseconds. */
export type Settings = {
  readonly [Path in FieldPath]: ValueByType[(typeof table)[Path]['type']];
};

/** Values for some fields: what a file or a command line gives. */
export type GivenSettings = { readonly [Path in FieldPath]?: Settings[Path] };
