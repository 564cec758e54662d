import { expect, test } from 'vitest';
import { clangVersion, fault } from '../../../scripts/bpf.ts';

test.skipIf(clangVersion() === undefined)(
  'the committed BPF programs are those that clang compiles: else run `node scripts/bpf.ts`',
  () => {
    expect(fault()).toBeUndefined();
  },
);
