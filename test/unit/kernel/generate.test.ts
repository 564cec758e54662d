import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { header, headerUrl } from '../../../scripts/generate.ts';
import { bpfOps, bpfReplies, bpfRequests } from '../../../src/kernel/bpf-ops.ts';
import { conntrackReplies, conntrackRequests } from '../../../src/kernel/conntrack-ops.ts';
import { ipvsOps, ipvsReplies, ipvsRequests } from '../../../src/kernel/ipvs-ops.ts';
import { expressions, nftOps, replies, requests } from '../../../src/kernel/ops.ts';
import type { Schema } from '../../../src/kernel/records.ts';
import { routeOps, routeReplies, routeRequests } from '../../../src/kernel/route-ops.ts';

test('the generated header matches the schema: else run `node scripts/generate.ts`', () => {
  expect(readFileSync(headerUrl, 'utf8')).toBe(header());
});

test('no two records that may occur in one buffer share a code', () => {
  const buffers: readonly (readonly Schema[])[] = [
    [nftOps, ipvsOps, routeOps, bpfOps, requests, ipvsRequests, routeRequests],
    [conntrackRequests, bpfRequests, bpfOps, nftOps],
    [replies, ipvsReplies, routeReplies, conntrackReplies, bpfReplies],
    [expressions],
  ];
  for (const schemas of buffers) {
    const shapes = schemas.flatMap((schema) => Object.values(schema));
    const codes = shapes.map(({ code }) => code);
    expect(new Set(codes).size).toBe(codes.length);
  }
});
