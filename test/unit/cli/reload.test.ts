import { describe, expect, it } from 'vitest';
import { Reload } from '../../../src/cli/reload.ts';
import type { Config } from '../../../src/config/config.ts';
import { loadConfig } from '../../../src/config/load.ts';
import { loggerTo } from '../../../src/serve/log.ts';

const head = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n';

/** A running proxy's answer to its configuration file. */
class World {
  readonly lines: Record<string, unknown>[] = [];
  readonly counted: string[] = [];
  /** Why the file is not in force. */
  refusal: string | undefined;
  inForce: Config;
  ended: Error | undefined;
  /** Makes changes fail that take effect immediately. */
  failure: Error | undefined;
  /** Applying takes as long as this. */
  #applying: Promise<void> = Promise.resolve();
  readonly #reload: Reload;

  constructor(text: string, ...flags: string[]) {
    const args = ['--config=/etc/config.conf', ...flags];
    const result = loadConfig(args, { readFile: () => Buffer.from(head + text) });
    if (result.kind !== 'run') throw new Error(JSON.stringify(result));
    this.inForce = result.config;
    this.#reload = new Reload({
      args,
      config: result.config,
      log: loggerTo({ write: (line) => this.lines.push(JSON.parse(line)) }, 0),
      mode: () => 'nftables',
      apply: async (config) => {
        await this.#applying;
        if (this.failure !== undefined) throw this.failure;
        this.inForce = config;
      },
      restart: (reason) => {
        this.ended = reason;
      },
      counted: (result) => this.counted.push(result),
      refused: (reason) => {
        this.refusal = reason;
      },
    });
  }

  becomes(text: string): Promise<void> {
    return this.#reload.read(Buffer.from(head + text));
  }

  goes(): Promise<void> {
    return this.#reload.read(new Error('ENOENT: no such file'));
  }

  /** Nothing that is applied from now on is done before the result is called. */
  hold(): () => void {
    let release = (): void => {};
    this.#applying = new Promise((resolve) => {
      release = resolve;
    });
    return release;
  }
}

describe('a change of the configuration file', () => {
  it('takes effect immediately if possible, and the log names the fields', async () => {
    const world = new World('clusterCIDR: 10.0.0.0/8\n');
    await world.becomes(
      'clusterCIDR: 10.0.0.0/8\nconntrack: {min: 5}\nnftables: {masqueradeAll: true}\n',
    );
    expect(world.inForce.conntrack.min).toBe(5);
    expect(world.lines).toEqual([
      expect.objectContaining({
        fields: ['conntrack.min', 'nftables.masqueradeAll'],
        msg: 'Applied the changed configuration',
      }),
    ]);
    await world.becomes('clusterCIDR: 10.0.0.0/8\nconntrack: {min: 5}\n');
    expect(world.inForce.modes.nftables.masqueradeAll).toBe(false);
    expect(world.counted).toEqual(['applied', 'applied']);
  });

  it('ends the process like kube-proxy otherwise', async () => {
    const world = new World('');
    await world.becomes('hostnameOverride: other\nconntrack: {min: 5}\n');
    expect(world.ended).toEqual(
      new Error("content of the proxy server's configuration file was updated"),
    );
    expect(world.inForce.conntrack.min).toBe(131_072);
    expect(world.lines.at(-1)).toMatchObject({
      fields: expect.arrayContaining(['hostnameOverride']),
    });
    expect(world.counted).toEqual(['restart']);
  });

  it('is reported if it is invalid, and the previous configuration stays in force', async () => {
    const world = new World('conntrack: {min: 7}\n');
    const { inForce } = world;
    for (const text of [
      'conntrack: {min: -1}\n',
      'mode: iptablez\n',
      'conntrack: [\n',
      '\0\u0001',
    ]) {
      await world.becomes(text);
    }
    await world.goes();
    expect(world.inForce).toBe(inForce);
    expect(world.ended).toBeUndefined();
    expect(world.counted).toEqual(Array(5).fill('invalid'));
    const errors = world.lines.filter(({ level }) => level === 'error');
    expect(errors).toHaveLength(5);
    const minimum = 'conntrack.min (line 3): -1: must be greater than or equal to 0';
    expect(errors[0]!.err).toBe(`/etc/config.conf: ${minimum}`);
    expect(String(errors[4]!.err)).toContain('ENOENT: no such file');
    expect(world.refusal).toMatch(/^it is not valid, so that a restart would fail: .*ENOENT/);
    await world.becomes('conntrack: {min: 8}\n');
    expect(world.inForce.conntrack.min).toBe(8);
    expect(world.refusal).toBeUndefined();
  });

  it('is ignored if the meaning is the same', async () => {
    const world = new World('conntrack: {min: 7}\n');
    await world.becomes('# a comment\nconntrack:\n  min: 7\n');
    expect(world.counted).toEqual(['unchanged']);
  });

  it('that fails to apply is reported, and compared with the configuration in force', async () => {
    const world = new World('conntrack: {min: 7}\n');
    world.failure = new Error('no permission');
    await world.becomes('conntrack: {min: 8}\n');
    expect(world.lines.at(-1)).toMatchObject({ level: 'error', err: 'no permission' });
    expect(world.refusal).toBe('it could not be applied: no permission');
    world.failure = undefined;
    await world.becomes('conntrack: {min: 8}\n');
    expect(world.inForce.conntrack.min).toBe(8);
    expect(world.counted).toEqual(['invalid', 'applied']);
    expect(world.refusal).toBeUndefined();
  });

  it('that is followed by another one is applied first', async () => {
    const world = new World('conntrack: {min: 7}\n');
    const release = world.hold();
    const first = world.becomes('conntrack: {min: 8}\n');
    const second = world.becomes('conntrack: {min: 7}\n');
    release();
    await Promise.all([first, second]);
    expect(world.inForce.conntrack.min).toBe(7);
    expect(world.counted).toEqual(['applied', 'applied']);
  });

  it('of the mode takes effect immediately', async () => {
    const world = new World('');
    await world.becomes('mode: iptables\n');
    expect(world.inForce.mode).toBe('iptables');
    expect(world.ended).toBeUndefined();
    expect(world.counted).toEqual(['applied']);
  });

  it('does not override the flags that had precedence at the start', async () => {
    const world = new World('', '-v=3');
    await world.becomes('logging: {verbosity: 5}\n');
    expect(world.counted).toEqual(['unchanged']);
    expect(world.inForce.logging.verbosity).toBe(3);
  });
});
