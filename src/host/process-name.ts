import { writeFileSync } from 'node:fs';

/**
 * Names this process `fairlead` where tools show a name: `ps`, `ss -p`, `progname` of nft. Node's own
 * is `MainThread`. Its arguments stay as they are. Call it before sockets are opened, whose
 * threads inherit the name. Where /proc cannot be written, the name stays as it was.
 */
export function nameProcess(): void {
  try {
    writeFileSync('/proc/self/comm', 'fairlead');
  } catch {
    // Names are for people; everything works without.
  }
}
