/** The settings of mode ipvs, from the configuration. */
import type { IpvsConfig } from '../config/config.ts';
import type { IPVSSettings } from '../modes/mode.ts';

export function ipvsSettings(config: IpvsConfig): IPVSSettings {
  // In whole seconds, as upstream. Rounded up, so that a short time does not become 0.
  const seconds = (ms: number): number => Math.ceil(ms / 1000);
  return {
    scheduler: config.scheduler,
    excludeCIDRs: config.excludeCIDRs,
    tcpTimeoutSeconds: seconds(config.tcpTimeoutMs),
    tcpFinTimeoutSeconds: seconds(config.tcpFinTimeoutMs),
    udpTimeoutSeconds: seconds(config.udpTimeoutMs),
  };
}
