import { expect, it } from 'vitest';
import { standardRoom } from '../../../../src/modes/connect-time/placement.ts';
import { nothing, ofServiceMax, Shares } from '../../../../src/modes/connect-time/shares.ts';

it.each(['frontends', 'endpoints'] as const)('bounds the %s of a Service', (sort) => {
  const shares = new Shares(standardRoom);
  const most = { ...nothing, [sort]: ofServiceMax[sort] };
  const more = { ...nothing, [sort]: ofServiceMax[sort] + 1 };
  expect(shares.fits('shop', nothing, most)).toBe(true);
  expect(shares.fits('shop', nothing, more)).toBe(false);
  expect(shares.fits('shop', most, more)).toBe(false);
  // It is no larger than it was.
  expect(shares.fits('shop', more, more)).toBe(true);
});
