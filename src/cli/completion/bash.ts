import { commandNames, optionsAfter, wordsAfter } from '../../config/commands.ts';
import { importSources } from '../../config/import/index.ts';
import { type OfferedFlag, offeredFlags } from './flags.ts';

/** bash splits words at `=`: the flag is one or two words before its value. */
export function bash(): string {
  const flags = offeredFlags();
  const valued = flags.filter(({ takesValue }) => takesValue);
  const withFiles = valued.filter(({ offers }) => offers === 'files');
  const withDirectories = valued.filter(({ offers }) => offers === 'directories');
  const withWords = valued.filter(({ offers }) => typeof offers !== 'string' && offers.length > 0);
  const others = valued.filter(({ offers }) => offers.length === 0);
  const words = flags.map(({ name, takesValue }) => `--${name}${takesValue ? '=' : ''}`);
  return `# Completes commands and flags of fairlead in bash: source it, or keep it as
# /usr/share/bash-completion/completions/fairlead.
_fairlead() {
  local cur=\${COMP_WORDS[COMP_CWORD]} flag='' words=''
  local prev=\${COMP_WORDS[COMP_CWORD - 1]}
  if [[ $cur == '=' ]]; then
    flag=$prev cur=''
  elif [[ $prev == '=' ]]; then
    flag=\${COMP_WORDS[COMP_CWORD - 2]}
  elif [[ $prev == -* ]]; then
    flag=$prev
  fi
  COMPREPLY=()
  if ((COMP_CWORD > 1)); then
    case \${COMP_WORDS[1]} in
      config)
        _fairlead_config "$flag" "$cur"
        return
        ;;
${oneWordCases()}
    esac
  fi
  case $flag in
    ${pattern(withFiles)})
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$cur")
      return
      ;;
    ${pattern(withDirectories)})
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -d -- "$cur")
      return
      ;;
${withWords.map(wordCase).join('\n')}
    ${pattern(others)})
      return
      ;;
  esac
  words='${words.join(' ')}'
  [[ $COMP_CWORD == 1 && $cur != -* ]] && words='${commandNames.join(' ')}'
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
  [[ \${COMPREPLY[0]-} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}

_fairlead_config() {
  if [[ $1 == --from ]]; then
    mapfile -t COMPREPLY < <(compgen -W '${importSources.join(' ')}' -- "$2")
  elif ((COMP_CWORD == 2)); then
    mapfile -t COMPREPLY < <(compgen -W 'validate convert --help' -- "$2")
  elif [[ \${COMP_WORDS[2]} == convert && $2 == -* ]]; then
    COMPREPLY=(--from)
  else
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$2")
  fi
}

complete -F _fairlead fairlead
`;
}

/** Commands that take one word, or none, and their options. */
function oneWordCases(): string {
  const own = commandNames.filter((name) => name !== 'run' && name !== 'config');
  const lines = own.map((name) => {
    const words = [...wordsAfter(name), '--help'].join(' ');
    const options = Object.keys(optionsAfter(name)).map((option) => `--${option}`);
    const later = options.length === 0 ? '' : ` || words='${options.join(' ')}'`;
    return `      ${name})
        ((COMP_CWORD == 2)) && words='${[words, ...options].join(' ')}'${later}
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
        return
        ;;`;
  });
  return lines.join('\n');
}

function wordCase(flag: OfferedFlag): string {
  const words = (flag.offers as readonly string[]).join(' ');
  return `    --${flag.name})
      mapfile -t COMPREPLY < <(compgen -W '${words}' -- "$cur")
      return
      ;;`;
}

function pattern(flags: readonly OfferedFlag[]): string {
  return flags
    .flatMap(({ name, shorthand }) => [`--${name}`, ...(shorthand ? [`-${shorthand}`] : [])])
    .join(' | ');
}
