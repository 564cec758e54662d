/** Metrics that are read from the kernel when Prometheus asks. */
import type { Registry } from 'prom-client';
import type { Config } from '../config/config.ts';
import type { Placement } from '../connect-time/maps/placement.ts';
import type { HostFiles } from '../host/files.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { ModeFacts } from '../modes/mode.ts';
import type { ProgrammedFamily } from '../state/services-by-frontend.ts';
import type { ClusterState } from '../state/store.ts';
import type { Clock } from '../time/clock.ts';
import {
  affinityMetrics,
  conntrackTableMetrics,
  ipvsMetrics,
  serviceMetrics,
} from './collectors.ts';
import { ServiceCounters } from './service-counters.ts';

interface KernelMetricsOptions {
  readonly kernel: Kernel;
  /** Where to read how full connection tracking is, if this process manages it. */
  readonly host?: HostFiles | undefined;
  readonly clock: Clock;
  readonly state: ClusterState;
  readonly config: () => Config;
  /** The mode that runs. */
  readonly mode: () => ModeFacts | undefined;
  /** The maps of connect-time translation, if it is active. */
  readonly connectTime: () => Pick<Placement, 'directory'> | undefined;
  readonly families: () => readonly ProgrammedFamily[];
  /** See `ServiceCounters`. */
  readonly noticed: (service: string) => void;
}

/** Returns the counters of traffic, which others may use, too. */
export function kernelMetrics(registry: Registry, options: KernelMetricsOptions): ServiceCounters {
  const { kernel, host, clock, state, config, connectTime, mode, families, noticed } = options;
  const isCounted = () => config().ipvs.counters && mode()?.usesIPVS;
  ipvsMetrics(registry, kernel, { wanted: isCounted, families });
  affinityMetrics(registry, kernel, mode);
  conntrackTableMetrics(registry, host);
  const counters = new ServiceCounters({
    kernel,
    clock,
    connectTime,
    families,
    mode: () => (config().serviceMetrics ? mode() : undefined),
    portsOf: (service) => state.service(service)?.ports,
    noticed,
  });
  serviceMetrics(registry, counters);
  return counters;
}
