/** `--dry-run` of a start: it says what a start would do, and does nothing. */
import { expect, test } from 'vitest';
import { addresses, nftablesRules } from '../conformance/kube-proxy-rules.ts';
import { inForce, Place } from './program.ts';

/** Everything that a start writes to. */
async function everything({ namespace }: Place): Promise<string> {
  const said = [
    await namespace.run('nft', ['list', 'ruleset']),
    await namespace.run('ip', ['address']),
    await namespace.run('sysctl', ['-a', '-r', '^net[.](ipv4|netfilter)']),
  ];
  return said.join('\n').replace(/^net\..*(_count|tcp_fastopen_key|icmp_msgs).*$/gm, '');
}

async function dryRun(place: Place, ...flags: readonly string[]): Promise<string> {
  const before = await everything(place);
  const program = place.start('--dry-run', ...flags);
  expect(await program.exitCode).toBe(0);
  expect(await everything(place)).toBe(before);
  return program.stdout;
}

test.each(['nftables', 'iptables'])(
  '--dry-run in mode %s lists missing objects by name',
  async (mode) => {
    const place = await Place.make();
    place.configure({ mode });
    await place.namespace.run('nft', ['-f', '-'], nftablesRules('ip', addresses.IPv4));
    const first = await dryRun(place);
    expect(first).toContain(`Mode ${mode}\n`);
    expect(first).toMatch(
      /^IPv4: 1 of 1 Service ports differ; [1-9]\d* objects are missing, 0 wro/m,
    );
    expect(first).toMatch(/^IPv4: would write .*\d+ × /m);
    expect(first).toMatch(/^IPv4: default\/web$/m);
    expect(first).toMatch(/^Takeover: kube-proxy in ip: table kube-proxy: taken over once/m);
    expect(first).toMatch(/^Nothing was written\.$/m);

    const program = place.start();
    await program.logged(inForce, 2);
    program.kill('SIGTERM');
    await program.exitCode;
    const second = await dryRun(place);
    expect(second).toMatch(
      /^IPv4: 0 of 1 Service ports differ; 0 objects are missing, 0 wrong, 0 u/m,
    );
    expect(second).not.toContain('would write');
  },
);

test('--dry-run lists what would be written after changes of the cluster', async () => {
  const place = await Place.make();
  const program = place.start();
  await program.logged(inForce, 2);
  program.kill('SIGTERM');
  await program.exitCode;
  place.apply(['pod-a']);
  const changed = await dryRun(place);
  expect(changed).toMatch(
    /^IPv4: 1 of 1 Service ports differ; 0 objects are missing, 0 wrong, [1-9]/m,
  );
  expect(changed).toMatch(/^IPv4: would write .*\d+ × elements delete/m);
});

test.each(['nftables', 'iptables'])(
  '--dry-run in mode %s compares with a running Fairlead, and names it',
  async (mode) => {
    const place = await Place.make();
    place.configure({ mode });
    const running = place.start();
    await running.logged(inForce, 2);
    const compared = await dryRun(place);
    expect(compared).toMatch(
      /^Another Fairlead runs here: process \d+.*; this compares with what/m,
    );
    expect(compared).toMatch(/^IPv4: 0 of 1 Service ports differ; 0 objects are missing, 0 wrong/m);
    expect(compared).not.toContain('would write');
    running.kill('SIGTERM');
    await running.exitCode;
  },
);
