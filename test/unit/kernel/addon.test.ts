import { expect, test } from 'vitest';
import { loadAddon } from '../../../src/kernel/addon.ts';

test('a missing build is an error that names the file and the command to run', () => {
  expect(() => loadAddon('/nowhere/fairlead.node')).toThrow(
    'the addon is not built: /nowhere/fairlead.node is missing; run `npm run build`',
  );
});
