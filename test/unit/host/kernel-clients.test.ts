import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { clientsAtRisk } from '../../../src/host/kernel-clients.ts';

const all = ['NFS', 'SMB', 'Ceph'];
const debian = (version: string) => `#1 SMP PREEMPT_DYNAMIC Debian ${version} (2024-11-22)`;

test.each([
  ['6.6.0', '', '', []],
  ['6.10.3', '', '', []],
  ['6.18.1-cloud', '', '', []],
  ['7.0.0-rc1', '', '', []],
  ['6.1.58', '', '', all],
  ['6.1.59', '', '', []],
  ['6.1.119-flatcar', '', '', []],
  ['6.4.0-150600.23-default', '', '', all],
  ['6.5.7', '', '', all],
  ['6.5.8', '', '', []],
  ['5.15.135', '', '', all],
  ['5.15.173-amzn2023', '', '', ['SMB']],
  ['5.10.198', '', '', all],
  ['5.10.226-amzn2', '', '', ['SMB']],
  ['6.1.0-13-amd64', debian('6.1.55-1'), '', all],
  ['6.1.0-28-amd64', debian('6.1.119-1'), '', []],
  ['5.10.0-33-amd64', debian('5.10.226-1'), '', ['SMB']],
  ['5.15.0-112-generic', '#1 SMP', 'Ubuntu 5.15.0-112.122-generic 5.15.152', ['SMB']],
  ['5.15.0-113-generic', '#1 SMP', 'Ubuntu 5.15.0-113.123-generic 5.15.152', []],
  ['5.15.0-1040-azure', '#1 SMP', 'Ubuntu 5.15.0-1040.47-azure 5.15.98', all],
  ['6.5.0-41-generic', '', '', []],
  ['6.5.0-40-generic', '', '', all],
  ['5.14.0-427.26.1.el9_4.x86_64', '', '', all],
  ['5.14.0-427.31.1.el9_4.x86_64', '', '', []],
  ['5.14.0-503.11.1.el9_5.x86_64', '', '', []],
  ['5.14.0-570.el9.x86_64', '', '', []],
  ['5.14.0-427.el9.x86_64', '', '', all],
  ['5.14.0-362.8.1.el9_3.x86_64', '', '', all],
  ['strange', '', '', all],
  ['', '', '', all],
])('%j %j %j: %j may keep the address of an endpoint', (release, version, signature, expected) => {
  const files: Record<string, string> = {
    '/proc/sys/kernel/osrelease': release,
    '/proc/sys/kernel/version': version,
    '/proc/version_signature': signature,
  };
  const read = (path: string) => files[path] || undefined;
  expect(clientsAtRisk({ read })).toEqual(expected);
});

test('this machine has the files that show kernel clients', () => {
  expect(readFileSync('/proc/sys/kernel/osrelease', 'utf8')).toMatch(/^\d+\.\d+/);
  expect(readFileSync('/proc/sys/kernel/version', 'utf8')).toMatch(/^#\d+/);
});
