/** The page about the defects that the simulation must find. */
import { readFileSync } from 'node:fs';
import { defects, type Found } from '../test/simulation/defects.ts';
import { code } from './markdown.ts';

const results = new URL('../test/simulation/defects-found.json', import.meta.url);

export function defectsPage(): string {
  const found: Readonly<Record<string, Found>> = JSON.parse(readFileSync(results, 'utf8'));
  const lines = defects.map(({ file, mode = 'nftables', name }) => {
    const how = found[name];
    const place = [code(file), ...(mode === 'nftables' ? [] : [`mode ${mode}`])].join(', ');
    const seen = how ? `: “${how.by}”, seed ${how.seed}, ${how.seconds} s` : '';
    return `- ${name} (${place})${seen}`;
  });
  return `<!-- Written by scripts/docs.ts from test/simulation/defects-found.json; do not edit. -->

# Defects that the simulation must find

Each is a text that replaces another one in a file of src (\`test/simulation/defects.ts\`): what the program once had, or what one deleted line would do.
\`node test/simulation/defects-main.ts --write\` puts back one after the other, and simulates a virtual hour of each seed from 1 on, until a check fails.
Behind a colon are the check that failed, its seed, and the processor time of all seeds.
${Object.keys(found).length} of ${defects.length} were found so far.

${lines.join('\n')}
`;
}
