/** How `scripts/build-program` bundles the program (docs/decisions/0010-one-bundle.md). */
import { isBuiltin } from 'node:module';
import type { Plugin } from 'rolldown';

/**
 * `import a, { b as c } from "node:fs";` becomes
 * `const a = process.getBuiltinModule("node:fs"), { b: c } = process.getBuiltinModule("node:fs");`.
 */
function asNeeded(statement: string, names: string, from: string): string {
  if (!isBuiltin(from)) return statement;
  const bound = names.replace('* as ', '').replaceAll(' as ', ': ');
  const parts = bound.split(/, (?=\{)/);
  const loaded = parts.map((part) => `${part} = process.getBuiltinModule("${from}")`);
  return `const ${loaded.join(', ')};`;
}

/**
 * An `import` of a module of Node reads all that it exports, also what Node loads only when it is
 * read: its certificates, its own copy of undici. Together these are 15 MB and a tenth of a second.
 */
const nodeModulesAsNeeded: Plugin = {
  name: 'node-modules-as-needed',
  renderChunk: (code) => ({
    code: code.replace(/^import (.+) from "(.+)";$/gm, asNeeded),
    // Lines stay where they are.
    map: null,
  }),
};

export default {
  input: [
    'src/main.ts',
    'src/source/manifests/parse-thread.ts',
    'src/serve/http/http-worker.ts',
    'src/serve/metrics.ts',
  ],
  platform: 'node',
  logLevel: 'warn',
  plugins: [nodeModulesAsNeeded],
  // V8 keeps the text of what is loaded: two bytes a character if one of them is not in Latin-1.
  output: { charset: 'ascii', comments: { legal: true, annotation: false, jsdoc: false } },
};
