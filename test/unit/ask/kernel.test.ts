/** What a Service is said to have in the kernel is what the kernel has. */
import { afterEach, describe, expect, it } from 'vitest';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import { resources } from '../../../src/state/change.ts';
import { type Running, started } from '../agent/running.ts';
import { save } from '../modes/iptables/save.ts';
import { node, ready, readyLocal, service, slice, unready } from '../state/build.ts';
import { quiet } from '../sync/double.ts';
import { asked } from './asking.ts';

let app: Running;

afterEach(() => app.stop());

/** Lines about the only port of ns/web, which has every kind of frontend. */
async function linesIn(mode: string, endpoints: Parameters<typeof slice>[0]): Promise<string[]> {
  app = await started('--manifests=/anywhere', `--proxy-mode=${mode}`);
  const web = service({
    type: 'LoadBalancer',
    externalTrafficPolicy: 'Local',
    externalIPs: ['192.0.2.9'],
    loadBalancerIPs: ['192.0.2.1'],
    loadBalancerSourceRanges: ['10.0.0.0/8'],
    affinityTimeoutSeconds: 600,
    ports: [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 30080 }],
  });
  app.source.say(
    { kind: 'node', node: node() },
    { kind: 'service', service: web },
    { kind: 'slice', slice: slice(endpoints) },
  );
  app.source.listed(...resources);
  await quiet();
  expect((await asked(app, 'status')).body.mode.name).toBe(mode);
  const { body } = await asked(app, 'service', '?name=web');
  expect(body.state).toBe('in force');
  return body.ports[0].kernel;
}

const endpointsOf = {
  'with endpoints here and elsewhere': { '10.244.0.2': ready, '10.244.0.3': readyLocal },
  'with endpoints elsewhere': { '10.244.0.2': ready },
  'without endpoints': { '10.244.0.2': unready },
} as const;

describe.each(Object.entries(endpointsOf))('a Service %s', (_, endpoints) => {
  it('fairlead service show names kernel objects in mode nftables', async () => {
    const lines = await linesIn('nftables', endpoints);
    const { chains, sets } = app.kernel.table(NFPROTO.IPv4, 'fairlead')!;
    const told = { map: [...sets.keys()], set: [...sets.keys()], chain: [...chains.keys()] };
    for (const line of lines) {
      const [, kind, name, count, key, data] =
        /^(map|set|chain) ip fairlead (\S+?)(?:, (\d+) elements)?(?: \{ (.+) : (.+) \})?$/.exec(
          line,
        ) ?? [];
      expect(told[kind as keyof typeof told], line).toContain(name);
      if (key === undefined) continue;
      const held = app.kernel.elements(NFPROTO.IPv4, 'fairlead', name!);
      if (count === undefined) expect(held, line).toContain(`${key} : ${data}`);
      else {
        const prefix = key.replace('INDEX', '');
        expect(
          held.filter((one) => one.startsWith(prefix)),
          line,
        ).toHaveLength(Number(count));
      }
    }
    expect(lines.some((line) => line.includes('192.0.2.1 . tcp . 80'))).toBe(true);
    expect(lines.some((line) => line.includes('{ tcp . 30080 comment "ns/web:http" : '))).toBe(
      true,
    );
  });

  it('fairlead service show names kernel objects in mode iptables', async () => {
    const lines = await linesIn('iptables', endpoints);
    const tables = save(app.kernel, 'IPv4').split('COMMIT\n');
    for (const line of lines) {
      const [, table, rule, chain, size] =
        /^-t (\w+) (?:(-A .*)|-N (\S+), (\d+) rules)$/.exec(line) ?? [];
      const held = tables.find((text) => text.startsWith(`*${table}\n`))!.split('\n');
      if (rule !== undefined) expect(held, line).toContain(rule);
      else {
        const rules = held.filter((one) => one.startsWith(`-A ${chain} `));
        expect(rules, line).toHaveLength(Number(size));
      }
    }
    expect(lines.some((line) => line.includes('-d 192.0.2.1/32'))).toBe(true);
  });

  it('fairlead service show names kernel objects in mode ipvs', async () => {
    const lines = await linesIn('ipvs', endpoints);
    const held = app.kernel.ipvs.text();
    let servers = 0;
    for (const line of lines) {
      const [, at, count] = /^-A -t (\S+) -s rr -p 600, (\d+) real servers$/.exec(line) ?? [];
      if (at !== undefined) {
        servers += 1;
        expect(held, line).toContain(`TCP ${at}`);
        const [own] = held.split(`TCP ${at} `).slice(1);
        expect((own!.split('\nTCP')[0]!.match(/->/g) ?? []).length, line).toBe(Number(count));
        continue;
      }
      const [, set, key] = /^set ip fairlead-ipvs (\S+) \{ (.+) \}$/.exec(line) ?? [];
      if (set === undefined) expect(line).toMatch(/^chain ip fairlead-ipvs firewall-/);
      else expect(app.kernel.elements(NFPROTO.IPv4, 'fairlead-ipvs', set), line).toContain(key);
    }
    expect(servers).toBe(5);
    expect(lines.filter((line) => line.includes(' services {'))).toHaveLength(5);
  });
});
