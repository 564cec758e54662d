/**
 * `fairlead completion SHELL`: a script that gets completions from `fairlead __complete` and passes
 * them to the shell.
 */
import type { Run } from './command.ts';
import type { Shell } from './commands.ts';
import { directives } from './complete.ts';
import { exitCodes } from './errors.ts';

const { directories, files, noSpace } = directives;

/** bash splits words at `=` and `:`, so the part before the last one is not completed. */
const bash = `# Completes command lines of fairlead in bash: source it, or keep it as
# /usr/share/bash-completion/completions/fairlead.
_fairlead() {
  local line=\${COMP_LINE:0:COMP_POINT} words lines last
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=('')
  local current=\${words[-1]}
  mapfile -t lines < <("\${words[0]}" __complete "\${words[@]:1}" 2>/dev/null)
  COMPREPLY=()
  ((\${#lines[@]} > 0)) || return 0
  last=\${lines[-1]}
  unset 'lines[-1]'
  case $last in
    :${files} | :${directories})
      compopt -o filenames 2>/dev/null
      local kind=-f
      [[ $last == :${directories} ]] && kind=-d
      [[ $current == -*=* ]] && current=\${current#*=}
      mapfile -t COMPREPLY < <(compgen $kind -- "$current")
      return
      ;;
    :${noSpace}) compopt -o nospace 2>/dev/null ;;
  esac
  local before=\${current%"\${current##*[=:]}"} line
  for line in "\${lines[@]}"; do
    line=\${line%%$'\\t'*}
    COMPREPLY+=("\${line#"$before"}")
  done
  return 0
}
complete -F _fairlead fairlead
`;

const zsh = `#compdef fairlead
# Completes command lines of fairlead in zsh: keep it as _fairlead in a directory of $fpath.
_fairlead() {
  local -a lines offered
  local last line
  lines=("\${(@f)$("$words[1]" __complete "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  last=$lines[-1]
  for line in "\${(@)lines[1,-2]}"; do
    line=\${line//:/\\\\:}
    offered+=("\${line/$'\\t'/:}")
  done
  case $last in
    :${files}) compset -P '-*='; _files ;;
    :${directories}) compset -P '-*='; _files -/ ;;
    :${noSpace}) _describe fairlead offered -S '' ;;
    *) _describe fairlead offered ;;
  esac
}
if [[ $funcstack[1] == _fairlead ]]; then _fairlead "$@"; else compdef _fairlead fairlead; fi
`;

const fish = `# Completes command lines of fairlead in fish: keep it as
# ~/.config/fish/completions/fairlead.fish.
function __fairlead_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l lines ($words[1] __complete $words[2..-1] 2>/dev/null)
    set -q lines[1]; or return
    set -l flag (string match -r -- '^-.*=' $words[-1]; or echo)
    set -l current (string replace -r -- '^-.*=' '' $words[-1])
    switch $lines[-1]
        case :${files}
            printf '%s\\n' $flag(__fish_complete_path $current)
        case :${directories}
            printf '%s\\n' $flag(__fish_complete_directories $current)
        case '*'
            printf '%s\\n' $lines[1..-2]
    end
end
complete -c fairlead -f -a '(__fairlead_complete)'
`;

const scripts: Readonly<Record<Shell, string>> = { bash, zsh, fish };

export const run: Run = async ({ words: [shell] }, { stdout }) => {
  // The table of commands has no other value.
  stdout.write(scripts[shell as Shell]);
  return exitCodes.healthy;
};
