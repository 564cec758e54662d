import { describe, expect, it } from 'vitest';
import { checkKernelClients } from '../../../src/preflight/kernel-clients.ts';

function levelsOf(release: string | undefined, connectTime: 'off' | 'host' | 'all'): string[] {
  const read = (path: string) => (path === '/proc/sys/kernel/osrelease' ? release : undefined);
  return checkKernelClients({ connectTime }, { read }).map(({ level }) => level);
}

describe('clients of the kernel that may keep the address of an endpoint', () => {
  it.each(['5.15.0-130-generic', '6.1.0-28-amd64', '6.5.13', 'strange', undefined])(
    'are warned of on %s',
    (release) => {
      expect(levelsOf(release, 'host')).toEqual(['warning']);
      expect(levelsOf(release, 'all')).toEqual(['warning']);
    },
  );

  it.each(['6.6.0', '6.10.3', '6.18.1-cloud', '7.0.0-rc1'])('are well on %s', (release) => {
    expect(levelsOf(release, 'all')).toEqual(['ok']);
  });

  it('are no matter without translation at connect time', () => {
    expect(levelsOf('5.15.0', 'off')).toEqual([]);
  });
});
