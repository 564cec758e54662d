import { commandNames, commands, optionsAfter, wordsAfter } from '../../config/commands.ts';
import { importSources } from '../../config/import/index.ts';
import { type OfferedFlag, offeredFlags } from './flags.ts';

export function fish(): string {
  const others = commandNames.filter((name) => name !== 'run');
  const proxies = `not __fish_seen_subcommand_from ${others.join(' ')}`;
  const named = commandNames.map((name) => {
    const { meaning } = commands.find((command) => command.name === name)!;
    return `${of('__fish_use_subcommand')} -a ${name} -d ${quoted(meaning.split('. ', 1)[0]!)}`;
  });
  const afterwards = others
    .filter((name) => wordsAfter(name).length > 0)
    .map((name) => {
      const words = quoted(wordsAfter(name).join(' '));
      return `${of(`__fish_seen_subcommand_from ${name}`)} -a ${words}`;
    });
  const convert = of('__fish_seen_subcommand_from convert');
  return `# Completes commands and flags of fairlead in fish: keep it as
# ~/.config/fish/completions/fairlead.fish.
complete -c fairlead -f
${named.join('\n')}
${afterwards.join('\n')}
${of('__fish_seen_subcommand_from validate convert')} -F
${convert} -l from -x -a ${quoted(importSources.join(' '))} -d 'Of which kind FILE is'
${others.flatMap(optionLines).join('\n')}
${offeredFlags()
  .map((flag) => flagLine(flag, proxies))
  .join('\n')}
`;
}

function optionLines(command: string): string[] {
  const seen = of(`__fish_seen_subcommand_from ${command}`);
  return Object.entries(optionsAfter(command)).map(([name, option]) => {
    const { letter, meaning, shown, words = [] } = option;
    const short = letter === undefined ? '' : ` -s ${letter}`;
    const values = words.length === 0 ? '' : ` -a ${quoted(words.join(' '))}`;
    const value = shown === '' ? '' : ` -x${values}`;
    return `${seen} -l ${name}${short}${value} -d ${quoted(meaning)}`;
  });
}

function of(condition: string): string {
  return `complete -c fairlead -n ${quoted(condition)}`;
}

function flagLine(flag: OfferedFlag, condition: string): string {
  const { name, shorthand, meaning, takesValue, offers } = flag;
  const short = shorthand === undefined ? '' : ` -s ${shorthand}`;
  const files = { files: ' -r -F', directories: " -x -a '(__fish_complete_directories)'" } as const;
  const words = typeof offers === 'string' ? files[offers] : ` -x -a ${quoted(offers.join(' '))}`;
  const value = !takesValue ? '' : offers.length === 0 ? ' -x' : words;
  return `${of(condition)} -l ${name}${short}${value} -d ${quoted(meaning)}`;
}

function quoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}
