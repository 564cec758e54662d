/** What mode ipvs is told of the configuration. */
import type { IpvsConfig } from '../config/config.ts';
import type { IPVSSettings } from '../modes/mode.ts';

export function ipvsSettings(config: IpvsConfig): IPVSSettings {
  // As upstream, in whole seconds; but what is not 0 must not become it.
  const seconds = (ms: number): number => Math.ceil(ms / 1000);
  return {
    scheduler: config.scheduler,
    excludeCIDRs: config.excludeCIDRs,
    tcpTimeoutSeconds: seconds(config.tcpTimeoutMs),
    tcpFinTimeoutSeconds: seconds(config.tcpFinTimeoutMs),
    udpTimeoutSeconds: seconds(config.udpTimeoutMs),
  };
}
