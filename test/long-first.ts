import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Small files that take long: Vitest would start them last, and wait for one of them alone. */
const long = [
  'test/stories/nftables.kernel.test.ts',
  'test/stories/failure-detection.kernel.test.ts',
  'test/stories/userspace.kernel.test.ts',
  'test/stories/iptables.kernel.test.ts',
  'test/process/chaos.kernel.test.ts',
  'test/stories/connect-time.kernel.test.ts',
  'test/stories/balancing.kernel.test.ts',
];

/** Starts the files that take longest first, so that files that run together end together. */
export class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const ranks = new Map(sorted.map((file) => [file, rankOf(file)]));
    return sorted.sort((a, b) => ranks.get(a)! - ranks.get(b)!);
  }
}

function rankOf({ moduleId }: TestSpecification): number {
  const rank = long.findIndex((path) => moduleId.endsWith(`/${path}`));
  return rank < 0 ? long.length : rank;
}
