/** The shape of the table of KubeProxyConfiguration's fields; the tables lie beside this file. */
import type { Quantity, VModuleItem } from '../go-values.ts';

/** What a field holds, by the name of its type. Durations are nanoseconds. */
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
}
export type FieldType = keyof ValueByType;

/** Bounds that `validate.ts` enforces and the documentation prints. */
export type Bounds =
  | { readonly kind: 'range'; readonly min: number; readonly max: number }
  | { readonly kind: 'not-negative' }
  | { readonly kind: 'positive' };

export interface FieldSpec {
  readonly type: FieldType;
  /** Default as one would write it for a flag; absent = the type's zero value. */
  readonly default?: string;
  /**
   * An explicit 0 or false is kept (a pointer in kube-proxy). Without this, a zero value in a file
   * means "not given" and becomes the default.
   */
  readonly keepsZero?: true;
  readonly bounds?: Bounds;
  /** The modes (as requested) in which `bounds` are enforced; absent = in all. */
  readonly boundsIn?: readonly string[];
  /** Rules beyond `bounds`, in words, for the documentation. */
  readonly rules?: string;
  /** kube-proxy's name of the field in its validation errors, below `KubeProxyConfiguration`. */
  readonly errorPath?: string;
  /** older: gone from kube-proxy 1.36; own: Fairlead's; windows: accepted, without effect here. */
  readonly origin?: 'older' | 'own' | 'windows';
  readonly meaning: string;
}

export type FieldTable = Readonly<Record<string, FieldSpec>>;
