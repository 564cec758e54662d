/** The page about the defects that the simulation must find. */
import { readFileSync } from 'node:fs';
import { defects, type Found } from '../test/simulation/defects.ts';
import { code, table } from './markdown.ts';

const results = new URL('../test/simulation/defects-found.json', import.meta.url);

export function defectsPage(): string {
  const found: Readonly<Record<string, Found>> = JSON.parse(readFileSync(results, 'utf8'));
  const rows = defects.map(({ file, mode = 'nftables', name }) => {
    const how = found[name];
    const seen = how ? [how.by, String(how.seed), String(how.seconds)] : ['not yet', '', ''];
    return [name, code(file), mode, ...seen];
  });
  const head = ['Defect', 'File of src', 'Mode', 'Found by the check', 'Seed', 'Seconds'];
  return `<!-- Written by scripts/docs.ts from test/simulation/defects-found.json; do not edit. -->

# Defects that the simulation must find

Each is a text that takes the place of another one in a file of src (\`test/simulation/defects.ts\`): what the program once had, or what one deleted
line would do. \`node test/simulation/defects-main.ts --write\` puts back one after the other, simulates it from seed 1 on for three virtual hours each,
until a check fails, and records the processor time that all seeds took together; \`npm run fix\` makes this page. ${Object.keys(found).length} of ${defects.length} were found so far.

${table(head, rows)}
`;
}
