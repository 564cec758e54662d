import { describe, expect, it } from 'vitest';
import { checkKernelClients } from '../../../../src/tools/preflight/preflight.ts';

function levelsOf(release: string | undefined, connectTime: 'off' | 'host' | 'all'): string[] {
  const read = (path: string) => (path === '/proc/sys/kernel/osrelease' ? release : undefined);
  return checkKernelClients({ connectTime }, { read }).map(({ level }) => level);
}

describe('preflight about kernel clients that may keep the address of an endpoint', () => {
  it('warns of them by name', () => {
    expect(levelsOf('6.1.58', 'host')).toEqual(['warning']);
    expect(levelsOf('6.1.58', 'all')).toEqual(['warning']);
    const read = () => '5.15.136';
    const [{ text } = expect.fail()] = checkKernelClients({ connectTime: 'all' }, { read });
    expect(text).toMatch(/: SMB mounts of ClusterIPs may hang/);
  });

  it('reports ok on Linux 6.6', () => {
    expect(levelsOf('6.6.0', 'all')).toEqual(['ok']);
  });

  it('ignores them without connect-time translation', () => {
    expect(levelsOf('5.15.0', 'off')).toEqual([]);
  });
});
