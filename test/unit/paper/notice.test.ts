import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const read = (path: string): string => readFileSync(path, 'utf8');

it('NOTICE lists what the program uses, with its licence', () => {
  const { dependencies } = JSON.parse(read('package.json'));
  const wanted = Object.keys(dependencies).map((name) => {
    const { license } = JSON.parse(read(`node_modules/${name}/package.json`));
    return `${name} ${license}`;
  });
  const named = [...read('NOTICE').matchAll(/^ {2}(\S+) {2,}(\S+)$/gm)];
  expect(named.map(([, name, licence]) => `${name} ${licence}`)).toEqual(wanted);
});

it('LICENSE matches the one in package.json', () => {
  expect(JSON.parse(read('package.json')).license).toBe('Apache-2.0');
  expect(read('LICENSE')).toMatch(/^ +Apache License\n +Version 2\.0, January 2004\n/m);
});
