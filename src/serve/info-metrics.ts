/** Metrics that say which mode and configuration a node has, so that nodes can be compared. */
import { Gauge, type Registry } from 'prom-client';
import type { Config } from '../config/config.ts';
import { configHash } from '../config/hash.ts';
import type { ModeName } from '../modes/mode.ts';

interface InfoSources {
  /** The configuration in force. */
  readonly config: () => Pick<Config, 'document' | 'mode'>;
  /** The mode that runs, or is about to run. */
  readonly mode: () => ModeName;
}

/**
 * Each metric has one series with value 1. They change with the configuration, without a restart.
 */
export function infoMetrics(registry: Registry, { config, mode }: InfoSources): void {
  const registers = [registry];
  const modeInfo = new Gauge({
    name: 'fairlead_mode_info',
    help: 'Mode that runs, and the mode that the configuration asks for (auto: none)',
    labelNames: ['mode', 'requested'],
    registers,
    collect: () => {
      modeInfo.reset();
      modeInfo.set({ mode: mode(), requested: config().mode || 'auto' }, 1);
    },
  });
  let hashed: Pick<Config, 'document'> | undefined;
  let hash = '';
  const configInfo = new Gauge({
    name: 'fairlead_config_info',
    help: 'Hash of the configuration in force, without hostnameOverride',
    labelNames: ['hash'],
    registers,
    collect: () => {
      const current = config();
      if (current !== hashed) hash = configHash(current);
      hashed = current;
      configInfo.reset();
      configInfo.set({ hash }, 1);
    },
  });
}
