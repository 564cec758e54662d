import { describe, expect, it } from 'vitest';
import { newestPackage } from '../../vm/kernels.ts';

describe('the choice of a Debian kernel package', () => {
  it('compares versions as numbers, not as text', () => {
    const names = [
      'linux-image-6.1.0-9-cloud-amd64',
      'linux-image-6.1.0-56-cloud-amd64',
      'linux-image-6.1.0-47-cloud-amd64',
    ];
    expect(newestPackage(names, '6.1')).toBe('linux-image-6.1.0-56-cloud-amd64');
  });

  it('orders point releases with a Debian suffix', () => {
    const names = [
      'linux-image-6.12.100+deb12-cloud-amd64',
      'linux-image-6.12.9+bpo-cloud-amd64',
      'linux-image-6.12.99+deb12-cloud-amd64',
    ];
    expect(newestPackage(names, '6.12')).toBe('linux-image-6.12.100+deb12-cloud-amd64');
  });

  it('skips debug symbols, unsigned and other flavours, and other series', () => {
    const names = [
      'linux-image-6.1.0-99-cloud-amd64-dbg',
      'linux-image-6.1.0-99-cloud-amd64-unsigned',
      'linux-image-6.1.0-99-amd64',
      'linux-image-6.1.0-99-cloud-arm64',
      'linux-image-6.12.99+deb12-cloud-amd64',
      'linux-image-6.1.0-1-cloud-amd64',
    ];
    expect(newestPackage(names, '6.1')).toBe('linux-image-6.1.0-1-cloud-amd64');
  });

  it('skips the package that only depends on the newest one', () => {
    expect(newestPackage(['linux-image-6.12-cloud-amd64'], '6.12')).toBeUndefined();
  });
});
