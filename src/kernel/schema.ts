/** What the program and the addon must agree about: the layout of the records between them. */
import { crc32 } from 'node:zlib';
import { conntrackReplies, conntrackRequests } from './conntrack-ops.ts';
import { ElementShape, expressions, kernelOps, kernelReplies, kernelRequests } from './ops.ts';

const schemas = [
  ElementShape,
  kernelOps,
  [kernelRequests, conntrackRequests],
  [kernelReplies, conntrackReplies],
  expressions,
];

/** A checksum of all schemas. `scripts/generate.ts` writes it into the addon. */
export const schemaSum: number = crc32(JSON.stringify(schemas));
