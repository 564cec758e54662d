import { bool, grouped, other, string } from './spec.ts';

/** What the program is to do; only flags say it. */
export const runSettings = grouped('run', {
  '--config': string(
    'Path of a KubeProxyConfiguration file. With it, only flags of start and logging, ' +
      '--master, --manifests and --hostname-override count (docs/flags.md).',
    { offers: 'files' },
  ),
  '--write-config-to': string('Write the effective configuration to this file and exit.', {
    offers: 'files',
    withConfig: 'kept',
  }),
  '--cleanup': bool('Remove the rules of every mode and exit.', { withConfig: 'kept' }),
  '--dry-run': bool(
    'Print what a start would write, set and take over, or what --cleanup would remove, ' +
      'and exit.',
    { withConfig: 'kept', origin: 'own' },
  ),
  '--ignore-other-instance': bool(
    'Start or clean up although another Fairlead runs in this network namespace. Two ' +
      "instances undo each other's changes.",
    { config: 'ignoreOtherInstance', withConfig: 'kept', origin: 'own' },
  ),
  '--init-only': bool(
    'Do what needs full privileges and exit; afterwards CAP_NET_ADMIN is enough.',
    { withConfig: 'kept' },
  ),
  '--version': other('version')(
    'Print the version and exit; raw: all of it. vX.Y.Z: report that version instead ' +
      'and continue.',
    { default: 'false', bare: 'true', withConfig: 'kept' },
  ),
  '--help': bool('Print this text and exit.', { shorthand: 'h', withConfig: 'kept' }),
});
