import { expect, test } from 'vitest';
import { clangVersion, fault } from '../../../scripts/bpf.ts';

test.skipIf(clangVersion() === undefined)(
  'the committed programs are those that clang makes: else run `node scripts/bpf.ts`',
  () => {
    expect(fault()).toBeUndefined();
  },
);
