import { bool, grouped, other, string } from './spec.ts';

/** What the program is to do; only flags say it. */
export const runSettings = grouped('run', {
  '--config': string(
    'Path of a KubeProxyConfiguration file. With it, only these flags still count: ' +
      '--hostname-override, --master, --manifests, --cleanup, --dry-run, ' +
      '--ignore-other-instance, --init-only, ' +
      '--write-config-to and those of logging.',
    { offers: 'files' },
  ),
  '--write-config-to': string('Write the effective configuration to this file and exit.', {
    offers: 'files',
    withConfig: 'kept',
  }),
  '--cleanup': bool('Remove the rules of every mode and exit.', { withConfig: 'kept' }),
  '--dry-run': bool(
    'Say what a start would write, set and take over, or, with --cleanup, what would be ' +
      'removed; write nothing, and exit.',
    { withConfig: 'kept', origin: 'own' },
  ),
  '--ignore-other-instance': bool(
    'Start, or clean up, although another Fairlead runs in this network namespace. ' +
      'Two instances undo the changes of each other.',
    { withConfig: 'kept', origin: 'own' },
  ),
  '--init-only': bool(
    'Do the set-up that needs full privileges and exit; afterwards CAP_NET_ADMIN is enough.',
    { withConfig: 'kept' },
  ),
  '--version': other('version')(
    'Print the version and exit; --version=raw prints all of it. --version=vX.Y.Z reports that ' +
      'version instead and continues.',
    { default: 'false', bare: 'true', withConfig: 'kept' },
  ),
  '--help': bool('Print this text and exit.', { shorthand: 'h', withConfig: 'kept' }),
});
