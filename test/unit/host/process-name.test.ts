import { execFileSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, it } from 'vitest';

const source = pathToFileURL(resolve(import.meta.dirname, '../../../src/host/process.ts'));

/** The name and the command line that /proc has of a process that names itself. */
function named(script: string): { comm: string; words: string[] } {
  const path = join(mkdtempSync(join(tmpdir(), 'fairlead-name-')), script);
  writeFileSync(
    path,
    `import('${source}').then(({ nameProcess }) => {
      nameProcess(process.argv[1], process.argv.slice(2));
      const read = (name) => require('node:fs').readFileSync('/proc/self/' + name, 'utf8');
      console.log(JSON.stringify({ comm: read('comm').trim(), line: read('cmdline') }));
    });`,
  );
  const options = { encoding: 'utf8' } as const;
  const printed = execFileSync(process.execPath, [path, '--proxy-mode=ipvs'], options);
  const { comm, line } = JSON.parse(printed);
  return { comm, words: line.split(/[\0 ]/).filter((word: string) => word !== '') };
}

it('is kube-proxy for tools that look for one, if it is started under that name', () => {
  expect(named('kube-proxy')).toEqual({
    comm: 'kube-proxy',
    words: ['kube-proxy', '--proxy-mode=ipvs'],
  });
});

it('is fairlead otherwise, with its command line as it is', () => {
  const { comm, words } = named('main.cjs');
  expect(comm).toBe('fairlead');
  expect(words[0]).toBe(process.execPath);
});
