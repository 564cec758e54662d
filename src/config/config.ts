/**
 * The one configuration that the rest of the program sees: flags, file and defaults folded
 * together, validated, parsed and frozen. Built by `load.ts`; nothing outside `src/config`
 * knows flags or files. Durations are milliseconds; 0 means what the field's comment says.
 */
import { type ModeName, modeNames } from '../modes/mode-table.ts';
import type { ModeSettings } from './mode-settings.ts';
import type { Made } from './settings/index.ts';

export { type ModeName, modeNames };

/** How to detect traffic that starts in one of this node's pods. */
export type DetectLocal =
  /** By setting clusterCIDR. `isDefault`: no mode was given. */
  | { readonly kind: 'ClusterCIDR'; readonly isDefault: boolean }
  | { readonly kind: 'NodeCIDR' }
  | { readonly kind: 'BridgeInterface'; readonly bridgeInterface: string }
  | { readonly kind: 'InterfaceNamePrefix'; readonly interfaceNamePrefix: string };

/** Where Services and EndpointSlices come from. */
export type SourceConfig =
  | { readonly kind: 'manifests'; readonly directory: string }
  | {
      readonly kind: 'kubernetes';
      /** '' together with masterUrl '' = in-cluster configuration. */
      readonly kubeconfigPath: string;
      /** Overrides the server of the kubeconfig; '' = do not. */
      readonly masterUrl: string;
      /** Media types, as they were given; an empty `acceptContentTypes` = as contentType says. */
      readonly contentTypes: {
        readonly contentType: string;
        readonly acceptContentTypes: string;
      };
      /** Requests per second, and how many may exceed that rate in a burst. */
      readonly qps: number;
      readonly burst: number;
    };

/** `auto`: not configured. Then it is text at a terminal, else JSON. */
export type LogFormat = 'text' | 'json' | 'auto';

/**
 * The effective configuration; deeply frozen. Most of it is what the table of settings makes:
 * their meanings are there.
 */
export interface Config extends Made {
  /** The release of kube-proxy that is reported as ours, `v1.36.2` unless --version says more. */
  readonly kubernetesVersion: string;
  readonly source: SourceConfig;
  /** Per mode, so that falling back from one mode to another needs no second resolution. */
  readonly modes: Readonly<Record<ModeName, ModeSettings>>;
  readonly detectLocal: DetectLocal;
  /** Every known gate with its effective value. */
  readonly featureGates: Readonly<Record<string, boolean>>;
  readonly logging: Made['logging'] & { readonly format: LogFormat };

  /** Paths of the fields that file or flags give; all others have their defaults. */
  readonly given: readonly string[];
  /** The file to watch for changes; undefined = none was given. */
  readonly configPath: string | undefined;
  /** The public v1alpha1 form, for /configz: plain JSON, `primary` unexpanded. */
  readonly document: Readonly<Record<string, unknown>>;
  /** Every flag with its value as text, in alphabetical order, for /flagz and the dump at -v=1. */
  readonly flags: readonly { readonly name: string; readonly value: string }[];
}
