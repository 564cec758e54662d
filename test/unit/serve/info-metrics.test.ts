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

/** Of a process with this configuration: what the metrics say about it. */
function world(config: Config) {
  const agent = { config, configRefusal: undefined as string | undefined, mode: nftablesMode };
  const registry = new Registry();
  infoMetrics(registry, agent);
  const line = async (name: string) =>
    (await registry.metrics()).match(new RegExp(`^fairlead_${name}.*$`, 'gm'))?.join('\n');
  return { agent, line };
}

it('nodes have the same configuration hash if only the name of the node differs', async () => {
  const { agent, line } = world(configOf('mode: nftables\n', '--hostname-override=n1'));
  const first = await line('config_info');
  expect(first).toMatch(/^fairlead_config_info\{hash="\w+"\} 1$/);
  agent.config = configOf('mode: nftables\n', '--hostname-override=n2');
  expect(await line('config_info')).toBe(first);
  agent.config = configOf('mode: nftables\nclusterCIDR: 10.0.0.0/8\n');
  expect(await line('config_info')).toMatch(/^fairlead_config_info\{hash="\w+"\} 1$/);
  expect(await line('config_info')).not.toBe(first);
});

it('the metrics name the running mode, the configured one, and a file that is not in force', async () => {
  const { agent, line } = world(configOf('mode: ipvs\n'));
  expect(await line('mode_info')).toBe('fairlead_mode_info{mode="nftables",requested="ipvs"} 1');
  agent.config = configOf('');
  expect(await line('mode_info')).toBe('fairlead_mode_info{mode="nftables",requested="auto"} 1');
  expect(await line('config_refused')).toBe('fairlead_config_refused 0');
  agent.configRefusal = 'it is not valid';
  expect(await line('config_refused')).toBe('fairlead_config_refused 1');
});
