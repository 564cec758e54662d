import { commandNames, commands, optionsAfter, wordsAfter } from '../../config/commands.ts';
import { importSources } from '../../config/import/index.ts';
import { type OfferedFlag, offeredFlags } from './flags.ts';

export function zsh(): string {
  const described = commandNames.map((name) => {
    const { meaning } = commands.find((command) => command.name === name)!;
    return `    ${quoted(`${name}:${meaning.split('. ', 1)[0]!}`)}`;
  });
  const own = commandNames.filter((name) => name !== 'run' && name !== 'config');
  const cases = own.map((name) => {
    const words = wordsAfter(name).join(' ');
    const argument = words === '' ? '' : ` ':${name}:(${words})'`;
    const options = Object.entries(optionsAfter(name)).map(([option, spec]) => {
      const { letter, meaning, shown, words: values = [] } = spec;
      const value =
        shown === '' ? '' : `:${option}:${values.length ? `(${values.join(' ')})` : ' '}`;
      const both = letter === undefined ? `--${option}` : `{-${letter},--${option}}`;
      return ` ${both}${quoted(`[${meaning}]${value}`)}`;
    });
    const all = `'(- *)'{-h,--help}'[Print how it is used]'${argument}${options.join('')}`;
    return `    ${name}) _arguments ${all} ;;`;
  });
  return `#compdef fairlead
# Completes commands and flags of fairlead in zsh: keep it as _fairlead in a directory of $fpath.
_fairlead() {
  local -a commands flags
  commands=(
${described.join('\n')}
  )
  flags=(
${offeredFlags().map(flagLine).join('\n')}
  )
  if ((CURRENT == 2)) && [[ $words[2] != -* ]]; then
    _describe command commands
    return
  fi
  local command=$words[2]
  [[ $command == -* ]] && command=run || { shift words; ((CURRENT--)); }
  case $command in
    config)
      _arguments ':command:(validate convert)' \\
        '--from[Of which kind FILE is]:kind:(${importSources.join(' ')})' '*:file:_files'
      ;;
${cases.join('\n')}
    *) _arguments $flags ;;
  esac
}
if [[ $funcstack[1] == _fairlead ]]; then _fairlead "$@"; else compdef _fairlead fairlead; fi
`;
}

function flagLine({ name, shorthand, meaning, takesValue, offers }: OfferedFlag): string {
  const what = `[${meaning.replace(/[[\]\\]/g, '\\$&')}]`;
  const action = { files: '_files', directories: '_files -/' } as const;
  const values = typeof offers === 'string' ? action[offers] : `(${offers.join(' ')})`;
  const value = takesValue ? `:${name}:${offers.length === 0 ? ' ' : values}` : '';
  const long = quoted(`--${name}${takesValue ? '=' : ''}${what}${value}`);
  const short = shorthand === undefined ? '' : ` ${quoted(`-${shorthand}${what}${value}`)}`;
  return `    ${long}${short}`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
