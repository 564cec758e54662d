/** `fairlead completion SHELL`: a script made from the tables of commands and flags. */
import type { Shell } from '../../config/commands.ts';
import { bash } from './bash.ts';
import { fish } from './fish.ts';
import { zsh } from './zsh.ts';

export function completion(shell: Shell): string {
  return { bash, fish, zsh }[shell]();
}
