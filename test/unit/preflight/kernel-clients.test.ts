import { describe, expect, it } from 'vitest';
import { checkKernelClients } from '../../../src/preflight/kernel-clients.ts';

function levelsOf(release: string | undefined, connectTime: 'off' | 'host' | 'all'): string[] {
  const read = (path: string) => (path === '/proc/sys/kernel/osrelease' ? release : undefined);
  return checkKernelClients({ connectTime }, { read }).map(({ level }) => level);
}

describe('clients of the kernel that may keep the address of an endpoint', () => {
  it('are warned of, and named', () => {
    expect(levelsOf('6.1.58', 'host')).toEqual(['warning']);
    expect(levelsOf('6.1.58', 'all')).toEqual(['warning']);
    const read = () => '5.15.136';
    const [{ text } = expect.fail()] = checkKernelClients({ connectTime: 'all' }, { read });
    expect(text).toMatch(/: SMB mounts of ClusterIPs may hang/);
  });

  it('are well on Linux 6.6', () => {
    expect(levelsOf('6.6.0', 'all')).toEqual(['ok']);
  });

  it('are no matter without translation at connect time', () => {
    expect(levelsOf('5.15.0', 'off')).toEqual([]);
  });
});
