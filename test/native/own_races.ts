/**
 * Reads ThreadSanitizer's reports and fails for those about the addon: where one of the two
 * accesses is its own code, or the runtime's (memcpy, free) called by it. Node is compiled without
 * the sanitizer, so that what its parts do to each other looks like races.
 *
 * Left out is a race about a file descriptor that another thread has opened: the sanitizer does not
 * follow F_DUPFD, by which ours are made, and takes a number for the file that had it before.
 */
import { readFileSync } from 'node:fs';

const addon = 'fairlead.node';
const runtime = /\(libtsan\.so/;

/** The first frame of each stack that is not the sanitizer's. */
function accesses(report: string): string[] {
  return report
    .split('\n\n')
    .filter((part) => /(read|write) of size|Mutex|Thread T\d+ .*leak/i.test(part))
    .flatMap((part) => {
      const frames = part.split('\n').filter((line) => /^\s+#\d+ /.test(line));
      return frames.find((frame) => !runtime.test(frame)) ?? [];
    });
}

const reports = readFileSync(0, 'utf8')
  .split('==================\n')
  .filter((report) => report.includes('WARNING: ThreadSanitizer'));
const own = reports
  .filter((report) => accesses(report).some((frame) => frame.includes(addon)))
  .filter((report) => !/Location is file descriptor \d+ created by (main )?thread/.test(report));
for (const report of own) console.error(report);
console.log(`ThreadSanitizer: ${own.length} reports about the addon`);
process.exitCode = own.length === 0 ? 0 : 1;
