import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { tcpPressureBytes } from '../../../src/host/process.ts';

function pressureOf(tcpMem: string | undefined): number | undefined {
  const read = (path: string) => (path === '/proc/sys/net/ipv4/tcp_mem' ? tcpMem : undefined);
  return tcpPressureBytes({ read });
}

it('the bytes at which TCP is under pressure are read in pages of this machine', () => {
  const page = Number(execFileSync('getconf', ['PAGESIZE'], { encoding: 'utf8' }));
  expect(pressureOf('287898\t383865\t575796')).toBe(383_865 * page);
});

it('in a network namespace that does not show them, they are not known', () => {
  expect(pressureOf(undefined)).toBeUndefined();
});
