import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import type { Config } from '../../../src/config/config.ts';
import { loadConfig } from '../../../src/config/load.ts';
import { nftablesMode } from '../../../src/modes/nftables/mode.ts';
import { infoMetrics } from '../../../src/serve/collectors.ts';

const header = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n';

function configOf(fields: string, ...flags: readonly string[]): Config {
  const file = Buffer.from(header + fields);
  const result = loadConfig(['--config=/file', ...flags], { readFile: () => file });
  if (result.kind !== 'run') throw new Error('it does not run');
  return result.config;
}

const hashIn = (text: string): string => /config_info\{hash="(\w+)"\} 1/.exec(text)![1]!;

it('nodes have the same configuration hash if only the name of the node differs', async () => {
  const config = configOf('mode: nftables\n', '--hostname-override=n1');
  const agent = { config, configRefusal: undefined, mode: nftablesMode };
  const registry = new Registry();
  infoMetrics(registry, agent);
  const first = hashIn(await registry.metrics());
  agent.config = configOf('mode: nftables\n', '--hostname-override=n2');
  expect(hashIn(await registry.metrics())).toBe(first);
  agent.config = configOf('mode: nftables\nclusterCIDR: 10.0.0.0/8\n');
  const text = await registry.metrics();
  expect(hashIn(text)).not.toBe(first);
  expect(text.match(/^fairlead_config_info/gm)).toHaveLength(1);
});

it('the metrics name the running mode and the configured mode', async () => {
  const config = configOf('mode: ipvs\n');
  const agent = { config, configRefusal: undefined, mode: nftablesMode };
  const registry = new Registry();
  infoMetrics(registry, agent);
  const text = async () => (await registry.metrics()).match(/^fairlead_mode_info.*$/gm);
  expect(await text()).toEqual(['fairlead_mode_info{mode="nftables",requested="ipvs"} 1']);
  agent.config = configOf('');
  expect(await text()).toEqual(['fairlead_mode_info{mode="nftables",requested="auto"} 1']);
});

it('the metrics say whether the configuration file is in force', async () => {
  const config = configOf('');
  const agent: Parameters<typeof infoMetrics>[1] & { configRefusal: string | undefined } = {
    config,
    configRefusal: undefined,
    mode: nftablesMode,
  };
  const registry = new Registry();
  infoMetrics(registry, agent);
  expect(await registry.metrics()).toContain('\nfairlead_config_refused 0\n');
  agent.configRefusal = 'it is not valid';
  expect(await registry.metrics()).toContain('\nfairlead_config_refused 1\n');
});
