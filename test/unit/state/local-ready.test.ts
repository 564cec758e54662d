import { describe, expect, it } from 'vitest';
import { countLocalReady } from '../../../src/serve/service-health.ts';
import { drainingLocal, ready, readyLocal, slice, slicePort, unready } from './build.ts';

describe('countLocalReady', () => {
  it('counts an address once, regardless of how many ports and slices have it (H90)', () => {
    const ports = [slicePort('http', 80), slicePort('https', 443)];
    const one = slice({ '10.0.0.1': readyLocal, '10.0.0.2': readyLocal }, { ports });
    const other = slice({ '10.0.0.2': readyLocal }, { key: 'ns/web-2' });
    expect(countLocalReady([one, other], 'IPv4')).toBe(2);
  });

  it('does not count remote, unready or terminating endpoints (H90)', () => {
    const endpoints = { '10.0.0.1': ready, '10.0.0.2': unready, '10.0.0.3': drainingLocal };
    expect(countLocalReady([slice(endpoints)], 'IPv4')).toBe(0);
  });

  it('counts each family separately, and no address without a port', () => {
    const v6 = slice({ 'fd00::1': readyLocal }, { key: 'ns/web-6' });
    const portless = slice({ '10.0.0.1': readyLocal }, { ports: [] });
    expect(countLocalReady([v6, portless], 'IPv4')).toBe(0);
    expect(countLocalReady([v6, portless], 'IPv6')).toBe(1);
  });
});
